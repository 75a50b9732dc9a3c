//! Tells the API server what is known of a pod, when it changed.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Duration, sleep};

use super::{Life, Object};
use crate::simlet::status;

/// What was told last.
pub(super) struct Reporter {
    last: Option<PodStatus>,
    /// Conditions with the times at which they became what they are.
    conditions: Vec<PodCondition>,
    changes: watch::Receiver<()>,
    object: watch::Receiver<Object>,
}

/// How long after a failure it is told again.
const AGAIN: Duration = Duration::from_secs(1);

impl Reporter {
    pub(super) fn new(life: &Life) -> Self {
        let before = life.first.status.as_ref().and_then(|status| status.conditions.clone());
        let (changes, object) = (life.board.changes(), life.object.clone());
        Self { last: None, conditions: before.unwrap_or_default(), changes, object }
    }

    /// Tells, for ever.
    pub(super) async fn run(&mut self, life: &Life) {
        loop {
            self.changes.mark_unchanged();
            self.object.mark_unchanged();
            if !self.tell(life).await {
                sleep(AGAIN).await;
                continue;
            }
            tokio::select! {
                _changed = self.changes.changed() => {}
                // conditions of others open readiness gates
                changed = self.object.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
            }
        }
    }

    /// Tells what there is to tell at the end.
    pub(super) async fn last_word(&mut self, life: &Life) {
        while !life.object.borrow().gone && !self.tell(life).await {
            sleep(AGAIN).await;
        }
    }

    /// False: it has to be tried again.
    async fn tell(&mut self, life: &Life) -> bool {
        if life.is_over() {
            return true;
        }
        let pod = life.pod();
        let status = status::of(&pod, &life.board.facts(), life.address, life.began, &self.conditions);
        if self.last.as_ref() == Some(&status) {
            return true;
        }
        // unknown until there is an answer
        self.last = None;
        let api: Api<Pod> = Api::namespaced(life.context.client.clone(), life.namespace());
        let patch = json!({ "metadata": { "uid": life.uid() }, "status": words(&status) });
        self.conditions = status.conditions.clone().unwrap_or_default();
        match api.patch_status(life.name(), &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => {
                self.last = Some(status);
                true
            }
            // it is gone, or another one has its name
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => true,
            Err(error) => {
                tracing::info!("status of pod {}: {error}", life.full_name());
                false
            }
        }
    }
}

/// As a patch: conditions are merged by type, so that what one has no more has to be taken away.
fn words(status: &PodStatus) -> Value {
    let mut words = serde_json::to_value(status).unwrap_or_default();
    let conditions = words.pointer_mut("/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        for field in ["reason", "message"] {
            condition.entry(field).or_insert(Value::Null);
        }
    }
    words
}
