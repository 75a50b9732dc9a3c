//! One xDS socket per Gateway and workload: who connects there is its proxy, whatever it says of itself; and perhaps an address for
//! all. What is served there is the core's business.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use infra::host::{Layout, ProxyPaths};
use ir::FleetName;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use xds::{Gate, KnownTokens, ListenError};

use super::certificates::{self, CertificateFiles};
use super::{Wanted, Workloads};
use crate::cli::{InsecureXds, XdsTls};

/// How often the sockets are looked at: one that could not be opened is tried again, as its folder may just be going with an
/// earlier proxy, and one that somebody has removed, perhaps with the state folder, is made again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Opens and closes sockets as Gateways come and go, until `stop`. Until it is known which there shall be, those of `last_good` are there.
pub(super) async fn serve(
    (server, tokens): (xds::Server, KnownTokens),
    layout: Layout,
    (mut infra, mut workloads, last_good): (Wanted, Workloads, BTreeSet<Arc<str>>),
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut open = BTreeSet::new();
    let mut failed = BTreeMap::new();
    let mut wanted: BTreeSet<FleetName> = last_good.into_iter().map(FleetName).collect();
    while !stop.is_cancelled() {
        if infra.has_changed().unwrap_or(true) || workloads.has_changed().unwrap_or(true) {
            wanted = infra.borrow_and_update().keys().cloned().collect();
            wanted.extend(workloads.borrow_and_update().iter().cloned());
        }
        for fleet in open.difference(&wanted) {
            close(&server, &tokens, &layout.paths(fleet));
        }
        open.retain(|fleet| wanted.contains(fleet) && layout.paths(fleet).xds_socket.exists());
        failed.retain(|fleet, _| wanted.contains(fleet));
        for fleet in wanted.difference(&open.clone()) {
            match listen(&server, &tokens, &layout, fleet) {
                Ok(()) => {
                    open.insert(fleet.clone());
                    failed.remove(fleet);
                }
                Err(error) => {
                    // Said once, not every second.
                    let words = format!("{error:#}");
                    if failed.get(fleet) != Some(&words) {
                        warn!(gateway = %fleet, "no xDS socket, trying again: {words}");
                        failed.insert(fleet.clone(), words);
                    }
                }
            }
        }
        tokio::select! {
            changed = infra.changed() => match changed {
                Ok(()) => infra.mark_changed(),
                Err(_) => return Ok(()),
            },
            Ok(()) = workloads.changed() => workloads.mark_changed(),
            () = tokio::time::sleep(LOOK_AGAIN), if !wanted.is_empty() => {}
            () = stop.cancelled() => {}
        }
    }
    for fleet in &open {
        close(&server, &tokens, &layout.paths(fleet));
    }
    Ok(())
}

/// Serves xDS at an address as well. Gives the address that was bound and, with TLS, the files whose changes are to be followed.
pub(super) fn listen_at(
    server: &xds::Server,
    tokens: &KnownTokens,
    address: SocketAddr,
    (tls, insecure, limits): (&XdsTls, &InsecureXds, xds::Limits),
) -> anyhow::Result<(SocketAddr, Option<CertificateFiles>)> {
    let files = CertificateFiles::read(tls)?;
    let (bound, how) = match &files {
        Some(files) => {
            let gate = certificates::gate(tls.xds_trust_domain.clone(), limits);
            (server.listen_tls(address, files.tls(), gate), "xDS with TLS")
        }
        None => (
            server.listen_tcp(address, Gate::cleartext(tokens.clone(), insecure.cleartext(), limits)),
            match (insecure.insecure_xds_clients, insecure.insecure_xds_secrets) {
                (false, false) => "xDS in cleartext, without secrets, for proxies with their token",
                (false, true) => "xDS in cleartext with secrets, for proxies with their token (--insecure-xds-secrets)",
                (true, false) => {
                    "xDS in cleartext, without secrets, for every user of this machine and every route to it (--insecure-xds-clients)"
                }
                (true, true) => {
                    "xDS in cleartext with private keys, for every user of this machine and every route to it (--insecure-xds-clients, --insecure-xds-secrets)"
                }
            },
        ),
    };
    let bound = bound.map_err(|error| refused(address, error))?;
    info!(address = %bound, "{how}");
    Ok((bound, files))
}

/// Why the address that the command line names is not served.
fn refused(address: SocketAddr, error: ListenError) -> anyhow::Error {
    match error {
        ListenError::Bind { reason, .. } if reason.kind() == ErrorKind::AddrInUse => {
            anyhow::anyhow!("--xds-listen {address}: another process listens there; end it or name another port")
        }
        ListenError::Bind { reason, .. } => anyhow::anyhow!("--xds-listen {address}: {reason}"),
        other => anyhow::anyhow!("--xds-listen {address}: {other}"),
    }
}

fn listen(server: &xds::Server, tokens: &KnownTokens, layout: &Layout, fleet: &FleetName) -> anyhow::Result<()> {
    let paths = layout.prepare(fleet)?;
    server.listen_unix(&paths.xds_socket, Arc::clone(&fleet.0), Some(paths.token.as_str().into()))?;
    tokens.insert(paths.token.as_str(), Arc::clone(&fleet.0));
    Ok(())
}

fn close(server: &xds::Server, tokens: &KnownTokens, paths: &ProxyPaths) {
    server.close_unix(&paths.xds_socket);
    tokens.remove(paths.token.as_str());
}
