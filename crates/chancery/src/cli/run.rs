//! `chancery run`: serves folders of YAML with real Envoys, or a Kubernetes cluster, in the foreground.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use rustix::process::{Resource, getrlimit, setrlimit};
use translator::RouteBudget;
use xds::Cleartext;
use xds::load::LoadReports;

use super::descriptors::DescriptorArgs;
use super::{LinkArgs, Outcome, PermissionArgs, StateDir, WrongUsage};
use crate::host_header::Host;
use crate::memory;
use crate::serve::Sources;
use crate::telemetry::{self, LogFormat};

/// Arguments of `chancery run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Folder or file with YAML or JSON; repeats. Those that the static configuration names
    /// (`provider.custom.resource.file.paths`) are read as well
    #[arg(long = "dir", short = 'd', value_name = "DIR")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Folder or file, as with --dir
    #[arg(value_name = "DIR")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) links: LinkArgs,
    #[command(flatten)]
    pub(crate) state: StateDir,
    /// The Envoy to start [default: the one next to this program, else of the project that it was built in, else on PATH]
    #[arg(long, env = "CHANCERY_ENVOY", value_name = "PATH")]
    pub(crate) envoy: Option<PathBuf>,
    /// Static configuration (`kind: EnvoyGateway`); read again when it changes. Without --dir, and unless its provider is `Custom`, objects come
    /// from a Kubernetes API server and proxies are Pods. Without it --kubeconfig or --context names the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,
    #[command(flatten)]
    pub(crate) permissions: PermissionArgs,
    /// Write this file once everything has been served for the first time
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
    /// Keep all statuses in this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) status_file: Option<PathBuf>,
    /// How long connections may end by themselves at the end, for example `10s` or `500ms`
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) drain_time: Duration,
    /// Envoys at SIGTERM: `drain` ends them, `leave` lets them serve on; the next start on the same state folder takes them over, and `chancery stop`
    /// ends them. Ctrl-C and SIGHUP always drain
    #[arg(long, value_name = "ACTION", value_enum, default_value_t = OnExit::Drain, conflicts_with = "no_envoy")]
    pub(crate) on_exit: OnExit,
    /// Start no Envoys: only serve xDS, on each Gateway's socket in the state folder
    #[arg(long)]
    pub(crate) no_envoy: bool,
    /// Envoys on this machine at a time, one for each Gateway [default: one for each 128 MiB of memory, 16 to 1024]. A further Gateway
    /// waits until another one is gone
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "no_envoy")]
    pub(crate) max_proxies: Option<u32>,
    /// Also serve xDS here (with a Kubernetes cluster: serve it here, with TLS [default: 0.0.0.0:18000]). With `--xds-tls-cert` and its two companions: to
    /// clients with a certificate that names a Gateway. Without: in cleartext, on loopback only, without secrets, to clients that bring the
    /// token of a Gateway or workload: the file `token` of its folder (`authorization: Bearer TOKEN`)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) xds_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) xds_tls: XdsTls,
    #[command(flatten)]
    pub(crate) xds_bounds: XdsBounds,
    #[command(flatten)]
    pub(crate) insecure_xds: InsecureXds,
    /// Where the labels of workloads come from without a Kubernetes cluster, for resources of Envoy's with a `workloadSelector`
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t = WorkloadLabels::Objects)]
    pub(crate) workload_labels: WorkloadLabels,
    /// Answer `/healthz`, `/readyz` and `/metrics` at this address (HTTP)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) health_listen: Option<SocketAddr>,
    /// Answer what the admin socket answers, but `/log`, at this loopback address as well (HTTP): `chancery status` and `chancery proxy` reach it
    /// there through the API server (127.0.0.1:8082)
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub(crate) admin_listen: Option<SocketAddr>,
    /// Host name or IP address by which requests may name --admin-listen, in addition to localhost and loopback addresses; repeats. Requests with
    /// another `Host`, or with the `Origin` of another site, are refused: a web page in a browser of this machine may send such
    #[arg(long = "admin-host", value_name = "HOST", requires = "admin_listen")]
    pub(crate) admin_hosts: Vec<Host>,
    /// Save private keys in the state folder too, as part of the last good configuration: without, a proxy that starts while Chancery
    /// waits for its sources gets no listener that needs one. Switched off again, those that were saved are removed at the start
    #[arg(long)]
    pub(crate) save_secrets: bool,
    /// Envoys' access log: `off`, `stdout` (of Chancery), or a file; one JSON object a request
    #[arg(long, value_name = "WHERE", default_value = "off")]
    pub(crate) access_log: String,
    /// Let Envoys report what they send to each cluster, and how it ends, this often (`10s`; 100ms to 1h); `/load` of the admin
    /// socket shows it
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) load_reports: Option<Duration>,
    /// error, warn, info, debug or trace, or directives such as `info,xds=debug`; libraries stay at info unless they are named (`debug,h2=debug`)
    #[arg(long, env = "CHANCERY_LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: String,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    // The last: its heading is that of all options behind it.
    #[command(flatten)]
    pub(crate) kubernetes: KubernetesArgs,
}

impl RunArgs {
    /// No folder, file or static configuration is named.
    pub(crate) fn names_no_files(&self) -> bool {
        self.config.is_none() && self.dirs.is_empty() && self.paths.is_empty()
    }

    /// Computes how many Envoys may run here: half of the memory is theirs, at some 60 MB for each.
    pub(crate) fn most_proxies(&self) -> usize {
        let usual = || {
            let most = usize::try_from(self.xds_bounds.memory() >> 27).unwrap_or(usize::MAX);
            most.clamp(infra::host::FEWEST_PROXIES, 1024)
        };
        self.max_proxies.map_or_else(usual, |count| usize::try_from(count).unwrap_or(usize::MAX))
    }
}

/// What concerns a Kubernetes cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "With a Kubernetes cluster")]
pub(crate) struct KubernetesArgs {
    /// How to reach the API server [default: $KUBECONFIG, else ~/.kube/config, else the ServiceAccount of this Pod]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace of Chancery: of its lease, its Secret, and of proxies that are not in their Gateway's [default: that of this Pod, else
    /// chancery-system]
    #[arg(long, visible_alias = "chancery-namespace", env = "POD_NAMESPACE", value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// What this replica calls itself in the lease
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "chancery")]
    pub(crate) pod_name: String,
    /// The uid of the Pod that this runs in: what it tells other replicas goes with it
    #[arg(long, env = "POD_UID", value_name = "UID", hide = true)]
    pub(crate) pod_uid: Option<String>,
    /// The Service at which proxies reach xDS; the lease of the leader has its name
    #[arg(long, value_name = "NAME", default_value = "chancery")]
    pub(crate) service: String,
    /// Chancery's own image: Pods of proxies get the tool from it that drains them
    #[arg(long, env = "CHANCERY_IMAGE", value_name = "IMAGE", default_value = concat!("ghcr.io/chancery/chancery:v", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,
    /// Secret with the authority that signs the certificate of xDS; made, and renewed, unless it is there and somebody else's
    #[arg(long, value_name = "NAME", default_value = "chancery-ca")]
    pub(crate) ca_secret: String,
    /// How long proxies have to learn of a new authority before it signs
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) ca_overlap: Duration,
}

impl KubernetesArgs {
    /// A cluster is named. Its objects are read without a static configuration too.
    pub(crate) fn names_cluster(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }
}

/// What SIGTERM means for the Envoys of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnExit {
    /// They are drained and end
    Drain,
    /// They serve on, without Chancery
    Leave,
}

/// Who says which labels a workload has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadLabels {
    /// Objects of kind `Pod`, in the folders
    Objects,
    /// Those, and of workloads without one its proxy: `node.metadata.labels` of its bootstrap. What a proxy says is believed
    Bootstrap,
}

/// Bounds of what the clients of `--xds-listen` and of the sockets of proxies take together, and authors of routes.
#[derive(Debug, Clone, Args)]
pub(crate) struct XdsBounds {
    /// Connections of xDS clients at a time, to `--xds-listen` and to the sockets of proxies [default: 16384, or fewer where memory is short:
    /// one for each 683 KiB]. When all are taken, the oldest ones that have proven nothing are closed
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    pub(crate) xds_max_connections: Option<u32>,
    /// Connections that one identity, or one source address before its handshake, may have while three quarters of
    /// `--xds-max-connections` are taken [default: an eighth of them]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) xds_max_share: Option<u32>,
    /// Memory that Chancery may use, such as `1Gi` [default: the limit of its control group, else the memory of the machine]: what xDS
    /// clients may take follows from it, and `--max-route-entries`
    #[arg(long, value_name = "SIZE", value_parser = memory::size)]
    pub(crate) memory_limit: Option<u64>,
    /// Route entries that the routes of one namespace may make on all Gateways together; one route may make a quarter of them. A match is an
    /// entry on each listener and under each host name [default: one for each 2 KiB of memory, 65536 to 524288]. Routes beyond are not
    /// attached, the youngest first. As many endpoints may be in the clusters that they have on one Gateway
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1024..=1_000_000_000))]
    pub(crate) max_route_entries: Option<u32>,
}

impl XdsBounds {
    /// Computes the budget of routes.
    pub(crate) fn route_budget(&self) -> RouteBudget {
        self.max_route_entries.map_or_else(|| RouteBudget::within(self.memory()), RouteBudget::of_namespace)
    }

    fn memory(&self) -> u64 {
        self.memory_limit.unwrap_or_else(memory::available)
    }

    /// Computes the limits of clients.
    pub(crate) fn limits(&self) -> xds::Limits {
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let mut limits = xds::Limits::default().within(self.memory());
        if let Some(places) = self.xds_max_connections {
            limits = limits.with_places(count(places));
        }
        if let Some(share) = self.xds_max_share {
            limits.share = count(share);
        }
        limits
    }
}

/// The TLS of `--xds-listen`.
#[derive(Debug, Clone, Args)]
pub(crate) struct XdsTls {
    /// Certificate of the xDS server (PEM, with those between it and its authority behind it); read again when it changes, like the
    /// other two
    #[arg(long, value_name = "FILE", requires_all = ["xds_listen", "xds_tls_key", "xds_client_ca"])]
    pub(crate) xds_tls_cert: Option<PathBuf>,
    /// Private key of the xDS server's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "xds_tls_cert")]
    pub(crate) xds_tls_key: Option<PathBuf>,
    /// Authorities of xDS clients' certificates (PEM). A certificate names its Gateway: by the URI
    /// `spiffe://<any domain>/<namespace>/<gateway>` or the DNS name `<gateway>.<namespace>` among its subject alternative names
    #[arg(long, value_name = "FILE", requires = "xds_tls_cert")]
    pub(crate) xds_client_ca: Option<PathBuf>,
    /// Trust domain of xDS clients (any, if none is given): only `spiffe://<this domain>/<namespace>/<gateway>` names a Gateway then, and a DNS name does not.
    /// With a Kubernetes cluster that of an authority from elsewhere, whose certificates name no Gateway without it
    #[arg(long, value_name = "NAME", value_parser = trust_domain)]
    pub(crate) xds_trust_domain: Option<String>,
}

/// Grants of `--xds-listen` without TLS.
#[derive(Debug, Clone, Args)]
pub(crate) struct InsecureXds {
    /// Serve clients of `--xds-listen` without TLS that bring no token: each names its Gateway itself (`node.cluster`), so that every user of
    /// this machine, and the author of every route to that port, gets every Gateway's configuration
    #[arg(long, requires = "xds_listen", conflicts_with = "xds_tls_cert")]
    pub(crate) insecure_xds_clients: bool,
    /// Send secrets, private keys among them, over `--xds-listen` without TLS. Without it clients there get no secrets and no listeners or
    /// clusters that need one
    #[arg(long, requires = "xds_listen", conflicts_with = "xds_tls_cert")]
    pub(crate) insecure_xds_secrets: bool,
}

impl InsecureXds {
    pub(crate) fn cleartext(&self) -> Cleartext {
        Cleartext { clients: self.insecure_xds_clients, secrets: self.insecure_xds_secrets }
    }
}

/// The name of a trust domain (SPIFFE-ID, 2.1), such as `example.org`.
pub(super) fn trust_domain(text: &str) -> Result<String, String> {
    let is_in_one = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    if (1..=255).contains(&text.len()) && text.bytes().all(is_in_one) {
        return Ok(text.to_owned());
    }
    Err("the name of a SPIFFE trust domain, such as example.org: lower-case letters, digits, dots, dashes, underscores"
        .to_owned())
}

/// Runs until a signal ends it.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<Outcome> {
    let (log, _written) = telemetry::start(&args.log_level, args.log_format)?;
    WrongUsage::unless(!args.names_no_files() || args.kubernetes.names_cluster(), nothing_to_serve)?;
    let sources = Sources::of(&args)?;
    check(&args, &sources)?;
    args.descriptors.install()?;
    raise_descriptors();
    // Three kinds of work keep out of each other's way: the core has a thread, streams have theirs, and all else (people, proxies)
    // is on this one. A stream's thread that sleeps is woken once for an edit; among several idle ones each wakes the next. So
    // these are half of the cores: enough for thousands of streams, and none to spare on a small machine. A cluster has one more: its lists are long.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = |name: &str, count: usize| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(count.max(1)).thread_name(name).enable_all().build().context("starting threads")
    };
    let streams = threads("xds", cores / 2)?;
    let cluster = sources.settings.is_some().then(|| threads("kubernetes", 1)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let cluster = cluster.as_ref().map(tokio::runtime::Runtime::handle);
    runtime.block_on(crate::serve::serve(args, sources, log, (streams.handle(), cluster)))?;
    Ok(Outcome::Fine)
}

/// What was looked for, and what to write.
fn nothing_to_serve() -> String {
    let set = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let usual = set("HOME").map(|home| home.join(".kube/config")).filter(|file| file.exists());
    let kubeconfig = match set("KUBECONFIG").or(usual) {
        Some(file) => format!("there is a kubeconfig, {}, which is used only where it is named", file.display()),
        None => "there is no kubeconfig ($KUBECONFIG, ~/.kube/config)".to_owned(),
    };
    let pod = match set("KUBERNETES_SERVICE_HOST") {
        Some(_) => "this is a Pod, which gets its static configuration from the chart (--config)",
        None => "this is no Pod",
    };
    format!(
        "nothing to serve: no folder is named (--dir, or a path), no static configuration (--config) and no cluster (--kubeconfig, --context); \
         {kubeconfig}; {pod}.\nWrite `chancery run DIR` to serve a folder of YAML with Envoys of this machine, or `chancery run --kubeconfig FILE` \
         to serve a Kubernetes cluster"
    )
}

/// What does not go together.
fn check(args: &RunArgs, sources: &Sources) -> anyhow::Result<()> {
    if sources.settings.is_some() {
        WrongUsage::unless(args.xds_tls.xds_tls_cert.is_none(), || {
            "--xds-tls-cert: with a Kubernetes cluster the certificate of xDS is signed by the authority in a Secret: name that with --ca-secret"
                .to_owned()
        })?;
        WrongUsage::unless(args.insecure_xds.cleartext() == Cleartext::default(), || {
            "--insecure-xds-clients, --insecure-xds-secrets: with a Kubernetes cluster xDS is always over TLS"
                .to_owned()
        })?;
        WrongUsage::unless(args.on_exit == OnExit::Drain, || {
            "--on-exit leave: with a Kubernetes cluster proxies are Pods, which serve on anyway".to_owned()
        })?;
        WrongUsage::unless(args.workload_labels == WorkloadLabels::Objects, || {
            "--workload-labels bootstrap: with a Kubernetes cluster labels are those of the Pod that a proxy's token is bound to".to_owned()
        })?;
        return Ok(());
    }
    WrongUsage::unless(args.xds_tls.xds_trust_domain.is_none() || args.xds_tls.xds_tls_cert.is_some(), || {
        "--xds-trust-domain: without --xds-tls-cert no client has a certificate".to_owned()
    })?;
    let Some(address) = args.xds_listen else { return Ok(()) };
    let may = address.ip().is_loopback() || args.xds_tls.xds_tls_cert.is_some();
    WrongUsage::unless(may, || {
        format!(
            "--xds-listen {address}: in cleartext only a loopback address; for any other name --xds-tls-cert, --xds-tls-key and \
             --xds-client-ca"
        )
    })?;
    Ok(())
}

/// A shell gives 1,024 descriptors as a rule, which is less than the connections that one identity may have; up to the hard limit whoever runs this may
/// have more without asking.
fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is; raise it with ulimit -n");
    }
}

/// Whoever can connect to it is asked nothing.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "an address and a port, such as 127.0.0.1:8082".to_owned())?;
    let words = "only a loopback address: whoever can connect sees all statuses and which proxies there are";
    address.ip().is_loopback().then_some(address).ok_or_else(|| words.to_owned())
}

/// Between two load reports: 100 ms to an hour.
fn interval(text: &str) -> Result<Duration, String> {
    let asked = duration(text)?;
    let fits = LoadReports::every(asked).interval() == asked;
    fits.then_some(asked).ok_or_else(|| "load reports come every 100ms at most, and every 1h at least".to_owned())
}

/// `10s`, `500ms`, `1m30s`: the format of Gateway API (GEP-2257).
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    api::DurationText::from(text)
        .get()
        .ok_or_else(|| "not a duration: write for example 10s, 500ms or 1m30s".to_owned())
}
