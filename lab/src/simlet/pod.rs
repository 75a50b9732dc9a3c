//! The life of one pod: its network, volumes and containers, from its binding to the end of its object.

mod report;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt as _};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep};

use super::board::{Board, Ended, State};
use super::container::{self, Role, Stop};
use super::runtime::{Joint, Sandbox};
use super::volume::{self, Tokens};
use super::{Context, now, security, spec};
use crate::network::{self, NODE};
use report::Reporter;

/// What is known of a pod's object.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) pod: Arc<Pod>,
    /// The API server has it no more.
    pub(crate) gone: bool,
}

/// What the tasks of a pod share.
pub(crate) struct Life {
    pub(crate) context: Arc<Context>,
    first: Arc<Pod>,
    object: watch::Receiver<Object>,
    pub(crate) folder: PathBuf,
    pub(crate) address: Ipv4Addr,
    /// The process that holds its namespaces; none at first.
    pub(crate) sandbox: i32,
    pub(crate) board: Board,
    tokens: Mutex<Tokens>,
    began: Timestamp,
}

/// How long after a failure something is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Lives it.
pub(crate) async fn run(context: Arc<Context>, object: watch::Receiver<Object>) {
    let first = Arc::clone(&object.borrow().pod);
    let taken = context.addresses.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(address) = taken else {
        tracing::warn!("no address is left for pod {}", first.name_any());
        return;
    };
    let folder = context.place.inside("pods").join(first.uid().unwrap_or_default());
    let began = super::status::whole_seconds(now());
    let mut life = Life {
        context,
        first,
        object,
        folder,
        address,
        sandbox: 0,
        board: Board::new(),
        tokens: Mutex::default(),
        began,
    };
    if let Err(error) = Box::pin(life.live()).await {
        tracing::warn!("pod {}: {error:#}", life.full_name());
    }
    life.clean_up().await;
}

impl Life {
    /// The object as it is now.
    pub(crate) fn pod(&self) -> Arc<Pod> {
        Arc::clone(&self.object.borrow().pod)
    }

    pub(crate) fn namespace(&self) -> &str {
        self.first.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.first.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.first.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn full_name(&self) -> String {
        format!("{}_{}({})", self.name(), self.namespace(), self.uid())
    }

    pub(crate) fn policy(&self) -> &str {
        let spec = self.first.spec.as_ref();
        spec.and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
    }

    /// Seconds that containers have to end, unless somebody says otherwise.
    pub(crate) fn grace(&self) -> u64 {
        let asked = self.first.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        asked.and_then(|asked| u64::try_from(asked).ok()).unwrap_or(30)
    }

    pub(crate) fn tell(&self, reason: &'static str, note: String) {
        self.context.events.normal(&self.first, reason, note);
    }

    pub(crate) fn warn(&self, reason: &'static str, note: String) {
        self.context.events.warning(&self.first, reason, note);
    }

    /// A container waits for something.
    pub(crate) fn wait_for(&self, container: &Container, reason: &'static str, message: String) {
        self.board.container(&container.name, |record| record.state = State::Waiting { reason, message });
    }

    pub(crate) fn is_ready(&self, container: &Container) -> bool {
        self.board.facts().containers.get(&container.name).is_some_and(|record| record.ready)
    }

    /// Has `lab enter` find a container, or no more.
    pub(crate) fn shown(&self, container: &Container, joint: Option<&Joint>) {
        let file = self.folder.join("running").join(&container.name);
        let done = match joint {
            Some(joint) => std::fs::write(file, format!("{} {}", joint.pid, joint.spec.display())),
            None => std::fs::remove_file(file),
        };
        if let Err(error) = done {
            tracing::debug!("pod {}: {error}", self.full_name());
        }
    }

    /// By when its containers must have ended, if the object says so.
    fn deadline(&self) -> Option<Duration> {
        let object = self.object.borrow();
        if object.gone {
            return Some(Duration::ZERO);
        }
        object.pod.metadata.deletion_timestamp.as_ref()?;
        let seconds = object.pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
    }

    fn is_over(&self) -> bool {
        let phase = self.first.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    async fn live(&mut self) -> anyhow::Result<()> {
        for (index, container) in self.containers().into_iter().enumerate() {
            // main containers wait for those before them
            let reason = if index > 0 && self.has_init() { "PodInitializing" } else { "ContainerCreating" };
            self.wait_for(&container, reason, String::new());
        }
        let mut reporter = Reporter::new(self);
        if !self.is_over() && self.deadline().is_none() {
            let sandbox = tokio::select! {
                sandbox = self.make_sandbox() => Some(sandbox),
                () = reporter.run(self) => None,
                () = self.until_ending() => None,
            };
            if let Some(mut sandbox) = sandbox {
                self.sandbox = i32::try_from(sandbox.pid)?;
                tokio::select! {
                    () = self.run_containers() => {}
                    () = reporter.run(self) => {}
                    () = sandbox.ended() => self.lose(),
                }
            }
        }
        reporter.last_word(self).await;
        self.until_ending().await;
        self.delete().await;
        Ok(())
    }

    /// Until its object is gone, or is to go.
    async fn until_ending(&self) {
        let mut object = self.object.clone();
        drop(object.wait_for(|object| object.gone || object.pod.metadata.deletion_timestamp.is_some()).await);
    }

    /// Its containers have ended with their namespaces: nobody knows how.
    fn lose(&self) {
        self.fail("SandboxLost", "the process that holds the pod's namespaces ended");
        self.board.change(|facts| {
            for record in facts.containers.values_mut() {
                record.ready = false;
                if let State::Running { since } = record.state {
                    let (message, id) = ("it ended with its pod's namespaces".to_owned(), record.id.clone());
                    let reason = "ContainerStatusUnknown";
                    record.state =
                        State::Ended(Ended { code: 137, reason, message, began: since, finished: now(), id });
                }
            }
        });
    }

    fn fail(&self, reason: &'static str, message: &str) {
        self.board.change(|facts| facts.failed = Some((reason, message.to_owned())));
    }

    fn containers(&self) -> Vec<Container> {
        let spec = self.first.spec.clone().unwrap_or_default();
        spec.init_containers.into_iter().flatten().chain(spec.containers).collect()
    }

    fn has_init(&self) -> bool {
        self.first.spec.as_ref().is_some_and(|spec| spec.init_containers.as_ref().is_some_and(|all| !all.is_empty()))
    }

    /// Makes volumes and namespaces, as often as it takes.
    async fn make_sandbox(&self) -> Sandbox {
        self.context.world.listed().await;
        self.make_volumes().await;
        loop {
            match self.try_sandbox().await {
                Ok(sandbox) => {
                    self.board.change(|facts| facts.sandbox = true);
                    return sandbox;
                }
                Err(error) => self.warn("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {error:#}")),
            }
            sleep(AGAIN).await;
        }
    }

    async fn try_sandbox(&self) -> anyhow::Result<Sandbox> {
        let spec = self.first.spec.clone().unwrap_or_default();
        let host = [spec.host_network, spec.host_pid, spec.host_ipc].contains(&Some(true));
        anyhow::ensure!(!host, "this node has no namespaces of a host to share");
        let shared = spec.share_process_namespace == Some(true);
        anyhow::ensure!(!shared, "containers on this node have processes of their own, and cannot share them");
        self.write_files().await?;
        let sysctls: Vec<String> = security::of_pod(&self.first)
            .sysctls
            .into_iter()
            .flatten()
            .map(|sysctl| format!("{}={}", sysctl.name, sysctl.value))
            .collect();
        let sandbox = Sandbox::start(&spec::hostname(&self.first), &sysctls).await?;
        // of a try that failed half-way
        let _none = network::disconnect(self.address).await;
        network::connect(self.address, sandbox.pid).await?;
        Ok(sandbox)
    }

    /// `/etc/hosts` and what else the node writes for its pods.
    async fn write_files(&self) -> anyhow::Result<()> {
        let etc = self.folder.join("etc");
        std::fs::create_dir_all(&etc)?;
        std::fs::create_dir_all(self.folder.join("running"))?;
        let names = self.context.place.inside("names");
        std::fs::create_dir_all(&names)?;
        let name = names.join(format!("{}_{}", self.namespace(), self.name()));
        let _earlier = std::fs::remove_file(&name);
        std::os::unix::fs::symlink(&self.folder, name)?;
        let hostname = spec::hostname(&self.first);
        let pod_spec = self.first.spec.clone().unwrap_or_default();
        let mut hosts = format!("127.0.0.1\tlocalhost\n{NODE}\t{}\n{}\t{hostname}\n", network::NODE_NAME, self.address);
        for alias in pod_spec.host_aliases.iter().flatten() {
            hosts += &format!(
                "{}\t{}\n",
                alias.ip,
                alias.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join("\t")
            );
        }
        let resolver = super::dns::resolv_conf(self.namespace(), &pod_spec);
        for (name, text) in spec::FILES.into_iter().zip([hosts, format!("{hostname}\n"), resolver]) {
            std::fs::write(etc.join(name), text)?;
        }
        Ok(())
    }

    /// Makes the volumes, as often as it takes; gives the time until tokens in them have to be renewed.
    async fn make_volumes(&self) -> Option<Duration> {
        let mut contents = self.context.world.contents();
        let mut tokens = self.tokens.lock().await;
        loop {
            contents.mark_unchanged();
            let pod = self.pod();
            let of = volume::Of { context: &self.context, pod: &pod, address: self.address };
            match volume::make(&of, &self.folder.join("volumes"), &mut tokens).await {
                Ok(renewal) => return renewal,
                Err(failure) => {
                    let why = format!("MountVolume.SetUp failed for volume \"{}\" : {}", failure.volume, failure.why);
                    self.warn("FailedMount", why);
                }
            }
            tokio::select! {
                () = sleep(AGAIN) => {}
                _changed = contents.changed() => {}
            }
        }
    }

    /// Brings the volumes up to date whenever something changes, for ever.
    async fn renew_volumes(&self) {
        const LONG: Duration = Duration::from_secs(24 * 3600);
        let (mut contents, mut object) = (self.context.world.contents(), self.object.clone());
        loop {
            contents.mark_unchanged();
            object.mark_unchanged();
            let renewal = self.make_volumes().await.unwrap_or(LONG);
            tokio::select! {
                () = sleep(renewal) => {}
                _changed = contents.changed() => {}
                _changed = object.changed() => {}
            }
        }
    }

    /// Runs all containers until all have ended.
    async fn run_containers(&self) {
        let (stop, stopped) = watch::channel(None);
        tokio::select! {
            () = self.run_in_order(&stopped) => {}
            () = self.renew_volumes() => {}
            () = self.watch_end(&stop) => {}
        }
    }

    /// Tells by when all have to have ended, as soon as they have to.
    async fn watch_end(&self, stop: &watch::Sender<Option<Instant>>) {
        let limit = self.first.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        let limit =
            limit.and_then(|limit| u64::try_from(limit).ok()).map(|limit| Instant::now() + Duration::from_secs(limit));
        let over = async {
            match limit {
                Some(limit) => tokio::time::sleep_until(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        let mut object = self.object.clone();
        // how long they have had to end since the limit passed
        let mut passed = None;
        let mut said = None;
        loop {
            let deadline = self.deadline().or(passed);
            if deadline != said {
                said = deadline;
                stop.send_replace(deadline.map(|deadline| Instant::now() + deadline));
            }
            tokio::select! {
                changed = object.changed() => if changed.is_err() { return },
                () = &mut over, if passed.is_none() => {
                    self.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
                    passed = Some(Duration::from_secs(self.grace()));
                }
            }
        }
    }

    /// Init containers one after the other, the others at once, sidecars until the others have ended.
    async fn run_in_order(&self, stop: &Stop) {
        let spec = self.first.spec.clone().unwrap_or_default();
        let initial = spec.init_containers.unwrap_or_default();
        let (stop_sidecars, sidecars_stop) = watch::channel(None);
        // how many init containers have had their turn
        let (turn, turns) = watch::channel(0);
        let others = async {
            self.run_others(&initial, &spec.containers, stop, &turn).await;
            let deadline = stop.borrow().unwrap_or_else(|| Instant::now() + Duration::from_secs(self.grace()));
            stop_sidecars.send_replace(Some(deadline));
            // those that never had their turn never run
            drop(turn);
        };
        let sidecar = async |(index, container): (usize, &Container)| {
            if turns.clone().wait_for(|turn| *turn > index).await.is_ok() {
                container::keep(self, container, Role::Sidecar, sidecars_stop.clone()).await;
            }
        };
        let sidecars = initial.iter().enumerate().filter(|(_, container)| Role::of_init(container) == Role::Sidecar);
        tokio::join!(others, futures::future::join_all(sidecars.map(sidecar)));
    }

    /// All but the sidecars, for whose starts the others wait.
    async fn run_others(&self, initial: &[Container], mains: &[Container], stop: &Stop, turn: &watch::Sender<usize>) {
        for container in initial {
            turn.send_modify(|turn| *turn += 1);
            match Role::of_init(container) {
                Role::Sidecar => tokio::select! {
                    () = self.until_started(container) => {}
                    () = container::stopped(stop.clone()) => {}
                },
                role => {
                    if container::keep(self, container, role, stop.clone()).await != Some(0) {
                        return;
                    }
                }
            }
            if stop.borrow().is_some() {
                return;
            }
        }
        let all = mains.iter().map(|container| container::keep(self, container, Role::Main, stop.clone()));
        futures::future::join_all(all).await;
    }

    /// Until a container has passed its startup probe.
    pub(crate) async fn until_started(&self, container: &Container) {
        let mut changes = self.board.changes();
        while !self.board.facts().containers.get(&container.name).is_some_and(|record| record.started) {
            let _with_the_pod = changes.changed().await;
        }
    }

    /// Has the API server forget it: everything has ended.
    async fn delete(&self) {
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), self.namespace());
        let preconditions = Preconditions { uid: Some(self.uid().to_owned()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default().grace_period(0) };
        while !self.object.borrow().gone {
            match api.delete(self.name(), &parameters).await {
                Ok(_) => return,
                // somebody else was faster; another pod may have the name now
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => tracing::info!("deleting pod {}: {error}", self.full_name()),
            }
            sleep(AGAIN).await;
        }
    }

    /// Leaves nothing on the node.
    async fn clean_up(&self) {
        if self.sandbox != 0
            && let Err(error) = network::disconnect(self.address).await
        {
            // the end of its namespace has taken the interfaces along
            tracing::debug!("pod {}: {error:#}", self.full_name());
        }
        self.context.addresses.lock().unwrap_or_else(PoisonError::into_inner).release(self.address);
        let name = self.context.place.inside("names").join(format!("{}_{}", self.namespace(), self.name()));
        if std::fs::read_link(&name).is_ok_and(|folder| folder == self.folder) {
            let _gone = std::fs::remove_file(name);
        }
        let _never_made = tokio::fs::remove_dir_all(&self.folder).await;
        self.context.logs.remove(self.namespace(), self.name(), self.uid());
    }
}
