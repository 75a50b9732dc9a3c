//! Traces of what a Gateway does, from files through a real Envoy to a collector.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tests::backend::Backend;
use tests::client::get_with;
use tests::collector::{Collector, Span};
use tests::objects::{documents, gateway, ruled, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

const HOST: &str = "www.example.com";

/// What is told of a request is what the client sent.
const REWRITTEN: &str = "  rules:\n  - filters:\n    - {type: URLRewrite, urlRewrite: {hostname: inner.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /inner}}}\n    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-user, value: changed}]}}\n    backendRefs: [{name: one, port: 80}]\n";

/// So many spans are sent at once; fewer after some seconds.
const BATCH: usize = 5;

fn policy(tracing: &str) -> String {
    format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XTelemetryPolicy\nmetadata: {{name: traces}}\nspec:\n  \
         targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: edge}}]\n  tracing: {tracing}\n"
    )
}

struct Place {
    collector: Collector,
    running: Running,
    port: u16,
    _backend: Backend,
}

impl Place {
    /// A Gateway with a backend and a collector, and this policy.
    fn start(tracing: &str) -> Self {
        let [port] = free_ports().unwrap();
        let (backend, collector) = (Backend::start("one").unwrap(), Collector::start().unwrap());
        let mut running = Running::prepare().unwrap();
        let objects =
            [gateway(port), ruled("shop", REWRITTEN), service("one", backend.port), service("otel", collector.port)];
        running.write("all.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
        running.write("policy.yaml", &policy(tracing)).unwrap();
        running.start().unwrap();
        let place = Self { collector, running, port, _backend: backend };
        wait::until("an answer", || get_with(port, HOST, "/", &[]).ok().filter(|answer| answer.status == 200)).unwrap();
        place
    }

    /// Asks as many times as bring a batch, with this path and headers.
    fn ask(&self, path: &str, headers: &[(&str, &str)]) {
        for _ in 0..BATCH {
            assert_eq!(get_with(self.port, HOST, path, headers).unwrap().status, 200);
        }
    }

    /// Spans of requests with this path.
    fn of(&self, path: &str) -> Vec<Span> {
        let spans = self.collector.spans().into_iter();
        spans.filter(|span| span.attributes.get("path").is_some_and(|found| found == path)).collect()
    }

    /// The spans of as many requests with this path; asks until there are some.
    fn until(&self, path: &str, headers: &[(&str, &str)]) -> Vec<Span> {
        let found = || {
            self.ask(path, headers);
            Some(self.of(path)).filter(|spans| !spans.is_empty())
        };
        wait::until(&format!("spans of {path}"), found).unwrap()
    }
}

/// A trace that was begun elsewhere.
fn parent(recorded: bool) -> String {
    format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0{}", u8::from(recorded))
}

const PATH: &str = "{name: path, sourceType: Attribute, attributeKey: url.path}";

#[test]
fn a_collector_gets_what_the_policy_says() {
    let place = Place::start(&format!(
        "{{mode: Enabled, provider: {{backendRef: {{name: otel, port: 80}}, headers: [{{name: x-tenant, value: a-b}}]}}, \
         serviceName: shop, spanName: shop edge, attributes: [{PATH}, \
         {{name: who, sourceType: Header, headerName: x-user}}, {{name: env, sourceType: Literal, literalValue: prod}}, \
         {{name: method, sourceType: Attribute, attributeKey: http.request.method}}, \
         {{name: status, sourceType: Attribute, attributeKey: http.response.status_code}}, \
         {{name: length, sourceType: Attribute, attributeKey: http.response.header.content-length}}, \
         {{name: url, sourceType: Attribute, attributeKey: url.full}}, {{name: query, sourceType: Attribute, attributeKey: url.query}}, \
         {{name: host, sourceType: Attribute, attributeKey: server.address}}, {{name: port, sourceType: Attribute, attributeKey: server.port}}, \
         {{name: client, sourceType: Attribute, attributeKey: client.address}}, {{name: peer, sourceType: Attribute, attributeKey: network.peer.address}}]}}"
    ));
    let found = || {
        place.ask("/a?b=c", &[("x-user", "ann")]);
        place.of("/a").into_iter().next()
    };
    let span = wait::until("a span", found).unwrap();
    assert_eq!(span.name, "shop edge");
    let told = |key: &str| span.attributes.get(key).map(String::as_str);
    let port = format!("int:{}", place.port);
    let wanted = [
        ("service.name", "shop"),
        ("who", "ann"),
        ("env", "prod"),
        ("method", "GET"),
        ("status", "int:200"),
        ("length", "3"),
        ("url", "http://www.example.com/a?b=c"),
        ("query", "b=c"),
        ("host", "www.example.com"),
        ("port", &port),
        ("client", "127.0.0.1"),
        ("peer", "127.0.0.1"),
    ];
    for (key, value) in wanted {
        assert_eq!(told(key), Some(value), "{key} of {span:?}");
    }
    assert_eq!(span.headers.get("x-tenant").map(String::as_str), Some("a-b"));
}

#[test]
fn whoever_began_a_trace_decides_unless_the_policy_does() {
    let provider = "provider: {backendRef: {name: otel, port: 80}}";
    let place =
        Place::start(&format!("{{mode: Enabled, {provider}, samplingRate: {{numerator: 0}}, attributes: [{PATH}]}}"));
    // Of what belongs to no trace nothing is recorded, of the others what was recorded before.
    place.ask("/new", &[]);
    place.ask("/unrecorded", &[("traceparent", &parent(false))]);
    let spans = place.until("/recorded", &[("traceparent", &parent(true))]);
    assert!(spans.iter().all(|span| span.trace == "0af7651916cd43dd8448eb211c80319c"), "{spans:?}");
    assert_eq!((place.of("/new"), place.of("/unrecorded")), (Vec::new(), Vec::new()));

    let always =
        format!("{{mode: Enabled, {provider}, parentBasedSampling: {{mode: Disabled}}, attributes: [{PATH}]}}");
    place.running.write("policy.yaml", &policy(&always)).unwrap();
    place.until("/all", &[]);
    place.until("/unrecorded", &[("traceparent", &parent(false))]);

    let never = always.replace("attributes:", "samplingRate: {numerator: 0}, attributes:");
    place.running.write("policy.yaml", &policy(&never)).unwrap();
    // A proxy that takes no more new connections with the policy of before.
    let quiet = || {
        let before = place.collector.spans().len();
        place.ask("/quiet", &[("traceparent", &parent(true))]);
        place.ask("/quiet", &[("traceparent", &parent(true))]);
        (place.collector.spans().len() == before).then_some(())
    };
    wait::until("nothing to be recorded", quiet).unwrap();
}

#[test]
fn without_its_collector_a_gateway_serves_and_says_so() {
    let enabled = |collector: &str| {
        format!("{{mode: Enabled, provider: {{backendRef: {{name: {collector}, port: 80}}}}, attributes: [{PATH}]}}")
    };
    let place = Place::start(&enabled("nowhere"));
    let told = |words: &str| {
        let status = || place.running.status(&["xtelemetrypolicy", "traces", "-o", "yaml"]).ok();
        wait::until(words, || status()?.contains(words).then_some(())).unwrap();
    };
    told("BackendNotFound");
    place.ask("/dark", &[]);
    place.running.write("policy.yaml", &policy(&enabled("otel"))).unwrap();
    told("all references lead to something");
    place.until("/bright", &[]);
    assert_eq!(place.of("/dark"), []);
    place.running.remove("policy.yaml").unwrap();
    let quiet = || {
        let before = place.collector.spans().len();
        place.ask("/quiet", &[]);
        place.ask("/quiet", &[]);
        (place.collector.spans().len() == before).then_some(())
    };
    wait::until("nothing to be recorded", quiet).unwrap();
}
