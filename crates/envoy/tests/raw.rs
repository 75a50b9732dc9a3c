//! What is said of a raw resource against what the real Envoy says: sound ones, and the same with one value broken.
//!
//! What Envoy refuses and the rules in its API allow is in [`ENVOY_ALONE`], with the reasons. All else is refused by both or taken by both.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "support/binary.rs"]
mod binary;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

const SOUND: &str = include_str!("support/raw.yaml");
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "envoy.config.listener.v3.Listener";

/// As many are broken so that both refuse them, at least.
const REFUSED: usize = 50;

/// What the rules allow and Envoy refuses when it builds what is asked for: a part of Envoy's words, and what is broken.
#[rustfmt::skip]
const ENVOY_ALONE: &[(&str, &[&str])] = &[
    // a range of HTTP statuses that is empty or beyond 100 to 600
    (
        "Invalid http expected status range",
        &[
            r#"Cluster /health_checks/0/http_health_check/expected_statuses/0 = {}"#,
            r#"Cluster /health_checks/0/http_health_check/expected_statuses/0/start = 0"#,
            r#"Cluster /health_checks/0/http_health_check/expected_statuses/0/start = -1"#,
            r#"Cluster /health_checks/0/http_health_check/expected_statuses/0/start = 4294967295"#,
            r#"Cluster /health_checks/0/http_health_check/expected_statuses/0/end = 0"#,
            r#"Cluster /health_checks/0/http_health_check/expected_statuses/0/end = -1"#,
            r#"Cluster /health_checks/0/http_health_check/expected_statuses/0/end = 4294967295"#,
        ],
    ),
    // an empty `Any` is a message of the type that Envoy expects there, and empty
    (
        "Proto constraint validation failed",
        &[
            r#"Cluster /typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions = {}"#,
        ],
    ),
    // an address that is no IP address
    (
        "malformed IP address",
        &[
            r#"Listener /address/socket_address/address = "a b\u0001""#,
        ],
    ),
    // a time that runs backwards, where the rules say nothing of it
    (
        "Expected positive duration",
        &[
            r#"Listener /listener_filters_timeout = "-1s""#,
            r#"Listener /filter_chains/0/filters/0/typed_config/idle_timeout = "-1s""#,
            r#"Listener /filter_chains/1/filters/0/typed_config/route_config/virtual_hosts/0/routes/0/route/timeout = "-1s""#,
            r#"Listener /filter_chains/1/filters/0/typed_config/route_config/virtual_hosts/0/routes/0/route/hash_policy/0/cookie/ttl = "-1s""#,
        ],
    ),
    // a TCP listener without a filter chain
    (
        "no filter chains specified",
        &[
            r#"Listener /filter_chains = []"#,
        ],
    ),
    // two filter chains that match alike
    (
        "has the same matching rules",
        &[
            r#"Listener /filter_chains/0 = {}"#,
            r#"Listener /filter_chains/0/filter_chain_match = {}"#,
        ],
    ),
    // a cluster that is not there: a control plane gives it, and we tell of it in `ResolvedRefs`
    (
        "unknown cluster",
        &[
            r#"Listener /filter_chains/1/filters/0/typed_config/route_config/virtual_hosts/0/routes/0/route/cluster = "a b\u0001""#,
        ],
    ),
];

/// What we refuse and Envoy takes: proxies ask for a resource by its name.
const OURS_ALONE: [&str; 1] = [r#"Listener /name = """#];

/// A resource with one value broken.
#[derive(Clone)]
struct Broken {
    message: &'static str,
    /// Where and what, in words that are the same each time.
    what: String,
    config: Value,
}

impl Broken {
    fn is_taken(&self) -> bool {
        envoy::read_raw(self.message, &self.config, true).errors.is_empty()
    }
}

fn sound() -> BTreeMap<String, Value> {
    serde_saphyr::from_str(SOUND).unwrap()
}

/// Every value of every sound resource, broken in some ways.
fn broken() -> Vec<Broken> {
    let sound = sound();
    let mut all = Vec::new();
    for message in [CLUSTER, LISTENER] {
        let config = &sound[message];
        let mut places = Vec::new();
        collect(config, &mut String::new(), &mut places);
        for place in places {
            for value in ways(config.pointer(&place).unwrap()) {
                let mut config = config.clone();
                *config.pointer_mut(&place).unwrap() = value.clone();
                let short = message.rsplit('.').next().unwrap_or_default();
                all.push(Broken { message, what: format!("{short} {place} = {value}"), config });
            }
        }
    }
    all
}

/// JSON pointers to every value inside, types of `Any`s left out.
fn collect(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let mut inside = |step: &str, value: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(step);
        places.push(at.clone());
        collect(value, at, places);
        at.truncate(length);
    };
    match value {
        Value::Object(members) => {
            members.iter().filter(|(name, _)| *name != "@type").for_each(|(name, value)| inside(name, value));
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| inside(&index.to_string(), value)),
        _ => {}
    }
}

fn ways(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) if text.ends_with('s') && text.starts_with(|first: char| first.is_ascii_digit()) => {
            vec![json!("0s"), json!("-1s"), json!("1m")]
        }
        Value::String(text) if text.chars().all(|char| char.is_ascii_uppercase() || char == '_') => {
            vec![json!("NO_SUCH"), json!(99)]
        }
        Value::String(_) => vec![json!(""), json!("a b\u{1}")],
        Value::Number(_) => vec![json!(0), json!(-1), json!(u32::MAX)],
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("no_such".into(), json!(1));
            vec![json!({}), Value::Object(more)]
        }
        Value::Array(_) => vec![json!([])],
        _ => vec![Value::Null],
    }
}

/// A configuration with all of these in it, under names and ports of their own, and the cluster that they name.
fn bootstrap(resources: &[&Broken]) -> Value {
    let mut clusters = vec![json!({ "name": "target", "type": "STATIC" })];
    let mut listeners = Vec::new();
    for (index, broken) in resources.iter().enumerate() {
        let mut config = broken.config.clone();
        if config.pointer("/name").is_some_and(|name| name == "shop" || name == "web") {
            config["name"] = format!("r{index}").into();
        }
        for port in ["/address/socket_address/port_value", "/address/socketAddress/portValue"] {
            if let Some(port) = config.pointer_mut(port).filter(|port| **port == json!(10_000)) {
                *port = (10_000 + index).into();
            }
        }
        if broken.message == CLUSTER { clusters.push(config) } else { listeners.push(config) }
    }
    json!({ "static_resources": { "clusters": clusters, "listeners": listeners } })
}

/// Envoy's words, if it refuses these.
fn refusal(resources: &[&Broken]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.json");
    std::fs::write(&file, bootstrap(resources).to_string()).unwrap();
    let arguments = ["--mode", "validate", "--log-level", "error", "--config-path"];
    let output = Command::new(binary::envoy()).args(arguments).arg(&file).current_dir(folder.path()).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Those of them that Envoy refuses, by halves.
fn refused<'b>(resources: &[&'b Broken]) -> Vec<(&'b Broken, String)> {
    let Some(words) = refusal(resources) else { return Vec::new() };
    match resources {
        [] => panic!("Envoy refuses what has nothing in it: {words}"),
        [one] => vec![(*one, words)],
        more => {
            let (left, right) = more.split_at(more.len() / 2);
            [refused(left), refused(right)].concat()
        }
    }
}

/// Each of these alone, on all cores.
fn one_by_one<'b>(resources: &[&'b Broken]) -> Vec<(&'b Broken, Option<String>)> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(one) = resources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let answer = refusal(&[one]);
                    answers.lock().unwrap().push((*one, answer));
                }
            });
        }
    });
    answers.into_inner().unwrap()
}

/// Envoy's words about something that it refuses alone.
fn expected(broken: &Broken) -> Option<&'static str> {
    ENVOY_ALONE.iter().find(|(_, all)| all.contains(&&*broken.what)).map(|(words, _)| *words)
}

/// As we would send it.
fn printed(broken: &Broken) -> Broken {
    let bytes = protojson::from_json(broken.message, &broken.config).unwrap();
    let config = protojson::to_json(broken.message, &bytes).unwrap();
    Broken { config, ..broken.clone() }
}

#[test]
fn what_we_take_envoy_takes_but_for_what_it_finds_when_it_builds_it() {
    let all = broken();
    let taken: Vec<&Broken> = all.iter().filter(|broken| broken.is_taken()).collect();
    let (alone, both): (Vec<&Broken>, Vec<&Broken>) = taken.iter().partition(|broken| expected(broken).is_some());
    assert!(both.len() >= 60, "only {} are taken", both.len());
    let listed: usize = ENVOY_ALONE.iter().map(|(_, all)| all.len()).sum();
    assert_eq!(alone.len(), listed, "something in the list is not made any more");
    let sent: Vec<Broken> = both.iter().map(|broken| printed(broken)).collect();
    let found = [refused(&both), refused(&sent.iter().collect::<Vec<_>>())].concat();
    let mut failures: Vec<String> =
        found.into_iter().map(|(broken, words)| format!("{}: {words}", broken.what)).collect();
    for (broken, words) in one_by_one(&alone) {
        let expected = expected(broken).unwrap_or_default();
        if !words.as_ref().is_some_and(|words| words.contains(expected)) {
            failures.push(format!("{}: expected {expected:?}, Envoy says {words:?}", broken.what));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_we_refuse_envoy_refuses() {
    let all = broken();
    let refused: Vec<&Broken> = all.iter().filter(|broken| !broken.is_taken()).collect();
    assert!(refused.len() >= REFUSED, "only {} are refused", refused.len());
    let taken = one_by_one(&refused).into_iter().filter(|(_, words)| words.is_none());
    let taken: Vec<&str> = taken.map(|(broken, _)| &*broken.what).collect();
    assert_eq!(taken, OURS_ALONE, "Envoy takes these");
}
