//! Backends that are never ready, and proxies that start: all other routes are served.

use std::path::Path;

use tempfile::TempDir;
use tests::backend::Backend;
use tests::client;
use tests::elsewhere::{Elsewhere, socket_example};
use tests::names::{Names, SILENT};
use tests::objects::{documents, gateway, route, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

/// Silent names.
const MANY: usize = 3;

/// A Chancery that serves a proxy of the test's own, which resolves names by a server of the test's own and waits long for it.
struct World {
    running: Running,
    names: Names,
    port: u16,
    _near: Backend,
    _far: Backend,
}

/// A `Backend` of a host and port, and a route to it.
fn named(name: &str, host: &str, port: u16) -> String {
    let backend = format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\n\
         spec: {{endpoints: [{{fqdn: {{hostname: {host}, port: {port}}}}}]}}\n"
    );
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\nspec:\n  parentRefs: [{{name: edge}}]\n  \
         rules: [{{matches: [{{path: {{value: /{name}}}}}], backendRefs: [{{group: gateway.envoyproxy.io, kind: Backend, name: {name}}}]}}]\n"
    );
    documents([&*backend, &route])
}

impl World {
    /// With so many silent names, and in `near` the route to a backend without one.
    fn start(silent: usize, with_near: bool) -> Self {
        let [port] = free_ports().unwrap();
        let [near, far] = ["near", "far"].map(|name| Backend::start(name).unwrap());
        let names = Names::start(std::time::Duration::ZERO).unwrap();
        let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
        running.write("gateway.yaml", &gateway(port)).unwrap();
        if with_near {
            let near = documents([&*service("near", near.port), &route("near", &[("/near", "near")])]);
            running.write("near.yaml", &near).unwrap();
        }
        running.write("far.yaml", &named("far", "far.example", far.port)).unwrap();
        for number in 0..silent {
            let (name, host) = (format!("evil{number}"), format!("evil{number}.{SILENT}"));
            running.write(&format!("{name}.yaml"), &named(&name, &host, far.port)).unwrap();
        }
        running.start().unwrap();
        Self { running, names, port, _near: near, _far: far }
    }

    /// A new proxy. Its resolver gives a name up after an hour.
    fn proxy(&self, folder: &Path) -> Elsewhere {
        let bootstrap = socket_example(&self.running, "default/edge", folder).unwrap();
        let usual = "    query_timeout_seconds: 1\n    query_tries: 2\n";
        assert!(bootstrap.contains(usual), "{bootstrap}");
        let patient = format!(
            "    query_timeout_seconds: 3600\n    query_tries: 1\n    resolvers: [{{socket_address: {{address: 127.0.0.1, port_value: {}}}}}]\n",
            self.names.port
        );
        Elsewhere::run(folder, &bootstrap.replace(usual, &patient)).unwrap()
    }

    fn answer(&self, path: &str) -> (u16, String) {
        client::get(self.port, "a.example", path).map(|answer| (answer.status, answer.body)).unwrap_or_default()
    }

    /// The first answer at all, which has to be this backend's.
    fn first_is(&self, path: &str, body: &str) {
        let first = wait::until("the first answer", || Some(self.answer(path)).filter(|answer| answer.0 != 0)).unwrap();
        assert_eq!(first, (200, body.to_owned()), "{path}");
    }
}

#[test]
fn names_that_are_never_resolved_hold_up_no_new_proxy() {
    let world = World::start(MANY, true);
    for _ in 0..2 {
        let folder = TempDir::new().unwrap();
        let proxy = world.proxy(folder.path());
        world.first_is("/near", "near");
        // nor do names that are resolved lose a request
        world.first_is("/far", "far");
        assert_eq!(world.answer("/evil0").0, 503);
        assert!((0..MANY).all(|number| world.names.was_asked(&format!("evil{number}.{SILENT}"))));
        // what is edited meanwhile is served
        world.running.write("new.yaml", &route("new", &[("/new", "near")])).unwrap();
        wait::until("an edit", || (world.answer("/new").0 == 200).then_some(())).unwrap();
        world.running.remove("new.yaml").unwrap();
        wait::until("its end", || (world.answer("/new").0 == 404).then_some(())).unwrap();
        assert_eq!(world.answer("/far"), (200, "far".to_owned()));
        drop(proxy);
    }
}

#[test]
fn names_that_are_never_resolved_hold_up_no_other_names() {
    let world = World::start(MANY, false);
    for _ in 0..2 {
        let folder = TempDir::new().unwrap();
        let _proxy = world.proxy(folder.path());
        world.first_is("/far", "far");
        assert_eq!(world.answer("/evil0").0, 503);
    }
}

#[test]
fn a_new_proxy_loses_no_request_to_names_that_are_resolved() {
    let world = World::start(0, true);
    for _ in 0..3 {
        let folder = TempDir::new().unwrap();
        let _proxy = world.proxy(folder.path());
        world.first_is("/far", "far");
        world.first_is("/near", "near");
    }
}
