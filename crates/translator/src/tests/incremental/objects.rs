//! Objects by chance: templates over a few names, so that what names another one finds it, or does not, or meets others that want the same.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use api::{Kind, Labels, Object, ObjectKey, ObjectMeta, Scope, Timestamp};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::Union;
use serde_json::{Value, json};
use store::ClusterState;

use super::template::{both, maybe, mostly, one, rarely, some, values};
use crate::testing::with_meta;

/// One edit. Those of an object that is there say which by its number.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// An object comes, or takes the place of that of its name.
    Write(Written),
    /// The same, but of one that is there only some fields change; the number says which.
    Touch(Written, u64),
    /// Everything that is a list is written backwards.
    Turn(Index),
    Delete(Index),
    /// It is so late now.
    Time(i64),
    /// There are these kinds only, of those that may be missing.
    Kinds(&'static [Kind]),
    /// A fleet has a proxy.
    Live(&'static str),
    /// What became of a cluster of Envoy's, by its number.
    Answer(Index, ClusterState),
}

/// An object as JSON: `name`, `labels`, `age`, `generation`, and its spec.
#[derive(Clone, Debug)]
pub(super) struct Written {
    kind: Kind,
    json: Value,
}

impl Written {
    /// The object.
    pub(super) fn object(&self) -> Object {
        let text = |field: &str| self.json[field].as_str().expect("a text");
        let namespace = if self.kind.scope() == Scope::Cluster { "" } else { text("namespace") };
        let mut meta = ObjectMeta::new(ObjectKey::of(self.kind, namespace, text("name")));
        meta.labels = serde_json::from_value::<Labels>(self.json["labels"].clone()).expect("labels");
        meta.generation = self.json["generation"].as_i64().expect("a number");
        meta.more.get_or_insert_default().creation_timestamp = self.json["age"].as_i64().map(Timestamp);
        with_meta(self.kind, meta, self.json["spec"].clone())
    }

    /// The same as it was, but for some fields.
    pub(super) fn touched(self, was: &Self, mut dice: u64) -> Self {
        Self { json: touch(&was.json, self.json, &mut dice), ..self }
    }

    /// The same with its lists the other way round.
    pub(super) fn turned(&self) -> Self {
        let mut turned = self.clone();
        turn(&mut turned.json);
        turned
    }
}

/// A value of which one in four parts is new.
fn touch(was: &Value, new: Value, dice: &mut u64) -> Value {
    match (was, new) {
        (Value::Object(was), Value::Object(mut new)) => {
            let names: BTreeSet<String> = was.keys().chain(new.keys()).cloned().collect();
            let mut touched = |name: &String| {
                let null = Value::Null;
                touch(was.get(name).unwrap_or(&null), new.remove(name).unwrap_or_default(), dice)
            };
            let fields = names.iter().map(|name| (name.clone(), touched(name)));
            Value::Object(fields.filter(|(_, part)| !part.is_null()).collect())
        }
        (Value::Array(was), Value::Array(new)) if was.len() == new.len() => {
            was.iter().zip(new).map(|(was, new)| touch(was, new, dice)).collect()
        }
        (was, new) => {
            *dice = dice.rotate_right(2);
            if *dice & 3 == 0 { new } else { was.clone() }
        }
    }
}

fn turn(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.reverse();
            items.iter_mut().for_each(turn);
        }
        Value::Object(fields) => fields.values_mut().for_each(turn),
        _ => {}
    }
}

/// The objects of a beginning, and edits that come together.
pub(super) fn history() -> impl Strategy<Value = Vec<Vec<Edit>>> {
    let written: Vec<(u32, BoxedStrategy<Written>)> =
        rows().into_iter().map(|(weight, template)| (weight, written(template))).collect();
    let often = |(weight, written): &(u32, BoxedStrategy<Written>)| {
        let at_most = usize::try_from(*weight).expect("a small number");
        prop::collection::vec(written.clone().prop_map(Edit::Write), 0..=at_most)
    };
    let beginning = written.iter().map(often).collect::<Vec<_>>().prop_map(|edits| edits.concat()).prop_shuffle();
    let object = Union::new_weighted(written);
    let states =
        vec![ClusterState::Warm, ClusterState::Warm, ClusterState::Stalled, ClusterState::Refused("odd".into())];
    let edit = prop_oneof![
        4 => object.clone().prop_map(Edit::Write),
        12 => (object, any::<u64>()).prop_map(|(written, dice)| Edit::Touch(written, dice)),
        4 => any::<Index>().prop_map(Edit::Delete),
        3 => any::<Index>().prop_map(Edit::Turn),
        1 => prop::sample::select(vec![0, FAR_FUTURE]).prop_map(Edit::Time),
        1 => prop::sample::select(vec![&[] as &[Kind], &[Kind::ClusterTrustBundle]]).prop_map(Edit::Kinds),
        1 => prop::sample::select(FLEETS).prop_map(Edit::Live),
        3 => (any::<Index>(), prop::sample::select(states)).prop_map(|(at, state)| Edit::Answer(at, state)),
    ];
    let edits = prop::collection::vec(prop::collection::vec(edit, 1..4), 1..32);
    (beginning, edits).prop_map(|(beginning, edits)| std::iter::once(beginning).chain(edits).collect())
}

const FLEETS: &[&str] = &["default/g1", "default/g2", "other/g1", "other/g2"];

/// After the end of every certificate (the year 5138).
const FAR_FUTURE: i64 = 100_000_000_000;

fn written(Template { kind, names, labels, spec }: Template) -> BoxedStrategy<Written> {
    let json = json!({
        "namespace": namespace(), "name": one(names.iter().copied()), "labels": labels,
        "age": one([0, 0, 1, 2]), "generation": one([1, 1, 2]), "spec": spec,
    });
    values(&json).prop_map(move |json| Written { kind, json }).boxed()
}

fn rows() -> Vec<Row> {
    [ways_in(), routes(), backends(), endpoints(), policies(), contents(), settings()].into_iter().flatten().collect()
}

/// The objects of a kind, with how often there is an edit of one.
type Row = (u32, Template);

struct Template {
    kind: Kind,
    names: &'static [&'static str],
    labels: Value,
    spec: Value,
}

fn row(weight: u32, kind: Kind, names: &'static [&'static str], spec: Value) -> Row {
    (weight, Template { kind, names, labels: json!({}), spec })
}

fn labelled((weight, template): Row, labels: Value) -> Row {
    (weight, Template { labels, ..template })
}

/// Mostly the one in which most objects are.
fn namespace() -> Value {
    mostly("default", "other")
}

/// The namespace of a reference.
fn elsewhere() -> Value {
    mostly(Value::Null, one(["default", "other"]))
}

fn host() -> Value {
    mostly(one(["a.x.org", "*.x.org", "*.org", "b.y.org"]), "bad host")
}

fn blue() -> Value {
    json!({"matchLabels": {"team": "blue"}})
}

/// A reference to an object of a kind.
fn to(kind: Kind, names: &[&str]) -> Value {
    json!({"group": kind.group(), "kind": kind.name(), "name": one(names.iter().copied()), "namespace": elsewhere()})
}

/// What a policy is about.
fn about(targets: impl IntoIterator<Item = Value>, section: Value) -> Value {
    some(both(one(targets), json!({"sectionName": section})))
}

/// A reference to something to send to.
fn backend() -> Value {
    let service = || to(Kind::Service, &["s1", "s2"]);
    let others = one([to(Kind::XBackend, &["x1", "x2"]), to(Kind::ServiceImport, &["i"]), to(Kind::Backend, &["b"])]);
    let target = mostly(
        one([service(), service(), service(), to(Kind::XBackend, &["x1", "x2"]), others]),
        to(Kind::Secret, &["c1"]),
    );
    let port = mostly(mostly(80, 81), Value::Null);
    both(target, json!({"port": port, "weight": one([Value::Null, Value::Null, json!(0), json!(2)])}))
}

fn external_auth() -> Value {
    let asked = |protocol: &str| {
        let settings = json!({"allowedHeaders": rarely(some("x"))});
        json!({"protocol": protocol, "backendRef": backend(), protocol.to_lowercase(): settings})
    };
    json!({"type": "ExternalAuth", "externalAuth": mostly(one([asked("HTTP"), asked("GRPC")]), asked("Odd"))})
}

fn certificate() -> Value {
    mostly(to(Kind::Secret, &["c1", "c2"]), one([to(Kind::Secret, &["no"]), to(Kind::ConfigMap, &["ca"])]))
}

/// References to certificates to believe.
fn bundles() -> Value {
    let of_cluster = to(Kind::ClusterTrustBundle, &["trust"]);
    let bundle = one([to(Kind::ConfigMap, &["ca"]), to(Kind::Secret, &["c1", "c2"]), of_cluster]);
    some(mostly(bundle, one([to(Kind::ConfigMap, &["no"]), to(Kind::Service, &["s1"])])))
}

fn validation() -> Value {
    let trust =
        one([json!({"caCertificateRefs": bundles()}), json!({"wellKnownCACertificates": mostly("System", "Odd")})]);
    let names = rarely(some(json!({"type": "Hostname", "hostname": "c.x.org"})));
    both(trust, json!({"hostname": one(["a.x.org", "b.y.org"]), "subjectAltNames": names}))
}

fn session() -> Value {
    let cookie = json!({"name": maybe("sticky"), "lifetimeType": mostly("Session", "Permanent")});
    let cookie = json!({"type": "Cookie", "cookie": cookie, "absoluteTimeout": rarely("1h")});
    mostly(one([cookie, json!({"type": "Header", "header": {"name": "x-session"}})]), json!({"type": "Odd"}))
}

/// Listeners: one of each protocol, or some by chance.
fn listeners() -> Value {
    let from = mostly("All", one(["Same", "Selector", "Odd"]));
    let kind = one(["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"]);
    let tls = |mode: &str| json!({"mode": mode, "certificateRefs": some(certificate())});
    let speaks = |protocol: &str, port: u16, tls: Value| json!({"protocol": protocol, "port": port, "tls": tls});
    let usual = [
        speaks("HTTP", 80, Value::Null),
        speaks("HTTPS", 443, tls("Terminate")),
        speaks("TLS", 443, one([tls("Terminate"), json!({"mode": "Passthrough"})])),
        speaks("TCP", 90, Value::Null),
        speaks("UDP", 53, Value::Null),
    ];
    let odd = json!({
        "protocol": one(["HTTP", "HTTPS", "TLS", "TCP", "UDP", "Odd"]), "port": one([80, 81, 443, 53]),
        "tls": maybe(tls("Passthrough")),
    });
    let namespaces = json!({"from": from, "selector": mostly(blue(), Value::Null)});
    let rest = |name: Value| {
        json!({
            "name": name, "hostname": maybe(mostly(one(["a.x.org", "*.x.org", "*.org"]), "bad host")),
            "allowedRoutes": {"namespaces": namespaces, "kinds": rarely(some(json!({"kind": kind})))},
            "filters": rarely(json!({"requests": some(external_auth())})),
        })
    };
    let all = ["l1", "l2", "l3", "l4", "l5"].into_iter().zip(&usual);
    let all: Vec<Value> = all.map(|(name, speaks)| both(speaks.clone(), rest(name.into()))).collect();
    one([all.into(), some(both(mostly(one(usual), odd), rest(one(["l1", "l2", "l3"]))))])
}

/// Gateways, and what adds listeners to them.
fn ways_in() -> Vec<Row> {
    let mode = mostly(one(["AllowValidOnly", "AllowInsecureFallback"]), "Odd");
    let checked = json!({"validation": maybe(json!({"caCertificateRefs": bundles(), "mode": mode}))});
    let ports = json!({"port": mostly(443, 80), "tls": checked});
    let tls = json!({
        "backend": maybe(json!({"clientCertificateRef": certificate()})),
        "frontend": maybe(json!({"default": checked, "perPort": rarely(some(ports))})),
    });
    let allowed = json!({"namespaces": {"from": mostly("All", one(["None", "Same", "Selector"])), "selector": blue()}});
    let gateway = json!({
        "gatewayClassName": mostly("eg", "no"), "listeners": listeners(), "allowedListeners": allowed,
        "infrastructure": rarely(json!({"parametersRef": to(Kind::EnvoyProxy, &["p", "q"])})),
        "tls": one([Value::Null, Value::Null, tls]), "defaultScope": one([Value::Null, "None".into(), "All".into()]),
        "addresses": maybe([json!({"value": mostly(one(["127.0.0.1", "127.0.0.2"]), "odd")})].to_vec()),
    });
    let parent = mostly(to(Kind::Gateway, &["g1", "g2"]), to(Kind::Service, &["s1"]));
    vec![
        labelled(row(10, Kind::Gateway, &["g1", "g2"], gateway), json!({"team": mostly("red", "blue")})),
        row(5, Kind::ListenerSet, &["t1", "t2"], json!({"parentRef": parent, "listeners": listeners()})),
    ]
}

/// A route: its rules, and what they stand beside.
fn route(weight: u32, kind: Kind, rule: Value) -> Row {
    let gateway = to(Kind::Gateway, &["g1", "g2"]);
    let parent = one([gateway.clone(), gateway, to(Kind::ListenerSet, &["t1", "t2"])]);
    let parent = mostly(parent, to(Kind::Service, &["s1"]));
    let section = json!({"sectionName": rarely(one(["l1", "l2"])), "port": rarely(one([80, 443]))});
    let spec = json!({
        "parentRefs": mostly(some(both(parent, section)), Value::Null), "hostnames": maybe(some(host())), "rules": some(rule),
        "useDefaultGateways": one([Value::Null, Value::Null, "None".into(), "All".into()]),
    });
    labelled(row(weight, kind, &["r1", "r2"], spec), json!({"team": one(["blue", "red"])}))
}

fn routes() -> Vec<Row> {
    let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}});
    let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": backend()}});
    let filter = mostly(one([redirect, mirror, external_auth()]), json!({"type": "Odd"}));
    let filters = one([Value::Null, Value::Null, Value::Null, some(filter)]);
    let path = json!({
        "type": mostly(one(["PathPrefix", "Exact"]), one(["RegularExpression", "Odd"])),
        "value": mostly(one(["/", "/a", "/a/b"]), "no-path"),
    });
    let method = json!({"service": maybe("shop.Cart"), "method": maybe(one(["Add", "Get"]))});
    let rule = |matched: Value| {
        json!({
            "name": maybe(one(["one", "two"])), "matches": some(matched), "filters": filters.clone(),
            "backendRefs": mostly(some(backend()), Value::Null), "sessionPersistence": rarely(session()),
            "retry": rarely(json!({"attempts": 2, "codes": [503]})),
        })
    };
    let stream = json!({"name": maybe("one"), "backendRefs": some(backend())});
    vec![
        route(10, Kind::HttpRoute, rule(json!({"path": path}))),
        route(4, Kind::GrpcRoute, rule(json!({"method": maybe(method)}))),
        route(4, Kind::TlsRoute, stream.clone()),
        route(3, Kind::TcpRoute, stream.clone()),
        route(3, Kind::UdpRoute, stream),
    ]
}

/// What can be sent to.
fn backends() -> Vec<Row> {
    let port = |number: Value, protocol: Value| {
        let spoken = one([Value::Null, Value::Null, one(["kubernetes.io/h2c", "https", "odd"])]);
        json!({"name": port_name(), "port": number, "protocol": protocol, "appProtocol": spoken})
    };
    let usual = json!([port(80.into(), "TCP".into()), port(80.into(), "UDP".into())]);
    let ports = mostly(usual, some(port(one([80, 81]), one(["TCP", "UDP"]))));
    let tls = json!({
        "mode": mostly(one(["ServerOnly", "ClientAndServer"]), one(["None", "Odd"])),
        "validation": mostly(validation(), Value::Null), "clientCertificateRef": mostly(certificate(), Value::Null),
    });
    let selected = json!({"type": "EndpointSelector", "endpointSelector": {"matchLabels": app()}});
    let outside =
        json!({"type": "ExternalHostname", "externalHostname": {"hostname": mostly("a.example.org", "127.0.0.1")}});
    let manner = json!({
        "port": {"number": one([8080, 8081])}, "protocol": rarely(one(["H2C", "HTTP2", "GRPC", "Odd"])), "tls": maybe(tls),
        "sessionPersistence": maybe(session()),
    });
    let trusted =
        json!({"caCertificateRefs": bundles(), "clientCertificateRef": maybe(certificate()), "sni": "a.x.org"});
    let address = json!({"ip": {"address": mostly(one(["127.0.0.1", "10.0.2.1"]), "no address"), "port": 80}});
    vec![
        row(8, Kind::Service, &["s1", "s2"], json!({"ports": ports.clone(), "selector": maybe(json!({"app": "a"}))})),
        row(3, Kind::ServiceImport, &["i"], json!({"ports": ports})),
        row(8, Kind::XBackend, &["x1", "x2"], both(one([&selected, &selected, &outside].map(Clone::clone)), manner)),
        row(2, Kind::Backend, &["b"], json!({"endpoints": some(address), "tls": maybe(trusted)})),
    ]
}

/// That of a port of a Service, and of its endpoints.
fn port_name() -> Value {
    one([Value::Null, Value::Null, "web".into()])
}

/// Labels of Pods.
fn app() -> Value {
    json!({"app": one(["a", "b"]), "tier": maybe("front")})
}

/// Where backends answer.
fn endpoints() -> Vec<Row> {
    let endpoint = json!({
        "addresses": [one(["10.0.0.1", "10.0.0.2", "10.0.0.3"])], "zone": maybe("z"),
        "conditions": {"ready": one([true, true, false]), "serving": maybe(true), "terminating": maybe(true)},
    });
    let port = json!({"name": port_name(), "port": one([9000, 9001]), "protocol": one(["TCP", "UDP"])});
    let of_service = json!({"kubernetes.io/service-name": one(["s1", "s2"])});
    let of_import = json!({"multicluster.kubernetes.io/service-name": "i"});
    let owner = mostly(one([of_service.clone(), of_service, of_import]), json!({}));
    let ready = json!({"type": "Ready", "status": mostly("True", "False")});
    let address = mostly(one(["10.0.1.1", "10.0.1.2", "10.0.1.3"]), Value::Null);
    let pod = json!({
        "metadata": {"deletionTimestamp": rarely("2026-01-01T00:00:00Z")},
        "status": {"podIP": address, "phase": rarely("Pending"), "conditions": [ready]},
    });
    vec![
        labelled(
            row(6, Kind::EndpointSlice, &["e1", "e2", "e3"], json!({"endpoints": some(endpoint), "ports": some(port)})),
            owner,
        ),
        labelled(row(5, Kind::Pod, &["p1", "p2", "p3"], pod), app()),
    ]
}

fn policies() -> Vec<Row> {
    let service = to(Kind::Service, &["s1", "s2"]);
    let x_backend = to(Kind::XBackend, &["x1", "x2"]);
    let gateway = to(Kind::Gateway, &["g1", "g2"]);
    let section = || rarely(one(["web", "dns", "l1", "one"]));
    let tls = json!({
        "targetRefs": about([mostly(service.clone(), gateway.clone())], section()), "validation": validation(),
        "options": rarely(json!({"a": "b"})),
    });
    let retry = json!({"budget": {"percent": one([10, 20])}, "minRetryRate": maybe(json!({"count": 5}))});
    let of_backends = json!({
        "targetRefs": about([service, x_backend, mostly(to(Kind::ServiceImport, &["i"]), gateway.clone())], Value::Null),
        "retryConstraint": maybe(retry), "sessionPersistence": maybe(session()),
    });
    let tracing = json!({
        "mode": mostly("Enabled", "Disabled"), "provider": mostly(json!({"backendRef": backend()}), Value::Null),
        "samplingRate": maybe(json!({"numerator": 10})),
    });
    let telemetry =
        json!({"targetRefs": about([gateway.clone()], Value::Null), "tracing": mostly(tracing, Value::Null)});
    let routes = [Kind::HttpRoute, Kind::GrpcRoute, Kind::TlsRoute].map(|kind| to(kind, &["r1", "r2"]));
    let traffic = json!({
        "targetRefs": about(routes.clone().into_iter().chain([gateway.clone()]), section()),
        "circuitBreaker": {"maxConnections": one([1, 2, 3])}, "rateLimit": rarely(json!({})),
    });
    let streams = [Kind::TcpRoute, Kind::UdpRoute].map(|kind| to(kind, &["r1", "r2"]));
    let closable = routes.into_iter().chain(streams).chain([gateway.clone(), to(Kind::ListenerSet, &["t1", "t2"])]);
    let selector = json!({
        "kind": one(["HTTPRoute", "TCPRoute", "Gateway", "ListenerSet"]), "matchLabels": maybe(json!({"team": "blue"})),
        "namespaces": maybe(json!({"from": one(["Same", "All", "Selector"]), "selector": blue()})),
    });
    let attached = json!({"targetRefs": rarely(about(closable, section())), "targetSelectors": rarely(some(selector))});
    let guarding = |guard: &str| both(attached.clone(), json!({guard: mostly(json!({}), Value::Null)}));
    let clients = both(guarding("path"), json!({"tcpKeepalive": rarely(json!({}))}));
    let operation = json!({"op": "add", "path": "/a", "value": one([1, 2])});
    let patch = json!({
        "type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": one(["default/s1/80", "other/s1/80"]),
        "operation": operation,
    });
    let patches =
        json!({"type": "JSONPatch", "targetRef": gateway, "priority": one([0, 1]), "jsonPatches": some(patch)});
    vec![
        row(4, Kind::BackendTlsPolicy, &["p1", "p2"], tls),
        row(3, Kind::XBackendTrafficPolicy, &["p1", "p2"], of_backends),
        row(4, Kind::XTelemetryPolicy, &["p1", "p2"], telemetry),
        row(5, Kind::BackendTrafficPolicy, &["p1", "p2"], traffic),
        row(3, Kind::SecurityPolicy, &["p1", "p2"], guarding("jwt")),
        row(1, Kind::EnvoyExtensionPolicy, &["p1"], guarding("lua")),
        row(1, Kind::ClientTrafficPolicy, &["p1"], clients),
        row(2, Kind::EnvoyPatchPolicy, &["p1", "p2"], patches),
    ]
}

/// Two certificates with their keys.
static PAIRS: LazyLock<[(String, String); 2]> = LazyLock::new(|| {
    ["a.x.org", "b.y.org"].map(|host| {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    })
});

/// Certificates, bundles, and who may name them in other namespaces.
fn contents() -> Vec<Row> {
    let [(first, first_key), (second, second_key)] = &*PAIRS;
    let bundle = one([first.clone(), second.clone(), format!("{first}{second}")]);
    let bundle = mostly(bundle, "no certificate");
    let pair =
        |certificate: &str, key: &str| json!({"tls.crt": certificate, "tls.key": key, "ca.crt": maybe(bundle.clone())});
    let pairs = one([pair(first, first_key), pair(second, second_key)]);
    let pairs = mostly(pairs, one([pair(first, second_key), json!({"ca.crt": &bundle})]));
    let grants = |kinds: &[Kind], field: &str, values: &[&str]| {
        let all = kinds
            .iter()
            .map(|kind| json!({"group": kind.group(), "kind": kind.name(), field: one(values.iter().copied())}));
        let all: Vec<Value> = all.collect();
        one([json!(all), some(one(all.clone()))])
    };
    let grant = json!({"from": grants(&WHO, "namespace", &["default", "other"]), "to": grants(&WHAT, "name", &["", "s1", "x1"])});
    vec![
        row(6, Kind::Secret, &["c1", "c2"], json!({"type": "kubernetes.io/tls", "stringData": pairs})),
        row(4, Kind::ConfigMap, &["ca"], json!({"data": {"ca.crt": mostly(bundle.clone(), Value::Null)}})),
        row(2, Kind::ClusterTrustBundle, &["trust"], json!({"trustBundle": bundle})),
        row(6, Kind::ReferenceGrant, &["a", "b"], grant),
    ]
}

/// Kinds that name objects of other namespaces.
const WHO: [Kind; 11] = [
    Kind::SecurityPolicy,
    Kind::Backend,
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::TlsRoute,
    Kind::TcpRoute,
    Kind::UdpRoute,
    Kind::Gateway,
    Kind::ListenerSet,
    Kind::XBackend,
    Kind::XTelemetryPolicy,
];

/// Kinds that are named there.
const WHAT: [Kind; 7] =
    [Kind::HttpRoute, Kind::Service, Kind::Backend, Kind::XBackend, Kind::ServiceImport, Kind::Secret, Kind::ConfigMap];

fn settings() -> Vec<Row> {
    let ours = mostly("gateway.envoyproxy.io/gatewayclass-controller", "example.com/other");
    let named = both(to(Kind::EnvoyProxy, &["p", "q"]), json!({"namespace": mostly("default", Value::Null)}));
    let class = json!({"controllerName": &ours, "parametersRef": rarely(named)});
    let proxy = json!({
        "ipFamily": maybe("IPv4"), "concurrency": maybe(one([1, 2])), "mergeType": maybe(one(["JSONMerge", "StrategicMerge"])),
        "logging": {"level": one([json!({}), json!({"default": "info"}), json!({"http": "odd"})])},
    });
    let place = one(["ControllerNamespace", "GatewayNamespace"]);
    let own = json!({
        "gateway": {"controllerName": ours}, "envoyProxy": maybe(proxy.clone()),
        "provider": maybe(json!({"type": "Kubernetes", "kubernetes": {"deploy": {"type": place}}})),
        "unsupportedPolicies": rarely("Allow"),
        "extensionApis": {"enableBackend": mostly(true, false), "enableEnvoyPatchPolicy": mostly(true, false)},
    });
    vec![
        labelled(row(2, Kind::Namespace, &["default", "other"], json!({})), json!({"team": one(["blue", "red"])})),
        row(4, Kind::GatewayClass, &["eg"], class),
        row(4, Kind::EnvoyProxy, &["p", "q"], proxy),
        row(2, Kind::EnvoyGateway, &["own"], own),
    ]
}
