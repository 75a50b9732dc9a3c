//! B5: all clients come again after the server was killed, knowing nothing (cold) or saying what they have (resumed).

use crate::crowd::Crowd;
use crate::figure::{Report, say};
use crate::subject::Subject;
use crate::{certificates, endpoints};

/// One size, with what a cold storm may take in seconds.
struct Size {
    clients: usize,
    sets: usize,
    limit: f64,
}

const SIZES: [Size; 2] =
    [Size { clients: 1_000, sets: 1_000, limit: 2.0 }, Size { clients: 10_000, sets: 100, limit: 3.0 }];

/// What a storm came to.
struct Storm {
    seconds: f64,
    bytes: f64,
}

/// Prints the figures of B5.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    certificates::write(folder.path())?;
    let tls = format!("tls:127.0.0.1:0={}", folder.path().display());
    for size in &SIZES {
        let clear = storms(report, "", "tcp:127.0.0.1:0", size)?;
        let secure = storms(report, "mtls_", &tls, size)?;
        for ((cold, name), limit) in
            clear.iter().zip(secure).zip(["cold", "resumed"]).map(|((c, s), n)| ((s / c, n), 3.0))
        {
            report.figure("B5", &format!("mtls_{name}_to_cleartext_ratio"), size.clients, (cold, "ratio"), Some(limit));
        }
    }
    say("B5 baseline");
    let size = Size { clients: 1_000, sets: 1_000, limit: 0.0 };
    let (mut crowd, mut server) = begin("baseline:tcp:127.0.0.1:0", &size)?;
    let storm = storm(report, "baseline_cold", &mut server, &mut crowd, &size)?;
    report.figure("B5", "baseline_cold_s", size.clients, (storm.seconds, "s"), None);
    Ok(())
}

fn begin(address: &str, size: &Size) -> anyhow::Result<(Crowd, Subject)> {
    let server = Subject::start(address, size.sets, 0)?;
    let mut crowd = Crowd::start(&server.address, size.clients, size.sets)?;
    crowd.wait_synced()?;
    Ok((crowd, server))
}

/// A cold storm and a resumed one. Gives how long each took.
fn storms(report: &mut Report, prefix: &str, address: &str, size: &Size) -> anyhow::Result<[f64; 2]> {
    say(&format!("B5 {address} n={}", size.clients));
    let (mut crowd, mut server) = begin(address, size)?;
    let cold = storm(report, &format!("{prefix}cold"), &mut server, &mut crowd, size)?;
    crowd.tell("resume")?;
    let resumed = storm(report, &format!("{prefix}resumed"), &mut server, &mut crowd, size)?;
    let mut add = |name: &str, value, unit, limit| {
        report.figure("B5", &format!("{prefix}{name}"), size.clients, (value, unit), limit)
    };
    add("cold_s", cold.seconds, "s", Some(size.limit).filter(|_| prefix.is_empty()));
    add("resumed_s", resumed.seconds, "s", None);
    add("cold_bytes", cold.bytes, "bytes", None);
    add("resumed_to_cold_bytes_ratio", resumed.bytes / cold.bytes, "ratio", Some(0.01));
    Ok([cold.seconds, resumed.seconds])
}

/// Kills the server and starts another.
fn storm(
    report: &mut Report,
    name: &str,
    server: &mut Subject,
    crowd: &mut Crowd,
    size: &Size,
) -> anyhow::Result<Storm> {
    let address = server.address.clone();
    server.child.kill();
    crowd.tell("since")?;
    let (own, began) = (crowd.child.cpu()?, endpoints::now());
    let address = if name.starts_with("baseline") { format!("baseline:{address}") } else { address };
    *server = Subject::start(&address, size.sets, 0)?;
    let status = crowd.wait_synced()?;
    let (cpu, own) = (server.child.cpu()?, crowd.child.cpu()? - own);
    let since = |name| status.get(name).saturating_sub(began) as f64 / 1e9;
    let (last, median) = (since("synced_at_last"), since("synced_at_median"));
    let mut add = |figure: &str, value, unit, limit| {
        report.figure("B5", &format!("{name}_{figure}"), size.clients, (value, unit), limit);
    };
    add("last_to_median_ratio", last / median, "ratio", Some(2.0));
    add("cpu_s", cpu.as_secs_f64(), "s", None);
    add("cpu_of_clients_s", own.as_secs_f64(), "s", None);
    add("peak_kb_per_client", server.child.peak()? as f64 / 1e3 / size.clients as f64, "kB", None);
    Ok(Storm { seconds: last, bytes: status.get("bytes_in") as f64 })
}
