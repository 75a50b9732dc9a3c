//! [`keep_classes_in_use`]: a `GatewayClass` that somebody deletes stays until no Gateway has it any more, as the Gateway API asks
//! (`gateway-exists-finalizer.gateway.networking.k8s.io`): without its class a Gateway is nobody's, and its proxies would go at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{Kind, ObjectKey};
use kube::Client;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::kubernetes::call::{Caller, Failure};
use crate::kubernetes::pace::Backoff;
use crate::kubernetes::target::{Resource, Target};
use crate::kubernetes::{Observed, Pace};

/// The finalizer that the Gateway API has for it.
const IN_USE: &str = "gateway-exists-finalizer.gateway.networking.k8s.io";

/// What keeping needs.
#[derive(Clone)]
pub struct ClassesOptions {
    /// The API server.
    pub client: Client,
    /// Who we are: only classes of ours are touched.
    pub controller: Arc<str>,
    /// Which classes there are.
    pub observed: Observed,
    /// How long to wait for what.
    pub pace: Pace,
}

/// Keeps the finalizer on the classes of ours that `in_use` names, and on no other, while `leads` says so; until `stop`, or until whoever
/// tells is gone. `in_use` is none until it is known: of the Gateways of the whole cluster. What fails is tried again until something changes.
pub async fn keep_classes_in_use(
    options: ClassesOptions,
    mut in_use: watch::Receiver<Option<BTreeSet<Arc<str>>>>,
    mut leads: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    let keeping = async {
        let mut keeper = Keeper::new(options);
        while leads.wait_for(|leads| *leads).await.is_ok() {
            let Ok(wanted) = in_use.wait_for(Option::is_some).await.map(|known| known.clone().unwrap_or_default())
            else {
                return;
            };
            tokio::select! {
                () = keeper.keep(&wanted) => {}
                changed = in_use.changed() => if changed.is_err() { return },
                changed = leads.changed() => if changed.is_err() { return },
            }
        }
    };
    tokio::select! {
        () = keeping => {}
        () = stop.cancelled() => {}
    }
}

/// A class, as far as it is read.
#[derive(Deserialize)]
struct Class {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    finalizers: Vec<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    controller_name: String,
}

struct Keeper {
    options: ClassesOptions,
    caller: Caller,
    /// What was told last of what went wrong.
    trouble: Option<String>,
}

impl Keeper {
    fn new(options: ClassesOptions) -> Self {
        let caller = Caller { client: options.client.clone(), pace: options.pace };
        Self { options, caller, trouble: None }
    }

    /// Looks at every class, again and again as long as something fails; then there is nothing to do.
    async fn keep(&mut self, in_use: &BTreeSet<Arc<str>>) {
        let mut left = self.options.observed.classes();
        let mut backoff = Backoff::new(self.options.pace.retry_first, self.options.pace.retry_last);
        loop {
            let mut failed = Vec::new();
            for (key, version) in left {
                if let Err(failure) = self.keep_one((&key, version), in_use.contains(key.name())).await {
                    self.tell(&key, failure);
                    failed.push((key, version));
                }
            }
            if failed.is_empty() {
                self.trouble = None;
                std::future::pending::<()>().await;
            }
            left = failed;
            sleep(backoff.wait()).await;
        }
    }

    async fn keep_one(&self, (key, version): (&ObjectKey, &'static str), used: bool) -> Result<(), Failure> {
        let target = Target::one(Resource::Kind(Kind::GatewayClass, version), key);
        let path = format!("{}/{}", target.path(), key.name());
        let found = match self.caller.send("GET", &path, Vec::new()).await {
            Err(Failure::Missing) => return Ok(()),
            found => found?,
        };
        let class: Class =
            serde_json::from_slice(&found).map_err(|error| Failure::Away(format!("a class is no class: {error}")))?;
        let Some(finalizers) = finalizers(&class, &self.options.controller, used) else { return Ok(()) };
        // With the version that was read: somebody else may have changed the list meanwhile.
        let version = class.metadata.resource_version;
        let patch = json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
        match self.caller.send("PATCH", &path, patch.to_string().into_bytes()).await {
            Ok(_) | Err(Failure::Missing) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Each trouble once.
    fn tell(&mut self, key: &ObjectKey, failure: Failure) {
        let words = match failure {
            // It is read again.
            Failure::Conflict | Failure::Missing | Failure::Gone | Failure::Closed => return,
            Failure::Forbidden(words) | Failure::Invalid(words) | Failure::Away(words) | Failure::Busy(words) => words,
        };
        if self.trouble.as_ref() != Some(&words) {
            warn!("the finalizers of {key} cannot be set, and are tried again: {words}");
            self.trouble = Some(words);
        }
    }
}

/// What the finalizers of a class become; none if they are right, or not our business.
fn finalizers(class: &Class, controller: &str, used: bool) -> Option<Vec<String>> {
    let Metadata { finalizers, deletion_timestamp, .. } = &class.metadata;
    let has = finalizers.iter().any(|name| name == IN_USE);
    // None may be added to what is being deleted.
    let wants = used && (has || deletion_timestamp.is_none());
    if class.spec.controller_name != controller || has == wants {
        return None;
    }
    let others = finalizers.iter().filter(|name| *name != IN_USE).cloned();
    Some(others.chain(wants.then(|| IN_USE.to_owned())).collect())
}

#[cfg(test)]
mod tests;
