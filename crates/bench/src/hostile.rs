//! hostile: the latency of a changed route while another author writes files that are costly to read, and the memory that these take.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ads::Client;
use crate::dataset::{self, Edit, Endpoints, ROUTES_PER_FILE, ROUTES_PER_HOST, count};
use crate::figure::{Report, Samples, millis, say};
use crate::memory::MEGABYTE;
use crate::process::{Chancery, memory_of};

/// Routes of the others.
const ROUTES: usize = 1_000;

/// Changes that are measured next to each kind of file.
const ROUNDS: usize = 200;

/// Time after which everything that follows a change is over.
const QUIET: Duration = Duration::from_millis(20);

/// Longest time for an edit of others, in milliseconds.
const LIMIT: f64 = 50.0;

/// Memory that reading a file may take: megabytes, and in addition a multiple of the file's size.
const FREE: f64 = 32.0;
const TIMES: f64 = 8.0;

/// A kind of hostile file: its name, and its text in each version.
type Kind = (&'static str, fn(u32) -> String);

/// All kinds.
const KINDS: [Kind; 5] = [
    ("unknown_fields", unknown_fields),
    ("rules", rules),
    ("broken_objects", broken_objects),
    ("dense_values", dense_values),
    ("unknown_kinds", unknown_kinds),
];

/// Prints the figures.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (kind, text) in KINDS {
        let bytes = text(0).len();
        say(&format!("hostile {kind}: {:.1} MB", count(bytes) / MEGABYTE));
        let Measured { mut latency, memory, versions } = runtime.block_on(measure(text))?;
        say(&format!("hostile {kind}: {versions} versions were written meanwhile"));
        let mut add = |figure: &str, value: f64, unit: &str, limit: Option<f64>| {
            report.figure("hostile", &format!("{kind}_{figure}"), bytes, (value, unit), limit);
        };
        add("others_edit_ms_p50", millis(latency.percentile(50)), "ms", None);
        add("others_edit_ms_p99", millis(latency.percentile(99)), "ms", Some(LIMIT));
        add("others_edit_ms_max", millis(latency.max()), "ms", None);
        add("peak_memory_mb", memory, "MB", Some(FREE + TIMES * count(bytes) / MEGABYTE));
    }
    Ok(())
}

struct Measured {
    latency: Samples,
    /// The peak beyond the one before the first such file, in megabytes.
    memory: f64,
    /// Versions of the hostile file that were written.
    versions: u32,
}

/// Changes routes while another author writes a file.
async fn measure(text: fn(u32) -> String) -> anyhow::Result<Measured> {
    let (place, conf) = Chancery::place()?;
    dataset::write(&conf, ROUTES, 18_080, Endpoints::Elsewhere(8080))?;
    let mut chancery = Chancery::start(place, None)?;
    let mut client = Client::connect(&chancery.socket("xds.sock")?).await?;
    client.complete(ROUTES, ROUTES.div_ceil(ROUTES_PER_HOST)).await?;
    chancery.wait_ready()?;
    client.drain(Duration::from_millis(500)).await?;
    let peak = |chancery: &Chancery| memory_of(chancery.id(), "VmHWM:").map(|bytes| bytes as f64 / MEGABYTE);
    let before = peak(&chancery)?;
    let (stop, versions) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let writer = {
        let (stop, versions, conf) = (Arc::clone(&stop), Arc::clone(&versions), chancery.conf());
        thread::spawn(move || write(&conf, text, (&stop, &versions)))
    };
    let changed = changes(&chancery.conf(), &mut client).await;
    stop.store(true, Ordering::Relaxed);
    let written = writer.join().map_err(|_| anyhow::anyhow!("the hostile writer broke"))?;
    let latency = changed?;
    written?;
    chancery.check_alive()?;
    Ok(Measured { latency, memory: peak(&chancery)? - before, versions: versions.load(Ordering::Relaxed) })
}

/// Writes version after version, each as soon as the one before could have been read.
fn write(conf: &Path, text: fn(u32) -> String, (stop, versions): (&AtomicBool, &AtomicU32)) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let version = versions.fetch_add(1, Ordering::Relaxed);
        Edit::prepare(conf, "hostile.yaml", &text(version))?.rename()?;
        // Some are to be read to their end, others to be replaced before.
        thread::sleep(Duration::from_millis(if version % 2 == 0 { 50 } else { 3_000 }));
    }
    Ok(())
}

/// Changes one route after the other, from just before each rename to the last byte of its response.
async fn changes(conf: &Path, client: &mut Client) -> anyhow::Result<Samples> {
    let mut latency = Samples::default();
    for round in 0..ROUNDS {
        let file = round % ROUTES.div_ceil(ROUTES_PER_FILE);
        let changed = file * ROUTES_PER_FILE + round % ROUTES_PER_FILE;
        let value = |index: usize| if index == changed { format!("v{round}") } else { "first".to_owned() };
        let edit = Edit::prepare(conf, &format!("routes-{file:04}.yaml"), &dataset::routes_file(file, ROUTES, value))?;
        let began = Instant::now();
        edit.rename()?;
        latency.add(client.next().await?.at - began);
        client.drain(QUIET).await?;
    }
    Ok(latency)
}

/// An object with a million fields that the API does not have: 12.9 MB.
fn unknown_fields(version: u32) -> String {
    let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: v{version}\n");
    for number in 0..1_000_000 {
        let _ = writeln!(text, "k{number:07}: 1");
    }
    text
}

/// Routes with as many rules, matches and headers as there may be, so that the API's rules have much to look at: 50 MB.
fn rules(version: u32) -> String {
    let mut text = String::new();
    for number in 0..700 {
        let _ = write!(
            text,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: h{number}\n  labels:\n    version: \"{version}\"\nspec:\n  \
             parentRefs:\n  - name: nowhere\n  rules:\n"
        );
        for rule in 0..16 {
            text.push_str("  - matches:\n");
            for at in 0..8 {
                let _ = write!(
                    text,
                    "    - path:\n        type: PathPrefix\n        value: /{rule}/{at}\n      headers:\n"
                );
                for header in 0..8 {
                    let _ = write!(text, "      - name: x-header-{header}\n        value: value-{header}\n");
                }
            }
            text.push_str("    backendRefs:\n    - name: b\n      port: 80\n");
        }
    }
    text
}

/// Objects with one error each.
fn broken_objects(version: u32) -> String {
    let mut text = String::new();
    for number in 0..100_000 {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: N{number}\n  labels: {{v: \"{version}\"}}\n"
        );
    }
    text
}

/// A list of as many values as fit into a text.
fn dense_values(version: u32) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: v{version}}}\nx: [{}1]\n", "1,".repeat(5_000_000))
}

/// Objects of kinds that are not read and have names like those that are.
fn unknown_kinds(version: u32) -> String {
    let mut text = String::new();
    for number in 0..100_000 {
        let _ = write!(
            text,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRouts{number}\nmetadata: {{name: v{version}}}\n"
        );
    }
    text
}
