//! Authors of small objects whose product is large: listeners of many `ListenerSet`s, times matches, times routes.

use std::fmt::Write as _;
use std::thread;

use tests::backend::Backend;
use tests::client::{get, get_with};
use tests::objects::{documents, route, service};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

/// Sets of the Gateway, as many as a route can name.
const SETS: usize = 32;

/// Listeners of each, as many as one can have.
const LISTENERS: usize = 64;

/// Entries that the routes of a namespace may make here, and one of them.
const BUDGET: usize = 16 << 10;
const ROUTE: usize = BUDGET / 4;

/// Rules and matches of a large route: below the 128 matches of the API.
const MATCHES: (usize, usize) = (8, 15);

fn gateway(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge}}\nspec:\n  gatewayClassName: chancery\n  \
         allowedListeners: {{namespaces: {{from: All}}}}\n  listeners:\n  - {{name: http, protocol: HTTP, port: {port}, hostname: x.example}}\n"
    )
}

/// The tenant's sets, on the port of the Gateway.
fn sets(port: u16) -> String {
    let mut text = String::new();
    for set in 0..SETS {
        let _ = write!(
            text,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: s{set}, namespace: flood}}\nspec:\n  \
             parentRef: {{name: edge, namespace: default}}\n  listeners:\n"
        );
        for at in 0..LISTENERS {
            let _ = writeln!(text, "  - {{name: l{at}, protocol: HTTP, port: {port}, hostname: h{at}.s{set}.example}}");
        }
    }
    text
}

/// A route of the tenant on the first sets.
fn flood(name: &str, sets: usize, (rules, matches): (usize, usize)) -> String {
    let mut text = format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: flood}}\nspec:\n  parentRefs:\n"
    );
    for set in 0..sets {
        let _ = writeln!(text, "  - {{group: gateway.networking.k8s.io, kind: ListenerSet, name: s{set}}}");
    }
    text.push_str("  rules:\n");
    for rule in 0..rules {
        text.push_str("  - matches:\n");
        for at in 0..matches {
            let header = "v".repeat(40);
            let _ = writeln!(
                text,
                "    - {{path: {{value: /{name}/{rule}/{at}}}, headers: [{{name: x-h{at}, value: {header}}}]}}"
            );
        }
    }
    text
}

/// Waits until the Gateway answers a path of the tenant's host with this status.
fn until_answer(port: u16, path: &str, status: u16) {
    let asked = || get(port, "h0.s0.example", path).ok().filter(|answer| answer.status == status).map(|_| ());
    wait::until(path, asked).unwrap();
}

#[test]
fn routes_whose_product_is_large_take_bounded_memory_and_nothing_from_others() {
    let ([port], backend) = (free_ports().unwrap(), Backend::start("good").unwrap());
    let mut running = Running::prepare().unwrap().with(&["--max-route-entries", &BUDGET.to_string()]);
    let good = [gateway(port), service("good", backend.port), route("good", &[("/good", "good")])];
    running.write("good.yaml", &documents(good.iter().map(String::as_str))).unwrap();
    running.write("sets.yaml", &sets(port)).unwrap();
    running.start().unwrap();
    until_answer(port, "/", 404);
    let before = running.memory("VmRSS").unwrap();
    let prober = Prober::default();
    thread::scope(|scope| {
        let over = prober.until_dropped();
        scope.spawn(|| prober.run(|path| get(port, "x.example", path), &[("/good", &["good"])]));
        prober.more(20).unwrap();
        let written = attack(&running, port);
        prober.more(20).unwrap();
        // An entry counts as 512 bytes, and there are those of before an edit and those of after it; a file may take 32 MiB and eight times its size.
        let bound = before + u64::try_from(2 * BUDGET * 512 + (32 << 20) + 8 * written).unwrap();
        let most = running.memory("VmHWM").unwrap();
        assert!(most <= bound, "{most} bytes of {bound}, {before} before");
        drop(over);
    });
    let (asked, wrong) = prober.told();
    assert!(asked > 40 && wrong.is_empty(), "{asked} requests: {wrong:?}");
}

/// Writes what floods, waits until it is said of it that it does, and edits what is attached of it. Gives the size of the files.
fn attack(running: &Running, port: u16) -> usize {
    let (rules, matches) = MATCHES;
    let huge: String = (0..2).map(|at| flood(&format!("huge{at}"), SETS, MATCHES)).collect();
    running.write("huge.yaml", &huge).unwrap();
    running.until_problem(&format!("makes {} route entries", SETS * LISTENERS * rules * matches)).unwrap();
    running.until_problem(&format!("one route may make {ROUTE}")).unwrap();
    // Each is as large as one may be, and four of them are as many as there may be.
    let text: String = (0..8).map(|at| flood(&format!("large{at}"), 1, (8, 8))).collect();
    assert_eq!(LISTENERS * 8 * 8, ROUTE);
    running.write("large.yaml", &text).unwrap();
    let late = format!("fewer of the {BUDGET} that those of namespace flood");
    running.until_problem(&late).unwrap();
    let problems = running.status(&["problems"]).unwrap();
    assert_eq!(problems.matches(&late).count(), 4, "{problems}");
    assert!(running.status(&["-o", "json"]).unwrap().contains("TooManyRouteEntries"));
    // Without backends the first ones answer 500, where they are attached; the others are not.
    let value = "v".repeat(40);
    let header = [("x-h0", &*value)];
    let asked = |path: &str, status: u16| {
        let answer = get_with(port, "h0.s0.example", path, &header).ok();
        answer.filter(|answer| answer.status == status).map(|_| ())
    };
    wait::until("an attached one to be served", || asked("/large3/0/0", 500)).unwrap();
    assert_eq!(asked("/large4/0/0", 404), Some(()));
    for edit in 0..10 {
        running.write("large.yaml", &text.replace("/large0/0/0", &format!("/large0/0/e{edit}"))).unwrap();
        running
            .write("mark.yaml", &tests::objects::route(&format!("mark{edit}"), &[(&format!("/mark{edit}"), "good")]))
            .unwrap();
        wait::until("the edit to be served", || {
            get(port, "x.example", &format!("/mark{edit}")).ok().filter(|answer| answer.status == 200).map(|_| ())
        })
        .unwrap();
    }
    huge.len() + text.len()
}
