//! B6: resident memory: empty, per 1,000 routes with a Service and 10 endpoints each, and after ten cycles of 10,000 routes.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::ads::Client;
use crate::dataset::{self, Endpoints, ROUTES_PER_FILE, ROUTES_PER_HOST};
use crate::figure::{Report, say};
use crate::process::{Chancery, DEADLINE};

pub(crate) const MEGABYTE: f64 = 1e6;

/// No proxy asks them.
const NOWHERE: Endpoints = Endpoints::Elsewhere(8080);

/// Prints the figures of B6.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let base = settled(0)?;
    report.figure("B6", "base_mb", 0, (base / MEGABYTE, "MB"), Some(20.0));
    for routes in [1_000, 10_000, 50_000] {
        let resident = settled(routes)?;
        report.figure("B6", "resident_mb", routes, (resident / MEGABYTE, "MB"), None);
        if routes > 1_000 {
            let per_thousand = (resident - base) / MEGABYTE / (f64::from(u32::try_from(routes)?) / 1e3);
            report.figure("B6", "mb_per_1000_routes", routes, (per_thousand, "MB"), Some(4.0));
        }
    }
    cycles(report)
}

/// Resident bytes of a Chancery that serves this many routes to one client.
pub(crate) fn settled(routes: usize) -> anyhow::Result<f64> {
    say(&format!("B6 n={routes}"));
    let (place, conf) = Chancery::place()?;
    dataset::write(&conf, routes, 18_080, NOWHERE)?;
    let mut chancery = Chancery::start(place, None)?;
    chancery.wait_ready()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _client = runtime.block_on(async {
        let mut client = Client::connect(&chancery.socket("xds.sock")?).await?;
        if routes > 0 {
            client.complete(routes, routes.div_ceil(ROUTES_PER_HOST)).await?;
        }
        anyhow::Ok(client)
    })?;
    steady(|| chancery.resident(), || chancery.cpu())
}

/// Resident bytes of a process once neither they nor its CPU time have changed for half a second.
pub(crate) fn steady(
    resident: impl Fn() -> anyhow::Result<u64>,
    cpu: impl Fn() -> anyhow::Result<Duration>,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    let (mut memory, mut time, mut since) = (resident()?, cpu()?, Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        anyhow::ensure!(began.elapsed() < DEADLINE, "it does not come to rest");
        std::thread::sleep(Duration::from_millis(50));
        let (memory_now, time_now) = (resident()?, cpu()?);
        if memory_now.abs_diff(memory) > 1 << 20 || time_now.saturating_sub(time) > Duration::from_millis(5) {
            (memory, time, since) = (memory_now, time_now, Instant::now());
        }
    }
    Ok(f64::from(u32::try_from(resident()? / 1024)?) * 1024.0)
}

/// Ten times 10,000 routes up and down.
fn cycles(report: &mut Report) -> anyhow::Result<()> {
    const ROUTES: usize = 10_000;
    let (place, conf) = Chancery::place()?;
    dataset::write(&conf, 0, 18_080, NOWHERE)?;
    let mut chancery = Chancery::start(place, None)?;
    chancery.wait_ready()?;
    let (mut first, mut last) = (0.0, 0.0);
    for cycle in 0..10 {
        say(&format!("B6 cycle {cycle}"));
        up_and_down(&chancery.conf(), ROUTES, true)?;
        let rests = || steady(|| chancery.resident(), || chancery.cpu());
        let up = rests()?;
        up_and_down(&chancery.conf(), ROUTES, false)?;
        let down = rests()?;
        if cycle == 1 {
            first = up;
        }
        last = up;
        if cycle == 9 {
            report.figure("B6", "after_scale_down_mb", 0, (down / MEGABYTE, "MB"), None);
        }
    }
    report.figure("B6", "growth_of_10_cycles_ratio", ROUTES, (last / first, "ratio"), Some(1.1));
    Ok(())
}

fn up_and_down(conf: &Path, routes: usize, up: bool) -> anyhow::Result<()> {
    for file in 0..routes.div_ceil(ROUTES_PER_FILE) {
        if up {
            dataset::write_part(conf, file, routes, NOWHERE)?;
        } else {
            for name in ["routes", "services"] {
                std::fs::remove_file(conf.join(format!("{name}-{file:04}.yaml")))?;
            }
        }
    }
    Ok(())
}
