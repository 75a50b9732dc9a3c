//! Objects from a Kubernetes API server.
//!
//! [`follow`] lists and watches every kind that we read and that the server has, and hands on what they come to as batches.
//!
//! What is read: of each kind all objects of the [`Scope`], in the newest version that both sides know; of Secrets and
//! `ConfigMap`s only those that an object names, each by its name, so that no right to read all of them is needed; Pods only of namespaces
//! where something may be for them.
//!
//! What happens when something fails: nothing is deleted because the server is away, may not be asked or says nonsense; what was read
//! last stays in force, and a [`api::Problem`] says so until it is over. An object that cannot be used keeps its last usable form. A list that breaks off is
//! asked for again; only what a complete list lacks is gone. A kind that the server does not have is empty, and read when it comes.
//!
//! What an event costs: an object of which nothing changed that anybody reads (a status, `managedFields`) is known by the hash of the rest,
//! and goes no further than that.
//!
//! Why the protocol of lists and watches is our own and not that of `kube::runtime`: that one keeps bookmarks and reconnections to
//! itself, so that nobody can tell when the server is back, finds a silent connection only after five minutes, and makes every object of a page
//! before it hands on the first. The connection, its authentication and the requests are kube's.
//!
//! Map: `connect` the client; `target` what a watch is about, `call` one request, `pace` every time, `lines` and `seen` from bytes to objects with names,
//! `watch` the protocol of one target; `discovery` which versions there are; `plan` which targets there shall be, `watches` the tasks;
//! `catalog` what is known of each object, `loosely` what can be read of one that cannot be used, `wanted` what is named, `follower` where all comes together, `report` wording; `observed`
//! what whoever writes statuses has to know, `status` that task, `leader` which replica it is, `replicas` what they tell each
//! other; `classes` what keeps a class that is in use; `tokens` whose a bearer token is, `secret` where we keep
//! what is ours; [`access`] the rights that all of it needs. [`forward`] is not Chancery's own: it is for who has a kubeconfig.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use api::{Kind, LabelSelector, Labels};
use store::Batch;
use tokio_util::sync::CancellationToken;

pub mod access;
mod call;
mod catalog;
pub mod classes;
mod connect;
mod discovery;
mod follower;
pub mod forward;
pub mod leader;
mod lines;
mod loosely;
mod observed;
mod pace;
mod plan;
pub mod presence;
pub mod replicas;
mod report;
mod secret;
mod seen;
pub mod status;
mod target;
mod tokens;
mod usage;
mod wanted;
mod watch;
mod watches;

pub use connect::{Connection, connect};
/// A connection to an API server; [`connect()`] makes one.
pub use kube::Client;
pub use observed::{Observed, Standing};
pub use pace::Pace;
pub use secret::{Kept, SecretError, SecretStore};
pub use tokens::{Bearer, BoundPod, RecheckTiming, ReviewError, TokenRechecks, TokenReviewer};

/// What to follow.
#[derive(Clone)]
pub struct Options {
    /// The API server.
    pub client: Client,
    /// Whose objects count.
    pub scope: Scope,
    /// Where to note what statuses there are.
    pub observed: Observed,
    /// How long to wait for what.
    pub pace: Pace,
}

/// Whose objects count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    /// Those of every namespace.
    #[default]
    All,
    /// Those of these namespaces; nothing is asked of others, so that Roles in these suffice. Classes and namespaces, which belong to
    /// the cluster, are read one by one where they may not be watched together.
    Namespaces(BTreeSet<Arc<str>>),
    /// Those of the namespaces with these labels.
    Selector(LabelSelector),
}

impl Scope {
    /// Whether a namespace counts by its labels.
    fn selects(&self, name: &str, labels: &Labels) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(names) => names.contains(name),
            Self::Selector(selector) => selector.matches(labels),
        }
    }
}

/// Why an API server can no longer be followed. What goes wrong in talking to it is a [`api::Problem`] instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no usable kubeconfig, and this is no pod.
    #[error("no Kubernetes API server is known: {0}")]
    Config(String),
    /// The client cannot be made of its configuration.
    #[error("cannot talk to the Kubernetes API server: {0}")]
    Client(String),
    /// A task ended by a panic, a fault of the program.
    #[error("a task that follows the Kubernetes API server ended by a fault: {0}")]
    Panic(String),
}

/// The kinds that are read of an API server: not what only files have.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| *kind != Kind::EnvoyGateway)
}

/// Whether only those objects of a kind are read that others name.
fn is_named(kind: Kind) -> bool {
    matches!(kind, Kind::Secret | Kind::ConfigMap | Kind::ClusterTrustBundle)
}

/// Lists and watches until `stop`, or until `sink` breaks off.
///
/// What there is at first comes in as many batches as it takes, of which the last is `listed`; each later one holds all that has come meanwhile.
/// While `sink` waits nothing is lost: the server is read no further. No batch is `listed` before every kind was listed or is known to be
/// missing, and every Secret and `ConfigMap` that is named was read or is known to be missing or forbidden. A kind that may not be read
/// holds up all: what nobody knows cannot be told from what is gone.
///
/// # Errors
///
/// A task broke.
pub async fn follow<F>(
    options: Options,
    sink: impl FnMut(Batch) -> F + Send,
    stop: CancellationToken,
) -> Result<(), Error>
where
    F: Future<Output = ControlFlow<()>> + Send,
{
    follower::follow(options, sink, stop).await
}

#[cfg(test)]
mod tests;
