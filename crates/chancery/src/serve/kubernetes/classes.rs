//! Which classes are in use: those of the Gateways that have proxies, or would have them.

use std::collections::BTreeSet;
use std::sync::Arc;

use provider::kubernetes::classes::{ClassesOptions, keep_classes_in_use};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::Wanted;

/// Keeps them until `stop`.
pub(super) async fn keep(
    options: ClassesOptions,
    mut infra: Wanted,
    leading: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (tell, in_use) = watch::channel(None);
    let telling = async {
        while infra.changed().await.is_ok() {
            let infra = Arc::clone(&infra.borrow_and_update());
            let classes = infra.values().filter_map(|infra| infra.kubernetes.as_deref());
            let classes: BTreeSet<Arc<str>> = classes.map(|kubernetes| Arc::clone(&kubernetes.class)).collect();
            tell.send_if_modified(|known| known.replace(classes.clone()).as_ref() != Some(&classes));
        }
    };
    tokio::select! {
        () = telling => {}
        () = keep_classes_in_use(options, in_use, leading, stop) => {}
    }
    Ok(())
}
