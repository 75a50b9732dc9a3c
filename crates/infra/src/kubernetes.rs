//! Proxies as Pods of a Kubernetes cluster: a Deployment or `DaemonSet`, a Service and what belongs to them, for each Gateway.
//!
//! [`run()`] is told which proxies there shall be and makes their objects so, by server-side apply, while it leads; leading or not, it says
//! what it sees as [`PodsFact`]s. What holds:
//!
//! - Nothing of somebody else is touched. An object is ours if its labels say that this installation of Chancery made it for this Gateway; any
//!   other of its name is a problem that is told. One that comes while we look is safe too: what is sent holds only for what was looked at.
//! - Nothing is written that is there: each object has the hash of what was applied last, and the API server says who owns which field. Who
//!   changes a field of ours takes it from us; it is put right, ever later while that goes on. Whoever changes others, a status or the number
//!   of replicas under an autoscaler, is left alone.
//! - What has another name or kind now is made before the old one goes: Pods when others serve, a Service when another has an address.
//! - Nothing is removed before it is known who is wanted, and nothing because the API server is away.
//!
//! Map: [`object`] what the objects are like, `name` what they are called and whose they are; `seen` and `world` what there is, told by
//! `watch`; `fleet` what is missing, `apply` makes it with `call`, `fields` who owns what, `lean` what is read of metadata; `state` what is told as a `fact`; `run` all of them
//! together; [`mod@sidecar`] what Envoys in Pods of others need; `pace` how long to wait; [`mod@shutdown`] how a proxy ends; [`access`] the rights that are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ir::{FleetName, Infra};
use tokio::sync::watch as channel;

pub mod access;
mod account;
mod apply;
mod call;
mod fact;
mod fields;
mod fleet;
mod lean;
mod name;
pub mod object;
mod own;
mod pace;
mod proxy_objects;
mod run;
mod seen;
pub mod shutdown;
pub mod sidecar;
mod state;
mod watch;
mod world;

pub use account::usual_service_accounts;
pub use fact::{PodsFact, PodsState};
/// A connection to an API server.
pub use kube::Client;
pub use name::{Owner, POD_LABELS};
pub use object::{ClusterOptions, Fault, ObjectKind, Wanted, objects};
pub use own::{OwnAddresses, OwnService, follow_own_addresses};
pub use pace::Pace;
pub use proxy_objects::{NotAProxy, ProxyObjects, workload};
pub use run::run;
pub use shutdown::shutdown;

/// Which fleets there shall be; those without [`Infra::kubernetes`] are somebody else's.
pub type Fleets = Arc<BTreeMap<FleetName, Arc<Infra>>>;

/// Returns the folders of a proxy's Pod whose files and sockets no object of an author may lead to, by each of their names.
pub fn pod_folders() -> impl Iterator<Item = &'static Path> {
    object::POD_FOLDERS.into_iter().map(Path::new)
}

/// How objects are made in a cluster.
#[derive(Clone)]
pub struct Options {
    /// The API server.
    pub client: Client,
    /// Where to look.
    pub scope: Scope,
    /// What is the same for all fleets, as it is now and whenever it changes. The controller and its namespace stay what they are.
    pub cluster: channel::Receiver<Arc<ClusterOptions>>,
    /// How long to wait for what.
    pub pace: Pace,
    /// Receives the accounts and workloads of proxies that the API server has.
    pub proxies: channel::Sender<Arc<ProxyObjects>>,
}

/// In which namespaces objects are looked at and made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Scope {
    /// In all.
    #[default]
    All,
    /// In these, so that Roles there suffice. That of the controller has to be among them if objects are made there.
    Namespaces(BTreeSet<Arc<str>>),
}

impl Scope {
    fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(names) => names.contains(namespace),
        }
    }
}

/// Why it ended. What goes wrong in talking to the API server is tried again, and told as a fact.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task ended by a panic, a fault of the program.
    #[error("a task that keeps the objects of proxies ended by a fault: {0}")]
    Task(String),
}
