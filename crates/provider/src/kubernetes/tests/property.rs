//! Whatever happens, and whatever goes wrong meanwhile: in the end there is what the server has.

use proptest::prelude::*;

use super::*;

/// What happens at one time.
#[derive(Debug, Clone)]
enum Step {
    Put {
        kind: usize,
        name: usize,
        version: u8,
    },
    Break {
        kind: usize,
        name: usize,
    },
    Delete {
        kind: usize,
        name: usize,
    },
    /// The Gateway names these Secrets.
    Name(Vec<usize>),
    /// A namespace counts or does not.
    Select {
        namespace: usize,
        selected: bool,
    },
    Compact,
    BreakOff,
    Bookmark,
    Down(bool),
    Stutter(bool),
    Streaming(bool),
    Versions(bool),
    BrokenLists(usize),
    Forbid(bool),
    /// Until what happened so far was looked at, or part of it.
    Pause(u8),
}

const KINDS: [Kind; 3] = [Kind::HttpRoute, Kind::Service, Kind::Secret];
const NAMESPACES: [&str; 2] = ["one", "two"];

fn step() -> impl Strategy<Value = Step> {
    let (kind, name) = (0..KINDS.len(), 0..8_usize);
    prop_oneof![
        8 => (kind.clone(), name.clone(), 0..4_u8).prop_map(|(kind, name, version)| Step::Put { kind, name, version }),
        1 => (kind.clone(), name.clone()).prop_map(|(kind, name)| Step::Break { kind, name }),
        4 => (kind, name).prop_map(|(kind, name)| Step::Delete { kind, name }),
        2 => proptest::collection::vec(0..8_usize, 0..5).prop_map(Step::Name),
        2 => (0..2_usize, any::<bool>()).prop_map(|(namespace, selected)| Step::Select { namespace, selected }),
        1 => Just(Step::Compact),
        2 => Just(Step::BreakOff),
        1 => Just(Step::Bookmark),
        1 => any::<bool>().prop_map(Step::Down),
        1 => any::<bool>().prop_map(Step::Stutter),
        1 => any::<bool>().prop_map(Step::Streaming),
        1 => any::<bool>().prop_map(Step::Versions),
        1 => (0..4_usize).prop_map(Step::BrokenLists),
        1 => any::<bool>().prop_map(Step::Forbid),
        3 => (0..20_u8).prop_map(Step::Pause),
    ]
}

fn place(name: usize) -> (&'static str, String) {
    (NAMESPACES[name % 2], format!("n{name}"))
}

fn of_kind(kind: usize, name: usize, version: u8) -> Value {
    let (namespace, name) = place(name);
    let version = version.to_string();
    match KINDS[kind] {
        Kind::HttpRoute => route(namespace, &name, &version),
        Kind::Service => service(namespace, &name, &version),
        _ => secret(namespace, &name, &version),
    }
}

/// What there should be, by the same keys as [`State::objects`].
#[derive(Default)]
struct Expected {
    objects: BTreeMap<(usize, usize), u8>,
    /// Those that have no usable form: whether a form of before is still there depends on what was seen.
    broken: BTreeSet<(usize, usize)>,
    named: BTreeSet<usize>,
    selected: [bool; 2],
}

impl Expected {
    fn keys(&self, by_label: bool) -> BTreeMap<String, String> {
        let counts = |name: usize| !by_label || self.selected[name % 2];
        let objects = self
            .objects
            .iter()
            .filter(|((kind, name), _)| counts(*name) && (KINDS[*kind] != Kind::Secret || self.named.contains(name)));
        objects
            .map(|((kind, name), version)| {
                let (namespace, name) = place(*name);
                (format!("{} {namespace}/{name}", KINDS[*kind]), version.to_string())
            })
            .collect()
    }
}

fn act(mock: &Mock, step: &Step, expected: &mut Expected) {
    match step {
        Step::Put { kind, name, version } => {
            mock.put(KINDS[*kind], of_kind(*kind, *name, *version));
            expected.objects.insert((*kind, *name), *version);
            expected.broken.remove(&(*kind, *name));
        }
        Step::Break { kind, name } => {
            expected.objects.remove(&(*kind, *name));
            expected.broken.insert((*kind, *name));
            let mut broken = of_kind(*kind, *name, 9);
            broken["metadata"]["labels"] = json!(7);
            broken["spec"] = json!(7);
            broken["data"] = json!(7);
            mock.put(KINDS[*kind], broken);
        }
        Step::Delete { kind, name } => {
            let (namespace, text) = place(*name);
            mock.delete(KINDS[*kind], namespace, &text);
            expected.objects.remove(&(*kind, *name));
            expected.broken.remove(&(*kind, *name));
        }
        Step::Name(names) => {
            let secrets: Vec<String> =
                names.iter().map(|name| format!("{}/{}", place(*name).0, place(*name).1)).collect();
            let mut gateway = gateway("web", &secrets.iter().map(String::as_str).collect::<Vec<_>>());
            gateway["metadata"]["namespace"] = json!("always");
            mock.put(Kind::Gateway, gateway);
            expected.named = names.iter().copied().collect();
        }
        Step::Select { namespace: index, selected } => {
            let team = if *selected { "ours" } else { "theirs" };
            mock.put(Kind::Namespace, namespace(NAMESPACES[*index], ("team", team)));
            expected.selected[*index] = *selected;
        }
        Step::Compact => mock.compact(),
        Step::BreakOff => mock.break_off(),
        Step::Bookmark => mock.bookmark(),
        Step::Down(down) => mock.faults(|faults| faults.down = *down),
        Step::Stutter(stutter) => mock.faults(|faults| faults.stutter = *stutter),
        Step::Streaming(streaming) => {
            mock.faults(|faults| (faults.no_streaming, faults.page, faults.gone_pages) = (!*streaming, Some(2), 2));
        }
        Step::Versions(old) => mock.install(Kind::HttpRoute, if *old { &["v1beta1"] } else { &["v1beta1", "v1"] }),
        Step::BrokenLists(count) => mock.faults(|faults| faults.broken_lists = *count),
        Step::Forbid(forbid) => {
            let forbidden = if *forbid { vec!["/services".to_owned(), "/secrets".to_owned()] } else { Vec::new() };
            mock.faults(|faults| faults.forbidden = forbidden);
        }
        Step::Pause(_) => {}
    }
}

async fn converges(steps: Vec<Step>, by_label: bool) {
    let scope = if by_label {
        let match_labels = [("team", "ours")].into_iter().collect();
        Scope::Selector(LabelSelector { match_labels, ..LabelSelector::default() })
    } else {
        Scope::All
    };
    let mut world = World::with(scope, pace(), |mock| {
        // Marks and the Gateway always count.
        for name in ["always", "marks"] {
            mock.put(Kind::Namespace, namespace(name, ("team", "ours")));
        }
    })
    .await;
    let mut expected = Expected::default();
    for step in &steps {
        act(&world.mock, step, &mut expected);
        if let Step::Pause(millis) = step {
            let soon = Instant::now() + Duration::from_millis(u64::from(*millis));
            while let Ok(Some(batch)) = timeout_at(soon, world.batches.recv()).await {
                world.state.apply(batch);
            }
        }
    }
    world.mock.faults(|faults| *faults = mock::Faults::default());
    let wanted = expected.keys(by_label);
    let title = |(kind, name): &(usize, usize)| format!("{} {}/{}", KINDS[*kind], place(*name).0, place(*name).1);
    let broken: BTreeSet<String> = expected.broken.iter().map(title).collect();
    let relevant = |state: &State| -> BTreeMap<String, String> {
        let is_ours = |key: &str| KINDS.iter().any(|kind| key.starts_with(kind.name())) && !key.contains("marks/");
        let counts = |key: &str| is_ours(key) && !broken.contains(key);
        state
            .objects
            .iter()
            .filter(|(key, _)| counts(key))
            .map(|(key, version)| (key.clone(), version.clone()))
            .collect()
    };
    world.settled().await;
    let text = format!("there is what the server has: {wanted:?} after {steps:?}");
    world.until(&text, |state| relevant(state) == wanted && state.listed).await;
    // And it stays so.
    world.settled().await;
    assert_eq!(relevant(&world.state), wanted, "after {steps:?}");
    world.end().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_with_what_the_server_has(steps in proptest::collection::vec(step(), 1..60), by_label: bool) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(converges(steps, by_label));
    }
}
