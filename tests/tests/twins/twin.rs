//! A twin as it is written in `tests/twins/*.yaml`, and its objects in full.
//!
//! | key | is |
//! |---|---|
//! | `twin` | the name of the test in the suite |
//! | `why` | what is different with files, if something is |
//! | `proxies` | `false`: only what is told of its objects counts, and no Envoy is started for its Gateways: nobody binds their ports |
//! | `backends` | Services in the twin's namespace, each of the backend of that name; `other/v1` in its namespace `other` |
//! | `listeners` | its own listeners on shared Gateways, by the Gateway's name |
//! | `objects` | `KIND NAME: spec`, with `metadata` and `status` beside the spec's fields; `KIND other/NAME` in its namespace `other` |
//! | `expect` | lines that [`super::expectation`] and [`super::told`] explain |
//! | `then` | steps, one after another: `change` (objects, whole), `gone` (`KIND NAME`), and what to `expect` then |
//!
//! Written short in a spec: `port: word` is a port of loopback, the same for the same word of a twin; `namespace: own` and `namespace: other`
//! are the twin's, `shared` that of shared Gateways; a backend `v1`, `v1*70` or `other/v1` stands for a reference to port 80 of that
//! Service; a parent `web/one` for that listener of the shared Gateway; a route without parents is on `web/web`. `Secret x: front` and
//! `ConfigMap x: front` hold that certificate.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::certificates::Certificates;

/// The namespace of what twins share.
pub(crate) const SHARED: &str = "shared";

/// Kinds whose fields stand beside `metadata`, without a `spec`.
const WITHOUT_SPEC: [&str; 4] = ["Secret", "ConfigMap", "Namespace", "EndpointSlice"];

/// One of the files' entries.
pub(crate) struct Twin {
    pub(crate) name: String,
    pub(crate) has_proxies: bool,
    /// By the shared Gateway.
    pub(crate) listeners: Map<String, Value>,
    pub(crate) steps: Vec<Step>,
    backends: Vec<String>,
}

/// What is changed, and what holds then.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) objects: Vec<(String, Value)>,
    pub(crate) gone: Vec<String>,
    pub(crate) expect: Vec<String>,
}

impl Twin {
    /// All of a file.
    pub(crate) fn read(text: &str) -> Vec<Self> {
        let file: Value = serde_saphyr::from_str(text).unwrap();
        list(&file["twins"]).iter().map(Self::of).collect()
    }

    fn of(entry: &Value) -> Self {
        only(entry, &["twin", "why", "proxies", "backends", "listeners", "objects", "expect", "then"]);
        list(&entry["then"]).iter().for_each(|step| only(step, &["change", "gone", "expect"]));
        let then = list(&entry["then"]).iter().map(|step| Step::of(step, "change"));
        Self {
            name: entry["twin"].as_str().unwrap().to_owned(),
            has_proxies: entry["proxies"] != Value::Bool(false),
            listeners: entry["listeners"].as_object().cloned().unwrap_or_default(),
            steps: std::iter::once(Step::of(entry, "objects")).chain(then).collect(),
            backends: texts(&entry["backends"]),
        }
    }

    /// The namespace of its own.
    pub(crate) fn namespace(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// The Services of its backends, in short.
    pub(crate) fn services(&self) -> Vec<(String, Value)> {
        self.backends.iter().flat_map(|name| service(name)).collect()
    }
}

impl Step {
    fn of(entry: &Value, objects: &str) -> Self {
        let objects = list(&entry[objects]).iter().flat_map(|object| object.as_object().unwrap().clone()).collect();
        Self { objects, gone: texts(&entry["gone"]), expect: texts(&entry["expect"]) }
    }
}

/// A Service with every port of a backend: HTTP, HTTP/2, WebSockets, TLS twice, datagrams.
fn service(name: &str) -> [(String, Value); 2] {
    let backend = name.rsplit('/').next().unwrap_or_default();
    let ports = json!([
        {"name": "plain", "port": 80},
        {"name": "h2c", "port": 81, "appProtocol": "kubernetes.io/h2c"},
        {"name": "ws", "port": 82, "appProtocol": "kubernetes.io/ws"},
        {"name": "tls", "port": 443},
        {"name": "tls-too", "port": 8443, "appProtocol": "HTTPS"},
        {"name": "udp", "port": 80, "protocol": "UDP"},
    ]);
    let words = [("plain", "plain"), ("h2c", "plain"), ("ws", "plain"), ("tls", "tls"), ("tls-too", "tls")];
    let mut at: Vec<_> =
        words.iter().map(|(port, word)| json!({"name": port, "port": format!("{backend}.{word}")})).collect();
    at.push(json!({"name": "udp", "protocol": "UDP", "port": format!("{backend}.udp")}));
    let slice = json!({
        "metadata": {"labels": {"kubernetes.io/service-name": backend}},
        "addressType": "IPv4",
        "ports": at,
        "endpoints": [{"addresses": ["127.0.0.1"]}],
    });
    [(format!("Service {name}"), json!({"ports": ports})), (format!("EndpointSlice {name}"), slice)]
}

/// Where the words of a twin lead.
pub(crate) struct Words<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) certificates: &'a Certificates,
    /// By namespace and word.
    pub(crate) ports: &'a mut Ports,
}

/// Ports of loopback, each taken when its word is met for the first time.
#[derive(Default)]
pub(crate) struct Ports(BTreeMap<(String, String), u16>);

impl Ports {
    /// Says which one a word is.
    pub(crate) fn set(&mut self, namespace: &str, word: &str, port: u16) {
        self.0.insert((namespace.to_owned(), word.to_owned()), port);
    }

    /// The port of a word, of the twin's own or of those that are shared.
    pub(crate) fn get(&self, namespace: &str, word: &str) -> Option<u16> {
        let of = |namespace: &str| self.0.get(&(namespace.to_owned(), word.to_owned())).copied();
        of(namespace).or_else(|| of(SHARED))
    }
}

impl Words<'_> {
    /// The whole object.
    pub(crate) fn object(&mut self, key: &str, short: &Value) -> Value {
        let (kind, name) = key.split_once(' ').unwrap();
        let (namespace, name) = self.place(name);
        let mut fields = match (kind, short) {
            ("Secret" | "ConfigMap", Value::String(pair)) => self.held(kind, pair),
            (_, Value::Null) => Map::new(),
            (_, short) => short.as_object().unwrap_or_else(|| panic!("{key} has no fields")).clone(),
        };
        let mut metadata = fields.remove("metadata").unwrap_or_else(|| json!({}));
        metadata["name"] = if kind == "Namespace" { self.namespace_of(&name) } else { name }.into();
        if !["GatewayClass", "Namespace"].contains(&kind) {
            metadata["namespace"] = namespace.into();
        }
        if kind == "Gateway" {
            fields.entry("gatewayClassName").or_insert_with(|| "chancery".into());
        }
        if ["HTTPRoute", "GRPCRoute"].contains(&kind) {
            fields.entry("parentRefs").or_insert_with(|| json!(["web/web"]));
        }
        let status = fields.remove("status");
        let mut fields = Value::Object(fields);
        self.fill("", &mut fields);
        let mut object = json!({"apiVersion": api_version(kind), "kind": kind, "metadata": metadata});
        if WITHOUT_SPEC.contains(&kind) {
            object.as_object_mut().unwrap().append(fields.as_object_mut().unwrap());
        } else {
            object["spec"] = fields;
        }
        if let Some(status) = status {
            object["status"] = status;
        }
        object
    }

    /// The namespace and name of `name` or `other/name`.
    pub(crate) fn place(&self, name: &str) -> (String, String) {
        match name.split_once('/') {
            Some((namespace, name)) => (self.namespace_of(namespace), name.to_owned()),
            None if self.namespace == SHARED => (SHARED.to_owned(), name.to_owned()),
            None => (self.namespace.to_owned(), name.to_owned()),
        }
    }

    fn namespace_of(&self, word: &str) -> String {
        match word {
            SHARED => SHARED.to_owned(),
            "own" => self.namespace.to_owned(),
            word => format!("{}-{word}", self.namespace),
        }
    }

    fn held(&self, kind: &str, pair: &str) -> Map<String, Value> {
        let pair = self.certificates.pair(pair);
        let fields = if kind == "Secret" {
            json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": pair.certificate, "tls.key": pair.key}})
        } else {
            json!({"data": {"ca.crt": pair.certificate}})
        };
        fields.as_object().unwrap().clone()
    }

    fn fill(&mut self, key: &str, value: &mut Value) {
        match (key, &mut *value) {
            (_, Value::Object(fields)) => {
                // The name of a Namespace is a label of it.
                let names = fields.iter_mut().map(|(key, value)| (key.rsplit('/').next().unwrap_or_default(), value));
                names.for_each(|(key, value)| self.fill(key, value));
            }
            ("parentRefs", Value::Array(items)) => items.iter_mut().for_each(|item| self.fill("parentRef", item)),
            ("backendRefs", Value::Array(items)) => items.iter_mut().for_each(|item| self.fill("backendRef", item)),
            (key, Value::Array(items)) => items.iter_mut().for_each(|item| self.fill(key, item)),
            ("port", Value::String(word)) => *value = self.port(word).into(),
            ("namespace" | "metadata.name", Value::String(word)) => *value = self.namespace_of(word).into(),
            ("parentRef", Value::String(word)) => {
                let (name, section) = word.split_once('/').unwrap();
                *value = json!({"name": name, "namespace": SHARED, "sectionName": section});
            }
            ("backendRef", Value::String(word)) => *value = self.backend(word),
            _ => {}
        }
    }

    fn backend(&self, word: &str) -> Value {
        let (word, weight) = word.split_once('*').map_or((word, None), |(word, weight)| (word, Some(weight)));
        let mut backend = json!({ "port": 80 });
        if let Some(weight) = weight {
            backend["weight"] = weight.parse::<u32>().unwrap().into();
        }
        if let Some((namespace, name)) = word.split_once('/') {
            backend["namespace"] = self.namespace_of(namespace).into();
            backend["name"] = name.into();
        } else {
            backend["name"] = word.into();
        }
        backend
    }

    fn port(&mut self, word: &str) -> u16 {
        if let Some(port) = self.ports.get(self.namespace, word) {
            return port;
        }
        let [port] = tests::ports::free_ports().unwrap();
        self.ports.set(self.namespace, word, port);
        port
    }
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Service" | "Secret" | "ConfigMap" | "Namespace" => "v1",
        "EndpointSlice" => "discovery.k8s.io/v1",
        "EnvoyProxy" => "gateway.envoyproxy.io/v1alpha1",
        _ => "gateway.networking.k8s.io/v1",
    }
}

/// A misspelt key would leave something out.
fn only(entry: &Value, known: &[&str]) {
    let unknown = entry.as_object().unwrap().keys().find(|key| !known.contains(&key.as_str()));
    assert_eq!(unknown, None, "in {entry}");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    let text = |item: &Value| item.as_str().unwrap_or_else(|| panic!("{item} is no text")).to_owned();
    list(value).iter().map(text).collect()
}
