//! What needs a real Envoy: until it is live (B1), until a request sees a change (B2e), until it obeys a circuit breaker (B3).

mod alone;
mod backend;
mod breaker;
mod churn;
mod http;
mod observer;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use self::backend::Backend;
pub(crate) use self::breaker::circuit_breaker;
use self::http::Connection;
use self::observer::Observer;
use crate::dataset::{self, Edit, Endpoints, ROUTES_PER_FILE, ROUTES_PER_HOST};
use crate::figure::{Figure, Report, Samples, millis, say};
use crate::process::{self, Chancery, DEADLINE};

/// Rounds of B1 by size; 50,000 routes take Envoy some 20 seconds.
const COLD_STARTS: [(usize, usize); 3] = [(1_000, 11), (10_000, 3), (50_000, 1)];

/// Sizes of B2e and B3, with what Envoy Gateway 1.9.1 needs: a route's filter changed, a new route, a circuit breaker, in ms.
const SIZES: [(usize, Option<[f64; 3]>); 3] = [(1_000, Some([419.0, 314.0, 15_300.0])), (10_000, None), (50_000, None)];

const PEER: &str = "Envoy Gateway 1.9.1 (2026-11-21)";

/// Changes measured one by one, after some that are not.
const WARM_UP: usize = 5;
const ROUNDS: usize = 40;

/// No further round begins after this time, once a quarter of them is done.
const BUDGET: Duration = Duration::from_secs(25);

/// Between two looks at Envoy.
const PAUSE: Duration = Duration::from_micros(300);

/// B1, second half: exec of Chancery until its Envoy is live, beside Envoy alone with the same resources from a file. `write` puts a data set
/// with so many routes in a folder.
pub(crate) fn cold_start(
    report: &mut Report,
    benchmark: &'static str,
    write: impl Fn(&Path, usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let envoy = process::envoy()?;
    for (routes, rounds) in COLD_STARTS {
        let (mut ours, mut alone) = (Samples::default(), Samples::default());
        for round in 0..rounds {
            let (place, conf) = Chancery::place()?;
            write(&conf, routes)?;
            let mut chancery = Chancery::start(place, Some(&envoy))?;
            let admin = chancery.socket("admin.sock")?;
            let started = chancery.started;
            alone::wait_live(&admin, started, || chancery.check_alive())?;
            let live = started.elapsed();
            let bootstrap = std::fs::read_to_string(admin.with_file_name("bootstrap.json"))?;
            chancery.stop();
            let own = alone::time(&envoy, &bootstrap, &conf)?;
            drop(chancery);
            say(&format!("{benchmark} n={routes} round {round}: live in {live:.2?}, Envoy alone in {own:.2?}"));
            ours.add(live);
            alone.add(own);
        }
        let (live, own) = (ours.percentile(50).as_secs_f64(), alone.percentile(50).as_secs_f64());
        report.figure(benchmark, "envoy_live_s_p50", routes, (live, "s"), Some(own * 1.15));
        report.figure(benchmark, "envoy_alone_from_file_s_p50", routes, (own, "s"), None);
        report.figure(benchmark, "envoy_live_to_alone_ratio", routes, (live / own, "ratio"), Some(1.15));
    }
    Ok(())
}

/// A Chancery with Envoy and N routes to a backend of the bench's own.
struct Stage {
    backend: Backend,
    chancery: Chancery,
    port: u16,
    routes: usize,
}

impl Stage {
    /// Starts all of it and waits until the last route answers.
    fn set(routes: usize, more: &[(&str, String)]) -> anyhow::Result<Self> {
        let (backend, port, envoy) = (Backend::start()?, free_port()?, process::envoy()?);
        let (place, conf) = Chancery::place()?;
        dataset::write(&conf, routes, port, Endpoints::Here(backend.port))?;
        for (name, text) in more {
            std::fs::write(conf.join(name), text)?;
        }
        let mut chancery = Chancery::start(place, Some(&envoy))?;
        chancery.wait_ready()?;
        let mut stage = Self { backend, chancery, port, routes };
        let last = routes - 1;
        let expected = format!("service-{last}");
        stage.until("the last route to answer", last, |answer| answer.status == 200 && answer.body == expected)?;
        say(&format!("n={routes}: all routes answer after {:.2?}", stage.chancery.started.elapsed()));
        Ok(stage)
    }

    /// Asks for a route of the data set until the answer is right; gives when it was.
    fn until(&mut self, what: &str, route: usize, right: impl Fn(&http::Answer) -> bool) -> anyhow::Result<Instant> {
        let (began, host, path) = (Instant::now(), host_of(route), format!("/path-{route}"));
        let mut connection: Option<Connection> = None;
        let mut last = String::new();
        while began.elapsed() < DEADLINE {
            self.chancery.check_alive()?;
            let asked = match &mut connection {
                Some(open) => open.get(&host, &path),
                None => Connection::open(self.port).and_then(|open| connection.insert(open).get(&host, &path)),
            };
            match asked {
                Ok(answer) if right(&answer) => return Ok(Instant::now()),
                Ok(answer) => last = format!("{answer:?}"),
                Err(error) => (connection, last) = (None, format!("{error:#}")),
            }
            std::thread::sleep(PAUSE);
        }
        anyhow::bail!("waited {DEADLINE:?} for {what}, last was {last}; log:\n{}", self.chancery.log())
    }
}

fn host_of(route: usize) -> String {
    format!("host-{}.example.com", route / ROUTES_PER_HOST)
}

/// B2e: a route changed in a file until a request sees it; then zero failed and zero wrong answers over many kinds of edits.
pub(crate) fn route(report: &mut Report) -> anyhow::Result<()> {
    for (routes, peer) in SIZES {
        let mut stage = Stage::set(routes, &churn::first_files())?;
        one_route(report, &mut stage, peer)?;
        churn::run(report, &mut stage, peer)?;
    }
    Ok(())
}

/// A response header's value changed in one route. A scripted client beside Envoy tells when the bytes were on the socket; what
/// remains until the answer is Envoy's own time.
fn one_route(report: &mut Report, stage: &mut Stage, peer: Option<[f64; 3]>) -> anyhow::Result<()> {
    let routes = stage.routes;
    let observer = Observer::start(stage.chancery.socket("xds.sock")?, routes)?;
    let (mut whole, mut own) = (Samples::default(), Samples::default());
    let mut values = std::collections::BTreeMap::new();
    let files = routes.div_ceil(ROUTES_PER_FILE);
    let start = Instant::now();
    for round in 0..WARM_UP + ROUNDS {
        if enough(round, start) {
            break;
        }
        let file = round * 7 % files;
        let changed = file * ROUTES_PER_FILE + round % ROUTES_PER_FILE;
        let wanted = format!("v{round}");
        values.insert(changed, wanted.clone());
        let value = |index: usize| values.get(&index).cloned().unwrap_or_else(|| "first".to_owned());
        let text = dataset::routes_file(file, routes, value);
        let edit = Edit::prepare(&stage.chancery.conf(), &format!("routes-{file:04}.yaml"), &text)?;
        let began = Instant::now();
        edit.rename()?;
        let answered = stage.until("a change", changed, |answer| answer.value.as_deref() == Some(&*wanted))?;
        let host = format!("/{}", host_of(changed));
        let sent = observer.received(|name| name.ends_with(&host), began)?;
        if round >= WARM_UP {
            whole.add(answered - began);
            own.add(answered.saturating_duration_since(sent));
        }
    }
    let mut add = |figure, value, limit, peer: Option<f64>| {
        let peer = peer.map(|value| dataset::peer(PEER, value)).unwrap_or_default();
        report.add(&Figure { bench: "B2e", figure, n: routes, value, unit: "ms", limit, peer });
    };
    let limit = millis(own.percentile(50)) + 10.0;
    add("answer_ms_p50", millis(whole.percentile(50)), Some(limit), peer.map(|[changed, ..]| changed));
    add("answer_ms_max", millis(whole.max()), None, None);
    add("envoy_own_ms_p50", millis(own.percentile(50)), None, None);
    Ok(())
}

/// Whether a measurement may end before this round.
fn enough(round: usize, start: Instant) -> bool {
    round >= WARM_UP + ROUNDS / 4 && start.elapsed() > BUDGET
}

/// A port of loopback that is free at this moment.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Where a file of the benchmark's folder is.
fn in_conf(stage: &Stage, name: &str) -> PathBuf {
    stage.chancery.conf().join(name)
}
