//! B1: exec to the last byte of the complete configuration for a scripted client, and to a live Envoy.

use std::time::{Duration, Instant};

use crate::ads::Client;
use crate::dataset::{self, Endpoints, ROUTES_PER_HOST};
use crate::figure::{Report, Samples, millis, say};
use crate::process::Chancery;
use crate::through_envoy;

/// Sizes with the limit of the scripted client in milliseconds.
const SIZES: [(usize, f64); 3] = [(1_000, 80.0), (10_000, 500.0), (50_000, 2_500.0)];

/// Prints the figures of B1.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (routes, limit) in SIZES {
        let (mut last_byte, mut bytes) = (Samples::default(), 0);
        let (mut reading, mut cpu) = (Samples::default(), Samples::default());
        for round in 0..if routes > 10_000 { 3 } else { 5 } {
            say(&format!("B1 n={routes} round {round}"));
            let (place, conf) = Chancery::place()?;
            dataset::write(&conf, routes, 18_080, Endpoints::Elsewhere(8080))?;
            reading.add(read_alone(&conf)?);
            let mut chancery = Chancery::start(place, None)?;
            let (at, received) = runtime.block_on(async {
                let mut client = Client::connect(&chancery.socket("xds.sock")?).await?;
                client.complete(routes, routes.div_ceil(ROUTES_PER_HOST)).await
            })?;
            last_byte.add(at - chancery.started);
            cpu.add(chancery.cpu()?);
            bytes = received;
            chancery.wait_ready()?;
        }
        report.figure("B1", "last_byte_ms_p50", routes, (millis(last_byte.percentile(50)), "ms"), Some(limit));
        report.figure("B1", "reading_yaml_ms_p50", routes, (millis(reading.percentile(50)), "ms"), None);
        report.figure("B1", "cpu_ms_p50", routes, (millis(cpu.percentile(50)), "ms"), None);
        report.figure("B1", "configuration_bytes", routes, (dataset::count(bytes), "bytes"), None);
    }
    through_envoy::cold_start(report, "B1", |conf, routes| {
        dataset::write(conf, routes, through_envoy::free_port()?, Endpoints::Elsewhere(8080))
    })
}

/// Reading and checking the files, without anything else.
fn read_alone(conf: &std::path::Path) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let loaded = provider::file::load(&[conf.to_path_buf()]);
    let took = began.elapsed();
    anyhow::ensure!(loaded.problems.is_empty(), "the data set has problems: {:?}", loaded.problems.first());
    Ok(took)
}
