//! B12 and B2 through the API server: how soon a written object answers, while endpoints change all the time. And what nothing costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::interval;

use super::objects::{At, Cluster, ROUTE, SERVICE, SLICE, route, service, slice};
use super::probe::{Answer, Probe};
use super::program::{Replica, replicas};
use super::{figure, millis, percentile};

const ROUTES: usize = 5_000;
const SERVICES: usize = 1_000;

/// Endpoint events in a second.
const EVENTS: u64 = 50;

/// Changes that are measured, of each kind one a second.
const CHANGES: usize = 60;

/// What has to be over before anything is measured.
const SETTLE: Duration = Duration::from_secs(10);

/// How long nothing happens for the figure of that.
const IDLE: Duration = Duration::from_secs(60);

/// One second of CPU for each second.
fn share(cpu: Duration, time: Duration) -> f64 {
    cpu.as_secs_f64() / time.as_secs_f64() * 100.0
}

/// CPU of each replica while nothing changes.
pub(super) async fn idle(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.gateway().await?;
    tokio::time::sleep(SETTLE).await;
    for (replica, before, began) in marks()? {
        tokio::time::sleep(IDLE.saturating_sub(began.elapsed())).await;
        let used = replica.cpu()?.saturating_sub(before);
        figure("idle", "CPU of a replica", 0, (share(used, began.elapsed()), "%"), Some(0.1));
        figure("idle", "memory of a replica", 0, (replica.memory()?, "MB"), None);
    }
    Ok(())
}

/// What each replica has used so far, and when that was.
fn marks() -> anyhow::Result<Vec<(Replica, Duration, Instant)>> {
    replicas()?.into_iter().map(|replica| Ok((replica.clone(), replica.cpu()?, Instant::now()))).collect()
}

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<()> {
    let address = cluster.gateway().await?;
    let backends = [cluster.backend("first").await?, cluster.backend("second").await?];
    let name = |number: usize| format!("service-{}", number % SERVICES);
    cluster.make_all(SERVICE, (0..SERVICES).map(|number| (name(number), service()))).await?;
    cluster.make_all(SLICE, (0..SERVICES).map(|number| (name(number), slice(&name(number), &backends[0])))).await?;
    let of =
        |number: usize, version: &str| (format!("route-{number}"), route(&At::number(number), &name(number), version));
    let routes = (0..ROUTES).map(|number| of(number, "0"));
    cluster.make_all(ROUTE, routes.collect::<Vec<_>>()).await?;
    let mut probe = Probe::connect(&address)?;
    probe.until(&At::number(ROUTES - 1), "0", |_| {})?;
    tokio::time::sleep(SETTLE).await;

    let errors = Arc::new(AtomicU64::new(0));
    let asked = Arc::clone(&errors);
    let steady = move |answer: &Answer| {
        asked.fetch_add(u64::from(answer.status != 200), Ordering::Relaxed);
    };
    let churn = tokio::spawn(churn(cluster.clone(), backends));
    let (marks, mut changed, mut made) = (marks()?, Vec::new(), Vec::new());
    let mut seconds = interval(Duration::from_secs(1));
    for number in 0..CHANGES {
        seconds.tick().await;
        let (index, version) = (number * ROUTES / CHANGES, format!("{}", number + 1));
        let (route, fields) = of(index, &version);
        cluster.patch(ROUTE, &route, fields).await?;
        changed.push(tokio::task::block_in_place(|| probe.until(&At::number(index), &version, &steady))?);
        // what nobody has is 404 until its route is there
        let index = ROUTES + number;
        let (route, fields) = of(index, "new");
        cluster.make(ROUTE, &route, fields).await?;
        made.push(tokio::task::block_in_place(|| probe.until(&At::number(index), "new", |_| {}))?);
    }
    churn.abort();
    for (what, mut times) in [("a changed route (B2)", changed), ("a new route", made)] {
        let mut say = |percent: usize, limit: f64| {
            let time = millis(percentile(&mut times, percent));
            figure("B12", &format!("written → new answer, {what}, p{percent}"), ROUTES, (time, "ms"), Some(limit));
        };
        say(50, 20.0);
        say(99, 60.0);
    }
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    figure("B12", "answers other than 200", ROUTES, (errors.load(Ordering::Relaxed) as f64, "answers"), Some(0.0));
    for (replica, before, began) in marks {
        let used = replica.cpu()?.saturating_sub(before);
        figure("B12", "CPU of a replica", ROUTES, (share(used, began.elapsed()), "%"), Some(5.0));
        figure("B12", "memory of a replica", ROUTES, (replica.memory()?, "MB"), None);
    }
    Ok(())
}

/// Moves the endpoint of one service after the other between two backends.
async fn churn(cluster: Cluster, backends: [String; 2]) -> anyhow::Result<()> {
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(EVENTS)?);
    for number in 0.. {
        ticks.tick().await;
        let service = format!("service-{}", number % SERVICES);
        let [first, second] = &backends;
        let address = if (number / SERVICES).is_multiple_of(2) { second } else { first };
        let endpoints = json!({ "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }] });
        let cluster = cluster.clone();
        // late events must not hold up the others
        tokio::spawn(async move { cluster.patch(SLICE, &service, endpoints).await });
    }
    Ok(())
}
