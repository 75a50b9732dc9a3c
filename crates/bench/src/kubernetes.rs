//! What it costs to follow a Kubernetes API server: an event that is of no interest, 50,000 routes, 1,000 Secrets that are read one by one. The
//! server is a process of its own and talks TLS; whoever follows it is another one.

mod follower;
mod server;

use std::time::{Duration, Instant};

use crate::certificates;
use crate::child::Child;
use crate::figure::{Report, micros, say};
use crate::memory::steady;

pub(crate) use follower::{VERB as FOLLOWER, run as follow};
pub(crate) use server::{VERB as SERVER, run as serve};

/// Events of no interest that are measured together.
const EVENTS: usize = 20_000;

const MEGABYTE: f64 = 1e6;

/// Prints the figures of following an API server.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let base = world(0, 0, 0)?.resident()?;
    for (figure, kind, secrets) in
        [("status_event_us", "httproutes", 1), ("unnamed_secret_event_us", "secrets", server::TOGETHER)]
    {
        say(&format!("kubernetes {figure}"));
        let spent = world(100, secrets, 0)?.events(kind, EVENTS)?;
        let each = micros(spent) / f64::from(u32::try_from(EVENTS)?);
        report.figure("kubernetes", figure, EVENTS, (each, "us"), Some(10.0));
    }
    for routes in [1_000, 50_000] {
        say(&format!("kubernetes n={routes}"));
        let began = Instant::now();
        let mut world = world(routes, 0, 0)?;
        let took = began.elapsed();
        report.figure("kubernetes", "list_s", routes, (took.as_secs_f64(), "s"), None);
        report.figure("kubernetes", "resident_mb", routes, (world.resident()? / MEGABYTE, "MB"), None);
        world.stop();
    }
    say("kubernetes, Secrets one by one");
    let mut apart = world(0, 0, 1_000)?;
    report.figure("kubernetes", "secrets_one_by_one_mb", 1_000, ((apart.resident()? - base) / MEGABYTE, "MB"), None);
    report.figure("kubernetes", "connections", 1_000, (f64::from(apart.sockets()?), "connections"), None);
    apart.stop();
    Ok(())
}

/// A server, and who follows it.
struct World {
    server: Child,
    follower: Child,
    _place: tempfile::TempDir,
}

/// One that has listed all: so many routes, so many Secrets of one namespace, and so many each of a namespace of its own.
fn world(routes: usize, secrets: usize, apart: usize) -> anyhow::Result<World> {
    let place = tempfile::Builder::new().prefix("chancery-bench-").tempdir()?;
    certificates::write(place.path())?;
    let folder = place.path().display().to_string();
    let numbers = [routes, secrets, apart].map(|number| number.to_string());
    let mut server = Child::start(&[SERVER, &folder, &numbers[0], &numbers[1], &numbers[2]])?;
    let address = server.answer()?;
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nclusters:\n\
         - name: c\n  cluster: {{server: 'https://{address}', certificate-authority: {folder}/authority.pem, tls-server-name: {}}}\n\
         users: [{{name: u, user: {{token: t}}}}]\n",
        certificates::SERVER
    );
    let path = place.path().join("kubeconfig");
    std::fs::write(&path, config)?;
    let mut follower = Child::start(&[FOLLOWER, &path.display().to_string()])?;
    let said = follower.answer()?;
    anyhow::ensure!(said == "listed", "whoever follows says {said}");
    Ok(World { server, follower, _place: place })
}

impl World {
    fn resident(&self) -> anyhow::Result<f64> {
        steady(|| self.follower.resident(), || self.follower.cpu())
    }

    /// CPU time of whoever follows for so many events of no interest.
    fn events(&mut self, kind: &str, count: usize) -> anyhow::Result<Duration> {
        // The first ones find cold caches.
        for count in [1_000, count] {
            let before = self.follower.cpu()?;
            self.server.tell(&format!("{kind} {count}"))?;
            let said = self.follower.answer()?;
            anyhow::ensure!(said == "mark", "whoever follows says {said}");
            if count > 1_000 {
                return Ok(self.follower.cpu()?.saturating_sub(before));
            }
        }
        anyhow::bail!("too few events")
    }

    fn sockets(&self) -> anyhow::Result<u32> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.follower.id()))?;
        let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        Ok(u32::try_from(links.filter(|link| link.to_string_lossy().starts_with("socket:")).count())?)
    }

    fn stop(&mut self) {
        self.follower.kill();
        self.server.kill();
    }
}
