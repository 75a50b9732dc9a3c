//! The places of Chancery's own that no backend leads to: its folders and the addresses at which it listens.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use infra::host::{Layout, machine_addresses};
use infra::kubernetes::{OwnAddresses, pod_folders};
use provider::file::SocketPaths;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use translator::{ClosedAddresses, OwnPlaces};

use super::kubernetes::XDS_ADDRESS;
use crate::cli::{RunArgs, by_each_name};
use crate::core::Input;

#[cfg(test)]
mod tests;

/// Time between two looks at the links on the way to sockets and at the addresses of the machine: some system calls each.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Returns the places as the command line names them, and Chancery's Service by name and namespace in a cluster. Ports that the system chooses are not
/// known yet.
pub(super) fn places(
    args: &RunArgs,
    layout: &Layout,
    state: &Path,
    service: Option<(Box<str>, Box<str>)>,
) -> OwnPlaces {
    let of_cluster = service.is_some();
    let xds = args.xds_listen.or(of_cluster.then_some(XDS_ADDRESS));
    let mut folders = by_each_name(layout.folders().into_iter().chain([state]));
    if of_cluster {
        // Links inside a Pod cannot be followed here, so that its folders stand in the table by each name.
        folders.extend(pod_folders().map(Path::to_owned));
    }
    OwnPlaces {
        folders,
        socket_roots: args.permissions.socket_roots(),
        addresses: ClosedAddresses {
            listeners: [xds, args.health_listen, args.admin_listen].into_iter().flatten().collect(),
            machine: machine_addresses(),
            node_ports: BTreeSet::new(),
            services: service.into_iter().collect(),
            link_local: args.permissions.allow_link_local,
        },
    }
}

/// Reports changes of the places, and the targets of the sockets that `Backend`s name, until `stop`. `replicas`: the addresses of all replicas in a
/// cluster.
pub(super) async fn follow(
    mut places: OwnPlaces,
    (sockets, replicas): (SocketPaths, watch::Receiver<OwnAddresses>),
    inputs: mpsc::Sender<Input>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let own = places.addresses.clone();
    let mut changed = true;
    while !stop.is_cancelled() {
        let now = addresses(&own, &replicas.borrow());
        changed |= places.addresses != now;
        places.addresses = now;
        if std::mem::take(&mut changed) {
            let _ended = inputs.send(Input::Own(Arc::new(places.clone()))).await;
        }
        // Threads of its own look; this waits for them, for a bounded time.
        let looked = sockets.clone();
        if let Some(batch) = tokio::task::spawn_blocking(move || looked.look_again()).await? {
            let _ended = inputs.send(Input::Batch(batch)).await;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = sockets.late() => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

/// Returns the addresses of this process and of the whole installation, as they are now.
fn addresses(own: &ClosedAddresses, all: &OwnAddresses) -> ClosedAddresses {
    // A listener on one address is reached by that one, whatever others the machine has.
    let on_all = own.listeners.iter().any(|listener| listener.ip().is_unspecified());
    let mut now = own.clone();
    if on_all {
        now.machine = machine_addresses();
    }
    // Each replica has the same command line, in which its own address may stand.
    let ports: BTreeSet<u16> =
        own.listeners.iter().filter(|listener| !listener.ip().is_loopback()).map(SocketAddr::port).collect();
    let of_replicas = all.replicas.iter().flat_map(|ip| ports.iter().map(|port| SocketAddr::new(*ip, *port)));
    now.listeners.extend(of_replicas);
    now.listeners.extend(&all.service);
    now.node_ports.clone_from(&all.node_ports);
    now
}
