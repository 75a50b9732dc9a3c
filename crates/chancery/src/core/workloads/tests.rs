//! What one replica tells another of the proxies of workloads.

use api::{Kind, ObjectKey};
use provider::file::Texts;
use provider::kubernetes::replicas::{Heard, Said};
use store::{Batch, Source};
use tokio::sync::{mpsc, watch};
use translator::Translator;
use xds::Node;

use super::*;
use crate::core::{Asking, Input, Parts, QUEUE, Thread, start};

const FLEET: &str = "workload/default/web-1";

struct Replica {
    inputs: mpsc::Sender<Input>,
    asking: Asking,
    told: watch::Receiver<Arc<Said>>,
    _thread: Thread,
}

const OBJECTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web-1}
---
apiVersion: bootes.io/v1
kind: Cluster
metadata: {name: one}
spec: {config: {name: one, connect_timeout: TIME}}
---
apiVersion: bootes.io/v1
kind: Cluster
metadata: {name: two}
spec: {config: {name: two}}
";

impl Replica {
    async fn start() -> Self {
        Self::started(true).await
    }

    async fn started(tells: bool) -> Self {
        let options =
            translator::Options { file_mode: true, read_raw: envoy::read_raw, ..translator::Options::default() };
        let mut translator = Translator::new(options);
        translator.store().0.expect(Source::File);
        let (outbox, _events) = mpsc::channel(QUEUE);
        let (say, told) = watch::channel(Arc::default());
        let parts = Parts {
            translator,
            options: envoy::Options { ipv6: false, access_log: envoy::AccessLog::Off },
            server: xds::Server::start(&tokio::runtime::Handle::current(), outbox),
            infra: watch::channel(Arc::default()).0,
            workloads: watch::Sender::default(),
            with_proxies: false,
            believes_labels: false,
            clock: || api::Timestamp(0),
            board: None,
            told: tells.then_some(say),
            texts: Texts::default(),
        };
        let (inputs, asking, thread) = start(parts).expect("a thread");
        let replica = Self { inputs, asking, told, _thread: thread };
        replica.objects("1s").await;
        replica
    }

    async fn objects(&self, time: &str) {
        let bytes = OBJECTS.replace("TIME", time).into_bytes();
        let input = provider::file::Input::Text { name: "test".into(), bytes };
        self.take(Input::Batch(provider::file::load_inputs(&[input]).into_batch())).await;
    }

    /// Hands on an input, and waits until it is taken.
    async fn take(&self, input: Input) {
        assert!(self.inputs.send(input).await.is_ok(), "the core is there");
        assert!(self.asking.report().await.is_some(), "the core is there");
    }

    async fn connected(&self, connected: usize) {
        let node = Arc::new(Node::default());
        self.take(Input::Xds(vec![Event::Connected { fleet: FLEET.into(), node, connected }])).await;
    }

    async fn version(&self, name: &str) -> Version {
        let key = FactKey::of_kind(Arc::from(FLEET), "Cluster", name);
        self.asking.ask(move |core| core.raw.get(&key).copied()).await.flatten().expect("it was published")
    }

    /// Its proxy takes a cluster, or refuses it.
    async fn answers(&self, name: &str, words: Option<&str>) {
        let (fleet, version): (Arc<str>, _) = (FLEET.into(), self.version(name).await);
        let (type_url, name) = (TypeUrl::Cluster, Arc::from(name));
        let event = match words {
            Some(text) => Event::Refused { fleet, type_url, name, version, text: text.into(), has_previous: false },
            None => Event::Accepted { fleet, type_url, name, version, was_refused: false },
        };
        self.take(Input::Xds(vec![event])).await;
    }

    /// Takes what another says now.
    async fn hear(&self, other: &Replica) {
        let said = Arc::clone(&other.told.borrow());
        self.take(Input::Replicas(Arc::new(Heard::from([("other".into(), said)])))).await;
    }

    /// `Programmed` of a cluster.
    async fn programmed(&self, name: &str) -> String {
        let report = self.asking.report().await.expect("a report");
        let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
        let objects = report["objects"].as_array().into_iter().flatten();
        let mut conditions = objects
            .filter(|one| one["metadata"]["name"] == name)
            .flat_map(|one| one["status"]["conditions"].as_array().into_iter().flatten());
        let found = conditions.find(|one| one["type"] == "Programmed").expect("a condition");
        format!("{}: {}", found["reason"].as_str().unwrap_or_default(), found["message"].as_str().unwrap_or_default())
    }
}

#[tokio::test]
async fn who_leads_hears_what_a_proxy_elsewhere_uses_and_refuses() {
    let (leader, other) = (Replica::start().await, Replica::start().await);
    other.connected(1).await;
    leader.hear(&other).await;
    assert_eq!(leader.programmed("one").await, "Pending: 0 of 1 proxies have acknowledged it");
    other.answers("one", None).await;
    leader.hear(&other).await;
    assert_eq!(leader.programmed("one").await, "Programmed: 1 of 1 proxies have acknowledged it");
    assert_eq!(leader.programmed("two").await, "Pending: 0 of 1 proxies have acknowledged it");
    other.answers("two", Some("too small")).await;
    leader.hear(&other).await;
    assert_eq!(
        leader.programmed("two").await,
        "Invalid: 0 of 1 proxies use it; that of default/web-1 refused it: too small"
    );
}

#[tokio::test]
async fn what_is_said_of_an_earlier_version_does_not_count_and_the_faster_replica_is_believed() {
    let (leader, other) = (Replica::start().await, Replica::start().await);
    other.connected(1).await;
    other.answers("one", None).await;
    other.answers("two", None).await;
    leader.hear(&other).await;
    // The leader has the news first.
    leader.objects("2s").await;
    assert_eq!(leader.programmed("one").await, "Pending: 0 of 1 proxies have acknowledged it");
    let kept = "Programmed: 1 of 1 proxies have acknowledged it";
    assert_eq!(leader.programmed("two").await, kept, "nothing about it has changed");
    other.objects("2s").await;
    other.answers("one", None).await;
    leader.hear(&other).await;
    assert_eq!(leader.programmed("one").await, "Programmed: 1 of 1 proxies have acknowledged it");
    // The other has.
    other.objects("3s").await;
    other.answers("one", None).await;
    leader.hear(&other).await;
    leader.objects("3s").await;
    assert_eq!(leader.programmed("one").await, "Programmed: 1 of 1 proxies have acknowledged it");
}

#[tokio::test]
async fn what_others_say_of_patches_counts_as_long_as_they_say_it_and_is_not_told_again() {
    let leader = Replica::start().await;
    let says = |text: Option<&str>| {
        let said: Said = text.map(|text| ("default/edge".to_owned(), text.to_owned())).into_iter().collect();
        leader.take(Input::Replicas(Arc::new(Heard::from([("other".into(), Arc::new(said))]))))
    };
    let known = || {
        let question = |core: &Core| {
            let key = FactKey::of_kind("default/edge", "Listener", "http");
            core.translator.graph().get(core.translator.stored().tables().refusals, &key).cloned()
        };
        leader.asking.ask(question)
    };
    says(Some(r#"{"n":1,"p":{"Listener http":{"r":{"7":"no"}}}}"#)).await;
    let found = known().await.flatten().expect("a row");
    assert_eq!(found.words.get(&7).map(|words| &**words), Some("no"));
    assert!(leader.told.borrow().is_empty());
    says(Some(r#"{"n":1}"#)).await;
    assert_eq!(known().await.flatten(), None);
    says(Some(r#"{"n":1,"p":{"Listener http":{"r":{"7":"no"}}}}"#)).await;
    says(None).await;
    assert_eq!(known().await.flatten(), None);
}

#[tokio::test]
async fn a_proxy_that_comes_to_us_says_all_itself() {
    let (leader, other) = (Replica::start().await, Replica::start().await);
    other.connected(1).await;
    other.answers("one", None).await;
    leader.hear(&other).await;
    leader.connected(1).await;
    assert_eq!(leader.programmed("one").await, "Pending: 0 of 1 proxies have acknowledged it");
    leader.answers("one", None).await;
    leader.hear(&other).await;
    assert_eq!(leader.programmed("one").await, "Programmed: 1 of 1 proxies have acknowledged it");
    other.connected(0).await;
    leader.connected(0).await;
    leader.hear(&other).await;
    assert_eq!(leader.programmed("one").await, "Pending: none of the 1 workloads that it is for is connected");
}

#[tokio::test]
async fn a_second_proxy_of_a_workload_takes_nothing_away_from_what_the_first_has_said() {
    for tells in [false, true] {
        let replica = Replica::started(tells).await;
        replica.connected(1).await;
        replica.answers("one", None).await;
        let said = "Programmed: 1 of 1 proxies have acknowledged it";
        replica.connected(2).await;
        assert_eq!(replica.programmed("one").await, said);
        let node = Arc::new(Node::default());
        replica.take(Input::Xds(vec![Event::Gone { fleet: FLEET.into(), node, connected: 1 }])).await;
        assert_eq!(replica.programmed("one").await, said);
        replica.connected(0).await;
        assert_eq!(replica.programmed("one").await, "Pending: none of the 1 workloads that it is for is connected");
    }
}

#[tokio::test]
async fn a_workload_that_goes_is_told_no_more() {
    let replica = Replica::start().await;
    replica.connected(1).await;
    assert!(replica.told.borrow().contains_key(FLEET));
    let pod = ObjectKey::of(Kind::Pod, "default", "web-1");
    let changes = vec![store::Change::Delete(pod.clone())];
    replica.take(Input::Batch(Batch { source: Source::File, changes, listed: true })).await;
    assert!(replica.told.borrow().contains_key(FLEET), "its proxy has yet to learn that it has nothing");
    let node = Arc::new(Node::default());
    replica.take(Input::Xds(vec![Event::Gone { fleet: FLEET.into(), node, connected: 0 }])).await;
    assert!(!replica.told.borrow().contains_key(FLEET));
}

#[test]
fn a_gateway_of_a_namespace_that_is_called_workload_is_no_workload() {
    assert!(is_workload("workload/shop/web-1"));
    assert!(!is_workload("workload/edge"));
}
