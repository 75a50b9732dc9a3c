//! Objects that pods name, as the API server has them now.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How a watch that broke begins again: soon, so that a test that has the API server back does not wait for what is built for many clients.
pub(crate) struct Soon;

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(500))
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {}
}

/// All of them in the cluster: there are few.
pub(crate) struct World {
    secrets: Store<Secret>,
    config_maps: Store<ConfigMap>,
    pub(crate) services: Store<Service>,
    pub(crate) slices: Store<EndpointSlice>,
    /// Of Secrets and ConfigMaps.
    contents: watch::Receiver<()>,
    /// Of Services.
    addresses: watch::Receiver<()>,
}

impl World {
    /// Watches them, for ever.
    pub(crate) fn follow(client: &Client, tasks: &mut JoinSet<()>) -> Self {
        let (content, contents) = watch::channel(());
        let (address, addresses) = watch::channel(());
        let (content, address) = (Arc::new(content), Arc::new(address));
        Self {
            secrets: follow(client, &content, tasks),
            config_maps: follow(client, &content, tasks),
            services: follow(client, &address, tasks),
            slices: follow(client, &Arc::new(watch::Sender::new(())), tasks),
            contents,
            addresses,
        }
    }

    pub(crate) fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
        self.secrets.get(&ObjectRef::new(name).within(namespace))
    }

    pub(crate) fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>> {
        self.config_maps.get(&ObjectRef::new(name).within(namespace))
    }

    /// Tells that a Secret or a ConfigMap changed.
    pub(crate) fn contents(&self) -> watch::Receiver<()> {
        self.contents.clone()
    }

    /// Tells that a Service changed.
    pub(crate) fn addresses(&self) -> watch::Receiver<()> {
        self.addresses.clone()
    }

    /// Until Services have been listed once: containers get variables of them.
    pub(crate) async fn listed(&self) {
        let _ends_with_the_lab = self.services.wait_until_ready().await;
    }
}

fn follow<K>(client: &Client, changed: &Arc<watch::Sender<()>>, tasks: &mut JoinSet<()>) -> Store<K>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (store, writer) = reflector::store();
    let (api, changed) = (Api::<K>::all(client.clone()), Arc::clone(changed));
    tasks.spawn(async move {
        let events = reflector::reflector(writer, watcher(api, watcher::Config::default())).backoff(Soon);
        pin_mut!(events);
        while let Some(event) = events.next().await {
            if event.is_ok() {
                changed.send_replace(());
            }
        }
    });
    store
}
