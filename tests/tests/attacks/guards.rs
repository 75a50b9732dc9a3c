//! Requests that a policy would have refused whose fields are not built: they get nothing, and all others go on.

use std::net::TcpStream;
use std::time::Duration;

use tests::backend::Backend;
use tests::client::get;
use tests::objects::{documents, gateway, listeners, route, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{binary, wait};

/// Two routes of a Gateway, each to the same backend: `/one` and `/two`.
struct World {
    running: Running,
    port: u16,
    _backend: Backend,
}

impl World {
    fn start(arguments: &[&str], policy: Option<&str>) -> Self {
        let mut running = Running::prepare().unwrap().with(arguments);
        let [port] = free_ports().unwrap();
        let backend = Backend::start("one").unwrap();
        let objects = [
            gateway(port),
            service("one", backend.port),
            route("one", &[("/one", "one")]),
            route("two", &[("/two", "one")]),
        ];
        running.write("objects.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
        policy.into_iter().for_each(|policy| running.write("policy.yaml", policy).unwrap());
        running.start().unwrap();
        Self { running, port, _backend: backend }
    }

    /// Waits until requests for `/one` and `/two` get these answers.
    #[track_caller]
    fn until(&self, one: u16, two: u16) {
        let answer = |path: &str| get(self.port, "x.example", path).map(|answer| answer.status).ok();
        let found = wait::until(&format!("{one} and {two}"), || {
            (answer("/one") == Some(one) && answer("/two") == Some(two)).then_some(())
        });
        found.unwrap_or_else(|error| panic!("{error}\n{}", self.running.status(&["problems"]).unwrap_or_default()));
    }
}

/// A policy of a kind on a target with these fields.
fn policy(kind: &str, name: &str, target: &str, fields: &str) -> String {
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  targetRefs:\n  - \
         {{group: gateway.networking.k8s.io, {target}}}\n  {fields}\n"
    )
}

/// A policy that lets in clients of an office far away.
fn guard(target: &str) -> String {
    let rules = "{defaultAction: Deny, rules: [{action: Allow, principal: {clientCIDRs: [192.0.2.0/24]}}]}";
    policy("SecurityPolicy", "guard", target, &format!("authorization: {rules}"))
}

const ROUTE: &str = "kind: HTTPRoute, name: one";

#[test]
fn a_guarded_route_answers_500_until_its_policy_goes() {
    let world = World::start(&[], None);
    world.until(200, 200);
    world.running.write("policy.yaml", &guard(ROUTE)).unwrap();
    world.until(500, 200);
    let status = world.running.status(&["httproute", "one", "--output", "yaml"]).unwrap();
    assert!(status.contains("UnsupportedPolicy"), "{status}");
    let problems = world.running.status(&["problems"]).unwrap();
    assert!(problems.contains("spec.authorization"), "{problems}");
    world.running.remove("policy.yaml").unwrap();
    world.until(200, 200);
}

#[test]
fn every_kind_of_guard_closes_what_it_is_for() {
    let world = World::start(&[], Some(&guard("kind: Gateway, name: edge")));
    world.until(500, 500);
    for (text, one, two) in [
        (policy("EnvoyExtensionPolicy", "p", ROUTE, "extProc: []"), 500, 200),
        (policy("BackendTrafficPolicy", "p", ROUTE, "rateLimit: {type: Local}"), 500, 200),
        (policy("ClientTrafficPolicy", "p", "kind: Gateway, name: edge", "clientIPDetection: {}"), 500, 500),
        (policy("ClientTrafficPolicy", "p", "kind: Gateway, name: edge, sectionName: http", "path: {}"), 500, 500),
        (policy("ClientTrafficPolicy", "p", "kind: Gateway, name: edge", "tcpKeepalive: {}"), 200, 200),
        // Misspelt, and without a group.
        (policy("ClientTrafficPolicy", "p", "kind: Gateway, name: edge", "clientIpDetection: {}"), 500, 500),
        (guard(ROUTE).replace("group: gateway.networking.k8s.io, ", ""), 500, 200),
        (
            guard(ROUTE)
                .replace("kind: SecurityPolicy\nmetadata: {", "kind: SecurityPolicy\nmetadata: {namespace: other, "),
            200,
            200,
        ),
    ] {
        world.running.write("policy.yaml", &text).unwrap();
        world.until(one, two);
    }
}

/// Policies that guard `/one` and have something wrong with them, with the answer for `/two` where there was no policy before: what a policy may be for
/// is closed as far as it cannot be read.
fn broken() -> Vec<(&'static str, String, u16)> {
    let good = guard(ROUTE);
    let targets = "  targetRefs:\n  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: one}\n";
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    let metadata = |fields: &str| changed("{name: guard}", fields);
    let kind = |to: &str| changed("kind: SecurityPolicy", to);
    let target = |to: &str| changed(targets, to);
    let listed = format!("- {}", good.trim_end().replace('\n', "\n  "));
    vec![
        ("label of a number", metadata("{name: guard, labels: {a: 1}}"), 200),
        ("labels as a list", metadata("{name: guard, labels: [a]}"), 200),
        ("annotation of a number", metadata("{name: guard, annotations: {a: 1}}"), 200),
        ("generation", metadata("{name: guard, generation: x}"), 200),
        ("timestamp", metadata("{name: guard, creationTimestamp: yesterday}"), 200),
        ("no namespace", metadata("{name: guard, namespace: ''}"), 200),
        ("capital in the name", metadata("{name: Guard}"), 200),
        ("number as name", metadata("{name: 12}"), 200),
        ("no name", metadata("{}"), 200),
        ("version", changed("/v1alpha1", "/v1"), 200),
        ("older version", changed("/v1alpha1", "/v1alpha2"), 200),
        ("case of the group", changed("gateway.envoyproxy.io", "Gateway.envoyproxy.io"), 200),
        ("misspelt group", changed("gateway.envoyproxy.io", "gateway.envoyproxi.io"), 200),
        ("no apiVersion", changed("apiVersion: gateway.envoyproxy.io/v1alpha1\n", ""), 200),
        ("case of the kind", kind("kind: securitypolicy"), 200),
        ("misspelt kind", kind("kind: SecurityPolicies"), 200),
        (
            "case of a list of the kind",
            format!("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicylist\nitems:\n{listed}\n"),
            200,
        ),
        ("list of another version", format!("apiVersion: v2\nkind: List\nitems:\n{listed}\n"), 200),
        ("spec with a capital", changed("\nspec:", "\nSpec:"), 200),
        ("case of the targets", changed("targetRefs", "targetrefs"), 200),
        ("misspelt targets", changed("targetRefs", "targetsRef"), 200),
        ("case of the target's kind", changed("HTTPRoute", "HttpRoute"), 200),
        ("target without its kind", changed("kind: HTTPRoute, ", ""), 200),
        ("target without its name", changed(", name: one", ""), 500),
        ("word as targets", target("  targetRefs: one\n"), 500),
        ("no targets", target(""), 500),
        ("map as selectors", target("  targetSelectors: {kind: HTTPRoute}\n"), 500),
        (
            "operator of a selector",
            target("  targetSelectors: [{kind: HTTPRoute, matchExpressions: [{key: a, operator: NotExist}]}]\n"),
            500,
        ),
        ("guard twice", format!("{good}  authorization: null\n"), 200),
        ("unknown tag", changed("\nspec:", "\nspec: !mine"), 200),
        ("unknown anchor", format!("{good}  cors: *nothing\n"), 200),
        ("text that ends too early", good.trim_end().trim_end_matches('}').to_owned(), 200),
    ]
}

#[test]
fn a_broken_policy_closes_what_can_be_read_of_its_targets() {
    let world = World::start(&[], None);
    for (name, text, two) in broken() {
        world.until(200, 200);
        println!("{name}");
        world.running.write("policy.yaml", &text).unwrap();
        world.until(500, two);
        let problems = world.running.status(&["problems"]).unwrap();
        let says = problems.contains("so this is closed") || problems.contains("what the policy is for answers 500");
        assert!(says, "{name}: {problems}");
        world.running.remove("policy.yaml").unwrap();
    }
    world.until(200, 200);
}

#[test]
fn a_broken_policy_closes_from_the_first_start() {
    for name in ["label of a number", "case of a list of the kind", "case of the group", "no targets", "guard twice"] {
        let (_, text, two) = broken().into_iter().find(|(this, ..)| *this == name).unwrap();
        World::start(&[], Some(&text)).until(500, two);
    }
}

#[test]
fn an_edit_that_breaks_a_policy_changes_nothing() {
    let world = World::start(&[], Some(&guard(ROUTE)));
    world.until(500, 200);
    // A route that is written later and served: the edits before it count too.
    let settle = |path: &str| {
        world.running.write("after.yaml", &route("after", &[(path, "one")])).unwrap();
        let served = || (get(world.port, "x.example", path).ok()?.status == 200).then_some(());
        wait::until("a later route", served).unwrap();
    };
    for (at, (name, text, _)) in broken().into_iter().enumerate() {
        println!("{name}");
        world.running.write("policy.yaml", &text).unwrap();
        settle(&format!("/broken-{at}"));
        world.until(500, 200);
        let problems = world.running.status(&["problems"]).unwrap();
        assert!(problems.contains("stays in force") || name == "case of the target's kind", "{name}: {problems}");
        world.running.write("policy.yaml", &guard(ROUTE)).unwrap();
        settle(&format!("/good-{at}"));
    }
}

#[test]
fn a_policy_that_is_written_twice_closes_all_that_it_is_for() {
    let world = World::start(&[], Some(&guard(ROUTE)));
    world.until(500, 200);
    world.running.write("another.yaml", &guard("kind: HTTPRoute, name: two")).unwrap();
    world.until(500, 500);
    world.running.remove("policy.yaml").unwrap();
    world.until(200, 500);
    world
        .running
        .write("another.yaml", &format!("{}---\n{}", guard("kind: HTTPRoute, name: two"), guard(ROUTE)))
        .unwrap();
    world.until(500, 500);
}

#[test]
fn broken_policies_that_are_allowed_close_nothing() {
    let world = World::start(&["--unsupported-policies", "allow"], Some("# nothing yet\n"));
    world.until(200, 200);
    let (_, text, _) = broken().swap_remove(0);
    world.running.write("policy.yaml", &text).unwrap();
    let says = || world.running.status(&["problems"]).ok().filter(|problems| problems.contains("pass without it"));
    wait::until("the word", says).unwrap();
    world.until(200, 200);
    for (name, text, _) in broken() {
        let objects = [gateway(8080), service("one", 9000), route("one", &[("/one", "one")]), text];
        let text = documents(objects.iter().map(String::as_str));
        let output = binary::run(["validate", "--unsupported-policies", "allow", "-"], &text).unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("pass without it") && !said.contains("this is closed"), "{name}: {said}");
    }
}

#[test]
fn validate_fails_for_every_broken_policy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    for (name, text, _) in broken() {
        let objects = [gateway(8080), service("one", 9000), route("one", &[("/one", "one")]), text];
        std::fs::write(&file, documents(objects.iter().map(String::as_str))).unwrap();
        let output = binary::run(["validate", file.to_str().unwrap()], "").unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn allowed_policies_leave_routes_open_and_say_so() {
    let world = World::start(&["--unsupported-policies", "allow"], Some(&guard(ROUTE)));
    world.until(200, 200);
    let status = world.running.status(&["httproute", "one", "--output", "yaml"]).unwrap();
    assert!(status.contains("UnsupportedPolicy") && status.contains("Allowed"), "{status}");
    let problems = world.running.status(&["problems"]).unwrap();
    assert!(problems.contains("requests pass without it"), "{problems}");
}

#[test]
fn validate_fails_and_says_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let objects = [gateway(8080), service("one", 9000), route("one", &[("/", "one")]), guard(ROUTE)];
    std::fs::write(&file, documents(objects.iter().map(String::as_str))).unwrap();
    let file = file.to_str().unwrap();
    let output = binary::run(["validate", file], "").unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("error: this guards and is not supported by this version"), "{shown}");
    assert!(shown.contains("1 error, 0 warnings, 1 note"), "{shown}");
    let output = binary::run(["validate", "--unsupported-policies=allow", file], "").unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("0 errors, 1 warning, 1 note"), "{output:?}");
}

#[test]
fn connections_that_a_policy_guards_are_closed() {
    let mut running = Running::prepare().unwrap();
    let [port] = free_ports().unwrap();
    let backend = Backend::start("one").unwrap();
    let tcp = "apiVersion: gateway.networking.k8s.io/v1\nkind: TCPRoute\nmetadata: {name: one}\nspec:\n  parentRefs: [{name: edge}]\n  \
               rules: [{backendRefs: [{name: one, port: 80}]}]\n";
    let objects = [
        listeners(&format!("  - name: tcp\n    protocol: TCP\n    port: {port}\n")),
        service("one", backend.port),
        tcp.to_owned(),
    ];
    running.write("objects.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
    running.start().unwrap();
    let answer = || get(port, "x.example", "/").map(|answer| answer.status).ok();
    wait::until("an answer", || (answer() == Some(200)).then_some(())).unwrap();
    // The port is bound, and nothing passes.
    let closed = || {
        TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(5)).is_ok() && answer().is_none()
    };
    for target in
        ["kind: TCPRoute, name: one", "kind: Gateway, name: edge", "kind: Gateway, name: edge, sectionName: tcp"]
    {
        running.write("policy.yaml", &guard(target)).unwrap();
        wait::until(&format!("connections to be closed by {target}"), || closed().then_some(())).unwrap();
        running.remove("policy.yaml").unwrap();
        wait::until("an answer", || (answer() == Some(200)).then_some(())).unwrap();
    }
}
