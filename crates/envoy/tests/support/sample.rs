//! One fleet that uses every shape of `ir`, for the tests that ask a real Envoy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ir::cluster::{CircuitBreaker, DnsEndpoint, Health, Locality, Protocol, Trust, UpstreamTls};
use ir::listener::{Application, ClientValidation, DownstreamTls};
use ir::route::*;
use ir::secret::{Hidden, SecretContent};
use ir::tcp::TcpDestination;
use ir::{
    Address, Cluster, Endpoint, EndpointSource, Endpoints, FilterChain, Listener, Route, RouteConfiguration,
    RoutePiece, Secret, TcpProxy, VirtualHost,
};

/// Everything of one fleet.
pub(crate) struct Sample {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) route_configurations: Vec<RouteConfiguration>,
    pub(crate) separate_hosts: Vec<VirtualHost>,
    pub(crate) tcp_proxies: Vec<TcpProxy>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) endpoints: Vec<Endpoints>,
    pub(crate) secrets: Vec<Secret>,
}

impl Sample {
    /// Fresh certificates each time.
    pub(crate) fn new() -> Self {
        let (chain, key) = certificate();
        Self {
            listeners: listeners(),
            route_configurations: vec![
                configuration("ns/gw/8080", Hosts::Inline(vec![Arc::new(host("ns/gw/8080", routes()))])),
                configuration("ns/gw/8443/*", Hosts::Separate),
                configuration("ns/gw/8443/a.example", Hosts::Inline(Vec::new())),
            ],
            separate_hosts: vec![host("ns/gw/8443/*", routes())],
            tcp_proxies: vec![tcp_proxy()],
            clusters: clusters(),
            endpoints: vec![endpoints()],
            secrets: vec![
                secret("secret/ns/cert", SecretContent::Certificate { chain: hidden(&chain), key: hidden(&key) }),
                secret("configmap/ns/ca", SecretContent::Bundle(hidden(&chain))),
            ],
        }
    }

    /// As `static_bootstrap` wants it.
    pub(crate) fn parts(&self) -> envoy::StaticParts<'_> {
        envoy::StaticParts {
            listeners: self.listeners.iter().collect(),
            route_configurations: self.route_configurations.iter().collect(),
            separate_hosts: self.separate_hosts.iter().collect(),
            tcp_proxies: self.tcp_proxies.iter().collect(),
            clusters: self.clusters.iter().collect(),
            endpoints: self.endpoints.iter().collect(),
            secrets: self.secrets.iter().collect(),
            runtime: None,
        }
    }
}

fn tcp_proxy() -> TcpProxy {
    let to = |backend, weight| TcpDestination { backend, weight };
    let destinations = vec![to(Backend::Cluster("ns/a/80".into()), 3), to(Backend::Broken("no".into()), 1)];
    TcpProxy { name: "ns/gw/9000".into(), route: "TCPRoute/ns/a".into(), destinations }
}

fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn hidden(text: &str) -> Hidden {
    Hidden(Arc::from(text.as_bytes()))
}

fn secret(name: &str, content: SecretContent) -> Secret {
    Secret { name: name.into(), content }
}

fn configuration(name: &str, hosts: Hosts) -> RouteConfiguration {
    RouteConfiguration { name: name.into(), hosts }
}

fn listeners() -> Vec<Listener> {
    let tls = |ca: Option<bool>| {
        Some(DownstreamTls {
            certificates: vec!["secret/ns/cert".into()],
            client_validation: ca.map(|required| ClientValidation { ca: "configmap/ns/ca".into(), required }),
        })
    };
    let chain = |name: &str, names: &[&str], tls, application| FilterChain {
        name: name.into(),
        server_names: names.iter().map(|name| Arc::from(*name)).collect(),
        tls,
        application,
    };
    let http = |name: &str| Application::Http(name.into());
    let listener = |port, address: Option<IpAddr>, chains| Listener {
        name: format!("ns/gw/{port}").into(),
        address,
        port,
        mapped_to: None,
        chains,
        udp: None,
        tracing: None,
        retry_budgets: false,
    };
    let datagrams = Listener {
        name: "ns/gw/53/udp".into(),
        udp: Some("ns/gw/53/udp".into()),
        tracing: None,
        retry_budgets: false,
        ..listener(53, None, Vec::new())
    };
    vec![
        listener(8080, None, vec![chain("*", &[], None, http("ns/gw/8080"))]),
        listener(
            8443,
            Some(Ipv6Addr::LOCALHOST.into()),
            vec![
                chain("a.example", &["a.example"], tls(Some(true)), http("ns/gw/8443/a.example")),
                chain("*.b.example", &["*.b.example"], tls(Some(false)), http("ns/gw/8443/a.example")),
                chain("*", &[], tls(None), http("ns/gw/8443/*")),
            ],
        ),
        listener(9090, None, vec![chain("*", &[], None, Application::Close)]),
        listener(9000, None, vec![chain("b.example", &["b.example"], None, Application::Tcp("ns/gw/9000".into()))]),
        datagrams,
    ]
}

fn clusters() -> Vec<Cluster> {
    let cluster = |name: &str, endpoints, protocol, tls| Cluster {
        name: name.into(),
        endpoints,
        protocol,
        tls,
        circuit_breaker: Some(Box::new(CircuitBreaker { max_connections: Some(7), ..CircuitBreaker::default() })),
        connect_timeout: None,
    };
    let found = || EndpointSource::Discovered("ns/a/80".into());
    let tls = |trust, certificate: Option<&str>, server_name: Option<&str>| {
        Some(Box::new(UpstreamTls {
            server_name: server_name.map(Arc::from),
            trust,
            certificate: certificate.map(Into::into),
            subject_alt_names: Vec::new(),
        }))
    };
    let names = vec![
        DnsEndpoint { host: "localhost".into(), port: 80, zone: Some("z".into()) },
        DnsEndpoint { host: "::1".into(), port: 81, zone: None },
    ];
    let bundle = || Trust::Bundle("configmap/ns/ca".into());
    vec![
        cluster("ns/a/80", found(), Protocol::Http1, None),
        cluster("ns/b/80", found(), Protocol::Http2, None),
        cluster("ns/c/443", found(), Protocol::Http2, tls(bundle(), Some("secret/ns/cert"), Some("c.example"))),
        cluster("ns/d/443", found(), Protocol::Http1, tls(Trust::Anything, None, None)),
        cluster("ns/e/443", found(), Protocol::Http1, tls(bundle(), None, Some("10.0.0.1"))),
        cluster("backend/ns/f", EndpointSource::Dns(names), Protocol::Http1, None),
    ]
}

fn endpoints() -> Endpoints {
    let endpoint = |address, health| Endpoint { health, ..Endpoint::new(address) };
    let ip = |last, port| Address::Ip(Ipv4Addr::new(10, 0, 0, last).into(), port);
    Endpoints {
        name: "ns/a/80".into(),
        localities: vec![
            Locality {
                zone: None,
                priority: 0,
                endpoints: vec![
                    Endpoint { weight: NonZeroU32::new(3), ..Endpoint::new(ip(1, 80)) },
                    endpoint(ip(2, 80), Health::Draining),
                ],
            },
            Locality {
                zone: Some("z".into()),
                priority: 1,
                endpoints: vec![
                    endpoint(Address::Ip(Ipv6Addr::LOCALHOST.into(), 80), Health::Healthy),
                    endpoint(Address::Unix("/tmp/x.sock".into()), Health::Healthy),
                ],
            },
        ],
    }
}

fn host(configuration: &str, routes: Vec<Route>) -> VirtualHost {
    let pieces = vec![Arc::new(RoutePiece { routes: routes.into_iter().map(Arc::new).collect() })];
    VirtualHost { name: format!("{configuration}/*").into(), domains: vec!["*".into()], pieces, external_auth: asked() }
}

pub(crate) fn to(cluster: &str) -> Destination {
    Destination { backend: Backend::Cluster(cluster.into()), weight: 1, filters: Filters::default().into() }
}

pub(crate) fn broken() -> Destination {
    Destination { backend: Backend::Broken("no such Service".into()), weight: 1, filters: Filters::default().into() }
}

pub(crate) fn forward(destinations: Vec<Destination>) -> Forward {
    Forward { destinations, timeout: None, try_timeout: None, retry: None }
}

pub(crate) fn route(path: PathMatch, action: Action, filters: Filters) -> Route {
    let matches = RouteMatch { path, method: None, headers: Vec::new(), query: Vec::new(), grpc: false };
    Route { name: "httproute/ns/r".into(), matches, action, filters: filters.into() }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(Arc<str>, Arc<str>)> {
    pairs.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value))).collect()
}

pub(crate) fn changes() -> HeaderChanges {
    HeaderChanges {
        remove: vec!["x-gone".into(), "host".into()],
        set: pairs(&[("x-set", "50%"), ("host", "other.example")]),
        add: pairs(&[("x-add", "a"), ("x-empty", "")]),
    }
}

fn routes() -> Vec<Route> {
    let prefix = |text: &str| PathMatch::Prefix(text.into());
    let mut all = vec![matching(), forwarding()];
    all.extend(rewrites());
    all.extend(redirects());
    all.extend(filtered());
    all.push(route(prefix("/broken"), Action::Forward(Box::new(forward(vec![broken()]))), Filters::default()));
    let respond = Respond { status: 421, reason: "another listener's name".into() };
    all.push(route(prefix("/"), Action::Respond(respond), Filters::default()));
    all
}

fn matching() -> Route {
    let named = |name: &str, value| NamedMatch { name: name.into(), value };
    let mut matching = route(
        PathMatch::Regex("/[a-z]{1,200}".into()),
        Action::Forward(Box::new(forward(vec![to("ns/a/80")]))),
        Filters::default(),
    );
    matching.matches.method = Some("GET".into());
    matching.matches.headers =
        vec![named("x-a", ValueMatch::Exact("1".into())), named("x-b", ValueMatch::Regex("b+".into()))];
    matching.matches.query =
        vec![named("q", ValueMatch::Exact(String::new().into())), named("r", ValueMatch::Regex(String::new().into()))];
    matching
}

fn forwarding() -> Route {
    let timed = Forward {
        destinations: vec![to("ns/a/80"), Destination { weight: 0, ..to("ns/b/80") }, broken()],
        timeout: Some(Duration::from_secs(10)),
        try_timeout: Some(Duration::from_millis(1500)),
        retry: Some(Box::new(Retry { attempts: 3, codes: vec![500, 503], backoff: Some(Duration::from_millis(100)) })),
    };
    route(PathMatch::Exact("/exact".into()), Action::Forward(Box::new(timed)), Filters::default())
}

fn rewrites() -> Vec<Route> {
    let prefix = |matched: &str, replacement: &str| PathChange::Prefix {
        matched: matched.into(),
        replacement: replacement.into(),
    };
    let changes = [
        ("/", PathChange::Full("/full%20path".into())),
        ("/foo", prefix("/foo", "/xyz")),
        ("/f.o", prefix("/f.o", "")),
        ("/", prefix("/", "/xyz")),
        ("/", prefix("/", "")),
    ];
    let one = |(path, change): (&str, PathChange)| {
        let rewrite = Rewrite { host: Some("new.example".into()), path: Some(change) };
        let filters = Filters { rewrite: Some(Box::new(rewrite)), ..Filters::default() };
        let action = Action::Forward(Box::new(forward(vec![to("ns/a/80")])));
        route(PathMatch::Prefix(path.into()), action, filters)
    };
    changes.into_iter().map(one).collect()
}

fn redirects() -> Vec<Route> {
    let redirect = |path| Redirect { status: 302, scheme: None, host: None, port: None, is_default_port: false, path };
    let prefix = PathChange::Prefix { matched: "/old".into(), replacement: "".into() };
    let full = Redirect {
        scheme: Some("https".into()),
        host: Some("new.example".into()),
        port: Some(8443),
        is_default_port: false,
        ..redirect(Some(PathChange::Full("/all".into())))
    };
    [redirect(None), redirect(Some(prefix)), full]
        .into_iter()
        .map(|redirect| route(PathMatch::Prefix("/old".into()), Action::Redirect(redirect.into()), Filters::default()))
        .collect()
}

/// By both protocols, with and without all that can be said.
fn asked() -> Vec<Arc<ExternalAuth>> {
    let http = |path_prefix: &str, headers: &[&str]| AuthProtocol::Http {
        path_prefix: path_prefix.into(),
        response_headers: headers.iter().copied().map(Arc::from).collect(),
    };
    let asked = |protocol, headers: &[&str], max_body| {
        let request_headers = headers.iter().copied().map(Arc::from).collect();
        Arc::new(ExternalAuth { cluster: "ns/b/80".into(), protocol, request_headers, max_body })
    };
    let grpc = AuthProtocol::Grpc { authority: "auth.ns".into() };
    vec![
        asked(http("", &[]), &[], None),
        asked(http("/check", &["x-user"]), &["x-token"], std::num::NonZeroU32::new(1024)),
        asked(grpc.clone(), &[], None),
        asked(grpc, &["x-token"], std::num::NonZeroU32::new(1)),
    ]
}

fn filtered() -> Vec<Route> {
    let cors = Cors {
        allow_origins: ["https://a.example", "https://*.b.example:8443", "*"].map(Arc::from).to_vec(),
        allow_methods: vec!["GET".into(), "PUT".into()],
        allow_headers: vec!["*".into()],
        expose_headers: vec!["x-a".into()],
        max_age: 5,
        allow_credentials: true,
    };
    let all = Filters {
        request_headers: changes().into(),
        response_headers: changes().into(),
        rewrite: None,
        mirrors: vec![
            Mirror { cluster: "ns/b/80".into(), share: 500_000 },
            Mirror { cluster: "ns/c/443".into(), share: 1_000_000 },
        ],
        cors: Some(Arc::new(cors)),
        external_auth: asked().split_off(2),
        redirect: None,
        session: Some(Arc::new(Session::Header { name: "x-session".into() })),
        retry_budget: true,
    };
    let with = |filters: Filters, cluster: &str| Destination { filters: filters.into(), ..to(cluster) };
    let headers = Filters { request_headers: changes().into(), ..Filters::default() };
    let host = Rewrite { host: Some("b.example".into()), path: None };
    let rewritten = Filters { rewrite: Some(Box::new(host)), ..Filters::default() };
    let redirect = Redirect {
        status: 308,
        scheme: None,
        host: Some("r.example".into()),
        port: None,
        is_default_port: false,
        path: None,
    };
    let redirected = Filters { redirect: Some(Box::new(redirect)), ..Filters::default() };
    let plain_headers = Filters { response_headers: changes().into(), ..Filters::default() };
    let split = vec![to("ns/a/80"), with(headers, "ns/b/80"), with(rewritten, "ns/b/80"), with(redirected, "ns/c/443")];
    let weighted = vec![to("ns/a/80"), with(plain_headers, "ns/b/80"), broken()];
    [split, weighted]
        .into_iter()
        .map(|destinations| {
            route(PathMatch::Prefix("/f".into()), Action::Forward(Box::new(forward(destinations))), all.clone())
        })
        .collect()
}
