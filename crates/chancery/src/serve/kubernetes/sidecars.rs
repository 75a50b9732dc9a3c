//! Envoys beside applications: in each namespace with workloads they find how to reach us.

use std::collections::BTreeSet;
use std::sync::Arc;

use infra::kubernetes::sidecar::{SidecarOptions, keep_sidecar_config};
use infra::kubernetes::{Client, ClusterOptions, Pace, Scope};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::Workloads;

/// Where they are, and what they are told.
pub(super) struct Places {
    pub(super) client: Client,
    pub(super) scope: Scope,
    /// All but the authorities.
    pub(super) options: ClusterOptions,
    /// Certificates as PEM; empty until they are known.
    pub(super) authorities: watch::Receiver<Arc<str>>,
}

/// Keeps that until `stop`.
pub(super) async fn keep(
    places: Places,
    mut workloads: Workloads,
    leading: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Places { client, scope, options, mut authorities } = places;
    let known = tokio::select! {
        known = authorities.wait_for(|known| !known.is_empty()) => known.map(|known| Arc::clone(&known)),
        () = stop.cancelled() => return Ok(()),
    };
    let Ok(known) = known else { return Ok(()) };
    let with = |authorities: Arc<str>| Arc::new(ClusterOptions { authorities, ..options.clone() });
    let (trust, cluster) = watch::channel(with(known));
    let (tell, namespaces) = watch::channel(BTreeSet::new());
    let options = SidecarOptions { client, scope, cluster, leading, pace: Pace::default() };
    let keeping = keep_sidecar_config(options, namespaces, stop);
    tokio::pin!(keeping);
    loop {
        let all = Arc::clone(&workloads.borrow_and_update());
        let now: BTreeSet<Arc<str>> = all.iter().filter_map(|fleet| Some(fleet.workload()?.0.into())).collect();
        tell.send_if_modified(|before| {
            let changed = *before != now;
            *before = now;
            changed
        });
        tokio::select! {
            () = &mut keeping => return Ok(()),
            changed = workloads.changed() => if changed.is_err() { return Ok(()) },
            Ok(()) = authorities.changed() => drop(trust.send_replace(with(Arc::clone(&authorities.borrow_and_update())))),
        }
    }
}
