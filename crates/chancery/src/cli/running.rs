//! A running Chancery: a process with a state folder on this machine, or the replicas in a cluster, and the way to each.

use std::cell::RefCell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use infra::host::Layout;
use ir::FleetName;
use ir::infra::kubernetes::CONFIG_PORT;
use provider::kubernetes::connect;
use provider::kubernetes::forward::{PodState, Pods};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use super::{ClusterArgs, StateDir, warn_of_namespace};
use crate::admin::client;

/// Where replicas in a cluster answer (`--admin-listen 127.0.0.1:8082`, which the chart says).
const ADMIN_PORT: u16 = 8082;

/// The labels of replicas, as the chart has them.
const REPLICAS: &str = "app.kubernetes.io/name=chancery,app.kubernetes.io/component=control-plane";

/// How it is chosen, for people.
pub(crate) const CHOICE: &str = "Asks the process of the state folder if --state-dir is given or one answers there. Otherwise, and with --kubeconfig, --context, \
                                 --chancery-namespace or --service, it asks the replicas in the cluster.";

/// Which one is meant. The process of the state folder where that is named, or where one answers; else the cluster of the kubeconfig.
#[derive(Debug, Args)]
pub(crate) struct RunningArgs {
    #[command(flatten)]
    state: StateDir,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl RunningArgs {
    /// The namespace of the requested objects.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.cluster.namespace()
    }
}

/// See the module.
pub(crate) struct Running {
    runtime: Runtime,
    place: Place,
    /// The namespace of the requested objects.
    namespace: Option<String>,
    /// What was said last of who is asked.
    told: RefCell<String>,
}

enum Place {
    Folder(PathBuf),
    Cluster(Cluster),
}

struct Cluster {
    client: provider::kubernetes::Client,
    namespace: String,
    lease: String,
    /// The folder that was looked at first, where nobody has said which is meant.
    no_folder: Option<PathBuf>,
    /// The option that chooses objects named its namespace.
    by_old_name: bool,
}

/// A process that can be asked: the only one of a state folder, or a Pod of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replica(Option<Arc<str>>);

impl Replica {
    /// The name of its Pod.
    pub(crate) fn pod(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl Running {
    /// The one that is meant. Whether it answers is found out later.
    pub(crate) fn find(args: &RunningArgs) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let place = runtime.block_on(place(args))?;
        let by_old_name = matches!(&place, Place::Cluster(cluster) if cluster.by_old_name);
        let namespace = args.cluster.namespace().filter(|_| !by_old_name).map(str::to_owned);
        Ok(Self { runtime, place, namespace, told: RefCell::default() })
    }

    /// The requested namespace; none: all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Who knows every status: of replicas the one that leads.
    pub(crate) fn leader(&self) -> anyhow::Result<Replica> {
        let Place::Cluster(cluster) = &self.place else { return Ok(Replica(None)) };
        let (replica, note) = self.runtime.block_on(cluster.leader()).with_context(|| cluster.nobody())?;
        if self.told.replace(note.clone()) != note && !note.is_empty() {
            writeln!(std::io::stderr(), "{note}")?;
        }
        Ok(replica)
    }

    /// Each that runs.
    pub(crate) fn all(&self) -> anyhow::Result<Vec<Replica>> {
        let Place::Cluster(cluster) = &self.place else { return Ok(vec![Replica(None)]) };
        let all = self.runtime.block_on(cluster.replicas()).with_context(|| cluster.nobody())?;
        Ok(all.into_iter().map(|pod| Replica(Some(pod.name))).collect())
    }

    /// What it answers to a GET of its admin API.
    pub(crate) fn get(&self, replica: &Replica, path: &str) -> anyhow::Result<Vec<u8>> {
        match (&self.place, &replica.0) {
            (Place::Cluster(cluster), Some(pod)) => {
                let why = || {
                    format!(
                        "replica {pod} does not answer (`chancery run --admin-listen 127.0.0.1:{ADMIN_PORT}`, as the chart has it)"
                    )
                };
                let asked = cluster.get((&cluster.namespace, pod), ADMIN_PORT, path);
                self.runtime.block_on(asked).with_context(why)
            }
            (Place::Folder(state), _) => {
                let asked =
                    get_from(Layout::own_socket(state), path, std::fs::read_to_string(Layout::own_token(state)).ok());
                self.runtime.block_on(asked).with_context(|| nobody_in(state))
            }
            (Place::Cluster(cluster), None) => Err(anyhow::anyhow!(cluster.nobody())),
        }
    }

    /// What a proxy of this name and fleet answers to a GET of its own admin interface.
    pub(crate) fn get_from_proxy(&self, name: &str, fleet: &str, path: &str) -> anyhow::Result<Vec<u8>> {
        match &self.place {
            Place::Cluster(cluster) => {
                let words =
                    || format!("proxy {name} is no Pod of this cluster: only those that Chancery made are asked");
                let pod = pod_of(name, fleet).with_context(words)?;
                let asked = cluster.get(pod, CONFIG_PORT, path);
                self.runtime.block_on(asked).with_context(|| format!("proxy {name} does not answer"))
            }
            Place::Folder(state) => {
                let socket = Layout::admin_socket(state, &FleetName(fleet.into()));
                let words = || format!("proxy {name} does not answer: only those that Chancery started are asked");
                self.runtime.block_on(get_from(socket, path, None)).with_context(words)
            }
        }
    }
}

/// Namespace and name of the Pod that a proxy runs in. That of a workload is known by its token: what such a proxy says of itself may be anything.
fn pod_of<'a>(name: &'a str, fleet: &'a str) -> Option<(&'a str, &'a str)> {
    fleet.strip_prefix("workload/").unwrap_or(name).split_once('/')
}

async fn place(args: &RunningArgs) -> anyhow::Result<Place> {
    let state = || args.state.path();
    if args.cluster.is_given() {
        return Ok(Place::Cluster(Cluster::find(&args.cluster, None).await?));
    }
    let folder = state()?;
    if args.state.is_given() || UnixStream::connect(Layout::own_socket(&folder)).await.is_ok() {
        return Ok(Place::Folder(folder));
    }
    // Without a kubeconfig there is no cluster that could be meant.
    match Cluster::find(&args.cluster, Some(folder.clone())).await {
        Ok(cluster) => Ok(Place::Cluster(cluster)),
        Err(_) => Ok(Place::Folder(folder)),
    }
}

/// The answer of who listens on a socket, and asks for this token.
async fn get_from(socket: PathBuf, path: &str, token: Option<String>) -> anyhow::Result<Vec<u8>> {
    let stream = UnixStream::connect(&socket).await.with_context(|| format!("connecting to {}", socket.display()))?;
    client::get_with(stream, path, token.as_deref()).await
}

fn nobody_in(state: &Path) -> String {
    format!(
        "no Chancery answers in {}; start one with `chancery run`, or name its folder with --state-dir, or its cluster with --kubeconfig",
        state.display()
    )
}

impl Cluster {
    async fn find(args: &ClusterArgs, no_folder: Option<PathBuf>) -> anyhow::Result<Self> {
        let client = connect(&args.connection()).await?;
        let namespace = args.chancery_namespace().to_owned();
        let mut found = Self { client, namespace, lease: args.service().to_owned(), no_folder, by_old_name: false };
        if let Some(old) = args.old_namespace()
            && found.replicas().await.is_err()
        {
            let usual = std::mem::replace(&mut found.namespace, old.to_owned());
            found.by_old_name = found.replicas().await.is_ok();
            match found.by_old_name {
                true => warn_of_namespace(old)?,
                false => found.namespace = usual,
            }
        }
        Ok(found)
    }

    fn nobody(&self) -> String {
        let folder = self.no_folder.as_ref().map(|folder| format!(" in {} (--state-dir), nor", folder.display()));
        let namespace = &self.namespace;
        format!(
            "no Chancery answers{} in namespace {namespace} of the cluster (--chancery-namespace)",
            folder.unwrap_or_default()
        )
    }

    fn pods(&self) -> Pods {
        Pods::new(self.client.clone(), &self.namespace)
    }

    async fn replicas(&self) -> anyhow::Result<Vec<PodState>> {
        let mut all = self.pods().list(REPLICAS).await?;
        all.retain(|pod| pod.phase.is_ok());
        anyhow::ensure!(!all.is_empty(), "no Pod with the labels {REPLICAS} runs");
        Ok(all)
    }

    /// The replica that leads, else one that is ready; and what is to be said of it.
    async fn leader(&self) -> anyhow::Result<(Replica, String)> {
        let (leader, all) = (self.pods().leader(&self.lease).await?, self.replicas().await?);
        if let Some(pod) = all.iter().find(|pod| Some(&pod.name) == leader.as_ref()) {
            return Ok((Replica(Some(Arc::clone(&pod.name))), String::new()));
        }
        let other = all.iter().find(|pod| pod.ready).or(all.first()).context("no replica runs")?;
        let note = match all.len() {
            1 => String::new(),
            _ => format!("no replica leads just now; {} is asked, which knows of its own proxies only", other.name),
        };
        Ok((Replica(Some(Arc::clone(&other.name))), note))
    }

    /// The answer of who listens on a port of a Pod's loopback.
    async fn get(&self, (namespace, pod): (&str, &str), port: u16, path: &str) -> anyhow::Result<Vec<u8>> {
        let pods = Pods::new(self.client.clone(), namespace);
        match client::get(pods.connect(pod, port).await?, path).await {
            Ok(answer) => Ok(answer),
            Err(error) => match pods.complaint(pod, port).await? {
                Some(words) => Err(anyhow::anyhow!("{}", words.trim())),
                None => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pod_of;

    #[test]
    fn the_pod_of_a_workload_is_not_what_its_proxy_says_of_itself() {
        assert_eq!(pod_of("web-1.shop", "workload/shop/web-1"), Some(("shop", "web-1")));
        assert_eq!(pod_of("team/other", "workload/shop/web-1"), Some(("shop", "web-1")));
        assert_eq!(pod_of("chancery/edge-abc", "shop/edge"), Some(("chancery", "edge-abc")));
        assert_eq!(pod_of("somebody", "shop/edge"), None);
    }
}
