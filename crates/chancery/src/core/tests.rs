//! The core from its inputs: what proxies say of versions that are no longer, and how it ends.

use std::net::SocketAddr;

use infra::host::{EnvoyState, HostFact};
use serde_json::json;
use store::{Batch, Change, Source};
use xds::{Event, TypeUrl, Version};

use super::*;

/// A core with one Gateway, without tasks around it.
struct Rig {
    inputs: mpsc::Sender<Input>,
    asking: Asking,
    thread: Thread,
    certificate: rcgen::CertifiedKey<rcgen::KeyPair>,
}

const FLEET: &str = "default/web";
const LISTENER: &str = "default/web/8080";
/// Host names: with another one the listener is another version.
const ONE: &str = "one.example";
const OTHER: &str = "other.example";
/// The routes of the first.
const ROUTES: &str = "default/web/8080/one.example";

impl Rig {
    fn start() -> Self {
        let mut translator = Translator::new(translator::Options { file_mode: true, ..translator::Options::default() });
        translator.store().0.expect(Source::File);
        let (outbox, _events) = mpsc::channel(QUEUE);
        let server = xds::Server::start(&tokio::runtime::Handle::current(), outbox);
        let options = envoy::Options { ipv6: false, access_log: envoy::AccessLog::Off };
        let (infra, _) = watch::channel(Arc::default());
        let clock = || Timestamp(0);
        let (workloads, with_proxies) = (watch::Sender::default(), false);
        let parts = Parts {
            translator,
            options,
            server,
            infra,
            workloads,
            with_proxies,
            believes_labels: false,
            clock,
            board: None,
            told: None,
            texts: Texts::default(),
        };
        let (inputs, asking, thread) = start(parts).expect("a thread");
        let certificate = rcgen::generate_simple_self_signed(["example".to_owned()]).expect("a certificate");
        Self { inputs, asking, thread, certificate }
    }

    async fn say(&self, input: Input) {
        assert!(self.inputs.send(input).await.is_ok(), "the core is there");
    }

    /// The Gateway, with a listener for a host name.
    async fn gateway(&self, host: &str) {
        self.gateway_with(host, &[]).await;
    }

    /// The same with other objects.
    async fn gateway_with(&self, host: &str, others: &[String]) {
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "web"},
            "spec": {
                "gatewayClassName": "any",
                "listeners": [{
                    "name": "https", "port": 8080, "protocol": "HTTPS", "hostname": host,
                    "tls": {"certificateRefs": [{"name": "cert"}]},
                }],
            },
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert"}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": self.certificate.cert.pem(), "tls.key": self.certificate.signing_key.serialize_pem()},
        });
        let own = [gateway, secret].map(|object| object.to_string());
        let input =
            |text: &String| provider::file::Input::Text { name: "test".into(), bytes: text.clone().into_bytes() };
        let inputs: Vec<_> = own.iter().chain(others).map(input).collect();
        self.commit(provider::file::load_inputs(&inputs).into_batch()).await;
    }

    async fn no_gateway(&self) {
        let key = api::ObjectKey::of(api::Kind::Gateway, "default", "web");
        let changes = vec![Change::Delete(key)];
        self.commit(Batch { source: Source::File, changes, listed: true }).await;
    }

    /// A batch in a tick of its own.
    async fn commit(&self, batch: Batch) {
        self.say(Input::Batch(batch)).await;
        assert!(self.asking.report().await.is_some(), "the core is there");
    }

    async fn running(&self) {
        let address: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
        let state = EnvoyState { ready: true, addresses: vec![address], ..EnvoyState::default() };
        self.envoy(Some(state)).await;
    }

    async fn envoy(&self, state: Option<EnvoyState>) {
        self.say(Input::Host(HostFact { fleet: FleetName(FLEET.into()), state })).await;
    }

    async fn version(&self) -> Version {
        let published = |core: &Core| core.listeners.get(&FactKey::new(FLEET, LISTENER)).copied();
        self.asking.ask(published).await.flatten().expect("a published listener")
    }

    async fn accepted(&self, version: Version) {
        let (fleet, name) = (FLEET.into(), LISTENER.into());
        self.say(Input::Xds(vec![Event::Accepted {
            fleet,
            type_url: TypeUrl::Listener,
            name,
            version,
            was_refused: false,
        }]))
        .await;
    }

    /// Status and reason of the condition `Programmed` of the listener.
    async fn programmed(&self) -> String {
        let report = self.asking.report().await.expect("a report");
        let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
        let conditions = &report["objects"][0]["status"]["listeners"][0]["conditions"];
        let found = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == "Programmed");
        let word = |name: &str| found.and_then(|found| found[name].as_str()).unwrap_or_default().to_owned();
        format!("{}/{}", word("status"), word("reason"))
    }
}

#[tokio::test]
async fn programmed_is_what_was_said_of_the_version_that_is_published_now() {
    let rig = Rig::start();
    rig.gateway(ONE).await;
    rig.running().await;
    let first = rig.version().await;
    rig.accepted(first).await;
    assert_eq!(rig.programmed().await, "True/Programmed");
    rig.gateway(OTHER).await;
    assert_eq!(rig.programmed().await, "False/Pending", "another version was published");
    rig.accepted(first).await;
    assert_eq!(rig.programmed().await, "False/Pending", "late words about the earlier one");
    rig.accepted(rig.version().await).await;
    assert_eq!(rig.programmed().await, "True/Programmed");
    rig.no_gateway().await;
    rig.gateway(OTHER).await;
    assert_eq!(rig.programmed().await, "False/Pending", "it went and came back");
}

/// A Service, and a route to it.
fn backend(name: &str) -> [String; 2] {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]},
    });
    let rules = json!([{"backendRefs": [{"name": name, "port": 80}]}]);
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name},
        "spec": {"parentRefs": [{"name": "web"}], "rules": rules},
    });
    [service, route].map(|object| object.to_string())
}

/// A Gateway whose proxy has everything and has said so.
async fn live() -> Rig {
    let rig = Rig::start();
    rig.gateway(ONE).await;
    rig.running().await;
    rig.accepted(rig.version().await).await;
    rig.say(Input::Xds(vec![Event::Live { fleet: FLEET.into() }])).await;
    assert_eq!(rig.programmed().await, "True/Programmed");
    rig
}

#[tokio::test]
async fn a_listener_that_waits_for_a_new_backend_is_not_programmed_and_one_that_is_as_it_was_is() {
    let rig = live().await;
    let first = rig.version().await;
    rig.gateway_with(OTHER, &backend("new")).await;
    assert_eq!(rig.programmed().await, "False/Pending", "the proxy has not been sent it");
    assert_eq!(rig.version().await, first);
    rig.gateway(ONE).await;
    assert_eq!(rig.programmed().await, "True/Programmed", "it was never another one");
    rig.gateway_with(OTHER, &backend("new")).await;
    rig.say(Input::Xds(vec![Event::ClusterWarm { fleet: FLEET.into(), name: "default/new/80".into() }])).await;
    assert_eq!(rig.programmed().await, "False/Pending");
    let second = rig.version().await;
    assert_ne!(second, first);
    rig.accepted(second).await;
    assert_eq!(rig.programmed().await, "True/Programmed");
}

#[tokio::test]
async fn late_words_about_a_cluster_that_is_gone_mean_nothing_when_it_comes_back() {
    let rig = live().await;
    let first = rig.version().await;
    rig.say(Input::Xds(vec![Event::ClusterWarm { fleet: FLEET.into(), name: "default/new/80".into() }])).await;
    rig.gateway_with(OTHER, &backend("new")).await;
    assert_eq!(rig.version().await, first, "it is waited for");
}

#[tokio::test]
async fn a_starting_proxy_leaves_a_warm_cluster_warm() {
    let rig = live().await;
    rig.gateway_with(OTHER, &backend("new")).await;
    let cluster = FactKey::new(FLEET, "default/new/80");
    let state = async || {
        let key = cluster.clone();
        rig.asking
            .ask(move |core| {
                let table = core.translator.stored().tables().cluster_state;
                core.translator.graph().get(table, &key).cloned()
            })
            .await
            .flatten()
    };
    let stalled = |nodes: &[&str], was_warm| {
        let nodes = nodes.iter().map(|&node| node.into()).collect();
        Event::Stalled { fleet: FLEET.into(), name: "default/new/80".into(), nodes, was_warm }
    };
    rig.say(Input::Xds(vec![stalled(&["a", "b"], false)])).await;
    assert_eq!(state().await, Some(store::ClusterState::Stalled));
    let warm = Event::ClusterWarm { fleet: FLEET.into(), name: "default/new/80".into() };
    rig.say(Input::Xds(vec![warm, stalled(&["b"], true)])).await;
    assert_eq!(state().await, Some(store::ClusterState::Warm));
    rig.say(Input::Xds(vec![stalled(&[], true)])).await;
    assert_eq!(state().await, Some(store::ClusterState::Warm));
}

#[tokio::test]
async fn what_waits_for_a_backend_of_which_nobody_says_anything_is_published_all_the_same() {
    let rig = live().await;
    let first = rig.version().await;
    rig.gateway_with(OTHER, &backend("new")).await;
    assert_eq!(rig.version().await, first);
    let published = async {
        while rig.version().await == first {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), published).await.expect("it is published");
}

#[tokio::test]
async fn a_gateway_that_comes_back_is_published_whole() {
    let rig = live().await;
    rig.gateway_with(ONE, &backend("new")).await;
    rig.no_gateway().await;
    // nobody said that the proxy is gone: it keeps its listeners, unless it is told that there are none
    rig.gateway_with(ONE, &backend("new")).await;
    rig.version().await;
    let count = |core: &Core| {
        let pieces = core.translator.graph().iter(core.outputs.route_pieces);
        pieces.map(|(_, piece)| piece.routes.len()).sum::<usize>()
    };
    let routes = rig.asking.ask(count).await;
    assert_eq!(routes, Some(1), "a listener without its route would answer 404");
    // from then on what is new is waited for again: its proxy has never gone
    let first = rig.version().await;
    let both: Vec<String> = ["new", "newer"].iter().flat_map(|name| backend(name)).collect();
    rig.gateway_with(OTHER, &both).await;
    assert_eq!(rig.version().await, first);
}

#[tokio::test]
async fn an_unattributed_refusal_goes_with_its_resource() {
    let rig = Rig::start();
    rig.gateway(ONE).await;
    let refused = |type_url, version, text: &str| Event::Refused {
        fleet: FLEET.into(),
        type_url,
        name: ROUTES.into(),
        version,
        text: text.into(),
        has_previous: false,
    };
    rig.say(Input::Xds(vec![refused(TypeUrl::Route, Version(1), "bad routes")])).await;
    let problems = || async { rig.asking.problem_lines().await.expect("problems") };
    assert!(problems().await.iter().any(|(_, line)| line.contains("bad routes")));
    rig.no_gateway().await;
    assert!(problems().await.iter().all(|(_, line)| !line.contains("bad routes")));
}

/// What a proxy says of the routes of the listener.
async fn refused_routes(rig: &Rig) {
    rig.say(Input::Xds(vec![Event::Refused {
        fleet: FLEET.into(),
        type_url: TypeUrl::Route,
        name: ROUTES.into(),
        version: Version(1),
        text: "bad routes".into(),
        has_previous: false,
    }]))
    .await;
}

#[tokio::test]
async fn what_proxies_refused_is_tried_again_with_others_and_once_for_as_many_as_there_are() {
    let rig = Rig::start();
    rig.gateway_with(ONE, &backend("new")).await;
    let refused = || async {
        // what was said before is in force
        rig.asking.report().await;
        rig.asking.ask(|core: &Core| core.translator.has_refused_forms(FLEET)).await == Some(true)
    };
    let node = Arc::new(xds::Node::default());
    let (came, gone) = (
        |connected| Event::Connected { fleet: FLEET.into(), node: Arc::clone(&node), connected },
        |connected| Event::Gone { fleet: FLEET.into(), node: Arc::clone(&node), connected },
    );
    rig.say(Input::Xds(vec![came(1)])).await;
    refused_routes(&rig).await;
    assert!(refused().await);
    // it was the only one
    rig.say(Input::Xds(vec![gone(0)])).await;
    assert!(refused().await);
    rig.say(Input::Xds(vec![came(1)])).await;
    assert!(!refused().await);
    // of two both are replaced
    refused_routes(&rig).await;
    assert!(refused().await);
    rig.say(Input::Xds(vec![came(2), came(3), gone(2)])).await;
    assert!(refused().await, "one of those that refused it is there");
    rig.say(Input::Xds(vec![came(3), gone(2)])).await;
    assert!(!refused().await);
}

#[tokio::test]
async fn what_one_proxy_refuses_and_another_takes_is_a_problem_as_long_as_they_disagree_and_nothing_else() {
    let rig = Rig::start();
    rig.gateway(ONE).await;
    rig.running().await;
    rig.accepted(rig.version().await).await;
    let disputed = |text: Option<&str>| Event::Disputed {
        fleet: FLEET.into(),
        type_url: TypeUrl::Listener,
        name: LISTENER.into(),
        by: text.map(|text| xds::Objection { node: "edge-2".into(), text: text.into() }).into_iter().collect(),
    };
    let problems = || async { rig.asking.problem_lines().await.expect("problems") };
    rig.say(Input::Xds(vec![disputed(Some("cannot bind"))])).await;
    let line = format!("a proxy refused Listener {LISTENER}: cannot bind (proxy edge-2)");
    assert!(problems().await.iter().any(|(_, text)| text.contains(&line)), "{:?}", problems().await);
    assert_eq!(rig.programmed().await, "True/Programmed");
    rig.say(Input::Xds(vec![disputed(None)])).await;
    assert!(problems().await.iter().all(|(_, text)| !text.contains("cannot bind")));
}

/// A policy for the routes of the Gateway.
fn patch(name: &str, path: &str, value: u32) -> serde_json::Value {
    json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyPatchPolicy", "metadata": {"name": name},
        "spec": {
            "type": "JSONPatch",
            "targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"},
            "jsonPatches": [{
                "type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": ROUTES,
                "operation": {"op": "add", "path": path, "value": value},
            }],
        },
    })
}

#[tokio::test]
async fn who_waits_for_an_answer_to_others_patches_is_told_its_own_reason_with_that_answer() {
    let rig = Rig::start();
    let settings = json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyGateway",
        "extensionApis": {"enableEnvoyPatchPolicy": true},
    });
    let body_size = "/max_direct_response_body_size_bytes";
    let policies = [patch("a", body_size, 1), patch("b", body_size, 2), patch("c", "/max_direct_response/x", 3)];
    let beside = [settings].into_iter().chain(policies).map(|object| object.to_string()).collect::<Vec<_>>();
    rig.gateway_with(ONE, &beside).await;
    let key = translator::InFleet {
        fleet: FleetName(FLEET.into()),
        name: crate::publish::named(&TypeUrl::Route, &ROUTES.into()).expect("a kind that can be patched"),
    };
    let version = || async {
        let key = key.clone();
        let published = move |core: &Core| core.publisher.version_of_patched(&key);
        rig.asking.ask(published).await.flatten().expect("published routes")
    };
    let (fleet, name): (Arc<str>, Arc<str>) = (FLEET.into(), ROUTES.into());
    let problems = || async { rig.asking.problem_lines().await.expect("problems") };
    let says = |lines: &[(api::Severity, String)], words: &str| lines.iter().any(|(_, line)| line.contains(words));

    let both = version().await;
    let refused = Event::Refused {
        fleet: Arc::clone(&fleet),
        type_url: TypeUrl::Route,
        name: Arc::clone(&name),
        version: both,
        text: "not two".into(),
        has_previous: false,
    };
    rig.say(Input::Xds(vec![refused])).await;
    let lines = problems().await;
    assert!(says(&lines, "not two") && says(&lines, "it waits until"), "{lines:?}");
    let first = version().await;
    assert_ne!(first, both, "it was published anew");
    let accepted = Event::Accepted { fleet, type_url: TypeUrl::Route, name, version: first, was_refused: true };
    rig.say(Input::Xds(vec![accepted])).await;
    let lines = problems().await;
    assert!(says(&lines, "not two") && says(&lines, "has no field max_direct_response"), "{lines:?}");
    assert!(!says(&lines, "it waits until"), "{lines:?}");
}

#[tokio::test]
async fn starts_of_an_envoy_in_place_of_another_are_counted() {
    let rig = Rig::start();
    let said = |pid| EnvoyState { pid, ..EnvoyState::default() };
    for state in [said(Some(1)), said(Some(1)), said(None), said(Some(2))] {
        rig.envoy(Some(state)).await;
    }
    let counted = || async { rig.asking.metrics(0).await.expect("metrics") };
    assert!(counted().await.contains("\nchancery_envoy_restarts_total 1\n"));
    rig.envoy(None).await;
    rig.envoy(Some(said(Some(3)))).await;
    assert!(counted().await.contains("\nchancery_envoy_restarts_total 1\n"), "its Gateway went and came back");
}

#[tokio::test]
async fn why_a_source_has_not_listed_is_told_and_nothing_is_ready_by_that() {
    let rig = Rig::start();
    let (mut problems, mut revision) = (rig.asking.problems(), rig.asking.revision());
    let problem = api::Problem {
        object: None,
        path: api::FieldPath::default(),
        severity: api::Severity::Error,
        text: "not there".into(),
        place: None,
        snippet: None,
        refers_to: None,
        earlier: false,
        refusal: None,
    };
    let changes = vec![Change::Problems { origin: "folder".into(), problems: vec![problem] }];
    rig.commit(Batch { source: Source::File, changes, listed: false }).await;
    assert!(problems.has_changed().expect("a core") && revision.has_changed().expect("a core"));
    assert!(rig.asking.problem_lines().await.expect("problems").iter().any(|(_, line)| line.contains("not there")));
    assert!(!rig.asking.is_ready());
    problems.mark_unchanged();
    revision.mark_unchanged();
    rig.commit(Batch { source: Source::File, changes: vec![], listed: false }).await;
    assert!(!problems.has_changed().expect("a core") && !revision.has_changed().expect("a core"));
    rig.commit(Batch { source: Source::File, changes: vec![], listed: true }).await;
    assert!(rig.asking.is_ready());
}

#[tokio::test]
async fn what_proxies_report_is_shown_as_long_as_anybody_reports() {
    use xds::load::{ClusterLoad, Load, Locality, LocalityLoad, Rate};
    let rig = Rig::start();
    let load = Load { issued: Rate(2_500_000), in_progress: 3, ..Load::default() };
    let place = Locality { zone: "a".into(), ..Locality::default() };
    let localities = [(place, LocalityLoad { load, ..LocalityLoad::default() })].into();
    let cluster = ClusterLoad { reporters: 1, requests: 25, localities, ..ClusterLoad::default() };
    let said = |load| Input::Xds(vec![Event::Load { fleet: FLEET.into(), cluster: "b".into(), load }]);
    rig.say(said(Some(Arc::new(cluster)))).await;
    let shown = rig.asking.loads().await.expect("the core is there");
    let figures = json!({
        "issuedPerSecond": 2.5, "succeededPerSecond": 0.0, "failedPerSecond": 0.0, "inProgress": 3, "metrics": {},
        "region": "", "zone": "a", "subZone": "",
    });
    let expected = json!([{
        "gateway": FLEET, "cluster": "b", "reporters": 1, "requests": 25, "droppedPerSecond": 0.0,
        "droppedPerSecondBy": {}, "localities": [figures], "since": "1970-01-01T00:00:00Z",
    }]);
    assert_eq!(shown, expected);
    rig.say(said(None)).await;
    assert_eq!(rig.asking.loads().await, Some(json!([])));
}

#[tokio::test]
async fn a_core_that_panics_says_so() {
    let mut rig = Rig::start();
    rig.say(Input::Ask(Box::new(|_| panic!("a bug")))).await;
    let end = tokio::time::timeout(Duration::from_secs(20), rig.thread.end()).await.expect("in time");
    assert!(end.expect_err("it panicked").to_string().contains("the core panicked: a bug"));
}

#[tokio::test]
async fn a_core_that_nobody_can_ask_any_more_ends() {
    let Rig { inputs, asking, mut thread, .. } = Rig::start();
    drop((inputs, asking));
    thread.end().await.expect("no panic");
}

#[tokio::test]
async fn a_refused_secret_leaves_its_chain_out_until_its_content_is_another() {
    let mut rig = Rig::start();
    rig.gateway(ONE).await;
    let whole = rig.version().await;
    let key = || FactKey::new(FLEET, "secret/default/cert");
    let published = async |rig: &Rig| {
        rig.asking
            .ask(move |core: &Core| core.secrets.get(&key()).copied())
            .await
            .flatten()
            .expect("a published secret")
    };
    let refused = |version, has_previous| {
        let (fleet, name, text) = (FLEET.into(), "secret/default/cert".into(), "no".into());
        Input::Xds(vec![Event::Refused { fleet, type_url: TypeUrl::Secret, name, version, text, has_previous }])
    };
    let first = published(&rig).await;
    rig.say(refused(Version(1), false)).await;
    assert_eq!(rig.version().await, whole, "that is not what was published");
    rig.say(refused(first, true)).await;
    assert_eq!(rig.version().await, whole, "proxies stay on what they have");
    assert_eq!(rig.programmed().await, "False/Invalid");
    rig.say(refused(first, false)).await;
    let without = rig.version().await;
    assert_ne!(without, whole);
    assert_eq!((published(&rig).await, rig.version().await), (first, without), "and it stays so");
    rig.gateway(ONE).await;
    assert_eq!(rig.version().await, without, "what is as it was is not tried again");
    rig.certificate = rcgen::generate_simple_self_signed(["example".to_owned()]).expect("a certificate");
    rig.gateway(ONE).await;
    assert_ne!(published(&rig).await, first);
    assert_eq!(rig.version().await, whole);
}
