//! The data set: of each 100 routes 55 are `HTTPRoute`s, 25 `GRPCRoute`s, 10 `TLSRoute`s, 6 `TCPRoute`s and 4 `UDPRoute`s, each with a Service
//! of ten endpoints; and for each 100 a `ListenerSet` with the ports of the streams and datagrams and an HTTPS listener, policies of each kind, a
//! grant, and backends of other kinds.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use crate::dataset::{self, Endpoints, ROUTES_PER_FILE, ROUTES_PER_HOST};

/// No proxy asks them.
const NOWHERE: Endpoints = Endpoints::Elsewhere(8080);

/// The first port of the sets' listeners.
const FIRST_PORT: usize = 20_000;

/// Ports of each set: so many for TCP, the first of which are for UDP as well.
const PORTS: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteKind {
    Http,
    Grpc,
    Tls,
    Tcp,
    Udp,
}

impl RouteKind {
    pub(super) const ALL: [Self; 5] = [Self::Http, Self::Grpc, Self::Tls, Self::Tcp, Self::Udp];

    /// The places of its routes among 100, from and to.
    pub(super) const fn places(self) -> (usize, usize) {
        match self {
            Self::Http => (0, 55),
            Self::Grpc => (55, 80),
            Self::Tls => (80, 90),
            Self::Tcp => (90, 96),
            Self::Udp => (96, 100),
        }
    }

    fn of(index: usize) -> Self {
        let place = index % ROUTES_PER_FILE;
        Self::ALL.into_iter().find(|kind| place < kind.places().1).unwrap_or(Self::Udp)
    }
}

/// What a resource's name has that a change of the route brings.
pub(super) fn named(index: usize) -> String {
    let (kind, host) = (RouteKind::of(index), index / ROUTES_PER_HOST);
    match kind {
        RouteKind::Http => format!("host-{host}.example.com"),
        RouteKind::Grpc => format!("grpc-{host}.example.com"),
        RouteKind::Tls => format!("tls-{index}.example.com"),
        RouteKind::Tcp | RouteKind::Udp => port(index).to_string(),
    }
}

/// The port of a route of streams or datagrams.
fn port(index: usize) -> usize {
    let (file, place) = (index / ROUTES_PER_FILE, index % ROUTES_PER_FILE);
    FIRST_PORT + file * PORTS + (place - RouteKind::of(index).places().0)
}

/// Route number `index`, with something that is other in each round.
pub(super) fn route(index: usize, round: usize) -> String {
    let kind = RouteKind::of(index);
    let (name, other, weight) = (format!("route-{index}"), index ^ 1, 1 + round % 10_000);
    let both = format!(
        "[{{name: service-{index}, port: 80, weight: 50}}, {{name: service-{other}, port: 80, weight: {weight}}}]"
    );
    let stream = |kind: &str, parent: &str, more: &str| {
        let v = "gateway.networking.k8s.io/v1";
        format!(
            "apiVersion: {v}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  parentRefs: [{parent}]\n{more}  rules:\n  - backendRefs: {both}\n"
        )
    };
    let of_set = |protocol: &str| {
        let set = index / ROUTES_PER_FILE;
        format!(
            "{{group: gateway.networking.k8s.io, kind: ListenerSet, name: set-{set}, sectionName: {protocol}-{}}}",
            port(index)
        )
    };
    match kind {
        RouteKind::Http => http(index, round),
        RouteKind::Grpc => grpc(index, round),
        RouteKind::Tls => {
            stream("TLSRoute", "{name: edge, sectionName: tls}", &format!("  hostnames: [tls-{index}.example.com]\n"))
        }
        RouteKind::Tcp => stream("TCPRoute", &of_set("tcp"), ""),
        RouteKind::Udp => stream("UDPRoute", &of_set("udp"), ""),
    }
}

fn http(index: usize, round: usize) -> String {
    let (text, other) = (dataset::route(index, &format!("v{round}")), index ^ 1);
    let filter = match index % ROUTES_PER_FILE {
        4 => format!(
            "    - type: ExternalAuth\n      externalAuth: {{protocol: HTTP, http: {{}}, backendRef: {{name: service-{other}, port: 80}}}}\n"
        ),
        8 => format!("    - type: RequestMirror\n      requestMirror: {{backendRef: {{name: service-{other}, port: 80}}}}\n"),
        12 => "    - type: CORS\n      cors: {allowOrigins: [\"https://*.example.com\"], allowMethods: [GET], maxAge: 60}\n".to_owned(),
        _ => String::new(),
    };
    let more = if index % ROUTES_PER_FILE == 16 {
        "    timeouts: {request: 10s, backendRequest: 2s}\n    retry: {codes: [503], attempts: 2, backoff: 100ms}\n"
    } else {
        ""
    };
    text.replace("    backendRefs:\n", &format!("{filter}{more}    backendRefs:\n"))
}

fn grpc(index: usize, round: usize) -> String {
    let host = index / ROUTES_PER_HOST;
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata:\n  name: route-{index}\nspec:\n  parentRefs:\n  - name: edge\n    \
         sectionName: http\n  hostnames:\n  - grpc-{host}.example.com\n  rules:\n  - matches:\n    - method:\n        service: shop.v{index}.Cart\n    \
         filters:\n    - type: ResponseHeaderModifier\n      responseHeaderModifier:\n        set:\n        - name: x-value\n          value: v{round}\n    \
         backendRefs:\n    - name: service-{index}\n      port: 80\n"
    )
}

fn service(index: usize) -> String {
    let text = dataset::service(index, NOWHERE);
    if RouteKind::of(index) == RouteKind::Udp {
        text.replace("- name: http\n    port: 80\n", "- name: http\n    port: 80\n    protocol: UDP\n")
            .replace("- name: http\n  port", "- name: http\n  protocol: UDP\n  port")
    } else {
        text
    }
}

/// A certificate with its key, and an authority: all sets and policies have the same.
pub(super) struct Pem {
    certificate: String,
    key: String,
}

impl Pem {
    pub(super) fn make() -> anyhow::Result<Self> {
        let pair = rcgen::generate_simple_self_signed(["example.com".to_owned()])?;
        Ok(Self { certificate: pair.cert.pem(), key: pair.signing_key.serialize_pem() })
    }
}

/// The Gateway, who gets its spans, and what is the same for all.
pub(super) fn gateway() -> String {
    let gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: edge}\nspec:\n  gatewayClassName: chancery\n  \
                   allowedListeners: {namespaces: {from: Same}}\n  listeners:\n  - {name: http, protocol: HTTP, port: 18080}\n  \
                   - {name: tls, protocol: TLS, port: 18443, tls: {mode: Passthrough}}\n";
    let traces = "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XTelemetryPolicy\nmetadata: {name: traces}\nspec:\n  \
                  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}]\n  tracing:\n    mode: Enabled\n    \
                  provider: {backendRef: {name: service-0, port: 80}}\n";
    [gateway, traces].join("---\n")
}

/// The routes of a file, each as it is in a round.
pub(super) fn routes_file(file: usize, routes: usize, round: impl Fn(usize) -> usize) -> String {
    let first = file * ROUTES_PER_FILE;
    let all = (first..routes.min(first + ROUTES_PER_FILE)).map(|index| route(index, round(index)));
    all.collect::<Vec<_>>().join("---\n")
}

fn services_file(file: usize, routes: usize) -> String {
    let first = file * ROUTES_PER_FILE;
    (first..routes.min(first + ROUTES_PER_FILE)).map(service).collect::<Vec<_>>().join("---\n")
}

/// What is there once for each 100 routes.
fn extras_file(file: usize, pem: &Pem) -> String {
    let first = file * ROUTES_PER_FILE;
    let mut listeners = format!(
        "  - {{name: https, protocol: HTTPS, port: 18444, hostname: secure-{file}.example.com, tls: {{certificateRefs: [{{name: cert-{file}}}]}}}}\n"
    );
    for port in (0..PORTS).map(|at| FIRST_PORT + file * PORTS + at) {
        let _ = writeln!(listeners, "  - {{name: tcp-{port}, protocol: TCP, port: {port}}}");
    }
    let (from, to) = RouteKind::Udp.places();
    for port in (0..to - from).map(|at| FIRST_PORT + file * PORTS + at) {
        let _ = writeln!(listeners, "  - {{name: udp-{port}, protocol: UDP, port: {port}}}");
    }
    let set = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: set-{file}}}\nspec:\n  parentRef: {{name: edge}}\n  \
         listeners:\n{listeners}"
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("cert-{file}")}, "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": pem.certificate, "tls.key": pem.key}});
    let bundle = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("ca-{file}")}, "data": {"ca.crt": pem.certificate}});
    let mut all = vec![set, secret.to_string() + "\n", bundle.to_string() + "\n"];
    all.extend(policies(file, first));
    all.extend(backends(file));
    all.join("---\n")
}

fn policies(file: usize, first: usize) -> [String; 3] {
    let (second, third) = (first + 1, first + 2);
    [
        format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nmetadata: {{name: limits-{file}}}\nspec:\n  \
             targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route-{first}}}]\n  circuitBreaker: {{maxConnections: 100}}\n"
        ),
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: tls-{file}}}\nspec:\n  \
             targetRefs: [{{group: \"\", kind: Service, name: service-{second}}}]\n  validation:\n    hostname: example.com\n    \
             caCertificateRefs: [{{group: \"\", kind: ConfigMap, name: ca-{file}}}]\n"
        ),
        format!(
            "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\nmetadata: {{name: budget-{file}}}\nspec:\n  \
             targetRefs: [{{group: \"\", kind: Service, name: service-{third}}}]\n  retryConstraint: {{budget: {{percent: 10, interval: 10s}}}}\n"
        ),
    ]
}

/// A route to each other kind of backend: in another namespace with a grant, Pods by label with sessions, a `ServiceImport`, a `Backend`; and one of
/// the set's HTTPS listener.
fn backends(file: usize) -> Vec<String> {
    let route = |name: &str, parent: &str, backend: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}-{file}}}\nspec:\n  parentRefs: [{parent}]\n  \
             hostnames: [{name}-{file}.example.com]\n  rules:\n  - backendRefs: [{backend}]\n"
        )
    };
    let http = "{name: edge, sectionName: http}";
    let set = format!("{{group: gateway.networking.k8s.io, kind: ListenerSet, name: set-{file}, sectionName: https}}");
    let slice = |name: &str, namespace: &str, label: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}-{file}-1, namespace: {namespace}, labels: {{{label}: {name}-{file}}}}}\n\
             addressType: IPv4\nports: [{{name: http, port: 8080}}]\nendpoints: [{{addresses: [10.200.0.1]}}]\n"
        )
    };
    let pod = |at: usize| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{file}-{at}, labels: {{app: app-{file}}}}}\nspec: {{containers: []}}\nstatus:\n  phase: Running\n  \
             podIP: 10.201.{}.{}\n  conditions: [{{type: Ready, status: \"True\"}}]\n",
            file % 250,
            at + 1
        )
    };
    vec![
        route("secure", &set, &format!("{{name: service-{}, port: 80}}", file * ROUTES_PER_FILE)),
        route("far", http, &format!("{{name: far-{file}, namespace: far, port: 80}}")),
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: far-{file}, namespace: far}}\nspec: {{ports: [{{name: http, port: 80, targetPort: 8080}}]}}\n"
        ),
        slice("far", "far", "kubernetes.io/service-name"),
        route("pods", http, &format!("{{group: gateway.networking.x-k8s.io, kind: XBackend, name: pods-{file}}}")),
        format!(
            "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {{name: pods-{file}}}\nspec:\n  type: EndpointSelector\n  \
             port: {{number: 8080}}\n  endpointSelector: {{matchLabels: {{app: app-{file}}}}}\n  sessionPersistence: {{type: Cookie, cookie: {{}}}}\n"
        ),
        pod(0),
        pod(1),
        route(
            "import",
            http,
            &format!("{{group: multicluster.x-k8s.io, kind: ServiceImport, name: import-{file}, port: 80}}"),
        ),
        format!(
            "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\nmetadata: {{name: import-{file}}}\nspec: {{type: ClusterSetIP, ports: [{{name: http, port: 80}}]}}\n"
        ),
        slice("import", "default", "multicluster.kubernetes.io/service-name"),
        route("backend", http, &format!("{{group: gateway.envoyproxy.io, kind: Backend, name: backend-{file}}}")),
        format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: backend-{file}}}\nspec: {{endpoints: [{{ip: {{address: 10.202.0.1, port: 8080}}}}]}}\n"
        ),
    ]
}

/// Leave for the route `far` of a file, or for nobody.
pub(super) fn grant_file(file: usize, is_given: bool) -> String {
    let name = if is_given { "far" } else { "nothing" };
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {{name: far-{file}, namespace: far}}\nspec:\n  \
         from: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}}]\n  to: [{{group: \"\", kind: Service, name: {name}-{file}}}]\n"
    )
}

/// The host name of the route that needs the grant.
pub(super) fn granted_host(file: usize) -> String {
    format!("far-{file}.example.com")
}

/// All of it as texts: the Gateway, and then four for each 100 routes.
pub(super) fn texts(routes: usize, pem: &Pem) -> impl Iterator<Item = (String, String)> {
    let files = (0..routes.div_ceil(ROUTES_PER_FILE)).flat_map(move |file| {
        [
            (format!("services-{file:04}.yaml"), services_file(file, routes)),
            (format!("extras-{file:04}.yaml"), extras_file(file, pem)),
            (grant_name(file), grant_file(file, true)),
            (name(file), routes_file(file, routes, |_| 0)),
        ]
    });
    std::iter::once(("gateway.yaml".to_owned(), gateway())).chain(files)
}

/// The name of a file of routes.
pub(super) fn name(file: usize) -> String {
    format!("routes-{file:04}.yaml")
}

/// That of a file with a grant.
pub(super) fn grant_name(file: usize) -> String {
    format!("grant-{file:04}.yaml")
}

/// Writes all of it into a folder.
pub(super) fn write(folder: &Path, routes: usize, pem: &Pem) -> anyhow::Result<()> {
    for (name, text) in texts(routes, pem) {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
