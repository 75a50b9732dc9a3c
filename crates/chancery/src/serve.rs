//! `chancery run`: everything is wired here. Read top to bottom it is the picture in ARCHITECTURE.md.

mod certificates;
mod ending;
pub(crate) mod kubernetes;
mod outlets;
mod own;
mod sockets;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use api::envoy_gateway::EnvoyGatewaySpec;
use api::{Object, Severity, Timestamp};
use envoy::AccessLog;
use infra::host::{self, Ending, EnvoyFinder, EnvoySearch, HostOptions, Layout, ProxyPaths, StateLock};
use infra::kubernetes::OwnAddresses;
use ir::{FleetName, Infra};
use provider::file::{AgeFile, Past, SocketPaths, TextFile, Texts};
use store::Source;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::info;
use translator::{OwnPlaces, Translator};
use xds::KnownTokens;
use xds::load::LoadReports;

use crate::admin::{self, Admin, Refusals, Removed};
use crate::cli::{RunArgs, WorkloadLabels};
use crate::core::{self, Asking, Input, Parts, QUEUE};
use crate::last_good::{self, LastGood};
use crate::telemetry::Log;

use ending::Ends;
use kubernetes::Cluster;
use tasks::Tasks;

/// How long open streams may finish what is on its way at the end.
const STREAMS_GRACE: Duration = Duration::from_secs(1);

/// Serves until a signal, or until a part of it fails. Streams have the threads of `streams`, a cluster
/// those of `cluster`.
pub(crate) async fn serve(
    args: RunArgs,
    sources: Sources,
    log: Log,
    (streams, cluster): (&Handle, Option<&Handle>),
) -> anyhow::Result<()> {
    let (state, mut lock, layout) = state_folder(&args, &sources)?;
    // An earlier process may have said it; whoever waits means this one.
    let _until_the_end = args.ready_file.clone().map(Removed::now_and_at_the_end);
    let (stop, mut tasks) = (CancellationToken::new(), Tasks::new());
    let links = args.links.links();

    // Core: one thread, everything that changes anything goes through its inputs.
    let (outbox, events) = mpsc::channel(QUEUE);
    let server = xds_server(&args, streams, outbox);
    let cluster = sources.cluster(&args, cluster).await?;
    let places = own::places(&args, &layout, &state, cluster.as_ref().map(Cluster::own_name));
    let (addresses, replicas) = watch::channel(OwnAddresses::default());
    let mut translator = translator(&places, &sources, &args);
    let names = sources.names()?;
    let (journals, last_good, past) = last_good(&mut translator, &server, (&state, &names), args.save_secrets)?;
    let (wanted, infra) = watch::channel(Arc::new(BTreeMap::new()));
    let (known, workloads) = watch::channel(Arc::default());
    let (inputs, asking, mut core) = core::start(Parts {
        translator,
        options: envoy_options(&args)?,
        server: server.clone(),
        infra: wanted,
        workloads: known,
        with_proxies: !args.no_envoy && cluster.is_none(),
        believes_labels: args.workload_labels == WorkloadLabels::Bootstrap,
        clock: now,
        board: cluster.as_ref().map(Cluster::board),
        told: cluster.as_ref().map(Cluster::told),
        texts: Texts::new(&sources.roots, links),
    })?;

    // State: what is acknowledged.
    let mut ended = vec![save(&mut tasks, (server.clone(), journals), inputs.clone(), &stop)];

    // Source: files, of which a cluster has its static configuration.
    let closed = places.clone();
    let (roots, paths) = (sources.roots, SocketPaths::new(move |path| closed.is_closed_path(path)));
    tasks.spawn("files", tasks::follow((&roots, links), past, (inputs.clone(), paths.clone()), stop.clone())?);

    // Protocol and proxies: where they connect and what they answer, and whoever starts them.
    let parts = Around { inputs, asking, server: server.clone(), infra, workloads, last_good, stop: stop.clone() };
    server.describe(protojson::DESCRIPTORS);
    tasks.spawn_on(streams, "events of proxies", outlets::proxies(events, parts.inputs.clone()));
    let (end, ending) = Ends::new(args.on_exit, layout.clone());
    let (files, listening) = (layout.clone(), Arc::new(AtomicBool::new(cluster.is_none())));
    let (places, proxies) = match cluster {
        Some(cluster) => {
            cluster.follow_own_addresses(&mut tasks, addresses, &stop);
            let xds = (args.xds_listen, args.xds_bounds.limits(), Arc::clone(&listening));
            ended.push(cluster.start(&mut tasks, &parts, xds)?);
            (places, None)
        }
        None => {
            let places = listen(&mut tasks, &args, &parts, (&layout, places))?;
            (places, (!args.no_envoy).then(|| start_here(&mut tasks, &args, &parts, layout, ending)))
        }
    };
    tasks.spawn("own places", own::follow(places, (paths, replicas), parts.inputs.clone(), stop.clone()));

    // People.
    people(&mut tasks, &args, &parts, (log, listening), (state, roots));
    // Whoever can ask keeps the core alive: from here on only tasks can, and people who wait for an answer.
    let last = parts.inputs.downgrade();
    drop(parts);

    let outcome = ending::until_the_end((&mut core, &mut tasks), &mut lock, proxies, &end).await;
    stop.cancel();
    end_all(server, ended, tasks, last).await;
    let outcome = outcome.and(core.end().await);
    files.close();
    outcome.inspect(|()| info!("ended"))
}

/// The state folder, checked and locked, and the files in it.
fn state_folder(args: &RunArgs, sources: &Sources) -> anyhow::Result<(PathBuf, StateLock, Layout)> {
    let state = args.state.path()?;
    // A cluster's Chancery has a volume of its Pod, and no proxies there.
    host::own_state_folder(&state, sources.settings.is_none())?;
    let lock = StateLock::acquire(&state)?;
    let layout = Layout::open(&state, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).as_deref())?;
    Ok((state, lock, layout))
}

/// Ends all parts but the core, which gets the end of its inputs.
async fn end_all(
    server: xds::Server,
    ended: Vec<oneshot::Receiver<Infallible>>,
    mut tasks: Tasks,
    inputs: mpsc::WeakSender<Input>,
) {
    server.stop(STREAMS_GRACE).await;
    in_time(ended).await;
    tasks.shutdown().await;
    drop(server);
    if let Some(inputs) = inputs.upgrade() {
        let _ended_already = inputs.send(Input::End).await;
    }
}

/// What the parts that are started have in common.
struct Around {
    inputs: mpsc::Sender<Input>,
    asking: Asking,
    server: xds::Server,
    infra: Wanted,
    workloads: Workloads,
    /// Gateways that are served before it is known which there shall be.
    last_good: BTreeSet<Arc<str>>,
    stop: CancellationToken,
}

/// Starts Envoys on this machine; gives the end of that.
fn start_here(
    tasks: &mut Tasks,
    args: &RunArgs,
    parts: &Around,
    layout: Layout,
    ending: watch::Receiver<Ending>,
) -> impl Future<Output = Result<(), host::Error>> + use<> {
    let (facts, seen) = mpsc::channel(QUEUE);
    tasks.spawn("facts of hosts", outlets::host(seen, parts.inputs.clone()));
    let options = host_options(args, layout, parts.last_good.clone());
    let infra = parts.infra.clone();
    async move {
        // Beside the reading of files: it takes as long as some hundred of them.
        let envoy = options.envoy.find().await?;
        info!(path = %envoy.path.display(), version = %envoy.version, "envoy");
        host::run(options, infra, facts, ending).await
    }
}

/// What people and monitors see.
fn people(
    tasks: &mut Tasks,
    args: &RunArgs,
    parts: &Around,
    (log, listening): (Log, Arc<AtomicBool>),
    (state, roots): (PathBuf, Vec<PathBuf>),
) {
    let Around { asking, server, stop, .. } = parts;
    let refusals = Refusals::default();
    let admin = Admin { asking: asking.clone(), server: server.clone(), log, listening, refusals };
    if let Some(address) = args.health_listen {
        tasks.spawn("health", admin::serve_health(admin.clone(), address, stop.clone()));
    }
    if let Some(address) = args.admin_listen {
        let at = (address, args.admin_hosts.clone());
        tasks.spawn("admin API on loopback", admin::serve_readers(admin.clone(), at, stop.clone()));
    }
    tasks.spawn("admin API", admin::serve(admin, state, stop.clone()));
    tasks.spawn("ready word", outlets::announce(asking.clone(), roots, args.ready_file.clone()));
    tasks.spawn("problems", outlets::problems(asking.clone()));
    if let Some(file) = args.status_file.clone() {
        tasks.spawn("status file", outlets::status_file(asking.clone(), file));
    }
}

/// Opens a socket per Gateway, and perhaps an address for all, which joins Chancery's own places.
fn listen(
    tasks: &mut Tasks,
    args: &RunArgs,
    parts: &Around,
    (layout, mut places): (&Layout, OwnPlaces),
) -> anyhow::Result<OwnPlaces> {
    let Around { server, infra, workloads, last_good, stop, .. } = parts;
    let tokens = KnownTokens::default();
    if let Some(address) = args.xds_listen {
        let terms = (&args.xds_tls, &args.insecure_xds, args.xds_bounds.limits());
        let (bound, files) = sockets::listen_at(server, &tokens, address, terms)?;
        places.addresses.listeners.insert(bound);
        if let Some(files) = files {
            tasks.spawn("certificates of xDS", files.follow(stop.clone()));
        }
    }
    let fleets = (infra.clone(), workloads.clone(), last_good.clone());
    tasks.spawn("xDS sockets", sockets::serve((server.clone(), tokens), layout.clone(), fleets, stop.clone()));
    Ok(places)
}

/// Proxies that offer load reports are asked for them, if they are wanted.
fn xds_server(args: &RunArgs, streams: &Handle, outbox: mpsc::Sender<Vec<xds::Event>>) -> xds::Server {
    let server = xds::Server::start(streams, outbox);
    server.bound(args.xds_bounds.limits());
    server.ask_for_loads(args.load_reports.map(LoadReports::every));
    server
}

/// What was saved of each Gateway is served until the sources have been read. Gives the files, the Gateways, and what that means for
/// the sources: also where what was saved could not be used, proxies have it.
fn last_good(
    translator: &mut Translator,
    server: &xds::Server,
    (state, sources): (&Path, &str),
    secrets: bool,
) -> anyhow::Result<(LastGood, BTreeSet<Arc<str>>, Past)> {
    let (files, mut found) = LastGood::open_of(sources, state, secrets)?;
    let served = !found.fleets.is_empty() || !found.problems.is_empty();
    let ages = AgeFile { path: state.join("ages"), clock: now };
    let texts = TextFile { path: state.join("texts"), secrets };
    let past = Past { served, record: Some(state.join("broken")), ages: Some(ages), texts: Some(texts) };
    last_good::note_before(translator, &found.fleets);
    let (store, graph) = translator.store();
    last_good::note_set_aside(store, graph, std::mem::take(&mut found.problems));
    last_good::note_without_keys(store, graph, &last_good::without_keys(&found.fleets));
    let fleets = last_good::restore(server, found, secrets);
    last_good::note_in_use(store, graph, &fleets);
    Ok((files, fleets, past))
}

/// Waits for what others would miss, for a time.
async fn in_time(ended: Vec<oneshot::Receiver<Infallible>>) {
    for ended in ended {
        let _or_not = tokio::time::timeout(STREAMS_GRACE, ended).await;
    }
}

/// What is acknowledged is saved until `stop`; gives the end of that.
fn save(
    tasks: &mut Tasks,
    what: (xds::Server, LastGood),
    inputs: mpsc::Sender<Input>,
    stop: &CancellationToken,
) -> oneshot::Receiver<Infallible> {
    let (end, saved) = oneshot::channel();
    tasks.spawn("last good", last_good::keep(what, inputs, stop.clone(), end));
    saved
}

fn translator(places: &OwnPlaces, sources: &Sources, args: &RunArgs) -> Translator {
    let of_cluster = sources.settings.is_some();
    let mut translator = Translator::new(translator::Options {
        file_mode: !of_cluster,
        offline: false,
        unsupported_policies: args.permissions.unsupported_policies(),
        powers: args.permissions.powers(),
        read_raw: envoy::read_raw,
        route_budget: args.xds_bounds.route_budget(),
    });
    if of_cluster {
        translator.store().0.expect(Source::Kubernetes);
    }
    translator.set_own_places(Arc::new(places.clone()));
    translator.store().0.expect(Source::File);
    translator
}

/// Where objects come from.
pub(crate) struct Sources {
    /// The static configuration, what the command line names, and what the static configuration names at the start.
    roots: Vec<PathBuf>,
    /// From a Kubernetes API server as well, as this says.
    pub(crate) settings: Option<EnvoyGatewaySpec>,
}

impl Sources {
    /// As the command line and the static configuration say. If that cannot be understood, nothing is: what it names would be taken from the proxies
    /// as if it had gone.
    pub(crate) fn of(args: &RunArgs) -> anyhow::Result<Self> {
        let mut roots: Vec<PathBuf> = args.config.iter().chain(&args.dirs).chain(&args.paths).cloned().collect();
        let Some(config) = &args.config else {
            // A cluster that is named is meant, with the defaults of a static configuration.
            let of_cluster = roots.is_empty() && args.kubernetes.names_cluster();
            return Ok(Self { roots, settings: of_cluster.then(EnvoyGatewaySpec::default) });
        };
        let loaded = provider::file::load(std::slice::from_ref(config));
        let problems = loaded.problems.iter().flat_map(|(_, problems)| problems);
        if let Some(problem) = problems.into_iter().find(|problem| problem.severity == Severity::Error) {
            anyhow::bail!("{problem}; mend it: without it it is not known what to read. Envoys that run serve on");
        }
        let found = loaded.objects.into_iter().find_map(|(object, _)| match object {
            Object::EnvoyGateway(settings) => Some(settings),
            _ => None,
        });
        roots.extend(found.iter().flat_map(|settings| settings.spec.paths()).map(PathBuf::from));
        let files = roots.len() > 1;
        // Without a provider, objects come from a cluster.
        let settings = found.map(|settings| settings.spec.clone());
        let settings = settings.filter(|settings| !files && settings.kubernetes().is_some());
        anyhow::ensure!(
            files || settings.is_some(),
            "nothing to read: name a folder with --dir, or in {} under provider.custom.resource.file.paths",
            config.display()
        );
        Ok(Self { roots, settings })
    }

    /// Returns what they are called, each on a line, in whatever order they were given.
    fn names(&self) -> anyhow::Result<String> {
        let mut names: BTreeSet<String> = self.settings.iter().map(|_| "a Kubernetes cluster\n".to_owned()).collect();
        for root in &self.roots {
            names.insert(format!("{:?}\n", std::path::absolute(root)?));
        }
        Ok(names.into_iter().collect())
    }

    /// The cluster, if there is one.
    async fn cluster(&self, args: &RunArgs, threads: Option<&Handle>) -> anyhow::Result<Option<Cluster>> {
        let (Some(settings), Some(threads)) = (&self.settings, threads) else { return Ok(None) };
        let trust_domain = args.xds_tls.xds_trust_domain.as_deref();
        Ok(Some(Cluster::find((args.kubernetes.clone(), trust_domain), settings, threads.clone()).await?))
    }
}

fn envoy_options(args: &RunArgs) -> anyhow::Result<envoy::Options> {
    let access_log = match &*args.access_log {
        "off" => AccessLog::Off,
        "stdout" => AccessLog::Stdout,
        file => {
            AccessLog::File(std::path::absolute(file)?.to_str().context("--access-log: not a text in UTF-8")?.into())
        }
    };
    Ok(envoy::Options { ipv6: TcpListener::bind("[::]:0").is_ok(), access_log })
}

/// The places where Envoy may be: as named, next to this program, in the `.tools` folder of the project that it was built in, or on `PATH`.
/// Never in the current folder, where another user may have put one.
fn search(args: &RunArgs) -> EnvoySearch {
    let binary = std::env::current_exe().unwrap_or_default();
    let next_to_it = binary.parent().map(|folder| folder.join("envoy"));
    // target/release/chancery of the project
    let of_project = binary
        .ancestors()
        .nth(3)
        .map(|project| project.join(format!(".tools/envoy/{}/bin/envoy", host::ENVOY_VERSION)));
    let candidates = next_to_it.into_iter().chain(of_project).filter(|place| place.is_absolute()).collect();
    EnvoySearch { named: args.envoy.clone(), candidates, path: std::env::var_os("PATH") }
}

fn host_options(args: &RunArgs, layout: Layout, served: BTreeSet<Arc<str>>) -> HostOptions {
    let mut options = HostOptions::new(layout, EnvoyFinder::new(search(args)), Arc::new(bootstrap));
    options.drain = args.drain_time;
    options.orphans = true;
    options.most = args.most_proxies();
    options.served = served.into_iter().map(FleetName).collect();
    options
}

/// The bootstrap of a Gateway's Envoy.
fn bootstrap(infra: &Infra, paths: &ProxyPaths) -> String {
    let socket = |path: &Path| envoy::bootstrap::Endpoint::Unix(path.to_string_lossy().into());
    let options = envoy::BootstrapOptions {
        node_id: Arc::clone(&infra.fleet.0),
        node_cluster: Arc::clone(&infra.fleet.0),
        zone: None,
        control_plane: envoy::bootstrap::ControlPlane::Local(socket(&paths.xds_socket), paths.token.as_str().into()),
        admin: socket(Path::new(host::ADMIN_SOCKET)),
        local_listener: None,
        config_listener: None,
        max_connections: envoy::bootstrap::DEFAULT_MAX_CONNECTIONS,
        of_gateway: true,
    };
    envoy::bootstrap(&options).to_string()
}

/// The one clock.
#[expect(clippy::disallowed_methods, reason = "the one clock of the binary; everything else takes time as a value")]
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Fleets of workloads.
type Workloads = watch::Receiver<Arc<BTreeSet<FleetName>>>;

/// Fleets that there shall be.
type Wanted = watch::Receiver<Arc<BTreeMap<FleetName, Arc<Infra>>>>;
