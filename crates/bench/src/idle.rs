//! Clients that have everything while nothing changes: the memory of each (B6c) and the CPU of all (B7).

use std::time::{Duration, Instant};

use crate::crowd::Crowd;
use crate::dataset::{self, Endpoints};
use crate::figure::{Report, say};
use crate::process::{Chancery, spent_since, threads_of};
use crate::subject::Subject;
use crate::{certificates, memory};

/// Clients of whose memory the mean is taken.
const CLIENTS: usize = 2_000;

/// Endpoint sets that each subscribes to.
const SETS: usize = 100;

/// How long nothing changes.
const QUIET: Duration = Duration::from_secs(60);

/// Prints what an idle client costs in memory.
pub(crate) fn memory(report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    certificates::write(folder.path())?;
    let (path, tcp) = (folder.path().display(), "127.0.0.1:0");
    let ways = [
        ("unix", format!("unix:{path}/xds.sock"), Some(60.0)),
        ("tcp", format!("tcp:{tcp}"), Some(60.0)),
        ("mtls", format!("tls:{tcp}={path}"), Some(60.0)),
        ("baseline_tcp", format!("baseline:tcp:{tcp}"), None),
    ];
    for (name, address, limit) in ways {
        say(&format!("B6 idle clients, {name}"));
        let server = Subject::start(&address, SETS, 0)?;
        let measure = || memory::steady(|| server.child.resident(), || server.child.cpu());
        let before = measure()?;
        let mut crowd = Crowd::start(&server.address, CLIENTS, SETS)?;
        crowd.wait_synced()?;
        let each = (measure()? - before) / 1e3 / CLIENTS as f64;
        report.figure("B6c", &format!("kb_per_idle_client_{name}"), CLIENTS, (each, "kB"), limit);
    }
    Ok(())
}

/// Prints the figures of B7. Each client takes 10,000 clusters with their endpoints, 6 MB.
pub(crate) fn cpu(report: &mut Report) -> anyhow::Result<()> {
    const ROUTES: usize = 10_000;
    const CLIENTS: usize = 1_000;
    say(&format!("B7 n={ROUTES}, {CLIENTS} clients"));
    let (place, conf) = Chancery::place()?;
    dataset::write(&conf, ROUTES, 18_080, Endpoints::Elsewhere(8080))?;
    let mut chancery = Chancery::start(place, None)?;
    chancery.wait_ready()?;
    let before = memory::steady(|| chancery.resident(), || chancery.cpu())?;
    let mut crowd = Crowd::start(&format!("unix:{}", chancery.socket("xds.sock")?.display()), CLIENTS, 0)?;
    crowd.wait_for("complete", |status| status.get("received") as usize >= ROUTES * CLIENTS)?;
    let after = memory::steady(|| chancery.resident(), || chancery.cpu())?;
    report.figure("B7", "kb_per_client", ROUTES, ((after - before) / 1e3 / CLIENTS as f64, "kB"), None);
    let (server, clients) = (chancery.id(), crowd.child.id());
    let (cpu, own, began) = (threads_of(server)?, threads_of(clients)?, Instant::now());
    std::thread::sleep(QUIET);
    let percent = |spent: Duration| 100.0 * spent.div_duration_f64(began.elapsed());
    report.figure("B7", "idle_cpu_percent", ROUTES, (percent(spent_since(server, &cpu)?), "%"), Some(0.1));
    report.figure("B7", "idle_cpu_of_clients_percent", ROUTES, (percent(spent_since(clients, &own)?), "%"), None);
    Ok(())
}
