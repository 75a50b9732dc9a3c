//! Events on pods: what `kubectl describe pod` shows of what happened to them.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::{Event, EventType, Recorder as KubeRecorder, Reporter};
use kube::{Client, Resource as _};

/// Publishes them.
#[derive(Clone)]
pub(crate) struct Recorder(KubeRecorder);

impl Recorder {
    pub(crate) fn new(client: Client) -> Self {
        let reporter =
            Reporter { controller: "kubelet".to_owned(), instance: Some(crate::network::NODE_NAME.to_owned()) };
        Self(KubeRecorder::new(client, reporter))
    }

    /// What goes well.
    pub(crate) fn normal(&self, pod: &Pod, reason: &'static str, note: String) {
        self.publish(pod, EventType::Normal, reason, note);
    }

    /// What goes wrong.
    pub(crate) fn warning(&self, pod: &Pod, reason: &'static str, note: String) {
        self.publish(pod, EventType::Warning, reason, note);
    }

    /// Nobody waits for it: an event that is lost is lost.
    fn publish(&self, pod: &Pod, type_: EventType, reason: &'static str, note: String) {
        // of at most 1 kB (API: Event.note)
        let note: Option<String> = Some(note.chars().take(1000).collect());
        // of at most 128 bytes; events that differ in nothing but their notes would be taken for one
        let action = format!("{reason}-{:016x}", hash(&note));
        let event = Event { type_, reason: reason.to_owned(), note, action, secondary: None };
        let (recorder, reference) = (self.0.clone(), pod.object_ref(&()));
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &reference).await {
                tracing::debug!("event {reason}: {error}");
            }
        });
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
