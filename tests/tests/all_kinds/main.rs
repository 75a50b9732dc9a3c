//! Clients of every protocol at once, none of which may notice what happens to others, or to what they use themselves where it stays right:
//! routes, rules, listeners, sets of listeners, policies, grants and certificates come, change, move and go.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod lines;
mod own;
mod scenes;

use std::thread;
use std::time::Duration;

use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::{Answer, get, get_tls};
use tests::collector::Collector;
use tests::datagrams::{Echo, ask, datagrams, paced};
use tests::grpc::GrpcBackend;
use tests::objects::{documents, listeners, service, tls_secret};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

use crate::lines::{called, object, route, rule, section};

/// Names of what is asked, and what answers.
const ASKED: [(&str, &str); 7] = [
    ("http", "one"),
    ("grpc", "call-one"),
    ("https", "one"),
    ("passed", "one"),
    ("ended", "one"),
    ("tcp", "one"),
    ("udp", "dns-one"),
];

/// Kinds of routes with what they name: the part of the Gateway, host names, a match, and the backend that answers.
const ROUTES: [(&str, &str, &str, &str, &str); 7] = [
    ("HTTPRoute", "http", "x.example.com", "", "one"),
    ("GRPCRoute", "http", "x.example.com", "matches: [{method: {service: a.S}}], ", "call-one"),
    ("HTTPRoute", "https", "secure.example.com", "", "one"),
    ("HTTPRoute", "https", "a.passed.example.com", "", "one"),
    ("TLSRoute", "passed", "a.passed.example.com", "", "inner"),
    ("TLSRoute", "ended", "ended.example.com", "", "one"),
    ("TCPRoute", "tcp", "", "", "one"),
];

struct World {
    running: Running,
    /// HTTP and gRPC, HTTPS, TLS, TCP and UDP; another for each of TCP and UDP, HTTP, and TLS.
    ports: [u16; 7],
    pair: Pair,
    other_pair: Pair,
    collector: Collector,
    _servers: ([Backend; 2], [GrpcBackend; 2], [Echo; 2]),
}

impl World {
    fn start() -> Self {
        let servers = (
            [Backend::start("one").unwrap(), Backend::start("two").unwrap()],
            [GrpcBackend::start("call-one").unwrap(), GrpcBackend::start("call-two").unwrap()],
            [Echo::start("dns-one").unwrap(), Echo::start("dns-two").unwrap()],
        );
        let names = ["secure.example.com", "*.passed.example.com", "ended.example.com", "*.example.com"];
        let (pair, other_pair) = (self_signed(&names, false).unwrap(), self_signed(&names, false).unwrap());
        let collector = Collector::start().unwrap();
        let world = Self {
            running: Running::prepare().unwrap(),
            ports: free_ports().unwrap(),
            pair,
            other_pair,
            collector,
            _servers: servers,
        };
        let ([one, two], [call_one, call_two], [dns_one, dns_two]) = &world._servers;
        let services = [
            service("one", one.port),
            service("two", two.port),
            service("call-one", call_one.port),
            service("call-two", call_two.port),
            service("inner", world.ports[1]),
            service("collector", world.collector.port),
            datagrams("dns-one", dns_one.port),
            datagrams("dns-two", dns_two.port),
        ];
        world.write("services", &services);
        world.certificate("cert", &world.pair);
        world.gateway(&[]);
        world.steady(&[]);
        let Self { mut running, ports, pair, other_pair, collector, _servers } = world;
        running.start().unwrap();
        let world = Self { running, ports, pair, other_pair, collector, _servers };
        for (what, who) in ASKED {
            wait::until(&format!("{who} of {what}"), || (world.ask(what).ok()?.body == who).then_some(())).unwrap();
        }
        world
    }

    fn write(&self, name: &str, objects: &[String]) {
        self.running.write(&format!("{name}.yaml"), &documents(objects.iter().map(String::as_str))).unwrap();
    }

    fn remove(&self, name: &str) {
        self.running.remove(&format!("{name}.yaml")).unwrap();
    }

    fn certificate(&self, name: &str, pair: &Pair) {
        self.write(name, &[tls_secret(name, &pair.certificate, &pair.key)]);
    }

    /// The Gateway with its listeners and these.
    fn gateway(&self, more: &[String]) {
        let [http, https, tls, tcp, udp, ..] = self.ports;
        let certificates = "certificateRefs: [{name: cert}]";
        let own = [
            format!("{{name: http, port: {http}, protocol: HTTP}}"),
            format!("{{name: https, port: {https}, protocol: HTTPS, tls: {{{certificates}}}}}"),
            format!(
                "{{name: passed, port: {tls}, protocol: TLS, hostname: '*.passed.example.com', tls: {{mode: Passthrough}}}}"
            ),
            format!(
                "{{name: ended, port: {tls}, protocol: TLS, hostname: ended.example.com, tls: {{{certificates}}}}}"
            ),
            format!("{{name: tcp, port: {tcp}, protocol: TCP}}"),
            format!("{{name: udp, port: {udp}, protocol: UDP}}"),
        ];
        let all: String = own.iter().chain(more).map(|listener| format!("  - {listener}\n")).collect();
        let text = listeners(&all);
        self.write("gateway", &[text.replace("spec:\n", "spec:\n  allowedListeners: {namespaces: {from: All}}\n")]);
    }

    /// The routes that are asked, with these rules more (a match and backends) behind their own.
    fn steady(&self, more: &[(&str, &[&str])]) {
        let routes = ROUTES.iter().zip(0..).map(|((kind, parent, host, matched, backend), at)| {
            let is_stream = ["TLSRoute", "TCPRoute"].contains(kind);
            let more = more.iter().filter(|_| !is_stream && *kind == "HTTPRoute");
            let rules = more.map(|(matched, backends)| rule(matched, backends));
            let all: Vec<String> = std::iter::once(rule(matched, &[backend])).chain(rules).collect();
            route(kind, &format!("steady-{at}"), (&section(parent), host, &all.join(", ")))
        });
        let udp = route("UDPRoute", "steady-udp", (&section("udp"), "", &rule("", &["dns-one"])));
        self.write("steady", &routes.chain([udp]).collect::<Vec<_>>());
    }

    fn ask(&self, what: &str) -> anyhow::Result<Answer> {
        let [http, https, tls, tcp, udp, ..] = self.ports;
        let certificates = [&*self.pair.certificate, &*self.other_pair.certificate];
        let over_tls = |port, host| get_tls(port, host, "/", &certificates).map(|(answer, _)| answer);
        match what {
            "http" => get(http, "x.example.com", "/"),
            "grpc" => called(http, "/a.S/Get"),
            "https" => over_tls(https, "secure.example.com"),
            "passed" => over_tls(tls, "a.passed.example.com"),
            "ended" => over_tls(tls, "ended.example.com"),
            "tcp" => get(tcp, "x.example.com", "/"),
            _ => paced(udp),
        }
    }

    /// Does something while all ask: every answer is right.
    fn undisturbed(&self, deed: impl FnOnce(&dyn Fn())) {
        let probers: Vec<Prober> = ASKED.iter().map(|_| Prober::default()).collect();
        thread::scope(|threads| {
            let _asking: Vec<_> = probers.iter().map(Prober::until_dropped).collect();
            for (prober, (what, who)) in probers.iter().zip(ASKED) {
                threads.spawn(move || {
                    let ask = |what: &str| {
                        thread::sleep(Duration::from_millis(2));
                        self.ask(what)
                    };
                    prober.run(ask, &[(what, &[who])]);
                });
            }
            deed(&|| probers.iter().for_each(|prober| prober.more(2).unwrap()));
        });
        for (prober, (what, _)) in probers.into_iter().zip(ASKED) {
            let (asked, wrong) = prober.told();
            assert!(wrong.is_empty() && asked > 0, "{what}: {wrong:?} of {asked}");
        }
    }

    fn until(&self, what: &str, fact: impl Fn() -> bool) {
        wait::until(what, || fact().then_some(())).unwrap_or_else(|error| {
            panic!("{error}: {}", self.running.status(&["-o", "yaml"]).unwrap_or_default());
        });
    }

    fn until_http(&self, port: u16, host: &str, body: &str) {
        self.until(&format!("{body} of {host}"), || get(port, host, "/").is_ok_and(|answer| answer.body == body));
    }

    fn until_tls(&self, port: u16, host: &str, body: &str) {
        let certificates = [&*self.pair.certificate, &*self.other_pair.certificate];
        let answers = || get_tls(port, host, "/", &certificates).is_ok_and(|(answer, _)| answer.body == body);
        self.until(&format!("{body} of {host}"), answers);
    }

    /// So many objects say this in their statuses.
    fn until_said(&self, words: &str, count: usize) {
        let said = || self.running.status(&["-o", "yaml"]).is_ok_and(|status| status.matches(words).count() == count);
        self.until(&format!("{count} of {words}"), said);
    }
}

/// Routes of others, of each kind, on what is asked: by this name, with their own host names, or behind the first.
fn others(name: &str) -> Vec<String> {
    let named = |at: usize| format!("{name}-{at}");
    vec![
        route("HTTPRoute", &named(0), (&section("http"), "y.example.com", &rule("", &["two"]))),
        route(
            "GRPCRoute",
            &named(1),
            (&section("http"), "x.example.com", &rule("matches: [{method: {service: b.T}}], ", &["call-two"])),
        ),
        route("HTTPRoute", &named(2), (&section("https"), "y.example.com, b.passed.example.com", &rule("", &["two"]))),
        route("TLSRoute", &named(3), (&section("passed"), "b.passed.example.com", &rule("", &["inner"]))),
        // behind the first these two count for nobody
        route("TCPRoute", "z-tcp", (&section("tcp"), "", &rule("", &["two"]))),
        route("UDPRoute", "z-udp", (&section("udp"), "", &rule("", &["dns-two"]))),
    ]
}

#[test]
fn nobody_notices_routes_and_rules_of_others() {
    let world = World::start();
    let [http, https, tls, ..] = world.ports;
    world.undisturbed(|ask_more| {
        for round in 0..2 {
            let mut routes = others(if round % 2 == 0 { "a" } else { "z" });
            world.write("others", &routes);
            world.until_http(http, "y.example.com", "two");
            world.until("call-two", || called(http, "/b.T/Get").is_ok_and(|answer| answer.body == "call-two"));
            world.until_tls(https, "y.example.com", "two");
            world.until_tls(tls, "b.passed.example.com", "two");
            // the same in another order
            routes.reverse();
            world.write("others", &routes);
            // rules behind those that are asked, then other ones, then in another order
            let path = |path: &str| format!("matches: [{{path: {{value: /{path}}}}}], ");
            let (first, second) = (path("first"), path("second"));
            for rules in [
                &[(&*first, &["two"][..])][..],
                &[(&*first, &["two"]), (&*second, &["two: 3", "one: 1"])],
                &[(&*second, &["two"]), (&*first, &["one"])],
            ] {
                world.steady(rules);
                let body = if rules.len() == 2 && rules[0].0 == second { "one" } else { "two" };
                world
                    .until("the rule", || get(http, "x.example.com", "/first").is_ok_and(|answer| answer.body == body));
            }
            world.steady(&[]);
            world.remove("others");
            world.until("no route", || get(http, "y.example.com", "/").is_ok_and(|answer| answer.status == 404));
            ask_more();
        }
    });
}

#[test]
fn nobody_notices_listeners_of_others_in_gateways_and_sets() {
    let world = World::start();
    let [http, https, tls, _, _, more, again] = world.ports;
    let listening = |round: usize| {
        let host = format!("more{round}.example.com");
        let tls_of = |certificate: &str| format!("tls: {{certificateRefs: [{{name: {certificate}}}]}}");
        vec![
            format!("{{name: m-http, port: {http}, protocol: HTTP, hostname: {host}}}"),
            format!("{{name: m-https, port: {https}, protocol: HTTPS, hostname: {host}, {}}}", tls_of("cert")),
            format!("{{name: m-tls, port: {tls}, protocol: TLS, hostname: {host}, {}}}", tls_of("cert")),
            format!("{{name: m-tcp, port: {more}, protocol: TCP}}"),
            format!("{{name: m-udp, port: {more}, protocol: UDP}}"),
            format!("{{name: m-own, port: {again}, protocol: HTTP}}"),
        ]
    };
    let routes = |set: bool| {
        let parent = |name: &str| match set {
            true => format!("{{group: gateway.networking.k8s.io, kind: ListenerSet, name: set, sectionName: {name}}}"),
            false => section(name),
        };
        let http = ["m-http", "m-https", "m-own"].map(parent).join(", ");
        vec![
            route("HTTPRoute", "m-http", (&http, "", &rule("", &["two"]))),
            route("TLSRoute", "m-tls", (&parent("m-tls"), "'*.example.com'", &rule("", &["two"]))),
            route("TCPRoute", "m-tcp", (&parent("m-tcp"), "", &rule("", &["two"]))),
            route("UDPRoute", "m-udp", (&parent("m-udp"), "", &rule("", &["dns-two"]))),
        ]
    };
    world.undisturbed(|ask_more| {
        for round in 0..4 {
            let (set, host) = (round % 2 == 1, format!("more{round}.example.com"));
            world.write("more", &routes(set));
            if set {
                let all = listening(round).join(", ");
                world.write(
                    "set",
                    &[object("ListenerSet", "set", &format!("{{parentRef: {{name: edge}}, listeners: [{all}]}}"))],
                );
            } else {
                world.gateway(&listening(round));
            }
            world.until_http(http, &host, "two");
            world.until_tls(https, &host, "two");
            world.until_tls(tls, &host, "two");
            world.until_http(more, "x.example.com", "two");
            world.until_http(again, "x.example.com", "two");
            world.until("datagrams", || ask(more).as_deref() == Some("dns-two"));
            if set {
                world.remove("set")
            } else {
                world.gateway(&[])
            }
            world.until("no listener", || get(again, "x.example.com", "/").is_err());
            world.remove("more");
            ask_more();
        }
    });
}

#[test]
fn nobody_notices_policies_that_leave_room_enough() {
    let world = World::start();
    let target = |kind: &str, name: &str| format!("{{group: gateway.networking.k8s.io, kind: {kind}, name: {name}}}");
    let to_service = |name: &str| format!("{{group: '', kind: Service, name: {name}}}");
    let limits = |most: u32| {
        let kinds = ROUTES.iter().zip(0..).map(|((kind, ..), at)| (*kind, format!("steady-{at}")));
        let all = kinds.chain([("Gateway", "edge".to_owned())]).zip(0..);
        let policy = |((kind, name), at): ((&str, String), u32)| {
            let spec = format!("{{targetRefs: [{}], circuitBreaker: {{maxConnections: {most}}}}}", target(kind, &name));
            object("BackendTrafficPolicy", &format!("limits-{at}"), &spec)
        };
        all.map(policy).collect::<Vec<_>>()
    };
    let budget = |percent: u32, more: &str| {
        let spec = format!(
            "{{targetRefs: [{}, {}], retryConstraint: {{budget: {{percent: {percent}, interval: 10s}}}}{more}}}",
            to_service("one"),
            to_service("call-one")
        );
        vec![object("XBackendTrafficPolicy", "budget", &spec)]
    };
    let traces = |share: &str| {
        let spec = format!(
            "{{targetRefs: [{}], tracing: {{mode: Enabled, {share}provider: {{backendRef: {{name: collector, port: 80}}}}}}}}",
            target("Gateway", "edge")
        );
        vec![object("XTelemetryPolicy", "traces", &spec)]
    };
    // Other limits of datagrams are another cluster, with which a proxy loses the answers under way (docs/kinds.md): theirs stay as they are.
    let own =
        format!("{{targetRefs: [{}], circuitBreaker: {{maxConnections: 5000}}}}", target("UDPRoute", "steady-udp"));
    world.write("own", &[object("BackendTrafficPolicy", "own", &own)]);
    world.until_said("kind: BackendTrafficPolicy", 1);
    let told = |words: &str| world.running.status(&["-o", "yaml"]).unwrap_or_default().matches(words).count();
    world.undisturbed(|ask_more| {
        for round in 0..2 {
            for most in [1_000, 1_001 + round] {
                world.write("limits", &limits(most));
                ask_more();
            }
            world.until("the limits", || told("kind: BackendTrafficPolicy") == 1 + limits(1).len());
            world.write("budget", &budget(20, ""));
            world.write("budget", &budget(30 + round, ", sessionPersistence: {type: Cookie, cookie: {name: s}}"));
            ask_more();
            world.write("traces", &traces(""));
            world.until("a span", || !world.collector.spans().is_empty());
            world.write("traces", &traces("samplingRate: {numerator: 50}, "));
            ask_more();
            ["limits", "budget", "traces"].into_iter().for_each(|name| world.remove(name));
            world.until("no policy", || told("Policy\n") == 1);
        }
    });
}

#[test]
fn nobody_notices_grants_of_others_and_who_loses_one_gets_no_answer() {
    let world = World::start();
    let [http, _, tls, _, _, more, _] = world.ports;
    let far = |text: String| text.replace("metadata:\n  name", "metadata:\n  namespace: far\n  name");
    let dns = datagrams("dns-two", world._servers.2[1].port);
    world.write(
        "far",
        &[far(service("two", world._servers.0[1].port)), far(service("call-two", world._servers.1[1].port)), far(dns)],
    );
    world.gateway(&[
        format!("{{name: m-tcp, port: {more}, protocol: TCP}}"),
        format!("{{name: m-udp, port: {more}, protocol: UDP}}"),
        format!("{{name: m-tls, port: {tls}, protocol: TLS, hostname: y.example.com, tls: {{certificateRefs: [{{name: cert}}]}}}}"),
    ]);
    let to = |name: &str| format!("{{backendRefs: [{{name: {name}, namespace: far, port: 80}}]}}");
    let calls = "{matches: [{method: {service: b.T}}], backendRefs: [{name: call-two, namespace: far, port: 80}]}";
    world.write(
        "others",
        &[
            route("HTTPRoute", "o-http", (&section("http"), "y.example.com", &to("two"))),
            route("GRPCRoute", "o-grpc", (&section("http"), "x.example.com", calls)),
            route("TLSRoute", "o-tls", (&section("m-tls"), "y.example.com", &to("two"))),
            route("TCPRoute", "o-tcp", (&section("m-tcp"), "", &to("two"))),
            route("UDPRoute", "o-udp", (&section("m-udp"), "", &to("dns-two"))),
        ],
    );
    let grant = |kinds: &[&str]| {
        let from =
            kinds.iter().map(|kind| format!("{{group: gateway.networking.k8s.io, kind: {kind}, namespace: default}}"));
        let spec = format!("{{from: [{}], to: [{{group: '', kind: Service}}]}}", from.collect::<Vec<_>>().join(", "));
        let text =
            object("ReferenceGrant", "others", &spec).replace("{name: others}", "{name: others, namespace: far}");
        vec![text]
    };
    let granted = || {
        [
            get(http, "y.example.com", "/").is_ok_and(|answer| answer.body == "two"),
            called(http, "/b.T/Get").is_ok_and(|answer| answer.body == "call-two"),
            get_tls(tls, "y.example.com", "/", &[&world.pair.certificate])
                .is_ok_and(|(answer, _)| answer.body == "two"),
            get(more, "x.example.com", "/").is_ok_and(|answer| answer.body == "two"),
            ask(more).as_deref() == Some("dns-two"),
        ]
    };
    let kinds = ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];
    world.undisturbed(|ask_more| {
        world.write("grant", &grant(&kinds));
        world.until("all of them", || granted() == [true; 5]);
        // one kind after the other loses it
        let mut left = kinds.to_vec();
        while left.pop().is_some() && !left.is_empty() {
            world.write("grant", &grant(&left));
            let wanted = kinds.map(|kind| left.contains(&kind));
            world.until(&format!("what {left:?} have"), || granted() == wanted);
        }
        world.remove("grant");
        world.until("none of them", || granted() == [false; 5]);
        ask_more();
    });
}

#[test]
fn nobody_notices_certificates_that_are_replaced() {
    let world = World::start();
    let [_, https, tls, ..] = world.ports;
    let other = format!(
        "{{name: m-https, port: {https}, protocol: HTTPS, hostname: y.example.com, tls: {{certificateRefs: [{{name: m-cert}}]}}}}"
    );
    let ended = format!(
        "{{name: m-tls, port: {tls}, protocol: TLS, hostname: y.example.com, tls: {{certificateRefs: [{{name: m-cert}}]}}}}"
    );
    let routes = [
        route("HTTPRoute", "m-https", (&section("m-https"), "", &rule("", &["two"]))),
        route("TLSRoute", "m-tls", (&section("m-tls"), "y.example.com", &rule("", &["two"]))),
    ];
    let shown = |port, host, pair: &Pair| get_tls(port, host, "/", &[&pair.certificate]).is_ok();
    world.undisturbed(|ask_more| {
        for round in 0..2 {
            // those that everybody is shown
            let (before, after) = match round % 2 {
                0 => (&world.pair, &world.other_pair),
                _ => (&world.other_pair, &world.pair),
            };
            world.certificate("cert", after);
            for (port, host) in [(https, "secure.example.com"), (tls, "ended.example.com")] {
                world.until("the new certificate", || shown(port, host, after) && !shown(port, host, before));
            }
            // those of others: good, broken, gone, and with their listener
            world.gateway(&[other.clone(), ended.clone()]);
            world.write("more", &routes);
            world.certificate("m-cert", &world.pair);
            world.until_tls(https, "y.example.com", "two");
            world.until_tls(tls, "y.example.com", "two");
            world.write("m-cert", &[tls_secret("m-cert", "no certificate", "no key")]);
            world.until_said("reason: InvalidCertificateRef", 2);
            world.remove("m-cert");
            world.certificate("m-cert", &world.other_pair);
            world.until("its certificate", || shown(https, "y.example.com", &world.other_pair));
            world.gateway(&[]);
            world.remove("more");
            world.remove("m-cert");
            world.until_said("reason: InvalidCertificateRef", 0);
            ask_more();
        }
    });
}
