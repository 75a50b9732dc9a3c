//! HTTPS: certificates, chains by server name, requests that came on the wrong connection.

use serde_json::{Value, json};

use crate::testing::{World, gateway, object, route_spec, service, short, with_meta};
use api::{Kind, Object, ObjectKey, ObjectMeta};
use ir::listener::Application;
use store::{ClusterState, FactKey, SecretRefusal};

pub(super) fn pair() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["example.org".to_owned()]).expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

pub(super) fn secret(name: &str, (certificate, key): &(String, String)) -> Object {
    object(
        Kind::Secret,
        name,
        json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": certificate, "tls.key": key}}),
    )
}

pub(super) fn https(name: &str, hostname: &str, certificate: Value) -> Value {
    let mut listener =
        json!({"name": name, "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [certificate]}});
    if !hostname.is_empty() {
        listener["hostname"] = hostname.into();
    }
    listener
}

pub(super) fn section(name: &str, section: &str, hostnames: &[&str], backend: &str) -> Object {
    let mut spec = route_spec("web", hostnames, &[("/", backend)]);
    if !section.is_empty() {
        spec["parentRefs"][0]["sectionName"] = section.into();
    }
    with_meta(Kind::HttpRoute, ObjectMeta::new(ObjectKey::of(Kind::HttpRoute, "default", name)), spec)
}

/// The route configuration of the filter chain for a server name.
fn configuration_behind(world: &World, server_name: &str) -> String {
    let mut listeners = world.translator.graph().iter(world.translator.outputs().listeners);
    let chain = listeners.find_map(|(_, listener)| listener.chains.iter().find(|chain| &*chain.name == server_name));
    let Application::Http(name) = &chain.expect("a chain").application else { panic!("a chain for HTTP") };
    name.to_string()
}

#[test]
fn a_listener_inside_another_one_takes_hosts_away_from_new_connections_only() {
    let of = |name: &str, hostname: &str| https(name, hostname, json!({"name": "cert"}));
    let mut world = World::with([secret("cert", &pair()), gateway("web", json!([of("all", "")]))]);
    let alone = configuration_behind(&world, "*");
    world.apply([gateway("web", json!([of("all", ""), of("a", "a.test")]))]);
    let (around, inside) = (configuration_behind(&world, "*"), configuration_behind(&world, "a.test"));
    assert_ne!(around, alone, "connections of the chain as it was are drained and keep its routes");
    world.apply([gateway("web", json!([of("all", ""), of("a", "a.test"), of("b", "b.test")]))]);
    assert_ne!(configuration_behind(&world, "*"), around);
    assert_eq!(configuration_behind(&world, "a.test"), inside, "b.test was never its own");
    world.apply([gateway("web", json!([of("all", "")]))]);
    assert_eq!(configuration_behind(&world, "*"), alone);
}

#[test]
fn requests_on_the_connection_of_another_listener_are_misdirected() {
    let of = |name: &str, hostname: &str| https(name, hostname, json!({"name": "cert"}));
    let mut world = World::with([
        secret("cert", &pair()),
        service("v1", 80),
        service("v2", 80),
        service("v3", 80),
        gateway(
            "web",
            json!([
                of("https", ""),
                of("https-with-hostname", "second-example.org"),
                of("https-with-wildcard-hostname", "*.wildcard.org"),
                of("https-with-hostname-matching-wildcard", "fourth-example.wildcard.org"),
            ]),
        ),
        section("r1", "https", &["example.org"], "v1"),
        section("r2", "https-with-hostname", &[], "v2"),
        section("r3", "https-with-wildcard-hostname", &[], "v3"),
        section("r4", "https-with-hostname-matching-wildcard", &[], "v1"),
    ]);
    let table = [
        ("example.org", ["default/v1/80*1", "421", "421", "421"]),
        ("second-example.org", ["421", "default/v2/80*1", "421", "421"]),
        ("third-example.wildcard.org", ["421", "421", "default/v3/80*1", "421"]),
        ("fourth-example.wildcard.org", ["421", "421", "421", "default/v1/80*1"]),
        ("unknown-example.org", ["404", "421", "421", "421"]),
    ];
    let chains = ["*", "second-example.org", "*.wildcard.org", "fourth-example.wildcard.org"];
    for (authority, expected) in table {
        for (server_name, expected) in chains.iter().zip(expected) {
            let configuration = configuration_behind(&world, server_name);
            assert_eq!(world.ask(&configuration, authority, "/"), expected, "{authority} on {server_name}");
        }
    }
    let outputs = world.translator.outputs();
    let (_, listener) = world.translator.graph().iter(outputs.listeners).next().expect("a listener");
    let names: Vec<&str> = listener.chains.iter().map(|chain| &*chain.name).collect();
    assert_eq!(names, ["*.wildcard.org", "fourth-example.wildcard.org", "second-example.org", "*"]);
    for (name, overlapping) in [("https", true), ("https-with-hostname", true)] {
        let conditions = short(&world.listener("web", name).conditions);
        assert_eq!(conditions.contains(&"OverlappingTLSConfig=True/OverlappingHostnames".into()), overlapping);
    }
    // Without a listener for every host, an unknown authority is nobody's.
    world.apply([gateway("web", json!([of("https-with-hostname", "second-example.org"), of("w", "*.wildcard.org")]))]);
    assert_eq!(world.ask("default/web/443/second-example.org", "unknown-example.org", "/"), "404");
    assert_eq!(world.ask("default/web/443/second-example.org", "a.wildcard.org", "/"), "421");
    assert!(
        !short(&world.listener("web", "w").conditions).iter().any(|condition| condition.starts_with("Overlapping"))
    );
}

#[test]
fn a_certificate_has_to_be_there_allowed_readable_and_with_its_own_key() {
    let good = pair();
    let mut world = World::with([
        gateway(
            "web",
            json!([https("https", "", json!({"name": "cert"})), {"name": "http", "port": 80, "protocol": "HTTP"}]),
        ),
        section("r", "", &[], "v1"),
        service("v1", 80),
    ]);
    let check = |world: &World, expected: &str| {
        let listener = world.listener("web", "https");
        assert!(short(&listener.conditions).contains(&expected.into()), "{expected}: {:?}", listener.conditions);
        assert_eq!(short(&listener.conditions)[0], "Accepted=True/Accepted");
        assert_eq!(listener.attached_routes, 1, "routes count all the same");
        assert_eq!(short(&world.gateway_status("web").conditions)[0], "Accepted=True/Accepted");
    };
    let invalid = "ResolvedRefs=False/InvalidCertificateRef";
    check(&world, invalid);
    let closed = |world: &World| {
        let graph = world.translator.graph();
        let listeners = graph.iter(world.translator.outputs().listeners);
        let found = listeners.map(|(_, listener)| listener).find(|listener| listener.port == 443).expect("still bound");
        matches!(found.chains[0].application, Application::Close)
    };
    assert!(closed(&world));
    for (certificate, key) in [
        (good.0.clone(), pair().1),
        ("no pem".to_owned(), good.1.clone()),
        (good.0.clone(), "no pem".to_owned()),
        (String::new(), good.1.clone()),
        (good.1.clone(), good.1.clone()),
    ] {
        world.apply([secret("cert", &(certificate, key))]);
        check(&world, invalid);
    }
    world.apply([secret("cert", &good)]);
    check(&world, "ResolvedRefs=True/ResolvedRefs");
    assert!(!closed(&world));
    let secrets = world.translator.outputs().secrets;
    let names =
        |world: &World| world.translator.graph().iter(secrets).map(|(key, _)| key.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&world), ["secret/default/cert"]);

    let stats = world.apply([secret("cert", &pair())]);
    assert!(stats.runs < 10, "a rotation reaches the secret and neither Gateway nor routes: {stats:?}");
    assert_eq!(world.translator.graph().changes(secrets).count(), 1);
    assert_eq!(world.translator.graph().changes(world.translator.outputs().listeners).count(), 0);
    world.delete(Kind::Secret, "default", "cert");
    check(&world, invalid);
    assert_eq!(names(&world), [""; 0]);
}

#[test]
fn a_certificate_of_another_namespace_needs_a_grant_before_anything_else() {
    let there = json!({"name": "cert", "namespace": "other"});
    let mut world = World::with([gateway("web", json!([https("https", "", there)]))]);
    let resolved = |world: &World| short(&world.listener("web", "https").conditions)[2].clone();
    assert_eq!(resolved(&world), "ResolvedRefs=False/RefNotPermitted", "also where it does not exist");
    world.apply([secret("other/cert", &pair())]);
    assert_eq!(resolved(&world), "ResolvedRefs=False/RefNotPermitted");
    let from = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "default"});
    world.apply([object(
        Kind::ReferenceGrant,
        "other/g",
        json!({"from": [from], "to": [{"kind": "Secret", "name": "cert"}]}),
    )]);
    assert_eq!(resolved(&world), "ResolvedRefs=True/ResolvedRefs");
    let wrong = json!([https("https", "", json!({"name": "cert", "kind": "ConfigMap"}))]);
    world.apply([gateway("web", wrong)]);
    assert_eq!(resolved(&world), "ResolvedRefs=False/InvalidCertificateRef");
}

#[test]
fn certificates_of_clients_are_judged_per_port_or_the_listener_does_not_serve() {
    let (certificate, key) = pair();
    let frontend = |default: Value, port: Value| {
        let validation = |refs: Value, mode: &str| json!({"validation": {"caCertificateRefs": [refs], "mode": mode}});
        let mut second = https("second", "", json!({"name": "cert"}));
        second["port"] = 8443.into();
        json!({
            "gatewayClassName": "eg",
            "listeners": [https("first", "", json!({"name": "cert"})), second, {"name": "http", "port": 80, "protocol": "HTTP"}],
            "tls": {"frontend": {
                "default": validation(default, "AllowValidOnly"),
                "perPort": [{"port": 8443, "tls": validation(port, "AllowInsecureFallback")}],
            }},
        })
    };
    let ca = || json!({"group": "", "kind": "ConfigMap", "name": "ca"});
    let mut world = World::with([
        secret("cert", &(certificate.clone(), key)),
        object(Kind::ConfigMap, "ca", json!({"data": {"ca.crt": certificate}})),
        object(Kind::Gateway, "web", frontend(ca(), ca())),
    ]);
    let graph = world.translator.graph();
    let mut listeners: Vec<_> =
        graph.iter(world.translator.outputs().listeners).map(|(_, listener)| listener.clone()).collect();
    listeners.sort_by_key(|listener| listener.port);
    let required = |at: usize| {
        let tls = listeners[at].chains[0].tls.as_ref();
        tls.and_then(|tls| tls.client_validation.as_ref()).map(|validation| validation.required)
    };
    assert_eq!([required(0), required(1), required(2)], [None, Some(true), Some(false)]);
    let conditions = short(&world.gateway_status("web").conditions);
    assert!(conditions.contains(&"InsecureFrontendValidationMode=True/ConfigurationChanged".into()));

    for (reference, reason) in [
        (json!({"group": "", "kind": "ConfigMap", "name": "gone"}), "InvalidCACertificateRef"),
        (json!({"group": "", "kind": "Service", "name": "ca"}), "InvalidCACertificateKind"),
        (json!({"group": "", "kind": "ConfigMap", "name": "ca", "namespace": "other"}), "RefNotPermitted"),
    ] {
        world.apply([object(Kind::Gateway, "web", frontend(ca(), reference))]);
        let conditions = short(&world.listener("web", "second").conditions);
        assert_eq!(conditions[0], "Accepted=False/NoValidCACertificate");
        assert_eq!(conditions[1], "Programmed=False/Invalid");
        assert_eq!(conditions[2], format!("ResolvedRefs=False/{reason}"));
        assert_eq!(short(&world.listener("web", "first").conditions)[0], "Accepted=True/Accepted");
    }
}

#[test]
fn an_expired_certificate_is_served_with_a_warning() {
    let mut parameters = rcgen::CertificateParams::new(["example.org".to_owned()]).expect("parameters");
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let mut world = World::with([
        gateway("web", json!([https("https", "", json!({"name": "cert"}))])),
        secret("cert", &(certificate.pem(), key.serialize_pem())),
    ]);
    assert_eq!(world.problems(), [""; 0]);
    world.translator.set_time(api::Timestamp::parse("2026-11-21T10:04:00Z").expect("a time"));
    world.translator.tick();
    assert!(world.problems().iter().any(|problem| problem.contains("expired")), "{:?}", world.problems());
    assert_eq!(short(&world.listener("web", "https").conditions)[2], "ResolvedRefs=True/ResolvedRefs");
}

#[test]
fn certificate_for_another_host_is_served_with_a_warning() {
    let with = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::new(names).and_then(|it| it.self_signed(&key));
        secret("cert", &(certificate.expect("a certificate").pem(), key.serialize_pem()))
    };
    for (host, names, is_for) in [
        ("shop.example", &["shop.example"][..], true),
        ("shop.example", &["other.example", "*.example"], true),
        ("a.shop.example", &["*.example"], false),
        ("shop.example", &["SHOP.example"], true),
        ("*.example", &["*.example"], true),
        ("*.example", &["shop.example"], true),
        ("*.example", &["shop.org"], false),
        ("", &["shop.org"], true),
        ("shop.example", &["a.org", "b.org", "c.org", "d.org", "e.org"], false),
    ] {
        let world = World::with([gateway("web", json!([https("https", host, json!({"name": "cert"}))])), with(names)]);
        let found = world.problems();
        let line = format!(
            "warning: Gateway default/web: spec.listeners[0].tls.certificateRefs: no certificate here is for {host} ("
        );
        assert!(
            if is_for { found.is_empty() } else { found.len() == 1 && found[0].starts_with(&line) },
            "{host} {names:?}: {found:?}"
        );
    }
}

#[test]
fn a_gateways_own_certificate_is_shown_to_backends_that_speak_tls() {
    let of = |reference: Value| {
        let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
        let tls = json!({"backend": {"clientCertificateRef": reference}});
        object(Kind::Gateway, "web", json!({"gatewayClassName": "eg", "listeners": listeners, "tls": tls}))
    };
    let port = json!({"ports": [{"port": 80, "appProtocol": "kubernetes.io/wss"}, {"port": 81}]});
    let refs = json!([{"name": "s", "port": 80}, {"name": "s", "port": 81}]);
    let mut world = World::with([
        secret("own", &pair()),
        of(json!({"name": "own"})),
        object(Kind::Service, "s", port),
        object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": refs}]})),
    ]);
    let shown = |world: &World| {
        let outputs = world.translator.outputs();
        let mut clusters: Vec<_> =
            outputs.clusters(world.translator.graph()).map(|(_, cluster)| cluster.clone()).collect();
        clusters.sort_by(|one, two| one.name.cmp(&two.name));
        let certificate = |cluster: &ir::Cluster| cluster.tls.as_ref()?.certificate.as_ref().map(ToString::to_string);
        clusters.iter().map(|cluster| certificate(cluster)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&world), [Some("secret/default/own".to_owned()), None]);
    assert_eq!(world.translator.graph().len(world.translator.outputs().secrets), 1);
    assert_eq!(short(&world.gateway_status("web").conditions)[2], "ResolvedRefs=True/ResolvedRefs");
    for (reference, reason) in [
        (json!({"name": "gone"}), "InvalidClientCertificateRef"),
        (json!({"name": "own", "kind": "ConfigMap"}), "InvalidClientCertificateRef"),
        (json!({"name": "own", "namespace": "other"}), "RefNotPermitted"),
    ] {
        world.apply([of(reference)]);
        let conditions = short(&world.gateway_status("web").conditions);
        assert_eq!(
            (&*conditions[0], &*conditions[2]),
            ("Accepted=True/Accepted", &*format!("ResolvedRefs=False/{reason}"))
        );
        assert_eq!(shown(&world), [None, None]);
        let told = world.problems();
        let told = told.iter().filter(|problem| !problem.contains("EndpointSlice"));
        assert_eq!(told.count(), 2, "the reference, and unverified TLS: {:?}", world.problems());
    }
}

#[test]
fn a_certificate_where_tls_is_passed_through_means_nothing_and_that_is_said() {
    let listener = |mode: &str| {
        let tls = json!({"mode": mode, "certificateRefs": [{"name": "c"}]});
        gateway("web", json!([{"name": "t", "port": 443, "protocol": "TLS", "tls": tls}]))
    };
    let said = |mode: &str| {
        let problems = World::with([listener(mode)]).problems();
        problems.iter().any(|problem| problem.contains("certificateRefs") && problem.contains("passed through"))
    };
    assert!(said("Passthrough") && !said("Terminate"));
}

#[test]
fn a_refused_secret_without_a_predecessor_costs_its_listener_only() {
    let of = |name: &str, hostname: &str, secret: &str| https(name, hostname, json!({"name": secret}));
    let mut world = World::with([
        secret("good", &pair()),
        secret("bad", &pair()),
        gateway("web", json!([of("bank", "bank.test", "good"), of("x", "x.test", "bad")])),
    ]);
    let server_names = |world: &World| -> Vec<String> {
        let listeners = world.translator.graph().iter(world.translator.outputs().listeners);
        listeners.flat_map(|(_, listener)| listener.chains.iter().map(|chain| chain.name.to_string())).collect()
    };
    let refuse = |world: &mut World, has_previous: Option<bool>| {
        let tables = world.translator.stored().tables();
        let (fact, graph) = (FactKey::new("default/web", "secret/default/bad"), world.translator.store().1);
        match has_previous {
            Some(has_previous) => {
                graph.set(tables.secret_refusals, fact, SecretRefusal { words: "hidden".into(), has_previous });
            }
            None => drop(graph.remove(tables.secret_refusals, &fact)),
        }
        world.translator.tick();
    };
    assert_eq!(server_names(&world), ["bank.test", "x.test"]);
    refuse(&mut world, Some(true));
    assert_eq!(server_names(&world), ["bank.test", "x.test"], "proxies have the content before");
    refuse(&mut world, Some(false));
    assert_eq!(server_names(&world), ["bank.test"]);
    let conditions = short(&world.listener("web", "x").conditions).join(", ");
    assert!(conditions.contains("ResolvedRefs=False/InvalidCertificateRef"), "{conditions}");
    assert!(!format!("{:?}", world.listener("web", "x")).contains("hidden"));
    let conditions = short(&world.listener("web", "bank").conditions).join(", ");
    assert!(conditions.contains("ResolvedRefs=True"), "{conditions}");
    let published = world.translator.graph().iter(world.translator.outputs().secrets).count();
    assert_eq!(published, 2, "its next content is to be noticed");
    refuse(&mut world, None);
    assert_eq!(server_names(&world), ["bank.test", "x.test"]);
}

/// A Gateway with a good route, and a route of a `Backend` with this TLS; the two routes' answers, and what else can be seen of the second.
fn backend_world(tls: Value) -> World {
    let group = "gateway.envoyproxy.io";
    let endpoint = json!([{"ip": {"address": "10.0.0.1", "port": 443}}]);
    let rule = |path: &str, to: Value| json!({"matches": [{"path": {"value": path}}], "backendRefs": [to]});
    let rules = [
        rule("/good", json!({"name": "good", "port": 80})),
        rule("/evil", json!({"group": group, "kind": "Backend", "name": "evil"})),
    ];
    World::with([
        secret("bad", &pair()),
        gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
        service("good", 80),
        object(Kind::Backend, "evil", json!({"endpoints": endpoint, "tls": tls})),
        object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "web"}], "rules": rules})),
    ])
}

#[test]
fn refused_secret_of_a_backend_costs_its_routes_only() {
    for (tls, name) in [
        (json!({"insecureSkipVerify": true, "clientCertificateRef": {"name": "bad"}}), "secret/default/bad"),
        (json!({"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}), "configmap/default/ca"),
    ] {
        let mut world = backend_world(tls);
        let ca = json!({"data": {"ca.crt": pair().0}});
        world.apply([object(Kind::ConfigMap, "ca", ca)]);
        let refuse = |world: &mut World, has_previous: Option<bool>| {
            let tables = world.translator.stored().tables();
            let (fact, graph) = (FactKey::new("default/web", name), world.translator.store().1);
            match has_previous {
                Some(has_previous) => {
                    graph.set(tables.secret_refusals, fact, SecretRefusal { words: "hidden".into(), has_previous });
                }
                None => drop(graph.remove(tables.secret_refusals, &fact)),
            }
            world.translator.tick();
        };
        let asked = |world: &World, path: &str| world.ask("default/web/80", "x", path);
        let accepted = |world: &World| {
            let (graph, key) = (world.translator.graph(), ObjectKey::of(Kind::Backend, "default", "evil"));
            short(&graph.get(world.translator.outputs().backend_statuses, &key).expect("a status").conditions)
        };
        let both = world.clusters();
        assert!(both[0].starts_with("Backend/default/evil") && both[1] == "default/good/80", "{both:?}");
        refuse(&mut world, Some(true));
        assert_eq!(world.clusters(), both, "proxies have the content before");
        assert_eq!(accepted(&world), ["Accepted=True/Accepted"]);
        refuse(&mut world, Some(false));
        assert_eq!(world.clusters(), ["default/good/80"], "a proxy that starts would wait for it");
        assert_eq!([asked(&world, "/good"), asked(&world, "/evil")], ["default/good/80*1", "500"]);
        assert_eq!(accepted(&world), ["Accepted=False/Invalid"]);
        let problems = world.problems().join("\n");
        assert!(problems.contains("the proxies of default/web refuse its content"), "{problems}");
        assert!(problems.contains("a part of this route"), "{problems}");
        assert!(!problems.contains("hidden"), "{problems}");
        let published = world.translator.graph().iter(world.translator.outputs().secrets).count();
        assert_eq!(published, 1, "its next content is to be noticed");
        refuse(&mut world, None);
        assert_eq!(world.clusters(), both);
        assert_eq!(asked(&world, "/evil"), format!("{}*1", both[0]));
    }
}

#[test]
fn refused_secret_stops_a_route_that_was_served() {
    let mut world = backend_world(json!({"insecureSkipVerify": true, "clientCertificateRef": {"name": "bad"}}));
    let (tables, clusters) = (world.translator.stored().tables(), world.clusters());
    let graph = world.translator.store().1;
    graph.set(tables.fleet_live, "default/web".into(), ());
    for cluster in &clusters {
        graph.set(tables.cluster_state, FactKey::new("default/web", cluster.as_str()), ClusterState::Warm);
    }
    world.translator.tick();
    assert_eq!(world.ask("default/web/80", "x", "/evil"), format!("{}*1", clusters[0]));
    let refusal = SecretRefusal { words: "hidden".into(), has_previous: false };
    world.translator.store().1.set(tables.secret_refusals, FactKey::new("default/web", "secret/default/bad"), refusal);
    world.translator.tick();
    assert_eq!(world.ask("default/web/80", "x", "/evil"), "500");
    assert_eq!(world.ask("default/web/80", "x", "/good"), "default/good/80*1");
    assert_eq!(world.clusters(), ["default/good/80"]);
}

/// A world with a rule whose backends are a good and a bad one, and rules that copy requests to the bad one.
fn weighted_world() -> World {
    let group = "gateway.envoyproxy.io";
    let mut world = backend_world(json!({"insecureSkipVerify": true, "clientCertificateRef": {"name": "bad"}}));
    let (good, evil) =
        (json!({"name": "good", "port": 80, "weight": 3}), json!({"group": group, "kind": "Backend", "name": "evil"}));
    let copy = json!([{"type": "RequestMirror", "requestMirror": {"backendRef": evil}}]);
    let rule = |path: &str, to: Value, filters: &Value| json!({"matches": [{"path": {"value": path}}], "backendRefs": to, "filters": filters});
    let none = json!([]);
    let rules = [
        rule("/both", json!([good, evil]), &none),
        rule("/copy", json!([good]), &copy),
        rule("/none", json!([evil, {"name": "good", "port": 80, "weight": 0}]), &none),
    ];
    world.apply([object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "web"}], "rules": rules}))]);
    world
}

#[test]
fn refused_secret_costs_its_share_only() {
    for is_live in [false, true] {
        let mut world = weighted_world();
        let (tables, clusters) = (world.translator.stored().tables(), world.clusters());
        let graph = world.translator.store().1;
        for cluster in clusters.iter().filter(|_| is_live) {
            graph.set(tables.fleet_live, "default/web".into(), ());
            graph.set(tables.cluster_state, FactKey::new("default/web", cluster.as_str()), ClusterState::Warm);
        }
        world.translator.tick();
        let asked = |world: &World| ["/both", "/copy", "/none"].map(|path| world.ask("default/web/80", "x", path));
        let copies = |world: &World| {
            let hosts: Vec<_> = world.translator.outputs().virtual_hosts(world.translator.graph()).collect();
            format!("{hosts:?}").matches("Mirror {").count()
        };
        let evil = &clusters[0];
        let served = [
            format!("default/good/80*3 {evil}*1"),
            "default/good/80*3".to_owned(),
            format!("{evil}*1 default/good/80*0"),
        ];
        assert_eq!(asked(&world), served);
        assert!(copies(&world) > 0);
        let fact = FactKey::new("default/web", "secret/default/bad");
        let refusal = SecretRefusal { words: "hidden".into(), has_previous: false };
        world.translator.store().1.set(tables.secret_refusals, fact.clone(), refusal);
        world.translator.tick();
        assert_eq!(asked(&world), ["default/good/80*3 broken*1", "default/good/80*3", "500"], "{is_live}");
        assert_eq!(copies(&world), 0, "no copy goes to it");
        assert_eq!(world.clusters(), ["default/good/80"]);
        world.translator.store().1.remove(tables.secret_refusals, &fact);
        world.translator.tick();
        assert_eq!(asked(&world), served, "{is_live}");
    }
}

#[test]
fn cluster_that_proxies_refuse_costs_its_share_only() {
    let mut world = weighted_world();
    let (tables, clusters) = (world.translator.stored().tables(), world.clusters());
    let graph = world.translator.store().1;
    let fact = FactKey::new("default/web", clusters[0].as_str());
    graph.set(tables.cluster_state, fact, ClusterState::Refused("words".into()));
    world.translator.tick();
    let asked = ["/both", "/copy", "/none"].map(|path| world.ask("default/web/80", "x", path));
    assert_eq!(asked, ["default/good/80*3 broken*1", "default/good/80*3", "500"]);
}

#[test]
fn refused_bundle_of_a_policy_is_said_at_the_policy() {
    let policy = json!({
        "targetRefs": [{"group": "", "kind": "Service", "name": "good"}],
        "validation": {"hostname": "x.test", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]},
    });
    let mut world = World::with([
        gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
        service("good", 80),
        object(Kind::ConfigMap, "ca", json!({"data": {"ca.crt": pair().0}})),
        object(Kind::BackendTlsPolicy, "tls", policy),
        object(Kind::HttpRoute, "r", route_spec("web", &[], &[("/", "good")])),
    ]);
    let tables = world.translator.stored().tables();
    let refusal = SecretRefusal { words: "hidden".into(), has_previous: false };
    world.translator.store().1.set(
        tables.secret_refusals,
        FactKey::new("default/web", "configmap/default/ca"),
        refusal,
    );
    world.translator.tick();
    assert_eq!(world.clusters(), [""; 0]);
    assert_eq!(world.ask("default/web/80", "x", "/"), "500");
    let key = ObjectKey::of(Kind::BackendTlsPolicy, "default", "tls");
    let status = world.translator.graph().get(world.translator.outputs().tls_policy_statuses, &key);
    let conditions = short(&status.expect("a status").ancestors[0].conditions).join(", ");
    assert!(conditions.contains("Accepted=False/NoValidCACertificate"), "{conditions}");
    assert!(conditions.contains("ResolvedRefs=False/InvalidCACertificateRef"), "{conditions}");
}

#[test]
fn a_policy_written_too_often_closes_its_namespace() {
    let text = |at: usize| {
        let target = |one: usize| json!({"group": "", "kind": "Service", "name": format!("x{}", at * 16 + one)});
        let targets: Vec<Value> = (0..16).map(target).collect();
        let validation = json!({"hostname": "a.org", "wellKnownCACertificates": "System"});
        object(Kind::BackendTlsPolicy, "p", json!({"targetRefs": targets, "validation": validation}))
    };
    let unite = |texts: usize| {
        (1..texts).fold(text(0), |so_far, at| so_far.united(&text(at), || "written twice".to_owned()).unwrap_or(so_far))
    };
    let route = |name: &str, backend: &str| {
        let rules = json!([{"backendRefs": [{"name": backend, "port": 80}]}]);
        object(Kind::HttpRoute, name, json!({"parentRefs": [{"name": "web"}], "rules": rules}))
    };
    let mut world = World::with([
        gateway("web", json!([{"name": "l", "port": 80, "protocol": "HTTP"}])),
        service("x256", 80),
        service("free", 80),
        route("r", "x256"),
        route("s", "free"),
    ]);
    world.apply([unite(16)]);
    assert!(world.clusters().contains(&"default/free/80".to_owned()), "256 targets are known");
    world.apply([unite(17)]);
    let clusters = world.clusters();
    assert!(clusters.iter().all(|name| name.ends_with("~tls-closed")), "nothing in cleartext: {clusters:?}");
    let problems = world.problems();
    assert!(problems.iter().any(|text| text.contains("more than 256 targets")), "{problems:?}");
    world.apply([unite(1)]);
    assert!(world.clusters().contains(&"default/free/80".to_owned()));
}

/// Certificates of so many authorities, each of some size.
fn authorities(count: usize, padding: usize) -> Vec<String> {
    let make = |at: usize| {
        let mut parameters = rcgen::CertificateParams::new([format!("{at}.org")]).expect("parameters");
        let extension = rcgen::CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![4; padding]);
        parameters.custom_extensions.push(extension);
        let key = rcgen::KeyPair::generate().expect("a key");
        parameters.self_signed(&key).expect("a certificate").pem()
    };
    (0..count).map(make).collect()
}

fn bundle_object(name: &str, texts: &[String]) -> Object {
    object(Kind::ConfigMap, name, json!({"data": {"ca.crt": texts.concat()}}))
}

fn policy_of(name: &str, bundles: &[&str]) -> Object {
    let references: Vec<Value> =
        bundles.iter().map(|bundle| json!({"group": "", "kind": "ConfigMap", "name": bundle})).collect();
    let spec = json!({
        "targetRefs": [{"group": "", "kind": "Service", "name": name}],
        "validation": {"hostname": "b.org", "caCertificateRefs": references},
    });
    object(Kind::BackendTlsPolicy, name, spec)
}

/// The words of what is wrong with policies.
fn wrong_with_policies(world: &World) -> Vec<String> {
    world.problems().into_iter().filter(|problem| problem.contains("BackendTLSPolicy")).collect()
}

#[test]
fn bundles_that_are_named_in_many_orders_are_there_once() {
    let made = authorities(3, 0);
    let mut world = World::with([gateway("web", json!([{"name": "l", "port": 80, "protocol": "HTTP"}]))]);
    world.apply([bundle_object("a", &[made[0].clone(), made[1].clone(), made[0].clone()])]);
    world.apply([bundle_object("b", &[made[1].clone(), made[2].clone()])]);
    for (name, bundles) in [("v1", ["a", "b"]), ("v2", ["b", "a"])] {
        world.apply([service(name, 80), policy_of(name, &bundles)]);
        world.apply([crate::testing::route(name, "web", &[], &[(&format!("/{name}"), name)])]);
    }
    let secrets: Vec<_> = world.translator.graph().iter(world.translator.outputs().secrets).collect();
    assert_eq!(secrets.len(), 1, "{secrets:?}");
    let ir::secret::SecretContent::Bundle(bundle) = &secrets[0].1.content else { panic!("a bundle") };
    let text = String::from_utf8_lossy(&bundle.0);
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 3, "each authority once");
}

#[test]
fn bundles_of_policies_have_a_budget_of_bytes() {
    let mut world = World::with([gateway("web", json!([{"name": "l", "port": 80, "protocol": "HTTP"}]))]);
    world.apply([bundle_object("large", &authorities(12, 40_000)), bundle_object("more", &authorities(12, 40_000))]);
    // Together more than one bundle may have.
    world.apply([service("both", 80), policy_of("both", &["large", "more"])]);
    let words = wrong_with_policies(&world).concat();
    assert!(words.contains("1024 can be used"), "{words}");
    world.delete(Kind::BackendTlsPolicy, "default", "both");
    // 40 of some 640 KiB: 25 fit into 16 MiB.
    for at in 0..40 {
        let name = format!("p{at:02}");
        world.apply([service(&name, 80), policy_of(&name, &["large"])]);
    }
    let wrong = wrong_with_policies(&world);
    assert!(wrong.len() >= 14 && wrong.len() <= 16, "{} {wrong:?}", wrong.len());
    let is_wrong = |name: &str| wrong.iter().any(|one| one.contains(name));
    assert!(is_wrong("p39") && !is_wrong("p00"), "the first by age and name have it: {wrong:?}");
    // A renewed bundle that is small has room for all.
    world.apply([bundle_object("large", &authorities(1, 0))]);
    assert_eq!(wrong_with_policies(&world), Vec::<String>::new());
}

#[test]
fn bundles_of_the_ports_of_a_gateway_have_a_budget_of_bytes() {
    let listeners: Vec<Value> = (0..40)
        .map(|at| {
            json!({
                "name": format!("l{at}"), "port": 1000 + at, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "cert"}]},
            })
        })
        .collect();
    let validation = json!({"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "large"}]});
    let spec = json!({
        "gatewayClassName": "eg", "listeners": listeners,
        "tls": {"frontend": {"default": {"validation": validation}}},
    });
    let world = World::with([
        secret("cert", &pair()),
        bundle_object("large", &authorities(12, 40_000)),
        object(Kind::Gateway, "web", spec),
    ]);
    let closed = (0..40).filter(|at| {
        let status = world.listener("web", &format!("l{at}"));
        short(&status.conditions).iter().any(|one| one.contains("NoValidCACertificate"))
    });
    let closed: Vec<i32> = closed.collect();
    assert!(closed.len() >= 14 && closed.len() <= 16 && closed.contains(&39) && !closed.contains(&0), "{closed:?}");
}

#[test]
fn bundles_of_listeners_of_one_namespace_take_nothing_from_those_of_another() {
    let validation = json!({"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "large"}]});
    let spec = json!({
        "gatewayClassName": "eg", "listeners": [https("own", "own.org", json!({"name": "cert"}))],
        "allowedListeners": {"namespaces": {"from": "All"}}, "tls": {"frontend": {"default": {"validation": validation}}},
    });
    let parent = json!({"name": "web", "namespace": "default"});
    let of = |namespace: &str, name: &str, count: usize| {
        let listeners: Vec<Value> = (0..count)
            .map(|at| https(&format!("l{at}"), &format!("l{at}.{namespace}.org"), json!({"name": "cert"})))
            .collect();
        let meta = ObjectMeta::new(ObjectKey::of(Kind::ListenerSet, namespace, name));
        with_meta(Kind::ListenerSet, meta, json!({"parentRef": parent, "listeners": listeners}))
    };
    let certificate = |namespace: &str| {
        let (certificate, key) = pair();
        let data = json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": certificate, "tls.key": key}});
        with_meta(Kind::Secret, ObjectMeta::new(ObjectKey::of(Kind::Secret, namespace, "cert")), data)
    };
    let world = World::with([
        secret("cert", &pair()),
        certificate("ta"),
        certificate("tb"),
        bundle_object("large", &authorities(12, 40_000)),
        object(Kind::Gateway, "web", spec),
        of("ta", "a", 40),
        of("tb", "z", 1),
    ]);
    let closed = |namespace: &str, name: &str| {
        let key = ObjectKey::of(Kind::ListenerSet, namespace, name);
        let table = world.translator.outputs().listener_set_statuses;
        let status = world.translator.graph().get(table, &key).expect("a status");
        let is_closed = |conditions: &[String]| conditions.iter().any(|one| one.contains("NoValidCACertificate"));
        status.listeners.iter().filter(|entry| is_closed(&short(&entry.conditions))).count()
    };
    assert!(closed("ta", "a") >= 14, "{}", closed("ta", "a"));
    assert_eq!(closed("tb", "z"), 0, "it is another namespace's");
    assert!(short(&world.listener("web", "own").conditions).iter().all(|one| !one.contains("NoValidCACertificate")));
}

#[test]
fn texts_of_a_telemetry_policy_are_bounded() {
    let policy = |length: usize| {
        let attribute =
            |at: usize| json!({"name": format!("a{at}"), "sourceType": "Literal", "literalValue": "x".repeat(length)});
        let spec = json!({
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}],
            "tracing": {
                "mode": "Enabled", "provider": {"backendRef": {"name": "v1", "port": 80}},
                "attributes": (0..60).map(attribute).collect::<Vec<_>>(),
            },
        });
        object(Kind::XTelemetryPolicy, "t", spec)
    };
    let mut world = World::with([
        gateway("web", json!([{"name": "l", "port": 80, "protocol": "HTTP"}])),
        service("v1", 80),
        policy(100),
    ]);
    let says = |world: &World| world.problems().into_iter().find(|one| one.contains("8192 can be used"));
    assert_eq!(says(&world), None);
    world.apply([policy(140)]);
    assert!(says(&world).is_some(), "{:?}", world.problems());
}
