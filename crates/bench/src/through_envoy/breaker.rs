//! B3: a circuit breaker changed in a policy, until Envoy obeys it.
//!
//! The witness is what Envoy does: a connection asks for a route of the cluster over and over, and the breaker is shut and opened
//! by turns. Asking costs the same at every size; the admin interface, which needs 7 ms at 10,000 clusters and 40 ms at 50,000
//! only to answer, is asked after each round whether it shows the same.

use std::path::Path;
use std::time::{Duration, Instant};

use super::http::{self, Connection};
use super::observer::Observer;
use super::{PEER, ROUNDS, SIZES, Stage, WARM_UP, enough, host_of};
use crate::dataset::{self, Edit};
use crate::figure::{Figure, Report, Samples, millis};

/// The route that the policy is for, and with it the service.
const ROUTE: usize = 5;

/// Between two requests.
const PAUSE: Duration = Duration::from_micros(100);

/// What was measured at one size.
#[derive(Default)]
struct Measured {
    /// From just before the rename to the first answer that obeys.
    obeyed: Samples,
    /// The part of it that begins when a scripted client beside Envoy has the bytes.
    own: Samples,
    /// An answer of the admin interface.
    admin: Samples,
}

/// Prints the figures of B3.
pub(crate) fn circuit_breaker(report: &mut Report) -> anyhow::Result<()> {
    for (routes, peer) in SIZES {
        let mut measured = rounds(routes)?;
        let peer = peer.map(|[.., breaker]| dataset::peer(PEER, breaker)).unwrap_or_default();
        let (bench, figure, value) = ("B3", "obeyed_ms_p50", millis(measured.obeyed.percentile(50)));
        report.add(&Figure { bench, figure, n: routes, value, unit: "ms", limit: Some(20.0), peer });
        report.figure("B3", "obeyed_ms_max", routes, (millis(measured.obeyed.max()), "ms"), Some(20.0));
        report.figure("B3", "envoy_own_ms_p50", routes, (millis(measured.own.percentile(50)), "ms"), None);
        report.figure("B3", "envoy_own_ms_max", routes, (millis(measured.own.max()), "ms"), None);
        report.figure("B3", "admin_answer_ms_p50", routes, (millis(measured.admin.percentile(50)), "ms"), None);
    }
    Ok(())
}

/// Shuts and opens the breaker by turns. An answer that neither an open nor a shut breaker gives ends the benchmark.
fn rounds(routes: usize) -> anyhow::Result<Measured> {
    let mut stage = Stage::set(routes, &[("policy.yaml", policy(limit(1)))])?;
    let admin = stage.chancery.socket("admin.sock")?;
    let observer = Observer::start(stage.chancery.socket("xds.sock")?, routes)?;
    let mut connection = Connection::open(stage.port)?;
    until_obeyed(&mut connection, limit(1))?;
    let (mut measured, start) = (Measured::default(), Instant::now());
    let cluster = format!("default/service-{ROUTE}/80");
    for round in 0..WARM_UP + ROUNDS {
        if enough(round, start) {
            break;
        }
        let edit = Edit::prepare(&stage.chancery.conf(), "policy.yaml", &policy(limit(round)))?;
        let began = Instant::now();
        edit.rename()?;
        let obeyed = until_obeyed(&mut connection, limit(round))?;
        let sent = observer.received(|name| name.starts_with(&cluster), began)?;
        let asked = Instant::now();
        wait_shown(&admin, &cluster, limit(round))?;
        if round >= WARM_UP {
            measured.obeyed.add(obeyed - began);
            measured.own.add(obeyed.saturating_duration_since(sent));
            measured.admin.add(asked.elapsed());
        }
        stage.chancery.check_alive()?;
    }
    Ok(measured)
}

/// Requests at a time that the breaker lets through in a round: none, or many.
const fn limit(round: usize) -> usize {
    if round.is_multiple_of(2) { 0 } else { 1_000 + round }
}

/// Asks until the answer is that of a breaker with this limit; gives when it was.
fn until_obeyed(connection: &mut Connection, limit: usize) -> anyhow::Result<Instant> {
    let (began, host, path) = (Instant::now(), host_of(ROUTE), format!("/path-{ROUTE}"));
    let service = format!("service-{ROUTE}");
    loop {
        let answer = connection.get(&host, &path)?;
        let open = answer.status == 200 && answer.body == service;
        let shut = answer.status == 503 && answer.body.ends_with("reset reason: overflow");
        anyhow::ensure!(open || shut, "neither an open nor a shut breaker answers {answer:?}");
        if open == (limit > 0) {
            return Ok(Instant::now());
        }
        anyhow::ensure!(began.elapsed() < Duration::from_secs(30), "the limit {limit} is not obeyed: {answer:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Waits until the admin interface shows the limit of the cluster.
fn wait_shown(admin: &Path, cluster: &str, limit: usize) -> anyhow::Result<()> {
    let (began, wanted) = (Instant::now(), format!("\"max_requests\": {limit}"));
    loop {
        let question = format!("/config_dump?resource=dynamic_active_clusters&name_regex=%5E{cluster}.*");
        let text = http::admin(admin, &question).unwrap_or_default();
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("max_requests")).collect();
        if shown.first().is_some_and(|line| line.trim().trim_end_matches(',') == wanted) {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < Duration::from_secs(30), "{limit} is not shown, but {shown:?}");
        std::thread::sleep(PAUSE);
    }
}

/// A policy for the route.
fn policy(max_parallel_requests: usize) -> String {
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nmetadata:\n  name: limits\nspec:\n  targetRefs:\n  - \
         group: gateway.networking.k8s.io\n    kind: HTTPRoute\n    name: route-{ROUTE}\n  circuitBreaker:\n    \
         maxParallelRequests: {max_parallel_requests}\n"
    )
}
