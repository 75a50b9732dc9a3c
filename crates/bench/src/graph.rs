//! The graph of the translator with the encoder behind it, in this process: from scratch (B9), and one change of each kind.

mod sets;
mod shape;

use api::Object;

use crate::dataset;
use crate::figure::{Figure, Report, Samples, micros, millis, say};
use crate::world::{Step, World, object, objects};

/// Sizes of B9, with rounds.
const SIZES: [(usize, usize); 3] = [(1_000, 31), (10_000, 9), (50_000, 3)];

/// Sizes at which single changes are measured; their numbers of runs must be equal.
const CHANGE_SIZES: [usize; 2] = [10_000, 50_000];

/// `ListenerSet`s of one Gateway.
const SET_SIZES: [usize; 2] = [250, 2_500];

/// Runs for changes that the Gateway has to look at.
const SET_ROUNDS: usize = 100;

/// Changes that are not counted, and those that are.
const WARM_UP: usize = 50;
const ROUNDS: usize = 500;
const BATCH_ROUNDS: usize = 20;

/// One change: makes the objects of round `n`, and applies them.
type Change<'c> = &'c mut dyn FnMut(&mut World, usize) -> anyhow::Result<Step>;

/// B9: N routes, each with a Service and a slice, from parsed objects to all bytes, on one thread.
pub(crate) fn from_scratch(report: &mut Report) -> anyhow::Result<()> {
    let mut rates = Vec::new();
    for (routes, rounds) in SIZES {
        let all = parsed(routes)?;
        let (mut times, mut bytes) = (Samples::default(), 0);
        for round in 0..rounds {
            let mut world = World::new();
            let step = world.put(all.iter().cloned())?;
            world.check()?;
            anyhow::ensure!(step.resources > 2 * routes, "only {} resources for {routes} routes", step.resources);
            let (took, encoding) = (millis(step.took), millis(step.encoding));
            say(&format!("B9 n={routes} round {round}: {took:.1} ms, of which encoding {encoding:.1} ms"));
            if round + 1 == rounds {
                world.costs(&mut Vec::new()).iter().for_each(|line| say(line));
            }
            times.add(step.took);
            bytes = step.bytes;
        }
        let rate = dataset::count(routes) / times.percentile(50).as_secs_f64();
        rates.push(rate);
        let peer = dataset::peer("Envoy Gateway 1.9.0 (2026-11)", if routes > 10_000 { 1_000.0 } else { 5_000.0 });
        let (bench, figure, unit) = ("B9", "routes_per_second_per_core_p50", "1/s");
        report.add(&Figure { bench, figure, n: routes, value: rate, unit, limit: Some(100_000.0), peer });
        report.figure("B9", "configuration_bytes", routes, (dataset::count(bytes), "bytes"), None);
    }
    if let [small, .., large] = rates.as_slice() {
        report.figure("B9", "time_per_route_ratio_50k_to_1k", 50_000, (small / large, "ratio"), Some(1.5));
    }
    Ok(())
}

/// The objects of the data set that the process benchmarks write to files.
fn parsed(routes: usize) -> anyhow::Result<Vec<Object>> {
    let mut all = objects(&dataset::gateway(18_080))?;
    for index in 0..routes {
        all.extend(objects(&dataset::route(index, "first"))?);
        all.extend(objects(&dataset::service(index, dataset::Endpoints::Elsewhere(8080)))?);
    }
    Ok(all)
}

/// The engine benchmark: one change of each kind at both sizes.
pub(crate) fn changes(report: &mut Report) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    for routes in CHANGE_SIZES {
        say(&format!("graph n={routes}: parsing"));
        let mut bench = Bench { report: &mut *report, name: "graph", routes, runs: Vec::new() };
        bench.world()?;
        bench.one_host()?;
        runs.push(bench.runs);
    }
    let [small, large] = runs.as_slice() else { return Ok(()) };
    for ((name, small), (_, large)) in small.iter().zip(large) {
        let ratio = if small == large { 1.0 } else { large / small };
        report.figure("graph", &format!("{name}_runs_ratio"), 50_000, (ratio, "ratio"), Some(1.0));
    }
    Ok(())
}

/// One change of each kind among few and many `ListenerSet`s of one Gateway.
pub(crate) fn listener_sets(report: &mut Report) -> anyhow::Result<()> {
    for n in SET_SIZES {
        let mut world = World::new();
        let step = world.put(objects(&sets::all(n)?)?)?;
        world.go_live();
        say(&format!("sets n={n}: built in {:.1} ms, {} resources", millis(step.took), step.resources));
        report.figure("sets", "full_build_ms", n, (millis(step.took), "ms"), None);
        let (w, mut bench) = (&mut world, Bench { report: &mut *report, name: "sets", routes: n, runs: Vec::new() });
        bench.measure(w, "one_route_of_a_set", Some(50.0), ROUNDS, &mut |world, round| {
            world.put([object(&sets::route(round * 37 % n, 1 + round))?])
        })?;
        bench.measure(w, "one_set", None, SET_ROUNDS, &mut |world, round| {
            world.put([object(&sets::set(round * 37 % n, 1 + round))?])
        })?;
        bench.measure(w, "a_set_goes_or_comes", None, SET_ROUNDS, &mut |world, round| {
            let set = object(&sets::set(round / 2 * 37 % n, 0))?;
            if round % 2 == 0 { world.delete(set.key().clone()) } else { world.put([set]) }
        })?;
        world.check()?;
    }
    Ok(())
}

/// The benchmark at one size.
struct Bench<'r> {
    report: &'r mut Report,
    name: &'static str,
    /// The size.
    routes: usize,
    /// Median of runs by change.
    runs: Vec<(&'static str, f64)>,
}

impl Bench<'_> {
    /// Many Gateways.
    fn world(&mut self) -> anyhow::Result<()> {
        let n = self.routes;
        let all = objects(&shape::all(n))?;
        let mut world = World::new();
        let step = world.put(all)?;
        world.go_live();
        say(&format!("graph n={n}: built in {:.1} ms, {} resources", millis(step.took), step.resources));
        self.report.figure("graph", "full_build_ms", n, (millis(step.took), "ms"), None);
        let w = &mut world;
        self.measure(w, "one_route", Some(50.0), ROUNDS, &mut |world, round| {
            world.put([object(&shape::route(shape::spread(round, 7, n), 2 + round))?])
        })?;
        self.measure(w, "one_service", None, ROUNDS, &mut |world, round| {
            let protocol = if round % 2 == 0 { "kubernetes.io/h2c" } else { "http" };
            world.put([object(&shape::service(shape::spread(round / 2, 5, n), protocol))?])
        })?;
        self.measure(w, "one_slice", Some(10.0), ROUNDS, &mut |world, round| {
            world.put([object(&shape::slice(shape::spread(round, 9, n), 1 + round))?])
        })?;
        self.measure(w, "one_grant", None, ROUNDS, &mut |world, round| {
            let grant = object(&shape::grant(round / 2 * 7 % (n / shape::ROUTES_PER_GRANT)))?;
            if round % 2 == 0 { world.delete(grant.key().clone()) } else { world.put([grant]) }
        })?;
        let gateways = n / shape::ROUTES_PER_GATEWAY;
        self.measure(w, "one_listener_port", None, ROUNDS, &mut |world, round| {
            let change = shape::Listeners { moved: round % 2 == 0, narrow: true };
            world.put([object(&shape::gateway(round / 2 * 7 % gateways, change))?])
        })?;
        self.measure(w, "one_listener_hostname", None, ROUNDS, &mut |world, round| {
            let change = shape::Listeners { moved: false, narrow: round % 2 == 1 };
            world.put([object(&shape::gateway(round / 2 * 7 % gateways, change))?])
        })?;
        self.measure(w, "unused_object", Some(2.0), ROUNDS, &mut |world, round| {
            world.put([object(&shape::unused(round))?])
        })?;
        self.measure(w, "batch_of_1000_routes", None, BATCH_ROUNDS, &mut |world, round| {
            let text: Vec<String> = (0..1_000).map(|index| shape::route(index, 5_000 + round)).collect();
            world.put(objects(&text.join("---\n"))?)
        })?;
        world.check()
    }

    /// All routes on one host of one Gateway.
    fn one_host(&mut self) -> anyhow::Result<()> {
        let n = self.routes;
        let mut world = World::new();
        let step = world.put(objects(&shape::all_on_one_host(n))?)?;
        world.go_live();
        say(&format!("graph n={n} on one host: built in {:.1} ms", millis(step.took)));
        self.measure(&mut world, "one_route_of_one_host", Some(50.0), ROUNDS, &mut |world, round| {
            world.put([object(&shape::route_on_one_host(shape::spread(round, 7, n), 2 + round))?])
        })?;
        world.check()
    }

    /// Measures one kind of change, and says what it cost where.
    fn measure(
        &mut self,
        world: &mut World,
        name: &'static str,
        limit: Option<f64>,
        rounds: usize,
        change: Change<'_>,
    ) -> anyhow::Result<()> {
        let warm_up = WARM_UP.min(rounds);
        let (mut times, mut encoding, mut runs, mut costs) =
            (Samples::default(), Samples::default(), Vec::new(), Vec::new());
        for round in 0..warm_up + rounds {
            if round == warm_up {
                world.costs(&mut costs);
            }
            let step = change(world, round)?;
            if round >= warm_up {
                times.add(step.took);
                runs.push(step.runs);
                encoding.add(step.encoding);
            }
        }
        runs.sort_unstable();
        let median = runs.get(runs.len() / 2).copied().unwrap_or_default();
        let median = f64::from(u32::try_from(median)?);
        let (n, p50, p99) = (self.routes, micros(times.percentile(50)), micros(times.percentile(99)));
        let encoding = micros(encoding.percentile(50));
        let bench = self.name;
        say(&format!("{bench} n={n} {name}: p50 {p50:.1} us (encoding {encoding:.1}), p99 {p99:.1} us, {median} runs"));
        world.costs(&mut costs).iter().take(6).for_each(|line| say(line));
        self.report.figure(bench, &format!("{name}_us_p50"), n, (p50, "us"), limit);
        self.report.figure(bench, &format!("{name}_us_p99"), n, (p99, "us"), None);
        self.report.figure(bench, &format!("{name}_runs"), n, (median, "runs"), None);
        self.runs.push((name, median));
        Ok(())
    }
}
