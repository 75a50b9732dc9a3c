//! The places of Chancery's own that no backend leads to: its folders and the addresses at which it listens.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use infra::host::{Layout, machine_addresses};
use infra::kubernetes::pod_folders;
use provider::file::SocketPaths;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use translator::{ClosedAddresses, OwnPlaces};

use super::kubernetes::XDS_ADDRESS;
use crate::cli::{RunArgs, by_each_name};
use crate::core::Input;

#[cfg(test)]
mod tests;

/// Time between two looks at the links on the way to sockets and at the addresses of the machine: some system calls each.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Returns the places as the command line names them. Ports that the system chooses are not known yet.
pub(super) fn places(args: &RunArgs, layout: &Layout, state: &Path, of_cluster: bool) -> OwnPlaces {
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
            link_local: args.permissions.allow_link_local,
        },
    }
}

/// Reports changes of the places, and the targets of the sockets that `Backend`s name, until `stop`.
pub(super) async fn follow(
    mut places: OwnPlaces,
    sockets: SocketPaths,
    inputs: mpsc::Sender<Input>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // A listener on one address is reached by that one, whatever others the machine has.
    let on_all = places.addresses.listeners.iter().any(|listener| listener.ip().is_unspecified());
    let mut changed = true;
    while !stop.is_cancelled() {
        if on_all {
            let machine = machine_addresses();
            changed |= places.addresses.machine != machine;
            places.addresses.machine = machine;
        }
        if std::mem::take(&mut changed) {
            let _ended = inputs.send(Input::Own(Arc::new(places.clone()))).await;
        }
        // A folder on a network may take its time.
        let looked = sockets.clone();
        if let Some(batch) = tokio::task::spawn_blocking(move || looked.look_again()).await? {
            let _ended = inputs.send(Input::Batch(batch)).await;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}
