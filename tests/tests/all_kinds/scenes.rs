//! Ways in which the same is asked and something else answers: each with all of its objects, so that one follows on any other.

use tests::certificate::Pair;
use tests::datagrams::datagrams;
use tests::objects::{service, tls_secret};

use crate::lines::{object, route, rule, section};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    One,
    Two,
    /// An error, or a connection that is closed, or not taken.
    Nobody,
}

/// What is asked, each by one protocol.
pub(crate) const ASKED: [&str; 7] = ["http", "grpc", "https", "passed", "ended", "tcp", "udp"];

/// The route of each: kind, part of the Gateway, host name, match, and the backends.
const ROUTES: [(&str, &str, &str, &str, [&str; 2]); 7] = [
    ("HTTPRoute", "http", "x.example.com", "", ["one", "two"]),
    ("GRPCRoute", "http", "x.example.com", "matches: [{method: {service: a.S}}], ", ["call-one", "call-two"]),
    ("HTTPRoute", "https", "secure.example.com", "", ["one", "two"]),
    ("TLSRoute", "passed", "a.passed.example.com", "", ["inner-one", "inner-two"]),
    ("TLSRoute", "ended", "a.ended.example.com", "", ["one", "two"]),
    ("TCPRoute", "tcp", "", "", ["one", "two"]),
    ("UDPRoute", "udp", "", "", ["dns-one", "dns-two"]),
];

/// Those that may have several rules with the same match.
const WITH_RULES: [&str; 2] = ["HTTPRoute", "GRPCRoute"];

/// Where everything is.
pub(crate) struct Places {
    /// HTTP and gRPC, HTTPS, TLS, TCP, UDP, and two behind TLS.
    pub(crate) ports: [u16; 7],
    /// Of the servers of each of [`BACKENDS`].
    pub(crate) backends: [[u16; 2]; 3],
    /// Of the Gateway: by turns.
    pub(crate) pairs: [Pair; 2],
    /// Of those behind TLS.
    pub(crate) inner: Pair,
}

/// Services with servers of their own.
const BACKENDS: [[&str; 2]; 3] = [["one", "two"], ["call-one", "call-two"], ["dns-one", "dns-two"]];

/// Host name of those behind TLS.
const INNER: &str = "a.passed.example.com";

pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) objects: Vec<String>,
    /// As [`ASKED`].
    pub(crate) answers: [Who; 7],
}

impl Places {
    /// What stays: services, and those behind TLS with a Gateway of their own.
    pub(crate) fn stage(&self) -> Vec<String> {
        let [.., inner_one, inner_two] = self.ports;
        let servers = BACKENDS.iter().flatten().zip(self.backends.iter().flatten());
        let servers = servers
            .map(|(name, port)| if name.starts_with("dns") { datagrams(name, *port) } else { service(name, *port) });
        let inner = [("inner-one", inner_one), ("inner-two", inner_two)];
        let behind_tls = inner.into_iter().chain([("secure", inner_two)]);
        let mut all: Vec<String> = servers.chain(behind_tls.map(|(name, port)| service(name, port))).collect();
        let far = |text: &String| text.replace("metadata:\n  name", "metadata:\n  namespace: far\n  name");
        let is_far = |text: &&String| {
            ["two\n", "call-two\n", "inner-two\n", "dns-two\n"]
                .iter()
                .any(|name| text.contains(&format!("  name: {name}")))
        };
        all.extend(all.iter().filter(is_far).map(far).collect::<Vec<_>>());
        all.push(tls_secret("inner", &self.inner.certificate, &self.inner.key));
        let listeners = inner.map(|(name, port)| {
            format!("{{name: {name}, port: {port}, protocol: HTTPS, tls: {{certificateRefs: [{{name: inner}}]}}}}")
        });
        all.push(gateway("inner", "", &listeners));
        all.extend(["one", "two"].map(|name| {
            let parent = format!("{{name: inner, sectionName: inner-{name}}}");
            route("HTTPRoute", &format!("inner-{name}"), (&parent, "", &rule("", &[name])))
        }));
        let bundle = |name: &str, pair: &Pair| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{ca.crt: {:?}}}\n",
                pair.certificate
            )
        };
        all.extend([bundle("right", &self.inner), bundle("wrong", &self.pairs[0])]);
        all
    }

    fn certificate(&self, which: usize) -> String {
        tls_secret("cert", &self.pairs[which].certificate, &self.pairs[which].key)
    }

    /// The listeners, with names that begin so, and these host names.
    fn listeners(&self, begin: &str, hosts: [&str; 4]) -> Vec<String> {
        let [http, https, tls, tcp, udp, ..] = self.ports;
        let ended = "tls: {certificateRefs: [{name: cert}]}";
        let rests = ["", ended, "tls: {mode: Passthrough}", ended, "", ""];
        let kinds = [
            ("http", http, "HTTP"),
            ("https", https, "HTTPS"),
            ("passed", tls, "TLS"),
            ("ended", tls, "TLS"),
            ("tcp", tcp, "TCP"),
            ("udp", udp, "UDP"),
        ];
        let hosts = hosts.into_iter().chain(["", ""]);
        let one = |((name, port, protocol), (host, rest)): ((&str, u16, &str), (&str, &str))| {
            let host = if host.is_empty() { String::new() } else { format!("hostname: '{host}', ") };
            let rest = [host.trim_end_matches(", "), rest]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(", ");
            let more = if rest.is_empty() { rest } else { format!(", {rest}") };
            format!("{{name: {begin}{name}, port: {port}, protocol: {protocol}{more}}}")
        };
        kinds.into_iter().zip(hosts.zip(rests)).map(one).collect()
    }

    fn own_listeners(&self) -> Vec<String> {
        self.listeners("", ["", "", "*.passed.example.com", "*.ended.example.com"])
    }

    /// More specific ones for what is asked; of what has no host names there is one only.
    fn specific_listeners(&self) -> Vec<String> {
        self.listeners("s-", ["x.example.com", "secure.example.com", "a.passed.example.com", "a.ended.example.com"])
    }

    /// Those of the set for hosts that nobody asks for.
    fn elsewhere(&self) -> Vec<String> {
        self.listeners("s-", ["o.example.com", "o.example.com", "o.passed.example.com", "o.ended.example.com"])
    }

    /// The Gateway as it is mostly, with its certificate.
    fn gateway(&self) -> Vec<String> {
        vec![gateway("edge", "", &self.own_listeners()), self.certificate(0)]
    }

    /// All scenes.
    pub(crate) fn scenes(&self) -> Vec<Scene> {
        [
            self.scenes_of_routes(),
            self.scenes_of_rules(),
            self.scenes_of_listeners(),
            self.scenes_of_policies(),
            self.scenes_of_tls(),
            self.scenes_of_grants(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn scenes_of_routes(&self) -> Vec<Scene> {
        let scene = |name, routes: Vec<String>, who| Scene {
            name,
            objects: [self.gateway(), routes].concat(),
            answers: [who; 7],
        };
        let aged = |prefix: &str, year: u16, which: usize| {
            let made = format!("metadata: {{creationTimestamp: '{year}-01-01T00:00:00Z', ");
            let all = routes(prefix, &section, |names| rule_of(names, &[names.4[which]]));
            all.iter().map(|text| text.replacen("metadata: {", &made, 1)).collect::<Vec<_>>()
        };
        let weighted = routes("own", &section, |names| {
            let [one, two] = names.4;
            rule_of(names, &[&format!("{one}: 0"), &format!("{two}: 1")])
        });
        vec![
            scene("as it is", own(0), Who::One),
            scene("other backends", own(1), Who::Two),
            scene("weights", weighted, Who::Two),
            scene("older routes", [aged("own", 2020, 0), aged("older", 2001, 1)].concat(), Who::Two),
            scene("younger routes", [aged("own", 2020, 0), aged("younger", 2022, 1)].concat(), Who::One),
            scene("no routes", Vec::new(), Who::Nobody),
        ]
    }

    fn scenes_of_rules(&self) -> Vec<Scene> {
        let scene = |name, order: [usize; 2], more: bool| {
            let routes = routes("own", &section, |names| {
                let several = WITH_RULES.contains(&names.0);
                let rules = order.map(|which| rule_of(names, &[names.4[which]]));
                let other = names.3.replace("a.S", "b.T");
                let other = if other.is_empty() { "matches: [{path: {value: /other}}], " } else { &other };
                let other = rule(other, &[names.4[1]]);
                match (several, more) {
                    (true, true) => [other, rules.join(", ")].join(", "),
                    (true, false) => rules.join(", "),
                    (false, _) => rule_of(names, &[names.4[0]]),
                }
            });
            let first = if order[0] == 1 { Who::Two } else { Who::One };
            let answers = ROUTES.map(|(kind, ..)| if WITH_RULES.contains(&kind) { first } else { Who::One });
            Scene { name, objects: [self.gateway(), routes].concat(), answers }
        };
        vec![
            scene("a rule before", [1, 0], false),
            scene("the rules in another order", [0, 1], false),
            scene("more rules, of which one is before", [1, 0], true),
        ]
    }

    fn scenes_of_listeners(&self) -> Vec<Scene> {
        let to_two = |parent: &dyn Fn(&str) -> String| routes("s", parent, |names| rule_of(names, &[names.4[1]]));
        // TCP and UDP have one listener on their port
        let (own_listeners, specific) = (self.own_listeners(), self.specific_listeners());
        let (hosted, alone) = (&own_listeners[..4], &own_listeners[4..]);
        let elsewhere = &self.elsewhere()[..4];
        let beside = [hosted, &specific].concat();
        let mut renamed =
            self.listeners("n-", ["*.example.com", "*.example.com", "*.passed.example.com", "*.ended.example.com"]);
        let mut reversed = [&own_listeners, elsewhere].concat();
        renamed.reverse();
        reversed.reverse();
        let routes_of_renamed =
            routes("own", &|name| section(&format!("n-{name}")), |names| rule_of(names, &[names.4[0]]));
        let (ones, twos) = ([Who::One; 7], [Who::Two; 7]);
        let (mut no_streams, mut streams) = (ones, [Who::Nobody; 7]);
        no_streams[5..].fill(Who::Nobody);
        streams[5..].fill(Who::Two);
        let scene = |name, listeners: &[String], more: Vec<String>, answers| Scene {
            name,
            objects: [vec![gateway("edge", TAKES_SETS, listeners), self.certificate(0)], more].concat(),
            answers,
        };
        let with_set = |listeners: &[String]| [vec![set(listeners)], own(0), to_two(&in_set)].concat();
        vec![
            scene(
                "more specific listeners",
                &beside,
                [own(0), to_two(&|name| section(&format!("s-{name}")))].concat(),
                twos,
            ),
            scene("the same in a set", hosted, with_set(&specific), twos),
            scene("the set has other hosts", &own_listeners, with_set(elsewhere), ones),
            scene("listeners in another order", &reversed, own(0), ones),
            scene("listeners by other names", &renamed, routes_of_renamed, ones),
            scene("no listeners of TCP and UDP", hosted, own(0), no_streams),
            scene("the last listeners alone", alone, own(1), streams),
        ]
    }

    fn scenes_of_policies(&self) -> Vec<Scene> {
        let limits = |name: &str, most: u32, kind: &str, of: &str| {
            let target = format!("{{group: gateway.networking.k8s.io, kind: {kind}, name: {of}}}");
            let spec = format!("{{targetRefs: [{target}], circuitBreaker: {{maxConnections: {most}}}}}");
            object("BackendTrafficPolicy", name, &spec)
        };
        let all = |prefix: &str, most: u32| {
            let of_routes = ROUTES.iter().zip(0..);
            of_routes
                .map(|((kind, ..), at)| limits(&format!("{prefix}-{at}"), most, kind, &format!("own-{at}")))
                .collect::<Vec<_>>()
        };
        let target = to_service("one");
        let spec = format!("{{targetRefs: [{target}], retryConstraint: {{budget: {{percent: 30, interval: 10s}}}}}}");
        let budget = object("XBackendTrafficPolicy", "budget", &spec);
        let scene = |name, routes: &[String], policies: Vec<String>, answers| Scene {
            name,
            objects: [self.gateway(), routes.to_vec(), policies].concat(),
            answers,
        };
        vec![
            scene("policies", &own(0), [all("limits", 50_000), vec![budget.clone()]].concat(), [Who::One; 7]),
            scene(
                "policies of which others win",
                &own(0),
                [all("limits", 50_001), all("a-limits", 50_002)].concat(),
                [Who::One; 7],
            ),
            scene(
                "a policy of another backend",
                &own(1),
                vec![budget, limits("limits-2", 900, "HTTPRoute", "own-2"), tls("secure", "wrong")],
                [Who::Two; 7],
            ),
        ]
    }

    fn scenes_of_tls(&self) -> Vec<Scene> {
        let to_secure = routes("own", &section, |names| {
            rule_of(names, &[if names.0 == "HTTPRoute" { "secure" } else { names.4[0] }])
        });
        let of_http = |who| ROUTES.map(|(kind, ..)| if kind == "HTTPRoute" { who } else { Who::One });
        let scene = |name, routes: &[String], policies: &[String], answers| Scene {
            name,
            objects: [self.gateway(), routes.to_vec(), policies.to_vec()].concat(),
            answers,
        };
        let (right, wrong, nowhere) = (tls("secure", "right"), tls("secure", "wrong"), tls("secure", "nowhere"));
        vec![
            scene("backends behind TLS", &to_secure, &[right], of_http(Who::Two)),
            scene("the same by another policy", &to_secure, &[tls("a", "right"), wrong.clone()], of_http(Who::Two)),
            scene("backends behind TLS that nobody vouches for", &to_secure, &[wrong], of_http(Who::Nobody)),
            scene("a bundle that is not there", &to_secure, std::slice::from_ref(&nowhere), of_http(Who::Nobody)),
            scene("nobody sends there any more", &own(0), &[nowhere], [Who::One; 7]),
        ]
    }

    fn scenes_of_grants(&self) -> Vec<Scene> {
        let far = routes("own", &section, |names| {
            rule_of(names, &[names.4[1]]).replace("port: 80", "namespace: far, port: 80")
        });
        let grant = |kinds: &[&str]| {
            let from = |kind: &&str| format!("{{group: gateway.networking.k8s.io, kind: {kind}, namespace: default}}");
            let from = kinds.iter().map(from).collect::<Vec<_>>().join(", ");
            let text =
                object("ReferenceGrant", "grant", &format!("{{from: [{from}], to: [{{group: '', kind: Service}}]}}"));
            text.replace("{name: grant}", "{name: grant, namespace: far}")
        };
        let mut kinds = ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];
        let all = grant(&kinds);
        kinds.reverse();
        let streams = grant(&kinds[..3]);
        let reversed = grant(&kinds);
        let of_streams = ROUTES.map(|(kind, ..)| if WITH_RULES.contains(&kind) { Who::Nobody } else { Who::Two });
        let scene = |name, grants: &[String], answers| Scene {
            name,
            objects: [self.gateway(), far.clone(), grants.to_vec()].concat(),
            answers,
        };
        let mut scenes = vec![
            scene("backends of others", &[all], [Who::Two; 7]),
            scene("the grant in another order", &[reversed], [Who::Two; 7]),
            scene("a grant for streams", &[streams], of_streams),
            scene("no grant", &[], [Who::Nobody; 7]),
        ];
        let other = vec![gateway("edge", "", &self.own_listeners()), self.certificate(1)];
        scenes.push(Scene { name: "another certificate", objects: [other, own(0)].concat(), answers: [Who::One; 7] });
        scenes
    }
}

const TAKES_SETS: &str = "allowedListeners: {namespaces: {from: Same}}, ";

fn set(listeners: &[String]) -> String {
    object("ListenerSet", "set", &format!("{{parentRef: {{name: edge}}, listeners: [{}]}}", listeners.join(", ")))
}

/// A listener of the set, as a parent.
fn in_set(name: &str) -> String {
    format!("{{group: gateway.networking.k8s.io, kind: ListenerSet, name: set, sectionName: s-{name}}}")
}

fn to_service(name: &str) -> String {
    format!("{{group: '', kind: Service, name: {name}}}")
}

/// A policy for the Service that is behind TLS, which believes a bundle.
fn tls(name: &str, bundle: &str) -> String {
    let bundle = format!("{{group: '', kind: ConfigMap, name: {bundle}}}");
    let validation = format!("{{hostname: {INNER}, caCertificateRefs: [{bundle}]}}");
    let spec = format!("{{targetRefs: [{}], validation: {validation}}}", to_service("secure"));
    object("BackendTLSPolicy", name, &spec)
}

/// A Gateway with fields of its `spec` and listeners.
fn gateway(name: &str, fields: &str, listeners: &[String]) -> String {
    object("Gateway", name, &format!("{{gatewayClassName: chancery, {fields}listeners: [{}]}}", listeners.join(", ")))
}

type Names = (&'static str, &'static str, &'static str, &'static str, [&'static str; 2]);

/// All routes: names that begin so, what they are on, and their rules.
fn routes(prefix: &str, parent: &dyn Fn(&str) -> String, rules: impl Fn(&Names) -> String) -> Vec<String> {
    let one = |(names, at): (&Names, usize)| {
        route(names.0, &format!("{prefix}-{at}"), (&parent(names.1), names.2, &rules(names)))
    };
    ROUTES.iter().zip(0..).map(one).collect()
}

/// The routes that are asked, to their first or second backends.
fn own(which: usize) -> Vec<String> {
    routes("own", &section, |names| rule_of(names, &[names.4[which]]))
}

fn rule_of(names: &Names, backends: &[&str]) -> String {
    rule(names.3, backends)
}
