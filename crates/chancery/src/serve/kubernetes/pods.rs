//! Proxies as Pods: they are made once it is known whom they shall trust.

use std::sync::Arc;

use infra::kubernetes::{self, Client, ClusterOptions, Options, Pace, PodsFact, ProxyObjects, Scope};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::super::Wanted;
use crate::core::Input;

/// Where they are made, and how.
pub(super) struct Places {
    pub(super) client: Client,
    /// Whether the API server has Gateways at all: without them none is gone.
    pub(super) has_gateways: watch::Receiver<bool>,
    pub(super) scope: Scope,
    /// All but the authorities.
    pub(super) options: ClusterOptions,
    /// Certificates as PEM; empty until they are known.
    pub(super) authorities: watch::Receiver<Arc<str>>,
    /// Receives the accounts and workloads of proxies.
    pub(super) proxies: watch::Sender<Arc<ProxyObjects>>,
}

/// Makes them until `stop`.
pub(super) async fn run(
    places: Places,
    (infra, mut leading): (Wanted, watch::Receiver<bool>),
    facts: mpsc::Sender<PodsFact>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Places { client, has_gateways: mut has, scope, options, mut authorities, proxies } = places;
    let with =
        |authorities: &Arc<str>| Arc::new(ClusterOptions { authorities: Arc::clone(authorities), ..options.clone() });
    let known = tokio::select! {
        known = authorities.wait_for(|known| !known.is_empty()) => known.map(|known| Arc::clone(&known)),
        () = stop.cancelled() => return Ok(()),
    };
    let Ok(known) = known else { return Ok(()) };
    let (trust, cluster) = watch::channel(with(&known));
    let (may, writing) = watch::channel(false);
    let options = Options { client, scope, cluster, pace: Pace::default(), proxies };
    let made = kubernetes::run(options, infra, writing, facts, stop);
    tokio::pin!(made);
    loop {
        let now = *leading.borrow_and_update() && *has.borrow_and_update();
        may.send_if_modified(|before| std::mem::replace(before, now) != now);
        tokio::select! {
            Ok(()) = leading.changed() => {}
            Ok(()) = has.changed() => {}
            result = &mut made => return Ok(result?),
            Ok(()) = authorities.changed() => {
                let known = Arc::clone(&authorities.borrow_and_update());
                trust.send_replace(with(&known));
            }
        }
    }
}

/// Hands what is seen of them to the core; ends with either side.
pub(super) async fn tell(mut facts: mpsc::Receiver<PodsFact>, inputs: mpsc::Sender<Input>) -> anyhow::Result<()> {
    while let Some(fact) = facts.recv().await {
        if inputs.send(Input::Pods(fact)).await.is_err() {
            break;
        }
    }
    Ok(())
}
