//! One run of a container: made, started, probed, told to end, ended.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Role, Stop, stopped};
use crate::container::{Spec, Word};
use crate::simlet::board::{Ended, State};
use crate::simlet::environment::{self, Sources};
use crate::simlet::handler::{self, Action};
use crate::simlet::image::Image;
use crate::simlet::log::Whose;
use crate::simlet::now;
use crate::simlet::pod::Life;
use crate::simlet::probe::Prober;
use crate::simlet::runtime::{self, Joint, Output, Running};
use crate::simlet::spec::{self, Known};

/// Which run it is.
pub(super) struct Run {
    pub(super) attempt: i32,
    pub(super) role: Role,
    pub(super) stop: Stop,
}

/// Why a container cannot be made now.
pub(super) struct Lack {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The least time that a program has between SIGTERM and SIGKILL, even if a hook took all of it.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// Runs it once.
pub(super) async fn once(life: &Life, container: &Container, image: &Image, run: Run) -> Result<Ended, Lack> {
    let lack = |reason: &'static str| move |message: String| Lack { reason, message };
    let folder = life.folder.join("containers").join(&container.name).join(run.attempt.to_string());
    let config = lack("CreateContainerConfigError");
    let made = make(life, container, image, folder.clone()).map_err(config).inspect_err(|lack| {
        life.warn("Failed", format!("Error: {}", lack.message));
    })?;
    let began = now();
    let id = format!("lab://{}-{}-{}", life.uid(), container.name, run.attempt);
    let started = runtime::start(&made, &folder).await;
    let outcome = match started.map_err(|error| lack("CreateContainerError")(format!("{error:#}")))? {
        Ok((running, output)) => {
            let log = Following::start(life, container, run.attempt, output)
                .map_err(|error| lack("CreateContainerError")(error.to_string()))?;
            let code = live(life, container, running, &run, (&id, began)).await;
            log.end().await;
            Outcome { code, reason: if code == 0 { "Completed" } else { "Error" }, message: String::new() }
        }
        Err(why) => {
            life.warn("Failed", format!("Error: failed to start container \"{}\": {why}", container.name));
            Outcome { code: 128, reason: "StartError", message: why }
        }
    };
    // what it wrote goes with it; the log stays
    let _gone = tokio::fs::remove_dir_all(&folder).await;
    let Outcome { code, reason, message } = outcome;
    Ok(Ended { code, reason, message, began, finished: now(), id })
}

struct Outcome {
    code: u8,
    reason: &'static str,
    message: String,
}

/// What it is made of.
fn make(life: &Life, container: &Container, image: &Image, folder: PathBuf) -> Result<Spec, String> {
    let pod = life.pod();
    let namespace = life.namespace();
    let sources = Sources {
        pod: &pod,
        address: life.address,
        services: life.context.world.services.state(),
        secret: &|name| life.context.world.secret(namespace, name),
        config_map: &|name| life.context.world.config_map(namespace, name),
    };
    let variables = environment::of(container, &sources)?;
    let known = Known { pod: &pod, sandbox: life.sandbox, folder: &life.folder };
    spec::of(&known, container, image, variables, folder)
}

/// What it writes goes into its log.
struct Following(JoinSet<()>);

impl Following {
    fn start(life: &Life, container: &Container, attempt: i32, output: Output) -> std::io::Result<Self> {
        let (namespace, pod, uid) = (life.namespace(), life.name(), life.uid());
        let log = life.context.logs.open(&Whose { namespace, pod, uid, container: &container.name }, attempt)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&log).copy("stdout", output.stdout));
        tasks.spawn(log.copy("stderr", output.stderr));
        Ok(Self(tasks))
    }

    /// Until all that it wrote is there.
    async fn end(mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

/// From its start to its end; gives its exit code.
async fn live(
    life: &Life,
    container: &Container,
    mut running: Running,
    run: &Run,
    (id, began): (&str, Timestamp),
) -> u8 {
    let joint = running.joint();
    life.tell("Started", format!("Container started: {}", container.name));
    life.shown(container, Some(&joint));
    if let Some(code) = post_start(life, container, &mut running, run.stop.clone()).await {
        life.shown(container, None);
        return code;
    }
    let has = |probe: &Option<Probe>| probe.is_some();
    life.board.container(&container.name, |record| {
        record.state = State::Running { since: began };
        record.restarts = run.attempt;
        record.id = id.to_owned();
        record.started = !has(&container.startup_probe);
        record.ready = record.started && !has(&container.readiness_probe) && run.role != Role::Init;
    });
    let code = tokio::select! {
        code = until_end(life, container, &mut running, run.stop.clone()) => code,
        // to its end: what drains says so itself
        never = ask_readiness(life, container, &joint) => match never {},
    };
    life.shown(container, None);
    code
}

/// Until it ends, or is ended by its pod or its probes.
async fn until_end(life: &Life, container: &Container, running: &mut Running, stop: Stop) -> u8 {
    let joint = running.joint();
    let (which, probe) = tokio::select! {
        code = running.end() => return code,
        () = stopped(stop.clone()) => return end(life, container, running, stop).await,
        probe = ask(life, container, &joint) => probe,
    };
    life.tell("Killing", format!("Container {} failed {which} probe, will be restarted", container.name));
    let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
    let grace = Duration::from_secs(own.and_then(|own| u64::try_from(own).ok()).unwrap_or(life.grace()));
    let (_held, own_stop) = watch::channel(Some(Instant::now() + grace));
    end(life, container, running, own_stop).await
}

/// The hook after the start. Its failure ends the container, whose exit code is then given.
async fn post_start(life: &Life, container: &Container, running: &mut Running, stop: Stop) -> Option<u8> {
    let hook = container.lifecycle.as_ref()?.post_start.as_ref()?;
    let action = Action::of_hook(hook, container, life.address);
    let joint = running.joint();
    let failure = tokio::select! {
        code = running.end() => return Some(code),
        answer = handler::run(&action, &joint) => answer.err()?,
        () = stopped(stop.clone()) => return Some(end(life, container, running, stop.clone()).await),
    };
    life.warn("FailedPostStartHook", format!("PostStartHook failed: {failure}"));
    let (_held, stop) = watch::channel(Some(Instant::now() + Duration::from_secs(life.grace())));
    Some(end(life, container, running, stop).await)
}

/// Has it end: the hook before, SIGTERM, and SIGKILL when its time is over.
async fn end(life: &Life, container: &Container, running: &mut Running, mut stop: Stop) -> u8 {
    let deadline = |stop: &Stop| stop.borrow().unwrap_or_else(Instant::now);
    life.tell("Killing", format!("Stopping container {}", container.name));
    if let Some(hook) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()) {
        let action = Action::of_hook(hook, container, life.address);
        let joint = running.joint();
        tokio::select! {
            code = running.end() => return code,
            answer = timeout_at(deadline(&stop), handler::run(&action, &joint)) => {
                if let Ok(Err(why)) = answer {
                    life.warn("FailedPreStopHook", format!("PreStopHook failed: {why}"));
                }
            }
        }
    }
    running.tell(Word::Terminate).await;
    let least = Instant::now() + LEAST_GRACE;
    let mut can_change = true;
    loop {
        tokio::select! {
            code = running.end() => return code,
            () = sleep_until(deadline(&stop).max(least)) => {
                running.tell(Word::Kill).await;
                return running.end().await;
            }
            // it may get less time than it had
            changed = stop.changed(), if can_change => can_change = changed.is_ok(),
        }
    }
}

/// A probe of a container.
fn prober(life: &Life, container: &Container, joint: &Joint, probe: &Probe) -> Prober {
    Prober::new(probe, Action::of_probe(probe, container, life.address), joint.clone())
}

/// What is said of bad answers.
fn unhealthy(life: &Life, which: &'static str) -> impl Fn(String) {
    move |why: String| life.warn("Unhealthy", format!("{which} probe failed: {why}"))
}

/// Asks the probes whose answers can end it, and gives the one that does.
async fn ask<'a>(life: &Life, container: &'a Container, joint: &Joint) -> (&'static str, Option<&'a Probe>) {
    if let Some(probe) = &container.startup_probe {
        if !prober(life, container, joint, probe).verdict(unhealthy(life, "Startup")).await {
            return ("startup", Some(probe));
        }
        life.board.container(&container.name, |record| {
            record.started = true;
            record.ready = container.readiness_probe.is_none();
        });
    }
    let Some(probe) = &container.liveness_probe else { return std::future::pending().await };
    let mut prober = prober(life, container, joint, probe);
    while prober.verdict(unhealthy(life, "Liveness")).await {}
    ("liveness", Some(probe))
}

/// Asks the probe whose answers say whether it gets requests, for ever.
async fn ask_readiness(life: &Life, container: &Container, joint: &Joint) -> Infallible {
    let Some(probe) = &container.readiness_probe else { return std::future::pending().await };
    life.until_started(container).await;
    let mut prober = prober(life, container, joint, probe);
    loop {
        let ready = prober.verdict(unhealthy(life, "Readiness")).await;
        if life.is_ready(container) != ready {
            life.board.container(&container.name, |record| record.ready = ready);
        }
    }
}
