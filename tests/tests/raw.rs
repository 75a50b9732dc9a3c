//! Resources of Envoy's as objects, from files to a real Envoy that answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tests::backend::Backend;
use tests::client::get;
use tests::elsewhere::{Elsewhere, cleartext};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::{binary, wait};

const LISTENER: &str = r#"
apiVersion: bootes.io/v1
kind: Listener
metadata: {name: web}
spec:
  workloadSelector: {labels: {app: web}}
  config:
    name: web
    address: {socket_address: {address: 127.0.0.1, port_value: PORT}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          rds: {route_config_name: web, config_source: {ads: {}, resource_api_version: V3}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
"#;

const ROUTE: &str = r#"
apiVersion: bootes.io/v1
kind: Route
metadata: {name: web}
spec:
  workloadSelector: {labels: {app: web}}
  config:
    name: web
    virtual_hosts:
    - name: all
      domains: ["*"]
      routes:
      - match: {prefix: /}
        route: {cluster: CLUSTER}
"#;

const CLUSTER: &str = r#"
apiVersion: bootes.io/v1
kind: Cluster
metadata: {name: NAME}
spec:
  config:
    name: NAME
    type: EDS
    connect_timeout: 1s
    eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}
"#;

const ENDPOINT: &str = r#"
apiVersion: bootes.io/v1
kind: Endpoint
metadata: {name: NAME}
spec:
  config:
    cluster_name: NAME
    endpoints:
    - lb_endpoints:
      - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: PORT}}}
"#;

fn pod(label: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web-1, labels: {{app: {label}}}}}\n")
}

fn cluster(name: &str, port: u16) -> String {
    format!("{}---{}", CLUSTER.replace("NAME", name), ENDPOINT.replace("NAME", name).replace("PORT", &port.to_string()))
}

fn answers(port: u16, body: &str) {
    let asked = || get(port, "x.example", "/").ok().filter(|answer| answer.status == 200 && answer.body == body);
    wait::until(&format!("the answer {body}"), asked).unwrap();
}

/// An Envoy of the workload `default/web-1`, over the socket of that.
fn envoy(running: &Running, place: &TempDir) -> Elsewhere {
    Elsewhere::of_workload(running, "default/web-1", place.path()).unwrap()
}

#[test]
fn an_envoy_gets_what_is_written_for_its_workload_and_nothing_else_is_disturbed() {
    let (one, two) = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
    let [port, other] = free_ports().unwrap();
    let place = TempDir::new().unwrap();
    let mut running = Running::prepare().unwrap().with(&["--no-envoy", "--raw-resources", "lua"]);
    running.write("pod.yaml", &pod("web")).unwrap();
    running.write("listener.yaml", &LISTENER.replace("PORT", &port.to_string())).unwrap();
    running.write("route.yaml", &ROUTE.replace("CLUSTER", "one")).unwrap();
    running.write("one.yaml", &cluster("one", one.port)).unwrap();
    running.start().unwrap();
    let first = envoy(&running, &place);
    answers(port, "one");
    let told = |line: &str| {
        wait::until(line, || running.status(&["-o", "yaml"]).ok().filter(|all| all.contains(line))).unwrap()
    };
    told("1 of 1 proxies have acknowledged it");

    // what a proxy acknowledged that is gone is not what the next one has
    drop(first);
    told("none of the 1 workloads that it is for is connected");
    let _envoy = envoy(&running, &place);
    answers(port, "one");
    told("1 of 1 proxies have acknowledged it");

    // an endpoint, then a route to a new cluster
    running.write("one.yaml", &cluster("one", two.port)).unwrap();
    answers(port, "two");
    running.write("two.yaml", &cluster("two", one.port)).unwrap();
    running.write("route.yaml", &ROUTE.replace("CLUSTER", "two")).unwrap();
    answers(port, "one");

    // what cannot be used is told at its place, and what Envoy refuses in its words; all else goes on
    let bad =
        LISTENER.replace(" name: web", " name: bad").replace("{name: web}", "{name: bad}").replace("PORT", "70000");
    running.write("bad.yaml", &bad).unwrap();
    let problems = || running.status(&["problems"]).ok();
    wait::until("the problem", || problems()?.contains("portValue").then_some(())).unwrap();
    let router = "router.v3.Router}";
    let refused = LISTENER
        .replace(" name: web", " name: refused")
        .replace("metadata: {name: web}", "metadata: {name: refused}")
        .replace("PORT", &other.to_string())
        .replace(router, "lua.v3.Lua, inlineCode: \"nonsense(\"}");
    running.write("refused.yaml", &refused).unwrap();
    told("refused it");
    let state = running.state().display().to_string();
    let explained = binary::run(["explain", "web-1", "--state-dir", &state], "").unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains(" refused: ") && explained.contains(" in use "), "{explained}");
    running.write("one.yaml", &cluster("one", one.port)).unwrap();
    running.write("two.yaml", &cluster("two", two.port)).unwrap();
    answers(port, "two");

    // what is deleted goes, the last object of a namespace too, and comes back
    let files = ["listener", "route", "one", "two", "refused", "bad"].map(|name| format!("{name}.yaml"));
    files.iter().for_each(|file| running.remove(file).unwrap());
    wait::until("the end of the listener", || get(port, "x.example", "/").is_err().then_some(())).unwrap();
    running.write("listener.yaml", &LISTENER.replace("PORT", &port.to_string())).unwrap();
    running.write("route.yaml", &ROUTE.replace("CLUSTER", "two")).unwrap();
    running.write("two.yaml", &cluster("two", two.port)).unwrap();
    answers(port, "two");
    told("1 of 1 proxies have acknowledged it");

    // a label flips away and back
    running.write("pod.yaml", &pod("other")).unwrap();
    wait::until("the end of the listener", || get(port, "x.example", "/").is_err().then_some(())).unwrap();
    running.write("pod.yaml", &pod("web")).unwrap();
    answers(port, "two");
}

#[test]
fn where_that_is_asked_for_a_workload_is_what_the_bootstrap_of_its_envoy_says() {
    let one = Backend::start("one").unwrap();
    let [port, xds] = free_ports().unwrap();
    let address = format!("127.0.0.1:{xds}");
    let options = ["--no-envoy", "--workload-labels", "bootstrap", "--xds-listen", &address, "--insecure-xds-clients"];
    let mut running = Running::prepare().unwrap().with(&options);
    running.write("listener.yaml", &LISTENER.replace("PORT", &port.to_string())).unwrap();
    running.write("route.yaml", &ROUTE.replace("CLUSTER", "one")).unwrap();
    running.write("one.yaml", &cluster("one", one.port)).unwrap();
    running.start().unwrap();
    let start = |label: &str| {
        let place = TempDir::new().unwrap();
        // As Envoys of Bootes have it, the node says who it is; and here its labels.
        let node = format!("{{id: web-1.default, cluster: any, metadata: {{labels: {{{label}}}}}}}");
        let bootstrap = cleartext(place.path(), &node, xds, "");
        (Elsewhere::run(place.path(), &bootstrap).unwrap(), place)
    };
    let told = |line: &str| {
        wait::until(line, || running.status(&["-o", "yaml"]).ok().filter(|all| all.contains(line))).unwrap()
    };
    told("no workload of the namespace has these labels");
    let envoy = start("app: web");
    answers(port, "one");
    told("1 of 1 proxies have acknowledged it");
    drop(envoy);
    told("no workload of the namespace has these labels");
    let _other = start("app: other");
    let clusters =
        || running.status(&["-o", "yaml"]).ok().filter(|all| all.contains("1 of 1 proxies have acknowledged it"));
    // The cluster is for every workload, the listener for others.
    wait::until("the cluster", clusters).unwrap();
    told("no workload of the namespace has these labels");
    assert!(get(port, "x.example", "/").is_err());
}

/// An object with the hosts of a route configuration that several make.
fn host(name: &str, route: &str) -> String {
    format!(
        "apiVersion: bootes.io/v1
kind: Route
metadata: {{name: {name}}}
spec:
  config:
    name: web
    virtual_hosts:
    - name: {name}
      domains: [{name}.example]
      routes:
      - {route}
"
    )
}

fn to(cluster: &str) -> String {
    format!("{{match: {{prefix: /}}, route: {{cluster: {cluster}}}}}")
}

/// What Envoy refuses and no rule of its API forbids.
const ODD: &str = "{match: {safe_regex: {regex: \"(\"}}, route: {cluster: two}}";

/// A workload whose one route configuration is made by many objects, each in a file of its own.
struct Joint {
    running: Running,
    port: u16,
    _envoy: Elsewhere,
    _place: TempDir,
    _servers: (Backend, Backend),
}

impl Joint {
    /// With hosts of these names, which lead to `one`.
    fn start(names: &[&str]) -> Self {
        let servers = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
        let [port] = free_ports().unwrap();
        let place = TempDir::new().unwrap();
        let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
        running.write("pod.yaml", &pod("web")).unwrap();
        running.write("listener.yaml", &LISTENER.replace("PORT", &port.to_string())).unwrap();
        let clusters = [cluster("one", servers.0.port), cluster("two", servers.1.port)].join("---");
        running.write("clusters.yaml", &clusters).unwrap();
        for name in names {
            running.write(&format!("{name}.yaml"), &host(name, &to("one"))).unwrap();
        }
        running.start().unwrap();
        let envoy = envoy(&running, &place);
        Self { running, port, _envoy: envoy, _place: place, _servers: servers }
    }

    fn write(&self, name: &str, route: &str) {
        self.running.write(&format!("{name}.yaml"), &host(name, route)).unwrap();
    }

    fn remove(&self, name: &str) {
        if self.written(name).is_some() {
            self.running.remove(&format!("{name}.yaml")).unwrap();
        }
    }

    fn written(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.running.conf().join(format!("{name}.yaml"))).ok()
    }

    /// The body, or the status where that is not 200.
    fn ask(&self, name: &str) -> Option<String> {
        let answer = get(self.port, &format!("{name}.example"), "/").ok()?;
        Some(if answer.status == 200 { answer.body } else { answer.status.to_string() })
    }

    fn until(&self, name: &str, expected: &str) {
        let asked = || (self.ask(name).as_deref() == Some(expected)).then_some(());
        wait::until(&format!("{expected} of {name}"), asked).unwrap();
    }

    /// Waits until so many objects say that they are refused.
    fn told(&self, count: usize) -> String {
        let asked = || {
            let all = self.running.status(&["-o", "yaml"]).ok()?;
            (all.matches("refused it: ").count() == count).then_some(all)
        };
        wait::until(&format!("{count} objects that are refused"), asked).unwrap()
    }
}

#[test]
fn of_many_objects_that_make_one_route_configuration_only_the_refused_one_is_left_out() {
    let world = Joint::start(&["a", "b", "c"]);
    ["a", "b", "c"].iter().for_each(|name| world.until(name, "one"));

    // one is edited: it stays as it was, and the others go on
    world.write("b", ODD);
    assert!(world.told(1).contains("0 of 1 proxies use it; that of default/web-1 refused it: "));
    world.write("c", &to("two"));
    world.until("c", "two");
    world.until("b", "one");
    let explain = || {
        let state = world.running.state().display().to_string();
        String::from_utf8(binary::run(["explain", "web-1", "--state-dir", &state], "").unwrap().stdout).unwrap()
    };
    let left_out = || explain().contains("left out: it as it is now: the proxy refused").then_some(());
    wait::until("what was left out", left_out).unwrap_or_else(|error| panic!("{error}: {}", explain()));

    // another one is refused from its beginning, and one beside it comes in
    world.write("d", ODD);
    world.write("e", &to("one"));
    world.told(2);
    world.until("e", "one");
    world.until("d", "404");
    world.until("a", "one");

    // what is mended counts
    world.write("b", &to("two"));
    world.until("b", "two");
    world.told(1);
    world.write("d", &to("two"));
    world.until("d", "two");
    world.told(0);
}

/// By hand `SEED=7` repeats what went wrong.
fn seed() -> u64 {
    std::env::var_os("SEED").and_then(|text| text.to_str()?.parse().ok()).unwrap_or_else(|| fastrand::u64(..1000))
}

#[test]
fn objects_that_break_and_mend_in_any_order_end_as_written_and_cost_the_others_nothing() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = Joint::start(&["kept"]);
    world.until("kept", "one");
    let prober = Prober::default();
    let port = world.port;
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        threads.spawn(|| prober.run(|host| get(port, host, "/"), &[("kept.example", &["one"])]));
        for round in 0..6 {
            let mut last = BTreeMap::new();
            for _ in 0..random.usize(4..16) {
                let (name, form) = (NAMES[random.usize(..NAMES.len())], random.u8(..5));
                match form {
                    0 => world.remove(name),
                    1 => world.write(name, &to("one")),
                    2 => world.write(name, &to("two")),
                    _ => world.write(name, ODD),
                }
                last.insert(name, form);
                // as people do and as tools do
                if random.bool() {
                    thread::sleep(Duration::from_millis(random.u64(..120)));
                }
            }
            if round % 3 == 2 {
                world.running.kill_chancery().unwrap();
                world.running.start().unwrap();
            }
            for (name, form) in &last {
                match form {
                    0 => world.until(name, "404"),
                    1 => world.until(name, "one"),
                    2 => world.until(name, "two"),
                    _ => drop(world.ask(name)),
                }
            }
            world.told(NAMES.iter().filter(|name| world.written(name).is_some_and(|text| text.contains(ODD))).count());
            prober.more(3).unwrap();
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}, SEED={seed}");
}
