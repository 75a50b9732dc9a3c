//! B1, B2, B6 and B9 again with a mix of all kinds of routes, listeners, policies and backends: the same limits.

mod objects;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use self::objects::{Pem, RouteKind};
use crate::ads::Client;
use crate::dataset::{self, Edit, ROUTES_PER_FILE};
use crate::figure::{Report, Samples, millis, say};
use crate::memory::{MEGABYTE, steady};
use crate::process::Chancery;
use crate::world::{self, World};

const NAME: &str = "mix";

/// Sizes, with rounds of a translation and of a start, and the limit of a start in milliseconds.
const SIZES: [(usize, usize, usize, f64); 3] = [(1_000, 15, 5, 80.0), (10_000, 5, 5, 500.0), (50_000, 3, 3, 2_500.0)];

/// Changes that are not counted, and those that are: of each kind in turn.
const WARM_UP: usize = 20;
const ROUNDS: usize = 200;

/// What follows a change is over after this time.
const QUIET: Duration = Duration::from_millis(20);

/// Nothing more comes after this time.
const OVER: Duration = Duration::from_millis(500);

/// Prints the figures.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let pem = Pem::make()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let empty = crate::memory::settled(0)?;
    let (mut rates, mut cpu) = (Vec::new(), Vec::new());
    for (routes, translations, starts, limit) in SIZES {
        let (rate, clusters) = translated(report, routes, translations, &pem)?;
        rates.push(rate);
        let (mut last_byte, mut resident) = (Samples::default(), 0.0);
        for round in 0..starts {
            say(&format!("mix n={routes}: start {round}"));
            let (place, conf) = Chancery::place()?;
            objects::write(&conf, routes, &pem)?;
            let mut chancery = Chancery::start(place, None)?;
            let mut client = runtime.block_on(async { Client::connect(&chancery.socket("xds.sock")?).await })?;
            last_byte.add(runtime.block_on(client.all(clusters, OVER))? - chancery.started);
            chancery.wait_ready()?;
            if round + 1 == starts {
                resident = steady(|| chancery.resident(), || chancery.cpu())?;
                cpu.push(runtime.block_on(changes(report, &mut chancery, &mut client, routes))?);
                runtime.block_on(revoked(report, &chancery, &mut client, routes))?;
            }
        }
        report.figure(NAME, "last_byte_ms_p50", routes, (millis(last_byte.percentile(50)), "ms"), Some(limit));
        let per_thousand = (resident - empty) / MEGABYTE / (dataset::count(routes) / 1e3);
        report.figure(NAME, "resident_mb", routes, (resident / MEGABYTE, "MB"), None);
        if routes > 1_000 {
            report.figure(NAME, "mb_per_1000_routes", routes, (per_thousand, "MB"), Some(4.0));
        }
    }
    if let [small, .., large] = rates.as_slice() {
        report.figure(NAME, "time_per_route_ratio_50k_to_1k", 50_000, (small / large, "ratio"), Some(1.5));
    }
    if let [small, .., large] = cpu.as_slice() {
        report.figure(NAME, "cpu_ratio_50k_to_1k", 50_000, (large / small, "ratio"), Some(1.5));
    }
    crate::through_envoy::cold_start(report, NAME, |conf, routes| objects::write(conf, routes, &pem))
}

/// From parsed objects to all bytes, on one thread: routes a second, and how many clusters there are.
fn translated(report: &mut Report, routes: usize, rounds: usize, pem: &Pem) -> anyhow::Result<(f64, usize)> {
    let mut all = Vec::new();
    for (_, text) in objects::texts(routes, pem) {
        all.extend(world::objects(&text)?);
    }
    let (mut times, mut bytes, mut clusters) = (Samples::default(), 0, 0);
    for round in 0..rounds {
        let mut world = World::new();
        let step = world.put(all.iter().cloned())?;
        world.check()?;
        clusters = world.clusters();
        let problems = world.problems();
        anyhow::ensure!(problems.is_empty(), "the data set has problems: {:?}", problems.first());
        anyhow::ensure!(clusters > routes, "only {clusters} clusters for {routes} routes");
        let (took, encoding) = (millis(step.took), millis(step.encoding));
        let what = format!("{} objects, {} resources", all.len(), step.resources);
        say(&format!("mix n={routes}: {what} in {took:.1} ms, of which encoding {encoding:.1} ms"));
        if round + 1 == rounds {
            world.costs(&mut Vec::new()).iter().for_each(|line| say(line));
        }
        times.add(step.took);
        bytes = step.bytes;
    }
    let rate = dataset::count(routes) / times.percentile(50).as_secs_f64();
    report.figure(NAME, "routes_per_second_per_core_p50", routes, (rate, "1/s"), Some(100_000.0));
    report.figure(NAME, "configuration_bytes", routes, (dataset::count(bytes), "bytes"), None);
    Ok((rate, clusters))
}

/// One route after the other changes, of each kind in turn, each in another file than the one before. Gives the CPU of a change in the middle.
async fn changes(
    report: &mut Report,
    chancery: &mut Chancery,
    client: &mut Client,
    routes: usize,
) -> anyhow::Result<f64> {
    let (mut latency, mut cpu) = (Samples::default(), Samples::default());
    let mut of_kind = RouteKind::ALL.map(|kind| (kind, Samples::default()));
    let files = routes.div_ceil(ROUTES_PER_FILE);
    let mut rounds = BTreeMap::new();
    let before_all = chancery.threads()?;
    for round in 0..WARM_UP + ROUNDS {
        let at = round % of_kind.len();
        let (kind, samples) = of_kind.get_mut(at).context("a kind")?;
        let ((from, to), file) = (kind.places(), round * 7 % files);
        let changed = file * ROUTES_PER_FILE + from + round / RouteKind::ALL.len() % (to - from);
        rounds.insert(changed, 1 + round);
        let text = objects::routes_file(file, routes, |index| rounds.get(&index).copied().unwrap_or_default());
        let edit = Edit::prepare(&chancery.conf(), &objects::name(file), &text)?;
        let before = chancery.cpu()?;
        let began = Instant::now();
        edit.rename()?;
        let received = client.next().await?;
        let named = objects::named(changed);
        anyhow::ensure!(
            received.names.iter().any(|name| name.contains(&named)),
            "{:?} came where {named} was changed",
            received.names
        );
        client.drain(QUIET).await?;
        if round >= WARM_UP {
            let took = received.at - began;
            latency.add(took);
            samples.add(took);
            cpu.add(chancery.cpu()? - before);
        }
    }
    for (name, time) in chancery.threads()? {
        let spent = time.saturating_sub(before_all.get(&name).copied().unwrap_or_default());
        say(&format!("mix n={routes}: {name}: {:.3} ms a change", millis(spent) / dataset::count(WARM_UP + ROUNDS)));
    }
    for (kind, samples) in &mut of_kind {
        say(&format!("mix n={routes}: {kind:?}: {:.3} ms at p50", millis(samples.percentile(50))));
    }
    let mut add = |figure, value, limit| report.figure(NAME, figure, routes, (millis(value), "ms"), Some(limit));
    add("bytes_on_socket_ms_p50", latency.percentile(50), 1.0);
    add("bytes_on_socket_ms_p99", latency.percentile(99), 5.0);
    add("cpu_ms_p50", cpu.percentile(50), 0.5);
    add("cpu_ms_mean", cpu.mean(), 0.5);
    Ok(cpu.percentile(50).as_secs_f64())
}

/// Grants are taken away and given again: from the file in place until what the route becomes without it is on the socket.
async fn revoked(report: &mut Report, chancery: &Chancery, client: &mut Client, routes: usize) -> anyhow::Result<()> {
    let files = routes.div_ceil(ROUTES_PER_FILE);
    let mut latency = Samples::default();
    for round in 0..WARM_UP + ROUNDS {
        let file = round / 2 * 7 % files;
        let is_given = round % 2 == 1;
        let text = objects::grant_file(file, is_given);
        let edit = Edit::prepare(&chancery.conf(), &objects::grant_name(file), &text)?;
        let began = Instant::now();
        edit.rename()?;
        // With a grant the cluster comes first.
        let received = loop {
            let received = client.next().await?;
            if received.names.iter().any(|name| name.contains(&objects::granted_host(file))) {
                break received;
            }
        };
        client.drain(QUIET).await?;
        if round >= WARM_UP && !is_given {
            latency.add(received.at - began);
        }
    }
    let mut add = |figure, value, limit| report.figure(NAME, figure, routes, (millis(value), "ms"), Some(limit));
    add("grant_revoked_ms_p50", latency.percentile(50), 1.0);
    add("grant_revoked_ms_p99", latency.percentile(99), 5.0);
    Ok(())
}
