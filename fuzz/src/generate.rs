//! Objects and their histories out of small name spaces, so that references meet, conflict and miss each other.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use serde_json::{Value, json};
use store::ClusterState;

/// One thing that happens.
#[derive(Debug)]
pub enum Step {
    /// An object comes or changes: its JSON.
    Apply(String),
    /// An object goes.
    Delete(u8),
    /// What was written so far comes into force and is published.
    Publish,
    /// The fleets have a proxy that serves.
    Live,
    /// A proxy says something of a cluster.
    Cluster(u8, ClusterState),
}

type U<'a, 'b> = &'a mut Unstructured<'b>;

/// How many of the words are good, and the words.
type Words = (usize, &'static [&'static str]);

const NAMESPACES: Words = (2, &["default", "other"]);
const NAMES: Words = (3, &["a", "b", "c"]);
const HOSTS: Words = (
    4,
    &["a.example", "b.a.example", "*.example", "*.a.example", "*", "A.Example", "a.example.", "", "1.2.3.4", "a..b"],
);
const PATHS: Words = (6, &["/", "/a", "/a/", "/a/b", "/a//b", "/%2f", "//", "a", "", "/a?b", "/(", "/{x}", "/é", "/*"]);
const EXPRESSIONS: Words =
    (5, &["/a.*", ".*", "[a-z]{2,3}", "(?i)a", "/(a|b)\\d+", "(", "a{1000}{9}", "\\pL", "(?=a)", "", "[[:alpha:]&&x]"]);
const HEADERS: Words = (2, &["x-a", "X-B", "host", ":path", "a b", "", "x-%"]);
const VALUES: Words = (4, &["1", "%REQ(x)%", "a,b", "%", "", "\u{7f}"]);
const TIMES: Words = (4, &["1s", "0s", "500ms", "1h30m", "99999h", "1d", ""]);
const ADDRESSES: Words = (2, &["127.0.0.1", "10.0.0.1", "::1", "0.0.0.0", "fe80::1", "a.example", "1.2.3.4.5"]);
const DATES: Words = (2, &["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"]);
const PORTS: &[u16] = &[80, 80, 80, 8080, 443];

/// The next thing that happens.
pub fn step(u: U<'_, '_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=15)? {
        0 => Step::Delete(u.arbitrary()?),
        1 | 2 => Step::Publish,
        3 if u.ratio(1_u8, 4_u8)? => Step::Live,
        4 => Step::Cluster(u.arbitrary()?, cluster_state(u)?),
        _ => Step::Apply(object(u)?.to_string()),
    })
}

fn cluster_state(u: U<'_, '_>) -> Result<ClusterState> {
    Ok(match u.int_in_range(0..=2)? {
        0 => ClusterState::Warm,
        1 => ClusterState::Stalled,
        _ => ClusterState::Refused("no".into()),
    })
}

/// Makes one kind of object.
type Maker = fn(U<'_, '_>) -> Result<Value>;

const MAKERS: &[Maker] = &[
    gateway, gateway, route, route, route, route, service, service, slice, slice, grant, class, backend, policy,
    secret, namespace,
];

fn object(u: U<'_, '_>) -> Result<Value> {
    let make = *u.choose(MAKERS)?;
    make(u)
}

/// One of the words, mostly of the good ones in front: an object with many fields would hardly ever be whole otherwise.
fn word(u: U<'_, '_>, (good, words): Words) -> Result<&'static str> {
    let usual = words.get(..good).unwrap_or(words);
    let from = if u.ratio(1_u8, 24_u8)? { words } else { usual };
    Ok(*u.choose(from)?)
}

/// A value, or nothing.
fn maybe(u: U<'_, '_>, make: impl FnOnce(U<'_, '_>) -> Result<Value>) -> Result<Value> {
    if u.arbitrary()? { make(u) } else { Ok(Value::Null) }
}

fn list(u: U<'_, '_>, most: u8, make: impl Fn(U<'_, '_>) -> Result<Value>) -> Result<Value> {
    (0..u.int_in_range(0..=most)?).map(|_| make(u)).collect()
}

/// A list that is mostly empty.
fn seldom(u: U<'_, '_>, most: u8, make: impl Fn(U<'_, '_>) -> Result<Value>) -> Result<Value> {
    if u.ratio(1_u8, 4_u8)? { list(u, most, make) } else { Ok(json!([])) }
}

fn choice(u: U<'_, '_>, words: Words) -> Result<Value> {
    word(u, words).map(Value::from)
}

fn metadata(u: U<'_, '_>) -> Result<Value> {
    let (name, namespace) = (word(u, NAMES)?, word(u, NAMESPACES)?);
    let created = maybe(u, |u| choice(u, DATES))?;
    Ok(json!({ "name": name, "namespace": namespace, "creationTimestamp": created }))
}

fn gateway_api(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec })
}

fn extension(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({ "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec })
}

fn class(u: U<'_, '_>) -> Result<Value> {
    let controller = word(u, (1, &["gateway.envoyproxy.io/gatewayclass-controller", "example.com/other"]))?;
    Ok(gateway_api("GatewayClass", &json!({ "name": word(u, NAMES)? }), &json!({ "controllerName": controller })))
}

fn gateway(u: U<'_, '_>) -> Result<Value> {
    let mut listeners = list(u, 4, listener)?;
    // The API wants names to be unique; without this nearly every Gateway would be broken in this one way.
    for (at, listener) in listeners.as_array_mut().into_iter().flatten().enumerate() {
        listener["name"] = json!(["a", "b", "c", "d"][at % 4]);
    }
    let addresses = seldom(u, 1, |u| Ok(json!({ "value": word(u, ADDRESSES)? })))?;
    let spec = json!({ "gatewayClassName": word(u, NAMES)?, "listeners": listeners, "addresses": addresses });
    Ok(gateway_api("Gateway", &metadata(u)?, &spec))
}

fn listener(u: U<'_, '_>) -> Result<Value> {
    let protocol = word(u, (3, &["HTTP", "HTTP", "HTTPS", "TCP"]))?;
    let from = word(u, (2, &["Same", "All", "Selector", "None"]))?;
    let tls = maybe(u, |u| Ok(json!({ "certificateRefs": list(u, 2, certificate)? })))?;
    Ok(json!({
        "name": word(u, NAMES)?,
        "protocol": protocol,
        "port": u.choose(PORTS)?,
        "hostname": maybe(u, |u| choice(u, HOSTS))?,
        "tls": tls,
        "allowedRoutes": { "namespaces": { "from": from, "selector": { "matchLabels": { "k": word(u, NAMES)? } } } },
    }))
}

fn certificate(u: U<'_, '_>) -> Result<Value> {
    Ok(json!({ "name": word(u, NAMES)?, "namespace": maybe(u, |u| choice(u, NAMESPACES))? }))
}

fn route(u: U<'_, '_>) -> Result<Value> {
    let parents = list(u, 2, |u| {
        let section = maybe(u, |u| choice(u, NAMES))?;
        let port = maybe(u, |u| Ok(json!(u.choose(PORTS)?)))?;
        let namespace = maybe(u, |u| choice(u, NAMESPACES))?;
        Ok(json!({ "name": word(u, NAMES)?, "namespace": namespace, "sectionName": section, "port": port }))
    })?;
    let hostnames = list(u, 2, |u| choice(u, HOSTS))?;
    let spec = json!({ "parentRefs": parents, "hostnames": hostnames, "rules": list(u, 3, rule)? });
    Ok(gateway_api("HTTPRoute", &metadata(u)?, &spec))
}

fn rule(u: U<'_, '_>) -> Result<Value> {
    let timeouts = maybe(u, |u| Ok(json!({ "request": word(u, TIMES)?, "backendRequest": word(u, TIMES)? })))?;
    let retry = maybe(u, |u| {
        let codes = list(u, 2, |u| Ok(json!(u.int_in_range(400..=599)?)))?;
        Ok(json!({ "attempts": u.int_in_range(0..=3)?, "codes": codes, "backoff": word(u, TIMES)? }))
    })?;
    Ok(json!({
        "name": maybe(u, |u| choice(u, NAMES))?,
        "matches": list(u, 2, matched)?,
        "filters": seldom(u, 3, filter)?,
        "backendRefs": list(u, 3, |u| {
            let mut target = target(u)?;
            target["weight"] = maybe(u, |u| Ok(json!(u.choose(&[0, 1, 9, 1_000_000])?)))?;
            target["filters"] = seldom(u, 2, filter)?;
            Ok(target)
        })?,
        "timeouts": timeouts,
        "retry": retry,
    }))
}

fn target(u: U<'_, '_>) -> Result<Value> {
    let (group, kind) =
        *u.choose(&[("", "Service"), ("", "Service"), ("", "Service"), ("gateway.envoyproxy.io", "Backend")])?;
    let namespace = maybe(u, |u| choice(u, NAMESPACES))?;
    Ok(
        json!({ "group": group, "kind": kind, "name": word(u, NAMES)?, "namespace": namespace, "port": u.choose(PORTS)? }),
    )
}

fn matched(u: U<'_, '_>) -> Result<Value> {
    let path = maybe(u, |u| {
        let (kind, values) =
            *u.choose(&[("PathPrefix", PATHS), ("Exact", PATHS), ("RegularExpression", EXPRESSIONS)])?;
        Ok(json!({ "type": kind, "value": word(u, values)? }))
    })?;
    Ok(json!({
        "path": path,
        "headers": list(u, 2, named_match)?,
        "queryParams": list(u, 2, named_match)?,
        "method": maybe(u, |u| choice(u, (2, &["GET", "POST", "NO"])))?,
    }))
}

fn named_match(u: U<'_, '_>) -> Result<Value> {
    let (kind, values) = *u.choose(&[("Exact", VALUES), ("RegularExpression", EXPRESSIONS)])?;
    Ok(json!({ "type": kind, "name": word(u, HEADERS)?, "value": word(u, values)? }))
}

fn headers(u: U<'_, '_>) -> Result<Value> {
    let pair = |u: U<'_, '_>| Ok(json!({ "name": word(u, HEADERS)?, "value": word(u, VALUES)? }));
    Ok(json!({ "set": list(u, 2, pair)?, "add": list(u, 2, pair)?, "remove": list(u, 2, |u| choice(u, HEADERS))? }))
}

fn new_path(u: U<'_, '_>) -> Result<Value> {
    maybe(u, |u| {
        Ok(match u.arbitrary()? {
            true => json!({ "type": "ReplaceFullPath", "replaceFullPath": word(u, PATHS)? }),
            false => json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": word(u, PATHS)? }),
        })
    })
}

fn filter(u: U<'_, '_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=6)? {
        0 => json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": headers(u)? }),
        1 => json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": headers(u)? }),
        2 => {
            let percent = maybe(u, |u| Ok(json!(u.int_in_range(0..=101)?)))?;
            let fraction = maybe(u, |u| {
                Ok(json!({ "numerator": u.int_in_range(0..=9)?, "denominator": u.int_in_range(0..=9)? }))
            })?;
            let mirror = json!({ "backendRef": target(u)?, "percent": percent, "fraction": fraction });
            json!({ "type": "RequestMirror", "requestMirror": mirror })
        }
        3 => json!({ "type": "RequestRedirect", "requestRedirect": {
            "scheme": maybe(u, |u| choice(u, (2, &["http", "https", "ftp"])))?,
            "hostname": maybe(u, |u| choice(u, HOSTS))?,
            "port": maybe(u, |u| Ok(json!(u.choose(PORTS)?)))?,
            "statusCode": u.choose(&[301, 302, 303, 307, 308])?,
            "path": new_path(u)?,
        } }),
        4 => {
            json!({ "type": "URLRewrite", "urlRewrite": { "hostname": maybe(u, |u| choice(u, HOSTS))?, "path": new_path(u)? } })
        }
        5 => json!({ "type": "CORS", "cors": {
            "allowOrigins": list(u, 2, |u| choice(u, (4, &["*", "https://a.example", "https://*.example:8443", "http://*", "x"])))?,
            "allowMethods": list(u, 2, |u| choice(u, (2, &["*", "GET", "NO"])))?,
            "allowHeaders": list(u, 2, |u| choice(u, HEADERS))?,
            "exposeHeaders": list(u, 2, |u| choice(u, HEADERS))?,
            "allowCredentials": u.arbitrary::<bool>()?,
            "maxAge": u.choose(&[0, 1, 2_147_483_647])?,
        } }),
        6 if u.ratio(7_u8, 8_u8)? => json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": headers(u)? }),
        _ => json!({ "type": word(u, (2, &["ExtensionRef", "Nope"]))? }),
    })
}

fn service(u: U<'_, '_>) -> Result<Value> {
    let mut ports = list(u, 2, |u| {
        let protocol = word(u, (2, &["TCP", "TCP", "UDP"]))?;
        let speaks = maybe(u, |u| choice(u, (4, &["kubernetes.io/h2c", "kubernetes.io/wss", "https", "x"])))?;
        Ok(json!({ "port": u.choose(PORTS)?, "protocol": protocol, "appProtocol": speaks }))
    })?;
    // Several ports need names, and a slice finds its port by it.
    for (at, port) in ports.as_array_mut().into_iter().flatten().enumerate() {
        port["name"] = json!(["a", "b"][at % 2]);
    }
    let external = word(u, (3, &["ClusterIP", "ClusterIP", "ExternalName"]))?;
    let spec = json!({ "type": external, "externalName": maybe(u, |u| choice(u, HOSTS))?, "ports": ports });
    Ok(json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata(u)?, "spec": spec }))
}

fn slice(u: U<'_, '_>) -> Result<Value> {
    let mut metadata = metadata(u)?;
    metadata["labels"] = json!({ "kubernetes.io/service-name": word(u, NAMES)? });
    let endpoints = list(u, 3, |u| {
        let flag = |u: U<'_, '_>| maybe(u, |u| Ok(json!(u.arbitrary::<bool>()?)));
        let conditions = json!({ "ready": flag(u)?, "serving": flag(u)?, "terminating": flag(u)? });
        let zone = maybe(u, |u| choice(u, NAMES))?;
        Ok(json!({ "addresses": [word(u, ADDRESSES)?], "conditions": conditions, "zone": zone }))
    })?;
    let ports = list(u, 2, |u| {
        let port = maybe(u, |u| Ok(json!(u.choose(PORTS)?)))?;
        Ok(json!({ "name": maybe(u, |u| choice(u, NAMES))?, "port": port }))
    })?;
    Ok(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": word(u, (1, &["IPv4", "IPv6", "FQDN"]))?, "endpoints": endpoints, "ports": ports,
    }))
}

fn grant(u: U<'_, '_>) -> Result<Value> {
    let (group, kind) = *u.choose(&[("", "Service"), ("", "Secret"), ("gateway.envoyproxy.io", "Backend")])?;
    let to = json!([{ "group": group, "kind": kind, "name": maybe(u, |u| choice(u, NAMES))? }]);
    let from = word(u, (2, &["HTTPRoute", "Gateway"]))?;
    let from = json!([{ "group": "gateway.networking.k8s.io", "kind": from, "namespace": word(u, NAMESPACES)? }]);
    Ok(gateway_api("ReferenceGrant", &metadata(u)?, &json!({ "from": from, "to": to })))
}

fn backend(u: U<'_, '_>) -> Result<Value> {
    let endpoints = list(u, 2, |u| {
        let port = u.choose(PORTS)?;
        Ok(match u.int_in_range(0..=2)? {
            0 => json!({ "ip": { "address": word(u, ADDRESSES)?, "port": port } }),
            1 => json!({ "fqdn": { "hostname": word(u, HOSTS)?, "port": port } }),
            _ => json!({ "unix": { "path": word(u, PATHS)? } }),
        })
    })?;
    let tls = maybe(u, |u| {
        let name = word(u, NAMES)?;
        Ok(match u.int_in_range(0..=2)? {
            0 => json!({ "insecureSkipVerify": true, "sni": word(u, HOSTS)? }),
            1 => json!({ "wellKnownCACertificates": "System" }),
            _ => json!({ "caCertificateRefs": [{ "group": "", "kind": "Secret", "name": name }] }),
        })
    })?;
    Ok(extension("Backend", &metadata(u)?, &json!({ "endpoints": endpoints, "tls": tls })))
}

fn policy(u: U<'_, '_>) -> Result<Value> {
    let targets = list(u, 2, |u| {
        let (kind, section) = (word(u, (2, &["Gateway", "HTTPRoute"]))?, maybe(u, |u| choice(u, NAMES))?);
        Ok(
            json!({ "group": "gateway.networking.k8s.io", "kind": kind, "name": word(u, NAMES)?, "sectionName": section }),
        )
    })?;
    let limit = u.choose(&[0_u32, 1, u32::MAX])?;
    let spec = json!({ "targetRefs": targets, "circuitBreaker": { "maxConnections": limit } });
    Ok(extension("BackendTrafficPolicy", &metadata(u)?, &spec))
}

fn secret(u: U<'_, '_>) -> Result<Value> {
    let (certificate, key) = &*PAIR;
    let odd = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let mut either =
        |good: &str| -> Result<Value> { Ok(u.choose(&[good, good, good, "", odd, "-----BEGIN"])?.to_string().into()) };
    let data = json!({ "tls.crt": either(certificate)?, "tls.key": either(key)?, "ca.crt": either(certificate)? });
    Ok(
        json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata(u)?, "stringData": data }),
    )
}

fn namespace(u: U<'_, '_>) -> Result<Value> {
    let labels = json!({ "k": word(u, NAMES)? });
    Ok(
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": word(u, NAMESPACES)?, "labels": labels } }),
    )
}

/// A certificate and its key, made when the process starts.
static PAIR: LazyLock<(String, String)> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]);
    made.map_or_else(|_| Default::default(), |made| (made.cert.pem(), made.signing_key.serialize_pem()))
});
