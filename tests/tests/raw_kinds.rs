//! Kinds of raw resources that a proxy asks for in ways of their own, through a real Envoy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tempfile::TempDir;
use tests::backend::Backend;
use tests::client::get;
use tests::elsewhere::Elsewhere;
use tests::ports::free_ports;
use tests::running::Running;
use tests::{binary, wait};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, labels: {app: web}}\n";

/// A listener; `ROUTES` says where its routes come from, `FILTERS` what stands before the router.
const LISTENER: &str = r#"
apiVersion: chancery.io/v1alpha1
kind: EnvoyListener
metadata: {name: web}
spec:
  config:
    name: web
    address: {socket_address: {address: 127.0.0.1, port_value: PORT}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          ROUTES
          http_filters:
          FILTERS
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
"#;

const SCOPES: &str = r#"scoped_routes:
            name: by-header
            scope_key_builder:
              fragments: [{header_value_extractor: {name: x-scope, index: 0}}]
            rds_config_source: {ads: {}, resource_api_version: V3}
            scoped_rds: {scoped_rds_config_source: {ads: {}, resource_api_version: V3}}"#;

/// An object of a kind with a message; lines of that are indented by four.
fn object(kind: &str, name: &str, config: &str) -> String {
    format!("apiVersion: chancery.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  config:\n{config}")
}

fn cluster(name: &str, port: u16) -> String {
    let endpoint = format!("{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}");
    let assignment = format!("{{cluster_name: {name}, endpoints: [{{lb_endpoints: [{endpoint}]}}]}}");
    object("EnvoyCluster", name, &format!("    name: {name}\n    type: STATIC\n    load_assignment: {assignment}\n"))
}

fn host(name: &str, domains: &str, cluster: &str) -> String {
    format!("{{name: {name}, domains: [{domains}], routes: [{{match: {{prefix: /}}, route: {{cluster: {cluster}}}}}]}}")
}

struct World {
    running: Running,
    port: u16,
    place: TempDir,
    _servers: (Backend, Backend),
}

impl World {
    fn start(listener: &str, objects: &[String]) -> Self {
        let servers = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
        let [port] = free_ports().unwrap();
        let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
        let clusters = [cluster("one", servers.0.port), cluster("two", servers.1.port)];
        let own = [POD.to_owned(), listener.replace("PORT", &port.to_string())];
        let all: Vec<&str> = own.iter().chain(&clusters).chain(objects).map(String::as_str).collect();
        running.write("all.yaml", &all.join("---\n")).unwrap();
        running.start().unwrap();
        Self { running, port, place: TempDir::new().unwrap(), _servers: servers }
    }

    fn envoy(&self) -> Elsewhere {
        Elsewhere::of_workload(&self.running, "default/web-1", self.place.path()).unwrap()
    }

    fn told(&self, line: &str) {
        let all = || self.running.status(&["-o", "yaml"]).ok().filter(|all| all.contains(line));
        wait::until(line, all).unwrap();
    }

    fn answers(&self, host: &str, headers: &[(&str, &str)], expected: &str) {
        let asked = || {
            let answer = tests::client::get_with(self.port, host, "/", headers).ok()?;
            let said = if answer.status == 200 { answer.body } else { answer.status.to_string() };
            (said == expected).then_some(())
        };
        wait::until(&format!("{expected} of {host}"), asked).unwrap();
    }
}

#[test]
fn scoped_routes_reach_an_envoy_that_names_none_and_follow_their_objects() {
    let scope = |name: &str, value: &str| {
        let key = format!("{{fragments: [{{string_key: {value}}}]}}");
        object(
            "EnvoyScopedRoute",
            name,
            &format!("    name: {name}\n    route_configuration_name: {name}\n    key: {key}\n"),
        )
    };
    let routes = |name: &str| {
        let host = host("all", "\"*\"", name);
        object("EnvoyRoute", name, &format!("    name: {name}\n    virtual_hosts: [{host}]\n"))
    };
    let listener = LISTENER.replace("ROUTES", SCOPES).replace("          FILTERS\n", "");
    let world = World::start(&listener, &[routes("one"), routes("two"), scope("one", "\"1\"")]);
    let _envoy = world.envoy();
    world.answers("a.example", &[("x-scope", "1")], "one");
    world.answers("a.example", &[("x-scope", "2")], "404");
    world.running.write("two.yaml", &scope("two", "\"2\"")).unwrap();
    world.answers("a.example", &[("x-scope", "2")], "two");
    world.answers("a.example", &[("x-scope", "1")], "one");
    world.running.remove("two.yaml").unwrap();
    world.answers("a.example", &[("x-scope", "2")], "404");
    assert!(!world.running.status(&["-o", "yaml"]).unwrap().contains("0 of 1"));
}

#[test]
fn a_host_that_nobody_has_is_answered_at_once_where_virtual_hosts_come_on_demand() {
    let rds = "rds: {route_config_name: vh, config_source: {ads: {}, resource_api_version: V3}}";
    let on_demand = "- name: envoy.filters.http.on_demand\n            typed_config: {\"@type\": \
         type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand}";
    let listener = LISTENER.replace("ROUTES", rds).replace("FILTERS", on_demand);
    let route = "    name: vh\n    vhds: {config_source: {ads: {}, resource_api_version: V3}}\n";
    let virtual_host = |name: &str| {
        let text = format!(
            "    name: vh/{name}\n    domains: [{name}]\n    routes: [{{match: {{prefix: /}}, route: {{cluster: one}}}}]\n"
        );
        object("EnvoyVirtualHost", &name.replace('.', "-"), &text)
    };
    let world = World::start(&listener, &[object("EnvoyRoute", "vh", route), virtual_host("a.example")]);
    let _envoy = world.envoy();
    world.answers("a.example", &[], "one");
    assert_eq!(get(world.port, "unknown.example", "/").unwrap().status, 404);
    // one that comes after it was asked for
    world.running.write("late.yaml", &virtual_host("unknown.example")).unwrap();
    world.answers("unknown.example", &[], "one");
    world.running.remove("late.yaml").unwrap();
    world.answers("unknown.example", &[], "404");
    world.answers("a.example", &[], "one");
}

#[test]
fn a_second_envoy_of_a_workload_changes_nothing_that_is_said_of_the_first() {
    let rds = "rds: {route_config_name: web, config_source: {ads: {}, resource_api_version: V3}}";
    let listener = LISTENER.replace("ROUTES", rds).replace("          FILTERS\n", "");
    let all = host("all", "\"*\"", "one");
    let routes = object("EnvoyRoute", "web", &format!("    name: web\n    virtual_hosts: [{all}]\n"));
    let world = World::start(&listener, &[routes]);
    let _first = world.envoy();
    world.answers("a.example", &[], "one");
    world.told("1 of 1 proxies have acknowledged it");
    let place = TempDir::new().unwrap();
    let second = Elsewhere::of_workload(&world.running, "default/web-1", place.path()).unwrap();
    let connected = |count: usize| -> Option<()> {
        let state = world.running.state().display().to_string();
        let list = binary::run(["proxy", "list", "--state-dir", &state], "").ok()?;
        let text = String::from_utf8_lossy(&list.stdout).into_owned();
        (text.matches("workload/default/web-1").count() == count).then_some(())
    };
    wait::until("two proxies", || connected(2)).unwrap();
    assert!(!world.running.status(&["-o", "yaml"]).unwrap().contains("0 of 1"));
    drop(second);
    wait::until("one proxy", || connected(1)).unwrap();
    assert!(!world.running.status(&["-o", "yaml"]).unwrap().contains("0 of 1"));
}
