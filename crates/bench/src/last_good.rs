//! The last good configuration on disk: what one changed route adds to the file and costs, and how long a start from the file takes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::ads::Client;
use crate::dataset::{self, Edit, Endpoints, ROUTES_PER_FILE, ROUTES_PER_HOST};
use crate::figure::{Report, Samples, millis, say};
use crate::process::{Chancery, DEADLINE};

const SIZES: [usize; 2] = [10_000, 50_000];

const ROUNDS: usize = 10;

/// What follows a change, saving apart, is over after this time; it is saved after a second.
const QUIET: Duration = Duration::from_millis(100);

/// Nothing is written for this long: all is.
const WRITTEN: Duration = Duration::from_millis(2_500);

/// Prints the figures.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    SIZES.into_iter().try_for_each(|routes| runtime.block_on(measure(report, routes)))
}

async fn measure(report: &mut Report, routes: usize) -> anyhow::Result<()> {
    say(&format!("last-good n={routes}"));
    let hosts = routes.div_ceil(ROUTES_PER_HOST);
    let (place, conf) = Chancery::place()?;
    let folder = place.path().join("state/last-good");
    dataset::write(&conf, routes, 18_080, Endpoints::Elsewhere(8080))?;
    let mut chancery = Chancery::start(place, None)?;
    let mut client = Client::connect(&chancery.socket("xds.sock")?).await?;
    client.complete(routes, hosts).await?;
    chancery.wait_ready()?;
    let file = settled(&mut client, &folder).await?;
    let (mut cpu, mut lengths) = (Samples::default(), Vec::new());
    for round in 0..ROUNDS {
        let before = length(&file);
        let index = round * 7 % routes.div_ceil(ROUTES_PER_FILE);
        let text = dataset::routes_file(index, routes, |route| {
            if route == index * ROUTES_PER_FILE { format!("v{round}") } else { "first".to_owned() }
        });
        Edit::prepare(&chancery.conf(), &format!("routes-{index:04}.yaml"), &text)?.rename()?;
        client.drain(QUIET).await?;
        let spent = chancery.cpu()?;
        let began = Instant::now();
        while length(&file) == before {
            anyhow::ensure!(began.elapsed() < DEADLINE, "nothing was written");
            client.drain(QUIET).await?;
        }
        cpu.add(chancery.cpu()? - spent);
        lengths.push(length(&file) - before);
    }
    lengths.sort_unstable();
    let added = lengths.get(ROUNDS / 2).copied().unwrap_or_default();
    report.figure("last-good", "file_bytes", routes, (bytes(length(&file)), "bytes"), None);
    report.figure("last-good", "bytes_per_change", routes, (bytes(added), "bytes"), None);
    report.figure("last-good", "cpu_ms_per_change", routes, (millis(cpu.percentile(50)), "ms"), None);
    drop(client);
    chancery.restart_without_objects()?;
    let mut client = Client::connect(&chancery.socket("xds.sock")?).await?;
    let (last, _) = client.complete(routes, hosts).await?;
    report.figure("last-good", "restored_to_last_byte_ms", routes, (millis(last - chancery.started), "ms"), None);
    report.figure("last-good", "restored_cpu_ms", routes, (millis(chancery.cpu()?), "ms"), None);
    Ok(())
}

/// Acknowledges until nothing more is written; gives the file.
async fn settled(client: &mut Client, folder: &Path) -> anyhow::Result<PathBuf> {
    let (began, mut since, mut before) = (Instant::now(), Instant::now(), 0);
    loop {
        anyhow::ensure!(began.elapsed() < DEADLINE, "it is written for ever");
        client.drain(QUIET).await?;
        let file = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).next();
        let now = file.as_deref().map_or(0, length);
        if now != before {
            (since, before) = (Instant::now(), now);
        }
        if let Some(file) = file.filter(|_| now > 0 && since.elapsed() > WRITTEN) {
            return Ok(file);
        }
    }
}

fn length(file: &Path) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

#[expect(clippy::cast_precision_loss, reason = "lengths of files are far below 2^52")]
fn bytes(length: u64) -> f64 {
    length as f64
}
