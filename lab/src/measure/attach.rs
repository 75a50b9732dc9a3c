//! B13: routes are attached to a Gateway and detached. What the API server counts is what was written.

use std::time::Instant;

use serde_json::Value;

use super::objects::{At, Cluster, GATEWAY, GATEWAYS, ROUTE, route, service};
use super::program::replicas;
use super::{figure, millis};

const ROUTES: usize = 1_000;

/// Names of the routes.
fn names() -> impl Iterator<Item = String> {
    (0..ROUTES).map(|number| format!("route-{number}"))
}

pub(super) async fn run(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.gateway().await?;
    cluster.make(super::objects::SERVICE, "shared", service()).await?;
    let routes = names().enumerate().map(|(number, name)| (name, route(&At::number(number), "shared", "1")));

    let before = (cluster.status_writes("gateways")?, cluster.status_writes("httproutes")?);
    cluster.make_all(ROUTE, routes.collect::<Vec<_>>()).await?;
    let attached = until_count(cluster, ROUTES).await?;
    figure("B13", "attach, until the count is right", ROUTES, (attached, "ms"), Some(1_000.0));
    until_written(cluster).await?;
    let after = (cluster.status_writes("gateways")?, cluster.status_writes("httproutes")?);
    written("attach", ROUTES, (before, after));
    for replica in replicas()? {
        figure("B13", "memory of a replica, 1,000 routes", ROUTES, (replica.memory()?, "MB"), Some(50.0));
    }

    let before = after;
    cluster.remove_all(ROUTE, names()).await?;
    let detached = until_count(cluster, 0).await?;
    figure("B13", "detach, until the count is right", ROUTES, (detached, "ms"), Some(1_000.0));
    let after = (cluster.status_writes("gateways")?, cluster.status_writes("httproutes")?);
    written("detach", 0, (before, after));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts of some thousand")]
fn written(what: &str, routes: usize, ((gateways, statuses), (gateways_now, statuses_now)): ((u64, u64), (u64, u64))) {
    let count = |before: u64, after: u64| after.saturating_sub(before) as f64;
    figure(
        "B13",
        &format!("{what}, writes to the Gateway"),
        ROUTES,
        (count(gateways, gateways_now), "writes"),
        Some(60.0),
    );
    let (writes, most) = (count(statuses, statuses_now), routes as f64);
    figure("B13", &format!("{what}, writes to routes"), ROUTES, (writes, "writes"), Some(most));
}

/// Milliseconds from now, which is after the last event, until the Gateway counts so many routes.
async fn until_count(cluster: &Cluster, wanted: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    let counts = |gateway: &Value| {
        let count = gateway.pointer("/status/listeners/0/attachedRoutes")?.as_u64()?;
        (count == wanted as u64).then_some(())
    };
    cluster.until("the count", (GATEWAYS, GATEWAY), counts).await?;
    Ok(millis(began.elapsed()))
}

/// Until every route has a status.
async fn until_written(cluster: &Cluster) -> anyhow::Result<()> {
    for name in names() {
        cluster
            .until("the status of a route", (ROUTE, &name), |route| route.pointer("/status/parents/0").map(drop))
            .await?;
    }
    Ok(())
}
