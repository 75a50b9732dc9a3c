//! A world of objects for tests: written as the JSON of their specs, read back as the outputs of the graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::status::{Condition, GatewayStatus, ListenerStatus, RouteStatus};
use api::{Kind, Object, ObjectKey, ObjectMeta, Resource, Spec, Timestamp};
use ir::route::{Action, Backend, Hosts};
use ir::{FleetName, RouteConfigurationName, VirtualHost};
use serde_json::{Value, json};
use store::{Batch, Change, Origin, Source};

use crate::key::InFleet;
use crate::virtual_host::{is_dotted, separate_name};
use crate::{Options, RouteBudget, Translator};

/// A translator with short ways to write and read.
pub(crate) struct World {
    pub(crate) translator: Translator,
}

/// An object of a kind from the JSON of its spec.
pub(crate) fn object(kind: Kind, name: &str, spec: Value) -> Object {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let namespace = if kind.scope() == api::kind::Scope::Cluster { "" } else { namespace };
    let meta = ObjectMeta::new(ObjectKey::of(kind, namespace, name));
    with_meta(kind, meta, spec)
}

/// The same with metadata.
pub(crate) fn with_meta(kind: Kind, meta: ObjectMeta, spec: Value) -> Object {
    fn read<S: Spec>(meta: ObjectMeta, spec: Value) -> Resource<S> {
        let mut read: S = serde_json::from_value(spec.clone()).expect("a spec");
        read.keep(|| api::tree::Verbatim(Arc::new(spec)));
        Resource { meta, spec: read }
    }
    match kind {
        Kind::GatewayClass => api::GatewayClass::into(read(meta, spec)),
        Kind::Gateway => api::Gateway::into(read(meta, spec)),
        Kind::ListenerSet => api::ListenerSet::into(read(meta, spec)),
        Kind::HttpRoute => api::HttpRoute::into(read(meta, spec)),
        Kind::GrpcRoute => api::GrpcRoute::into(read(meta, spec)),
        Kind::TlsRoute => api::TlsRoute::into(read(meta, spec)),
        Kind::TcpRoute => api::TcpRoute::into(read(meta, spec)),
        Kind::UdpRoute => api::UdpRoute::into(read(meta, spec)),
        Kind::ReferenceGrant => api::ReferenceGrant::into(read(meta, spec)),
        Kind::Service => api::Service::into(read(meta, spec)),
        Kind::EndpointSlice => api::EndpointSlice::into(read(meta, spec)),
        Kind::Secret => api::Secret::into(read(meta, spec)),
        Kind::ConfigMap => api::ConfigMap::into(read(meta, spec)),
        Kind::Namespace => api::Namespace::into(read(meta, spec)),
        Kind::Backend => api::Backend::into(read(meta, spec)),
        Kind::EnvoyProxy => api::EnvoyProxy::into(read(meta, spec)),
        Kind::BackendTlsPolicy => api::BackendTlsPolicy::into(read(meta, spec)),
        kind if kind.is_attached() => decoded(kind, meta, &spec),
        Kind::XBackend => api::XBackend::into(read(meta, spec)),
        Kind::XBackendTrafficPolicy => api::XBackendTrafficPolicy::into(read(meta, spec)),
        Kind::XTelemetryPolicy => api::XTelemetryPolicy::into(read(meta, spec)),
        Kind::ServiceImport => api::ServiceImport::into(read(meta, spec)),
        Kind::ClusterTrustBundle => api::ClusterTrustBundle::into(read(meta, spec)),
        Kind::EnvoyPatchPolicy => api::EnvoyPatchPolicy::into(read(meta, spec)),
        Kind::EnvoyGateway => api::EnvoyGateway::into(read(meta, spec)),
        Kind::Pod => api::Pod::into(read(meta, spec)),
        raw => Object::Raw(raw, Arc::new(read(meta, spec))),
    }
}

/// A policy as it is read: what of it guards is found by its schema.
fn decoded(kind: Kind, meta: ObjectMeta, spec: &Value) -> Object {
    fn with<S: Clone>(policy: Arc<Resource<S>>, meta: ObjectMeta) -> Resource<S> {
        Resource { meta, ..Arc::unwrap_or_clone(policy) }
    }
    let metadata = json!({"namespace": meta.namespace(), "name": meta.name()});
    let text = json!({"metadata": metadata, "spec": spec}).to_string();
    match api::json::read(kind, &text).expect("JSON").objects.into_iter().next().expect("a policy") {
        Object::BackendTrafficPolicy(policy) => with(policy, meta).into(),
        Object::SecurityPolicy(policy) => with(policy, meta).into(),
        Object::EnvoyExtensionPolicy(policy) => with(policy, meta).into(),
        Object::ClientTrafficPolicy(policy) => with(policy, meta).into(),
        other => other,
    }
}

/// A Service with one TCP port, and nothing suspicious about it without endpoints.
pub(crate) fn service(name: &str, port: u16) -> Object {
    object(Kind::Service, name, json!({"ports": [{"port": port}], "selector": {"app": name}}))
}

/// A slice of a Service with one ready endpoint per address.
pub(crate) fn slice(service: &str, port: u16, addresses: &[&str]) -> Object {
    let (namespace, name) = service.split_once('/').unwrap_or(("default", service));
    let mut meta = ObjectMeta::new(ObjectKey::of(Kind::EndpointSlice, namespace, &format!("{name}-1")));
    meta.labels = [("kubernetes.io/service-name", name)].into_iter().collect();
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    with_meta(Kind::EndpointSlice, meta, json!({"endpoints": endpoints, "ports": [{"port": port}]}))
}

/// A Gateway with these listeners, of a class that is not there.
pub(crate) fn gateway(name: &str, listeners: Value) -> Object {
    object(Kind::Gateway, name, json!({"gatewayClassName": "eg", "listeners": listeners}))
}

/// A route with one rule per (prefix, service on port 80).
pub(crate) fn route(name: &str, parent: &str, hostnames: &[&str], rules: &[(&str, &str)]) -> Object {
    object(Kind::HttpRoute, name, route_spec(parent, hostnames, rules))
}

pub(crate) fn route_spec(parent: &str, hostnames: &[&str], rules: &[(&str, &str)]) -> Value {
    let rules: Vec<Value> = rules
        .iter()
        .map(|(prefix, service)| {
            json!({
                "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
                "backendRefs": [{"name": service, "port": 80}],
            })
        })
        .collect();
    json!({"parentRefs": [{"name": parent}], "hostnames": hostnames, "rules": rules})
}

/// The same object, made at a time.
pub(crate) fn aged(object: Object, seconds: i64) -> Object {
    fn age<S>(resource: Arc<Resource<S>>, seconds: i64) -> Arc<Resource<S>>
    where
        Resource<S>: Clone,
    {
        let mut resource = Arc::unwrap_or_clone(resource);
        resource.meta.more.get_or_insert_default().creation_timestamp = Some(Timestamp(seconds));
        Arc::new(resource)
    }
    match object {
        Object::HttpRoute(route) => Object::HttpRoute(age(route, seconds)),
        Object::GrpcRoute(route) => Object::GrpcRoute(age(route, seconds)),
        Object::UdpRoute(route) => Object::UdpRoute(age(route, seconds)),
        Object::Gateway(gateway) => Object::Gateway(age(gateway, seconds)),
        Object::ListenerSet(set) => Object::ListenerSet(age(set, seconds)),
        Object::BackendTrafficPolicy(policy) => Object::BackendTrafficPolicy(age(policy, seconds)),
        other => other,
    }
}

impl World {
    /// File mode with proxies.
    pub(crate) fn new() -> Self {
        Self { translator: Translator::new(Options { file_mode: true, ..Options::default() }) }
    }

    /// The same, where the routes of a namespace may make so many entries.
    pub(crate) fn within(entries: u32) -> Self {
        let route_budget = RouteBudget::of_namespace(entries);
        Self { translator: Translator::new(Options { file_mode: true, route_budget, ..Options::default() }) }
    }

    /// The same in a cluster.
    pub(crate) fn in_cluster() -> Self {
        Self { translator: Translator::new(Options::default()) }
    }

    pub(crate) fn with(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut world = Self::new();
        world.apply(objects);
        world
    }

    pub(crate) fn apply(&mut self, objects: impl IntoIterator<Item = Object>) -> engine::TickStats {
        let origin = Origin { file: "test".into(), line: 0 };
        let changes = objects.into_iter().map(|object| Change::Apply(object, origin.clone())).collect();
        self.change(changes)
    }

    pub(crate) fn delete(&mut self, kind: Kind, namespace: &str, name: &str) -> engine::TickStats {
        self.change(vec![Change::Delete(ObjectKey::of(kind, namespace, name))])
    }

    pub(crate) fn change(&mut self, changes: Vec<Change>) -> engine::TickStats {
        let (store, graph) = self.translator.store();
        let mut changes: Vec<Change> = changes;
        let backends = changes.iter().filter_map(|change| match change {
            Change::Apply(Object::Backend(backend), _) => Some(Arc::clone(backend)),
            _ => None,
        });
        // No path of a test is a link.
        let paths: Vec<Change> = backends
            .flat_map(|backend| backend.spec.endpoints.iter().filter_map(|one| one.unix.clone()).collect::<Vec<_>>())
            .map(|unix| Change::SocketPath((&*unix.path).into(), Some(Ok((&*unix.path).into()))))
            .collect();
        changes.extend(paths);
        store.apply(graph, Batch { source: Source::File, changes, listed: true });
        let stats = self.translator.tick();
        assert_eq!(self.translator.graph().panics().len(), 0, "no transform panics");
        stats
    }

    /// All virtual hosts of a route configuration by first domain, as lines `match -> backends`, but for that of dotted names.
    pub(crate) fn hosts(&self, configuration: &str) -> BTreeMap<String, Vec<String>> {
        let graph = self.translator.graph();
        let outputs = self.translator.outputs();
        let of = outputs
            .virtual_hosts(graph)
            .filter(|(key, host)| key.configuration.as_str() == configuration && !is_dotted(host));
        let all: Vec<(String, Vec<String>)> = of.map(|(_, host)| (host.domains.join(","), lines(host))).collect();
        let count = all.len();
        let hosts: BTreeMap<_, _> = all.into_iter().collect();
        assert_eq!(hosts.len(), count, "each domain once");
        self.check_configuration(configuration, count);
        hosts
    }

    /// The route configuration holds the same hosts, or says that they come apart.
    fn check_configuration(&self, name: &str, count: usize) {
        let (fleet, _) = name.match_indices('/').nth(1).map_or((name, ""), |(at, _)| name.split_at(at));
        let table = self.translator.outputs().route_configurations;
        let named = |name: RouteConfigurationName| {
            let key = InFleet { fleet: FleetName::from(fleet), name };
            self.translator.graph().get(table, &key).map(|configuration| &configuration.hosts)
        };
        let (inline, separate) = (named(name.into()), named(separate_name(&name.into())));
        assert!(inline.is_none() || separate.is_none(), "one of two");
        let found = inline.or(separate);
        match found {
            None => assert_eq!(count, 0, "hosts without {name}"),
            Some(Hosts::Separate) => assert!(count > 64, "{count} hosts need no delivery of their own"),
            Some(Hosts::Inline(hosts)) => {
                assert_eq!(hosts.iter().filter(|host| !is_dotted(host)).count(), count);
                assert!(hosts.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted by name");
            }
        }
    }

    /// What a request gets, as Envoy chooses: exact domain, then the longest wildcard, then any; the first prefix that matches.
    pub(crate) fn ask(&self, configuration: &str, host: &str, path: &str) -> String {
        let hosts = self.hosts(configuration);
        let domains = hosts.iter().flat_map(|(domains, lines)| domains.split(',').map(move |domain| (domain, lines)));
        let covers = |domain: &str| {
            let wild = domain.strip_prefix('*');
            domain == host || wild.is_some_and(|suffix| host.len() > suffix.len() && host.ends_with(suffix))
        };
        let rank = |domain: &str| (domain == host, domain.len());
        let chosen = domains.filter(|(domain, _)| covers(domain)).max_by_key(|(domain, _)| rank(domain));
        let under = |line: &&String| {
            let (prefix, _) = line.split_once(" -> ").expect("a line");
            let inside = path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            prefix == "/" || inside || prefix.strip_prefix('=') == Some(path)
        };
        let line = chosen.and_then(|(_, lines)| lines.iter().find(under));
        line.map_or("404", |line| line.split_once(" -> ").expect("a line").1).to_owned()
    }

    pub(crate) fn route_status(&self, name: &str) -> RouteStatus {
        let key = self.key(Kind::HttpRoute, name);
        self.translator.outputs().route_status(self.translator.graph(), &key).expect("a status")
    }

    /// Conditions of the first parent of a route of some kind as `Type=Status/Reason`.
    pub(crate) fn status(&self, kind: Kind, name: &str) -> Vec<String> {
        let key = self.key(kind, name);
        let status = self.translator.outputs().route_status(self.translator.graph(), &key).expect("a status");
        short(&status.parents[0].conditions)
    }

    pub(crate) fn gateway_status(&self, name: &str) -> GatewayStatus {
        let key = self.key(Kind::Gateway, name);
        let table = self.translator.outputs().gateway_statuses;
        (**self.translator.graph().get(table, &key).expect("a status")).clone()
    }

    /// Conditions of a route's parent as `Type=Status/Reason`.
    pub(crate) fn parent(&self, route: &str, at: usize) -> Vec<String> {
        short(&self.route_status(route).parents[at].conditions)
    }

    pub(crate) fn listener(&self, gateway: &str, name: &str) -> ListenerStatus {
        let status = self.gateway_status(gateway);
        status.listeners.into_iter().find(|listener| &*listener.name == name).expect("a listener")
    }

    pub(crate) fn clusters(&self) -> Vec<String> {
        let all = self.translator.outputs().clusters(self.translator.graph());
        let mut names: Vec<String> = all.map(|(_, cluster)| cluster.name.to_string()).collect();
        names.sort();
        names
    }

    /// Everything but notes, sorted, and but that a Service with a selector has no endpoints: those of tests have none unless a test gives them some.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut found = self.all_problems();
        found.retain(|problem| !problem.starts_with("note: ") && !problem.contains("its selector finds none"));
        found
    }

    /// Everything, sorted.
    pub(crate) fn all_problems(&self) -> Vec<String> {
        let outputs = self.translator.outputs();
        let problems = outputs.problems(self.translator.graph());
        let mut found: Vec<String> = problems.map(|(_, problem)| problem.to_string()).collect();
        found.sort();
        found
    }

    fn key(&self, kind: Kind, name: &str) -> ObjectKey {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        ObjectKey::of(kind, namespace, name)
    }
}

/// Conditions as `Type=Status/Reason`.
pub(crate) fn short(conditions: &[Condition]) -> Vec<String> {
    let one = |condition: &Condition| {
        format!("{}={}/{}", condition.condition_type, condition.status.as_str(), condition.reason)
    };
    conditions.iter().map(one).collect()
}

/// The routes of a host as `match -> what`.
pub(crate) fn lines(host: &VirtualHost) -> Vec<String> {
    host.pieces.iter().flat_map(|piece| &piece.routes).map(|route| line(route)).collect()
}

fn line(route: &ir::Route) -> String {
    let path = match &route.matches.path {
        ir::route::PathMatch::Exact(path) => format!("={path}"),
        ir::route::PathMatch::Prefix(path) => path.to_string(),
        ir::route::PathMatch::Regex(path) => format!("~{path}"),
    };
    let what = match &route.action {
        Action::Forward(forward) => {
            let one = |destination: &ir::route::Destination| match &destination.backend {
                Backend::Cluster(name) => format!("{name}*{}", destination.weight),
                Backend::Broken(_) => format!("broken*{}", destination.weight),
            };
            forward.destinations.iter().map(one).collect::<Vec<_>>().join(" ")
        }
        Action::Redirect(redirect) => format!("redirect {}", redirect.status),
        Action::Respond(respond) => respond.status.to_string(),
    };
    let kind = if route.matches.grpc { "grpc " } else { "" };
    format!("{kind}{path} -> {what}")
}
