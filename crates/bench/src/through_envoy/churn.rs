//! Edits under a continuous request loop: rules changed and reordered, routes added and removed. No request may fail, and none may be
//! answered by a backend that its rule does not name; the first answer of a new route that is not 404 is a 200.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::http::{Answer, Connection};
use super::{PAUSE, PEER, Stage, in_conf};
use crate::dataset::{self, Edit, Endpoints};
use crate::figure::{Figure, Report, Samples, millis, say};

/// Times that each of the four kinds of edits is made at most, and at least.
const ROUNDS: usize = 60;
const MIN_ROUNDS: usize = 5;

/// No further round begins after this time.
const BUDGET: Duration = Duration::from_secs(40);

/// Rules that change places.
const RULES: usize = 10;

/// The host of the route that is edited.
const HOST: &str = "churn.example.com";

/// Examples of what went wrong that are shown.
const SHOWN: usize = 10;

/// What the request loop saw.
#[derive(Default)]
struct Seen {
    requests: usize,
    failed: usize,
    wrong: usize,
    examples: Vec<String>,
    /// The first answer other than 404 of each new route.
    first: Vec<(usize, u16)>,
}

/// What both threads know.
#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    /// The new route that there may be; 0 is none.
    new: AtomicUsize,
    over: AtomicBool,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is there from the start.
pub(super) fn first_files() -> [(&'static str, String); 1] {
    [("churn.yaml", churn(0, 1, 0))]
}

/// The edited route: `/swap` goes to service 1 or 2, and `/a<k>` to service 10 + k, whatever the order of the rules.
fn churn(round: usize, swap: usize, turn: usize) -> String {
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: churn\nspec:\n  parentRefs:\n  - name: \
         edge\n  hostnames:\n  - {HOST}\n  rules:\n  - matches:\n    - path:\n        type: PathPrefix\n        value: /swap\n    \
         filters:\n    - type: ResponseHeaderModifier\n      responseHeaderModifier:\n        set:\n        - name: x-value\n          \
         value: v{round}\n    backendRefs:\n    - name: service-{swap}\n      port: 80\n"
    );
    for place in 0..RULES {
        let rule = (place + turn) % RULES;
        text += &format!(
            "  - matches:\n    - path:\n        type: PathPrefix\n        value: /a{rule}\n    backendRefs:\n    - name: \
             service-{}\n      port: 80\n",
            10 + rule
        );
    }
    text
}

/// A new route on a host of its own, with a new service.
fn new_route(round: usize, service: usize, endpoints: Endpoints) -> String {
    let service_text = dataset::service(service, endpoints);
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: new-{round}\nspec:\n  parentRefs:\n  - name: \
         edge\n  hostnames:\n  - {}\n  rules:\n  - backendRefs:\n    - name: service-{service}\n      port: 80\n---\n{service_text}",
        new_host(round)
    )
}

fn new_host(round: usize) -> String {
    format!("new-{round}.example.com")
}

/// Runs the loop and the edits.
pub(super) fn run(report: &mut Report, stage: &mut Stage, peer: Option<[f64; 3]>) -> anyhow::Result<()> {
    let shared = Shared::default();
    let (port, routes) = (stage.port, stage.routes);
    let added = std::thread::scope(|scope| {
        let asker = scope.spawn(|| ask(port, routes, &shared));
        let added = edits(stage, &shared);
        shared.over.store(true, Ordering::Release);
        asker.join().map_err(|_| anyhow::anyhow!("the request loop broke"))?;
        added
    });
    let mut added = added?;
    let seen = std::mem::take(&mut *shared.seen());
    for example in &seen.examples {
        say(&format!("B2e n={routes}: {example}"));
    }
    let not_200 = seen.first.iter().filter(|(_, status)| *status != 200).count();
    let none = || Some(0.0);
    report.figure("B2e", "requests", routes, (dataset::count(seen.requests), "requests"), None);
    report.figure("B2e", "failed_requests", routes, (dataset::count(seen.failed), "requests"), none());
    let wrong_of_peer = peer.map(|_| dataset::peer(PEER, 357.0)).unwrap_or_default();
    let (bench, figure, value) = ("B2e", "wrong_answers", dataset::count(seen.wrong));
    report.add(&Figure { bench, figure, n: routes, value, unit: "requests", limit: none(), peer: wrong_of_peer });
    report.figure("B2e", "new_routes", routes, (dataset::count(seen.first.len()), "routes"), None);
    report.figure("B2e", "new_routes_first_not_200", routes, (dataset::count(not_200), "routes"), none());
    let (figure, value) = ("new_route_ms_p50", millis(added.percentile(50)));
    let peer = peer.map(|[_, new, _]| dataset::peer(PEER, new)).unwrap_or_default();
    report.add(&Figure { bench, figure, n: routes, value, unit: "ms", limit: None, peer });
    Ok(())
}

/// Makes all edits, each seen before the next; gives how long new routes took to answer 200.
fn edits(stage: &Stage, shared: &Shared) -> anyhow::Result<Samples> {
    let endpoints = Endpoints::Here(stage.backend.port);
    let mut connection = Connection::open(stage.port)?;
    let (mut added, mut swap, mut turn) = (Samples::default(), 1, 0);
    let start = Instant::now();
    for round in 1..=2 * ROUNDS {
        if round > 2 * MIN_ROUNDS && start.elapsed() > BUDGET {
            break;
        }
        // Change and reorder by turns.
        if round % 2 == 0 {
            turn += 3
        } else {
            swap = 3 - swap
        }
        Edit::prepare(&stage.chancery.conf(), "churn.yaml", &churn(round, swap, turn))?.rename()?;
        let value = format!("v{round}");
        wait(&mut connection, HOST, "/swap", |answer| answer.value.as_deref() == Some(&*value))?;
        if round % 2 == 0 {
            let (host, service) = (new_host(round), stage.routes + round);
            shared.new.store(round, Ordering::Release);
            let edit = Edit::prepare(&stage.chancery.conf(), "new.yaml", &new_route(round, service, endpoints))?;
            let began = Instant::now();
            edit.rename()?;
            wait(&mut connection, &host, "/", |answer| answer.status == 200)?;
            added.add(began.elapsed());
            std::fs::remove_file(in_conf(stage, "new.yaml"))?;
            wait(&mut connection, &host, "/", |answer| answer.status == 404)?;
        }
    }
    Ok(added)
}

fn wait(connection: &mut Connection, host: &str, path: &str, right: impl Fn(&Answer) -> bool) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let answer = connection.get(host, path)?;
        if right(&answer) {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < Duration::from_secs(30), "{host}{path} stays at {answer:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Asks for everything in turn until it is over.
fn ask(port: u16, routes: usize, shared: &Shared) {
    let mut connection = None;
    while !shared.over.load(Ordering::Acquire) {
        request(&mut connection, port, shared, ("host-0.example.com", "/path-0"), |service| service == 0);
        request(&mut connection, port, shared, (HOST, "/swap"), |service| service == 1 || service == 2);
        for rule in 0..RULES {
            request(&mut connection, port, shared, (HOST, &format!("/a{rule}")), |service| service == 10 + rule);
        }
        let round = shared.new.load(Ordering::Acquire);
        if round > 0 {
            request(&mut connection, port, shared, (&new_host(round), "/"), |service| service == routes + round);
        }
    }
}

/// One request, judged. A host of a new route may answer 404; nobody else may.
fn request(
    connection: &mut Option<Connection>,
    port: u16,
    shared: &Shared,
    (host, path): (&str, &str),
    right: impl Fn(usize) -> bool,
) {
    let asked = match connection {
        Some(open) => open.get(host, path),
        None => Connection::open(port).and_then(|open| connection.insert(open).get(host, path)),
    };
    let mut seen = shared.seen();
    seen.requests += 1;
    let new = host.strip_prefix("new-").and_then(|rest| rest.split('.').next()).and_then(|round| round.parse().ok());
    let answer = match asked {
        Ok(answer) => answer,
        Err(error) => {
            *connection = None;
            seen.failed += 1;
            return note(&mut seen, format!("{host}{path}: {error:#}"));
        }
    };
    if let Some(round) = new
        && answer.status != 404
        && seen.first.last().is_none_or(|(last, _)| *last != round)
    {
        seen.first.push((round, answer.status));
    }
    let service = answer.body.strip_prefix("service-").and_then(|index| index.parse().ok());
    match answer.status {
        200 if service.is_some_and(right) => {}
        200 => {
            seen.wrong += 1;
            note(&mut seen, format!("{host}{path}: answered by {}", answer.body));
        }
        404 if new.is_some() => {}
        status => {
            seen.failed += 1;
            note(&mut seen, format!("{host}{path}: {status} {}", answer.body));
        }
    }
}

fn note(seen: &mut Seen, example: String) {
    if seen.examples.len() < SHOWN {
        seen.examples.push(example);
    }
}
