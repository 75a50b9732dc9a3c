//! B2: one route of a file of 100 changes, until its bytes are on the socket; CPU of the change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::ads::Client;
use crate::dataset::{self, Edit, Endpoints, ROUTES_PER_FILE, ROUTES_PER_HOST};
use crate::figure::{Figure, Report, Samples, millis, say};
use crate::process::Chancery;

/// Sizes of the tables, with what Envoy Gateway 1.9.1 needs there: CPU of a change of any kind, in milliseconds.
const SIZES: [(usize, Option<f64>); 3] = [(1_000, Some(283.0)), (10_000, None), (50_000, None)];

/// Changes that are not counted, and those that are.
const WARM_UP: usize = 20;
const ROUNDS: usize = 200;

/// What follows a change (acknowledgements) is over after this time.
const QUIET: Duration = Duration::from_millis(20);

/// What was measured at one size.
#[derive(Default)]
struct Measured {
    /// From just before the rename to the last byte of the response.
    latency: Samples,
    /// CPU time of the process, acknowledgement included.
    cpu: Samples,
}

/// Prints the figures of B2.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut cpu = Vec::new();
    for (routes, peer) in SIZES {
        say(&format!("B2 n={routes}"));
        let mut measured = runtime.block_on(changes(routes))?;
        let mut add = |figure, value, limit, peer: Option<f64>| {
            let peer = peer.map(|value| dataset::peer("Envoy Gateway 1.9.1 (2026-11-21)", value)).unwrap_or_default();
            report.add(&Figure {
                bench: "B2",
                figure,
                n: routes,
                value: millis(value),
                unit: "ms",
                limit: Some(limit),
                peer,
            });
        };
        add("bytes_on_socket_ms_p50", measured.latency.percentile(50), 1.0, None);
        add("bytes_on_socket_ms_p99", measured.latency.percentile(99), 5.0, None);
        add("cpu_ms_p50", measured.cpu.percentile(50), 0.5, peer);
        add("cpu_ms_mean", measured.cpu.mean(), 0.5, peer);
        cpu.push(measured.cpu.percentile(50).as_secs_f64());
    }
    if let [small, .., large] = cpu.as_slice() {
        report.figure("B2", "cpu_ratio_50k_to_1k", 50_000, (large / small, "ratio"), Some(1.5));
    }
    Ok(())
}

/// Changes one route after the other, each in another file than the one before.
async fn changes(routes: usize) -> anyhow::Result<Measured> {
    let (place, conf) = Chancery::place()?;
    dataset::write(&conf, routes, 18_080, Endpoints::Elsewhere(8080))?;
    let mut chancery = Chancery::start(place, None)?;
    let mut client = Client::connect(&chancery.socket("xds.sock")?).await?;
    client.complete(routes, routes.div_ceil(ROUTES_PER_HOST)).await?;
    chancery.wait_ready()?;
    client.drain(Duration::from_millis(500)).await?;
    let (mut measured, mut values) = (Measured::default(), BTreeMap::new());
    let files = routes.div_ceil(ROUTES_PER_FILE);
    let before_all = chancery.threads()?;
    for round in 0..WARM_UP + ROUNDS {
        let file = round * 7 % files;
        let changed = file * ROUTES_PER_FILE + round % ROUTES_PER_FILE;
        values.insert(changed, format!("v{round}"));
        let value = |index: usize| values.get(&index).cloned().unwrap_or_else(|| "first".to_owned());
        let text = dataset::routes_file(file, routes, value);
        let edit = Edit::prepare(&chancery.conf(), &format!("routes-{file:04}.yaml"), &text)?;
        let before = chancery.cpu()?;
        let began = Instant::now();
        edit.rename()?;
        let received = client.next().await?;
        let host = format!("/host-{}.example.com", changed / ROUTES_PER_HOST);
        anyhow::ensure!(
            matches!(received.names.as_slice(), [name] if name.ends_with(&host)),
            "{:?} came where {host} was changed",
            received.names
        );
        client.drain(QUIET).await?;
        if round >= WARM_UP {
            measured.latency.add(received.at - began);
            measured.cpu.add(chancery.cpu()? - before);
        }
    }
    for (name, time) in chancery.threads()? {
        let spent = time.saturating_sub(before_all.get(&name).copied().unwrap_or_default());
        say(&format!("B2 n={routes}: {name}: {:.3} ms a change", millis(spent) / dataset::count(WARM_UP + ROUNDS)));
    }
    Ok(measured)
}
