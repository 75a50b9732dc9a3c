//! What a workload gets as one static configuration: what would come by itself stands where it is named.

use std::collections::BTreeMap;

use ir::raw::RawOutput;
use ir::{EndpointSetName, Endpoints, RawName};
use serde_json::{Map, Value as Json, json};

use crate::endpoints::endpoint_set;
use crate::secret::HIDDEN;

use super::{CLUSTER, ENDPOINTS, ROUTE_CONFIGURATION, SECRET, VIRTUAL_HOST, raw};

pub(crate) const LISTENER: &str = "envoy.config.listener.v3.Listener";
const RUNTIME: &str = "envoy.service.runtime.v3.Runtime";
const EXTENSION: &str = "envoy.config.core.v3.TypedExtensionConfig";
const SCOPE: &str = "envoy.config.route.v3.ScopedRouteConfiguration";

/// A bootstrap with everything in it, in the form that protobuf messages have in JSON. Route configurations are in the listeners that name them,
/// virtual hosts in these, scopes and extensions where they are asked for, endpoints in their clusters, secrets beside them, runtime values in layers of
/// their own. What no object gives is asked of a control plane that is nowhere. Private keys that stand in it are left out unless `show_secrets` says
/// otherwise.
///
/// # Errors
/// None of what [`super::read_raw`] gave.
pub fn raw_bootstrap(
    outputs: &[&RawOutput],
    show_secrets: bool,
    endpoints: impl Fn(&EndpointSetName) -> Endpoints,
) -> Result<Json, protojson::Error> {
    let mut all: BTreeMap<&RawName, Json> = BTreeMap::new();
    for output in outputs {
        let set = output.resource.endpoints.as_ref().map(|name| endpoint_set(&endpoints(name)));
        let mut json = protojson::to_json(output.resource.id.message, &raw(output, set.as_ref()).body.concat())?;
        if !show_secrets {
            hide(&mut json, false);
        }
        all.insert(&output.resource.id, json);
    }
    let given = Given { all: &all };
    let of = |message| given.of(message).map(|(_, json)| json.clone());
    let clusters = of(CLUSTER).map(|cluster| given.with_extensions(cluster));
    let clusters = clusters.map(|cluster| with_endpoints(cluster, |name| given.find(ENDPOINTS, name).cloned()));
    let mut clusters: Vec<Json> = clusters.collect();
    let listeners = of(LISTENER).map(|listener| {
        let listener = given.with_scopes(given.with_extensions(listener));
        with_routes(listener, &|name| given.routes(name))
    });
    let mut listeners: Vec<Json> = listeners.collect();
    let is_given = |name: &str| given.find(SECRET, name).is_some();
    clusters.iter_mut().chain(&mut listeners).for_each(|value| with_own_secrets(value, &is_given));
    let is_complete = !clusters.iter().chain(&listeners).any(asks);
    if !is_complete {
        clusters.push(nowhere());
    }
    let layers = of(RUNTIME).map(|runtime| json!({ "name": runtime.get("name"), "staticLayer": runtime.get("layer") }));
    let mut bootstrap = Map::new();
    let resources = [("clusters", clusters), ("listeners", listeners), ("secrets", of(SECRET).collect())];
    let resources = resources.into_iter().filter(|(_, list)| !list.is_empty());
    let resources = resources.map(|(name, list)| (name.to_owned(), Json::from(list)));
    bootstrap.insert("staticResources".to_owned(), Json::Object(resources.collect()));
    let layers: Vec<Json> = layers.collect();
    if !layers.is_empty() {
        bootstrap.insert("layeredRuntime".to_owned(), json!({ "layers": layers }));
    }
    if !is_complete {
        bootstrap.insert("node".to_owned(), json!({ "id": "offline", "cluster": "offline" }));
        let service = json!({ "envoyGrpc": { "clusterName": NOWHERE } });
        let ads = json!({ "apiType": "DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [service] });
        bootstrap.insert("dynamicResources".to_owned(), json!({ "adsConfig": ads }));
    }
    Ok(Json::Object(bootstrap))
}

/// What a workload gets, by name.
struct Given<'a> {
    all: &'a BTreeMap<&'a RawName, Json>,
}

impl Given<'_> {
    fn of(&self, message: &'static str) -> impl Iterator<Item = (&str, &Json)> {
        self.all.iter().filter(move |(id, _)| id.message == message).map(|(id, json)| (&*id.name, json))
    }

    fn find(&self, message: &'static str, name: &str) -> Option<&Json> {
        self.all.get(&RawName { message, name: name.into() })
    }

    /// A route configuration; with its hosts, if these come by themselves.
    fn routes(&self, name: &str) -> Option<Json> {
        let mut routes = self.find(ROUTE_CONFIGURATION, name)?.clone();
        let source = routes.pointer("/vhds/configSource");
        if let (true, Json::Object(fields)) = (source.is_some_and(is_ours), &mut routes) {
            let is_its = |host: &str| host.rsplit_once('/').is_some_and(|(home, _)| home == name);
            let hosts = self.of(VIRTUAL_HOST).filter(|(host, _)| is_its(host)).map(|(_, json)| json.clone());
            let own = fields.shift_remove("virtualHosts");
            let own = own.as_ref().and_then(Json::as_array).into_iter().flatten().cloned();
            let all: Vec<Json> = own.chain(hosts).collect();
            fields.insert("virtualHosts".to_owned(), all.into());
            fields.shift_remove("vhds");
        }
        Some(routes)
    }

    /// A listener, or a part of it, with extensions in the place of their names. Not those of extensions, which could go round in circles.
    fn with_extensions(&self, value: Json) -> Json {
        let extension = |value: &Json| {
            let source = value.get("configDiscovery")?.get("configSource")?;
            let name = text(value, "name").filter(|_| is_ours(source))?;
            self.find(EXTENSION, name)?.get("typedConfig").cloned()
        };
        let found = extension(&value);
        match (value, found) {
            (Json::Array(items), _) => items.into_iter().map(|item| self.with_extensions(item)).collect(),
            (Json::Object(mut fields), Some(config)) => {
                fields.shift_remove("configDiscovery");
                fields.insert("typedConfig".to_owned(), config);
                Json::Object(fields)
            }
            (Json::Object(fields), None) => {
                Json::Object(fields.into_iter().map(|(name, value)| (name, self.with_extensions(value))).collect())
            }
            (other, _) => other,
        }
    }

    /// A listener, or a part of it, with all scopes where scopes are asked for, and in these the routes that they name.
    fn with_scopes(&self, value: Json) -> Json {
        match value {
            Json::Array(items) => items.into_iter().map(|item| self.with_scopes(item)).collect(),
            Json::Object(fields) => {
                let inlined = fields.into_iter().map(|(name, value)| {
                    let source = value.pointer("/scopedRds/scopedRdsConfigSource");
                    let is_asked = name == "scopedRoutes" && source.is_some_and(is_ours);
                    (name, if is_asked { self.scoped(value) } else { self.with_scopes(value) })
                });
                Json::Object(inlined.collect())
            }
            other => other,
        }
    }

    fn scoped(&self, mut scoped_routes: Json) -> Json {
        let scope = |mut scope: Json| {
            let routes = text(&scope, "routeConfigurationName").and_then(|name| self.routes(name));
            if let (Some(routes), Json::Object(fields)) = (routes, &mut scope) {
                fields.shift_remove("routeConfigurationName");
                fields.insert("routeConfiguration".to_owned(), routes);
            }
            scope
        };
        let scopes: Vec<Json> = self.of(SCOPE).map(|(_, json)| scope(json.clone())).collect();
        if let Json::Object(fields) = &mut scoped_routes {
            fields.shift_remove("scopedRds");
            if !scopes.iter().any(|scope| scope.get("routeConfigurationName").is_some()) {
                fields.shift_remove("rdsConfigSource");
            }
            let list = json!({ "scopedRouteConfigurations": scopes });
            fields.insert("scopedRouteConfigurationsList".to_owned(), list);
        }
        scoped_routes
    }
}

/// Fields, in [`plain`] spelling, below which sources of data are private, wherever they stand; texts in them too.
const PRIVATE: [&str; 10] = [
    "authpassword",
    "clientsecret",
    "genericsecret",
    "password",
    "pkcs12",
    "privatekey",
    "privatekeyprovider",
    "secretaccesskey",
    "sessionticketkeys",
    "sessiontoken",
];

/// Small letters without `_`: in a `Struct` names are as somebody wrote them.
fn plain(field: &str) -> String {
    field.replace('_', "").to_ascii_lowercase()
}

/// Puts [`HIDDEN`] in the place of what is private: of some sources of data, or of `all`.
fn hide(value: &mut Json, all: bool) {
    let is_source = |fields: &Map<String, Json>| {
        fields.keys().any(|field| ["inlinestring", "inlinebytes"].contains(&&*plain(field)))
    };
    match value {
        Json::Array(items) => items.iter_mut().for_each(|item| hide(item, all)),
        Json::Object(fields) if all && is_source(fields) => *value = json!({ "inlineString": HIDDEN }),
        Json::Object(fields) => {
            for (name, inner) in fields {
                let is_private = PRIVATE.contains(&&*plain(name));
                match inner {
                    Json::String(text) if is_private => HIDDEN.clone_into(text),
                    _ => hide(inner, all || is_private),
                }
            }
        }
        _ => {}
    }
}

/// The control plane of a configuration that lacks something.
const NOWHERE: &str = "chancery.nowhere";

fn nowhere() -> Json {
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let http2 = json!({ "@type": format!("type.googleapis.com/{options}"), "explicitHttpConfig": { "http2ProtocolOptions": {} } });
    json!({
        "name": NOWHERE,
        "type": "STATIC",
        "loadAssignment": { "clusterName": NOWHERE },
        "typedExtensionProtocolOptions": { options: http2 },
    })
}

/// Whether something is still asked of a control plane.
fn asks(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().any(asks),
        Json::Object(fields) => is_ours(value) || fields.values().any(asks),
        _ => false,
    }
}

pub(crate) fn text<'j>(value: &'j Json, field: &str) -> Option<&'j str> {
    value.get(field).and_then(Json::as_str)
}

/// Whether a `ConfigSource` means the control plane.
pub(crate) fn is_ours(source: &Json) -> bool {
    source.get("ads").is_some() || source.get("self").is_some()
}

/// A cluster that asks the control plane for its endpoints, with those in it; none if no object gives any.
pub(crate) fn with_endpoints(mut cluster: Json, find: impl Fn(&str) -> Option<Json>) -> Json {
    let Some(config) = cluster.get("edsClusterConfig").filter(|config| config.get("edsConfig").is_some_and(is_ours))
    else {
        return cluster;
    };
    let name = text(config, "serviceName").or(text(&cluster, "name")).unwrap_or_default();
    let assignment = find(name).unwrap_or_else(|| json!({ "clusterName": name }));
    if let Json::Object(fields) = &mut cluster {
        fields.shift_remove("edsClusterConfig");
        fields.insert("type".to_owned(), "STATIC".into());
        fields.insert("loadAssignment".to_owned(), assignment);
    }
    cluster
}

/// What names secrets that are there asks nobody for them: those of the configuration itself count.
fn with_own_secrets(value: &mut Json, is_given: &impl Fn(&str) -> bool) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(|item| with_own_secrets(item, is_given)),
        Json::Object(fields) => {
            let is_asked = fields.get("sdsConfig").is_some_and(is_ours);
            if is_asked && fields.get("name").and_then(Json::as_str).is_some_and(is_given) {
                fields.shift_remove("sdsConfig");
            }
            fields.values_mut().for_each(|value| with_own_secrets(value, is_given));
        }
        _ => {}
    }
}

/// A listener, or a part of it, with route configurations in the place of their names.
pub(crate) fn with_routes(value: Json, find: &impl Fn(&str) -> Option<Json>) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(|item| with_routes(item, find)).collect(),
        Json::Object(fields) => {
            let inlined = fields.into_iter().map(|(name, value)| {
                let ours = name == "rds" && value.get("configSource").is_some_and(is_ours);
                let named = text(&value, "routeConfigName").filter(|_| ours);
                match named.and_then(find) {
                    Some(routes) => ("routeConfig".to_owned(), routes),
                    None => (name, with_routes(value, find)),
                }
            });
            Json::Object(inlined.collect())
        }
        other => other,
    }
}
