//! Events on pods: what `kubectl describe pod` shows of what happened to them.

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
        let note = Some(note.chars().take(1000).collect());
        let event = Event { type_, reason: reason.to_owned(), note, action: reason.to_owned(), secondary: None };
        let (recorder, reference) = (self.0.clone(), pod.object_ref(&()));
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &reference).await {
                tracing::debug!("event {reason}: {error}");
            }
        });
    }
}
