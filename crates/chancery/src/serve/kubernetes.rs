//! `chancery run` with a cluster: objects from its API server, statuses back, proxies as Pods, and who they are.
//! Everything here has threads of its own: a list of 50,000 objects holds up no stream.

pub(crate) mod authority;
mod certificates;
mod classes;
mod identity;
mod pods;
mod sidecars;
mod statuses;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use api::DurationText;
use api::envoy_gateway::{DeployType, EnvoyGatewaySpec, KubernetesProvider, LeaderElection, Watch, WatchType};
use infra::kubernetes as pods_of;
use infra::kubernetes::{POD_LABELS, ProxyObjects};
use ir::infra::kubernetes::Place;
use provider::kubernetes::classes::ClassesOptions;
use provider::kubernetes::leader::{self, LeaderOptions, Terms};
use provider::kubernetes::presence::{self, Presence, PresenceTiming};
use provider::kubernetes::replicas::{self, Exchange, Said, Tempo};
use provider::kubernetes::status::{self, Board, Gather, WriterOptions};
use provider::kubernetes::{
    self as source, Client, Connection, Observed, Pace, RecheckTiming, Scope, SecretStore, TokenRechecks, TokenReviewer,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::tasks::Tasks;
use super::{Around, now};
use crate::cli::KubernetesArgs;
use crate::core::Input;

use certificates::Certificates;
use identity::{Accounts, Reviews, TrustDomain};

/// For whom the tokens of proxies are.
const AUDIENCE: &str = "chancery";

/// The address of xDS in a cluster, unless the command line has another.
pub(super) const XDS_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 18_000);

/// Proxies of a replica that is gone come to another within some seconds, and what replicas say is heard at once.
const SETTLE: Duration = Duration::from_secs(30);

/// Where a Pod learns its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A cluster that is served.
pub(crate) struct Cluster {
    client: Client,
    args: KubernetesArgs,
    trust_domain: TrustDomain,
    provider: KubernetesProvider,
    controller: Arc<str>,
    namespace: Arc<str>,
    observed: Observed,
    board: Board,
    /// What other replicas have to know of the proxies that are connected here.
    told: watch::Sender<Arc<Said>>,
    threads: Handle,
}

impl Cluster {
    /// The cluster that the kubeconfig, or the Pod that this runs in, names. Whether it is there is found out later.
    pub(crate) async fn find(
        (args, trust_domain): (KubernetesArgs, Option<&str>),
        settings: &EnvoyGatewaySpec,
        threads: Handle,
    ) -> anyhow::Result<Self> {
        let connection = Connection { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
        let client = source::connect(&connection).await.map_err(|error| {
            anyhow::anyhow!("{error}; to read files, name a folder with --dir, or a kubeconfig with --kubeconfig")
        })?;
        let controller: Arc<str> = (*settings.gateway.controller_name).into();
        let namespace = own_namespace(&args);
        let provider = settings.kubernetes().unwrap_or_default();
        info!(%namespace, %controller, "objects come from a Kubernetes API server");
        Ok(Self {
            observed: Observed::new(&controller),
            board: Board::new(Gather::default()),
            told: watch::Sender::default(),
            client,
            args,
            trust_domain: TrustDomain::new(trust_domain),
            provider,
            controller,
            namespace,
            threads,
        })
    }

    /// Where statuses go.
    pub(crate) fn board(&self) -> Board {
        self.board.clone()
    }

    /// Where to tell what other replicas have to know.
    pub(crate) fn told(&self) -> watch::Sender<Arc<Said>> {
        self.told.clone()
    }

    /// Returns the name and the namespace of the Service at which Chancery is reached.
    pub(super) fn own_name(&self) -> (Box<str>, Box<str>) {
        (self.args.service.as_str().into(), (*self.namespace).into())
    }

    /// Follows the addresses of that Service and of all replicas.
    pub(super) fn follow_own_addresses(
        &self,
        tasks: &mut Tasks,
        found: watch::Sender<pods_of::OwnAddresses>,
        stop: &CancellationToken,
    ) {
        let of = pods_of::OwnService {
            client: self.client.clone(),
            namespace: Arc::clone(&self.namespace),
            name: self.args.service.as_str().into(),
            pace: pods_of::Pace::default(),
        };
        let following = pods_of::follow_own_addresses(of, found, stop.clone());
        tasks.spawn_on(&self.threads, "addresses of replicas", until_the_end(following));
    }

    /// Starts all that serves it; xDS at this address, and `listening` is set once proxies can come. Gives the end of
    /// leading.
    pub(super) fn start(
        self,
        tasks: &mut Tasks,
        around: &Around,
        (address, limits, listening): (Option<SocketAddr>, xds::Limits, Arc<AtomicBool>),
    ) -> anyhow::Result<oneshot::Receiver<Infallible>> {
        let threads = self.threads.clone();
        let (leads, leading) = watch::channel(false);
        let (ends, ended) = oneshot::channel();
        tasks.spawn_on(&threads, "Kubernetes objects", self.objects(around)?);
        tasks.spawn_on(&threads, "leader election", self.election((leads, ends), &around.stop)?);
        let (refusing, refused) = watch::channel(Vec::new());
        let writing = status::write(self.writer(), self.board.clone(), leading.clone(), refusing, around.stop.clone());
        tasks.spawn_on(&threads, "statuses", async move { Ok(writing.await?) });
        tasks.spawn_on(
            &threads,
            "statuses to write",
            statuses::feed(around.asking.clone(), self.board.clone(), self.observed.clone()),
        );
        tasks.spawn_on(&threads, "statuses that are refused", statuses::tell(refused, around.inputs.clone()));

        // Who sees some namespaces only does not know whether a class is in use.
        let sees_all = scope(self.provider.watch.as_ref())? == Scope::All;
        let classes = ClassesOptions {
            client: self.client.clone(),
            controller: Arc::clone(&self.controller),
            observed: self.observed.clone(),
            pace: Pace::default(),
        };
        if sees_all {
            let keeping = classes::keep(classes, around.infra.clone(), leading.clone(), around.stop.clone());
            tasks.spawn_on(&threads, "classes in use", keeping);
        }

        if !self.provider.leader_election.disable {
            self.exchange(tasks, around, &leading);
        }

        let (announce, authorities) = watch::channel(Arc::from(""));
        let (proxies, made) = watch::channel(Arc::default());
        let gate = self.gate(tasks, around, (limits, made));
        let certificates = Certificates {
            store: SecretStore::new(self.client.clone(), &self.namespace, &self.args.ca_secret.as_str().into()),
            hosts: self.hosts(),
            terms: self.terms(),
            announce,
            trust_domain: self.trust_domain.clone(),
        };
        let address = address.unwrap_or(XDS_ADDRESS);
        let serving = certificates.serve((around.server.clone(), address, gate), listening, around.stop.clone());
        tasks.spawn_on(&threads, "xDS for proxies of the cluster", serving);
        self.proxies(tasks, around, (address.port(), authorities, leading), proxies);
        Ok(ended)
    }

    /// The gate of xDS for proxies, with the tasks that follow their Pods and tokens.
    fn gate(
        &self,
        tasks: &mut Tasks,
        around: &Around,
        (limits, made): (xds::Limits, watch::Receiver<Arc<ProxyObjects>>),
    ) -> xds::Gate {
        let presence = Presence::new(&POD_LABELS);
        let is_here = self.provider.deploy.deploy_type == DeployType::ControllerNamespace;
        let place = if is_here { Place::Controller } else { Place::Gateway };
        let accounts = Accounts::new(&around.last_good, (&self.namespace, place), presence.clone(), made);
        let reviews = Reviews {
            client: self.client.clone(),
            reviewer: TokenReviewer::new(self.client.clone(), AUDIENCE.into()),
            presence: presence.clone(),
            rechecks: TokenRechecks::default(),
        };
        let stop = &around.stop;
        let (rechecks, reviewer) = (reviews.rechecks.clone(), reviews.reviewer.clone());
        let rechecking = rechecks.follow(reviewer, presence.clone(), RecheckTiming::default(), stop.clone());
        tasks.spawn_on(&self.threads, "tokens of proxies", until_the_end(rechecking));
        let following = presence::follow(presence, self.client.clone(), PresenceTiming::default(), stop.clone());
        tasks.spawn_on(&self.threads, "Pods of proxies", until_the_end(following));
        tasks.spawn_on(&self.threads, "accounts of proxies", accounts.clone().follow(around.infra.clone()));
        identity::gate(reviews, (accounts, self.trust_domain.clone()), limits)
    }

    /// Proxies as Pods, those of Gateways and those beside applications.
    fn proxies(
        &self,
        tasks: &mut Tasks,
        around: &Around,
        (port, authorities, leading): (u16, watch::Receiver<Arc<str>>, watch::Receiver<bool>),
        proxies: watch::Sender<Arc<ProxyObjects>>,
    ) {
        let sidecars = sidecars::Places {
            client: self.client.clone(),
            scope: pods_scope(&self.provider, &self.namespace),
            options: self.cluster_options(port),
            authorities: authorities.clone(),
        };
        let keeping = sidecars::keep(sidecars, around.workloads.clone(), leading.clone(), around.stop.clone());
        tasks.spawn_on(&self.threads, "files of sidecars", keeping);
        let places = pods::Places {
            client: self.client.clone(),
            has_gateways: self.observed.has_gateways(),
            scope: pods_scope(&self.provider, &self.namespace),
            options: self.cluster_options(port),
            authorities,
            proxies,
        };
        let (facts, seen) = mpsc::channel(crate::core::QUEUE);
        tasks.spawn_on(
            &self.threads,
            "proxies of the cluster",
            pods::run(places, (around.infra.clone(), leading), facts, around.stop.clone()),
        );
        tasks.spawn_on(&self.threads, "facts of Pods", pods::tell(seen, around.inputs.clone()));
    }

    fn objects(&self, around: &Around) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + Send + 'static> {
        let options = source::Options {
            client: self.client.clone(),
            scope: scope(self.provider.watch.as_ref())?,
            observed: self.observed.clone(),
            pace: Pace::default(),
        };
        let (inputs, stop) = (around.inputs.clone(), around.stop.clone());
        Ok(async move {
            let sink = move |batch| {
                let inputs = inputs.clone();
                async move {
                    match inputs.send(Input::Batch(batch)).await {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    }
                }
            };
            Ok(source::follow(options, sink, stop).await?)
        })
    }

    /// Leads at once where there is one replica only.
    fn election(
        &self,
        (leads, ends): (watch::Sender<bool>, oneshot::Sender<Infallible>),
        stop: &CancellationToken,
    ) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + Send + 'static> {
        let alone = self.provider.leader_election.disable;
        let options = LeaderOptions {
            client: self.client.clone(),
            namespace: Arc::clone(&self.namespace),
            name: self.lease(),
            identity: format!("{}_{:08x}", self.args.pod_name, fastrand::u32(..)).into(),
            terms: election_terms(&self.provider.leader_election)?,
            clock: now,
        };
        let stop = stop.clone();
        Ok(async move {
            let _until_the_end = ends;
            if alone {
                leads.send_replace(true);
                stop.cancelled().await;
            } else {
                leader::lead(options, leads, stop).await;
            }
            Ok(())
        })
    }

    /// What replicas tell the one that leads, and what that one hears.
    fn exchange(&self, tasks: &mut Tasks, around: &Around, leading: &watch::Receiver<bool>) {
        let exchange = Exchange {
            client: self.client.clone(),
            namespace: Arc::clone(&self.namespace),
            lease: self.lease(),
            replica: self.args.pod_name.as_str().into(),
            pod: self.args.pod_uid.clone().map(|uid| (self.args.pod_name.clone(), uid)),
            tempo: Tempo::default(),
        };
        let telling = replicas::tell(exchange.clone(), self.told.subscribe(), leading.clone(), around.stop.clone());
        tasks.spawn_on(&self.threads, "what the leader is told", until_the_end(telling));
        let (heard, all) = watch::channel(Arc::default());
        let hearing = replicas::hear(exchange, heard, leading.clone(), around.stop.clone());
        tasks.spawn_on(&self.threads, "what other replicas say", until_the_end(hearing));
        tasks.spawn_on(&self.threads, "facts of other replicas", statuses::hear(all, around.inputs.clone()));
    }

    fn writer(&self) -> WriterOptions {
        WriterOptions {
            client: self.client.clone(),
            controller: Arc::clone(&self.controller),
            observed: self.observed.clone(),
            pace: Pace::default(),
            settle: SETTLE,
            clock: now,
        }
    }

    fn terms(&self) -> authority::Terms {
        authority::Terms { overlap: self.args.ca_overlap, ..authority::Terms::default() }
    }

    /// The name of the lease that the leader holds: of installations that share a namespace each has its own.
    fn lease(&self) -> Arc<str> {
        self.args.service.as_str().into()
    }

    /// The names under which proxies reach us, the one that they are given first.
    fn hosts(&self) -> Vec<String> {
        let (service, namespace) = (&self.args.service, &self.namespace);
        vec![format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")]
    }

    fn cluster_options(&self, xds_port: u16) -> pods_of::ClusterOptions {
        pods_of::ClusterOptions {
            controller: Arc::clone(&self.controller),
            namespace: Arc::clone(&self.namespace),
            xds_host: self.hosts().into_iter().next().unwrap_or_default().into(),
            xds_port,
            audience: AUDIENCE.into(),
            envoy_repository: "docker.io/envoyproxy/envoy".into(),
            envoy_tag: format!("distroless-v{}", infra::host::ENVOY_VERSION).into(),
            own_image: self.args.image.as_str().into(),
            authorities: Arc::from(""),
        }
    }
}

/// It ends with everything else.
async fn until_the_end(task: impl Future<Output = ()>) -> anyhow::Result<()> {
    task.await;
    Ok(())
}

/// Whose objects count.
fn scope(watch: Option<&Watch>) -> anyhow::Result<Scope> {
    let Some(Watch { watch_type, namespaces, namespace_selector }) = watch else { return Ok(Scope::All) };
    match watch_type {
        WatchType::Namespaces => Ok(Scope::Namespaces(namespaces.iter().map(|name| Arc::from(&**name)).collect())),
        WatchType::NamespaceSelector => {
            let selector = namespace_selector.clone();
            Ok(Scope::Selector(
                selector.context("provider.kubernetes.watch: NamespaceSelector needs namespaceSelector")?,
            ))
        }
        _ => Ok(Scope::All),
    }
}

/// Namespaces in which the objects of proxies can be: in others nobody has to give us rights for them.
fn pods_scope(provider: &KubernetesProvider, own: &Arc<str>) -> pods_of::Scope {
    let own = [Arc::clone(own)];
    match &provider.watch {
        _ if provider.deploy.deploy_type == DeployType::ControllerNamespace => {
            pods_of::Scope::Namespaces(own.into_iter().collect())
        }
        Some(Watch { watch_type: WatchType::Namespaces, namespaces, .. }) => {
            let named = namespaces.iter().map(|name| Arc::from(&**name));
            pods_of::Scope::Namespaces(named.chain(own).collect())
        }
        _ => pods_of::Scope::All,
    }
}

fn election_terms(settings: &LeaderElection) -> anyhow::Result<Terms> {
    let usual = Terms::default();
    let given = |text: &Option<DurationText>, usual| text.as_ref().and_then(DurationText::get).unwrap_or(usual);
    let terms = Terms {
        duration: given(&settings.lease_duration, usual.duration),
        renew_deadline: given(&settings.renew_deadline, usual.renew_deadline),
        retry: given(&settings.retry_period, usual.retry),
    };
    anyhow::ensure!(
        terms.duration > terms.renew_deadline && terms.renew_deadline > terms.retry && terms.duration.as_secs() > 0,
        "provider.kubernetes.leaderElection: leaseDuration ({:?}) has to be longer than renewDeadline ({:?}), and that longer than \
         retryPeriod ({:?})",
        terms.duration,
        terms.renew_deadline,
        terms.retry
    );
    Ok(terms)
}

/// As the command line says, or the Pod that this runs in.
fn own_namespace(args: &KubernetesArgs) -> Arc<str> {
    let of_pod = || std::fs::read_to_string(OWN_NAMESPACE).ok().filter(|name| !name.trim().is_empty());
    let found = args.namespace.clone().or_else(of_pod);
    found.as_deref().map_or("chancery-system", str::trim).into()
}
