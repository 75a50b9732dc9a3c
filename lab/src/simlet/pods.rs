//! Which pods there are: those without a node get this one, those of this node a task each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_objects};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use super::Context;
use super::pod::{self, Object};
use super::world::Soon;
use crate::network::NODE_NAME;

/// The pods that have tasks.
struct Pods {
    context: Arc<Context>,
    tasks: JoinSet<()>,
    /// By their uids.
    live: BTreeMap<String, watch::Sender<Object>>,
    of_task: Vec<(Id, String)>,
    /// What a list has named so far.
    listed: BTreeSet<String>,
}

/// Follows them, for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let api: Api<Pod> = Api::all(context.client.clone());
    let events = watch_objects(api, watcher::Config::default()).backoff(Soon);
    pin_mut!(events);
    let mut pods =
        Pods { context, tasks: JoinSet::new(), live: BTreeMap::new(), of_task: Vec::new(), listed: BTreeSet::new() };
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => pods.apply(event),
                Some(Err(error)) => tracing::debug!("watching pods: {error}"),
                None => return,
            },
            Some(ended) = pods.tasks.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!("the task of a pod: {error}");
                        error.id()
                    }
                };
                if let Some(at) = pods.of_task.iter().position(|(task, _)| *task == id) {
                    let (_, uid) = pods.of_task.swap_remove(at);
                    pods.live.remove(&uid);
                }
            }
        }
    }
}

impl Pods {
    fn apply(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                self.listed.extend(pod.uid());
                self.see(pod);
            }
            Event::InitDone => {
                for (_, object) in self.live.iter().filter(|(uid, _)| !self.listed.contains(*uid)) {
                    object.send_modify(|object| object.gone = true);
                }
            }
            Event::Apply(pod) => self.see(pod),
            Event::Delete(pod) => {
                if let Some(object) = self.live.get(&pod.uid().unwrap_or_default()) {
                    object.send_modify(|object| object.gone = true);
                }
            }
        }
    }

    fn see(&mut self, pod: Pod) {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        match node.as_deref() {
            None | Some("") if pod.metadata.deletion_timestamp.is_none() => self.bind(pod),
            Some(NODE_NAME) => self.live(pod),
            _ => {}
        }
    }

    /// Gives a task what is new, or the pod a task.
    fn live(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        let pod = Arc::new(pod);
        if let Some(object) = self.live.get(&uid) {
            object.send_modify(|object| object.pod = pod);
            return;
        }
        let (sender, object) = watch::channel(Object { pod, gone: false });
        let task = self.tasks.spawn(pod::run(Arc::clone(&self.context), object));
        self.of_task.push((task.id(), uid.clone()));
        self.live.insert(uid, sender);
    }

    /// Puts a pod on the node, unless it wants another one or is for another scheduler.
    fn bind(&self, pod: Pod) {
        let context = Arc::clone(&self.context);
        let spec = pod.spec.clone().unwrap_or_default();
        let scheduler = spec.scheduler_name.as_deref().unwrap_or("default-scheduler");
        if scheduler != "default-scheduler" || spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()) {
            return;
        }
        tokio::spawn(async move {
            let wanted = spec.node_selector.unwrap_or_default();
            if !wanted.is_empty() {
                let node = Api::<Node>::all(context.client.clone()).get(NODE_NAME).await;
                let labels = node.map(|node| node.labels().clone()).unwrap_or_default();
                if wanted.iter().any(|(key, value)| labels.get(key) != Some(value)) {
                    let why = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
                    context.events.warning(&pod, "FailedScheduling", why.to_owned());
                    return;
                }
            }
            let api: Api<Pod> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
            let target = ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(NODE_NAME.to_owned()),
                ..ObjectReference::default()
            };
            let metadata = json!({ "name": pod.name_any(), "uid": pod.uid() });
            let binding = Binding { metadata: serde_json::from_value(metadata).unwrap_or_default(), target };
            let bound: Result<serde_json::Value, _> =
                api.create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding).await;
            match bound {
                // somebody else was faster, or it is gone
                Ok(_) | Err(kube::Error::Api(_)) => {}
                Err(error) => tracing::info!("binding pod {}: {error}", pod.name_any()),
            }
        });
    }
}
