//! The programs of the control plane: each with a log of its own, started again when it ends, and left alone while it is stopped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::http;
use crate::place::Place;

/// All of them, in the order in which they start.
pub(crate) const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy"];

/// The file with a line for each: its name, its state, its process as it is numbered inside.
pub(crate) const STATES: &str = "programs";

pub(crate) const STARTING: &str = "starting";
pub(crate) const RUNNING: &str = "running";
pub(crate) const STOPPED: &str = "stopped";
pub(crate) const ENDED: &str = "ended";

/// The file that is there while a program is to be stopped.
pub(crate) fn stopped(name: &str) -> String {
    format!("{name}.stopped")
}

/// How long one may take until it can be used.
const SOON: Duration = Duration::from_secs(60);

/// How often is asked whether it can be used, or whether it is to be stopped.
const ASK: Duration = Duration::from_millis(50);

/// How long after its unwanted end a program starts again.
const AGAIN: Duration = Duration::from_secs(1);

/// A program: how it is started, and how one sees that it can be used.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<String>,
    pub(crate) ready: Ready,
}

/// When a program can be used.
#[derive(Clone)]
pub(crate) enum Ready {
    /// It takes connections.
    Connects(SocketAddr),
    /// It answers 200.
    Answers(http::Get),
}

/// What every program is doing, as a file that tells.
#[derive(Clone)]
pub(crate) struct States {
    file: PathBuf,
    now: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl States {
    pub(crate) fn new(place: &Place) -> Self {
        Self { file: place.file(STATES), now: Arc::default() }
    }

    fn tell(&self, name: &'static str, state: &str, pid: Option<u32>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.insert(name, pid.map_or_else(|| state.to_owned(), |pid| format!("{state} {pid}")));
        let mut text = String::new();
        for name in PROGRAMS {
            let _infallible = writeln!(text, "{name:24} {}", now.get(name).map_or("-", String::as_str));
        }
        // whoever reads it sees the old one or the new one
        let new = self.file.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.file));
        if let Err(error) = written {
            tracing::warn!("{}: {error}", self.file.display());
        }
    }
}

/// A program that can be used; whoever has it has to [`watch`] it.
pub(crate) struct Started {
    program: Program,
    child: Child,
}

/// Starts a program for the first time and waits until it can be used.
pub(crate) async fn start(place: &Place, states: &States, program: Program) -> anyhow::Result<Started> {
    let mut child = spawn(place, &program)?;
    states.tell(program.name, STARTING, child.id());
    let began = Instant::now();
    while !is_ready(&program.ready).await {
        let why = format!("log/{}.log of its state folder says why", program.name);
        if let Some(status) = child.try_wait()? {
            bail!("{} ended while it started ({status}); {why}", program.name);
        }
        if began.elapsed() > SOON {
            bail!("{} cannot be used after {} s; {why}", program.name, SOON.as_secs());
        }
        sleep(ASK).await;
    }
    states.tell(program.name, RUNNING, child.id());
    Ok(Started { program, child })
}

/// Keeps a program running, for ever.
pub(crate) async fn watch(place: Place, states: States, started: Started) -> anyhow::Error {
    let Started { program, child } = started;
    let mut running = Some(child);
    loop {
        match running.take() {
            Some(mut child) => {
                let wanted = until_end(&place, &states, &program, &mut child).await;
                states.tell(program.name, if wanted { STOPPED } else { ENDED }, None);
                if !wanted {
                    tracing::warn!("{} ended and starts again", program.name);
                    sleep(AGAIN).await;
                }
            }
            None if is_stopped(&place, &program) => sleep(ASK).await,
            None => match spawn(&place, &program) {
                Ok(child) => {
                    states.tell(program.name, STARTING, child.id());
                    running = Some(child);
                }
                Err(error) => {
                    tracing::warn!("{}: {error:#}", program.name);
                    sleep(AGAIN).await;
                }
            },
        }
    }
}

/// Until it ends, or has to. True: it had to.
async fn until_end(place: &Place, states: &States, program: &Program, child: &mut Child) -> bool {
    let mut is_running = false;
    loop {
        tokio::select! {
            status = child.wait() => {
                tracing::info!("{}: {status:?}", program.name);
                return is_stopped(place, program);
            }
            () = sleep(ASK) => {}
        }
        if is_stopped(place, program) {
            let _ended = child.kill().await;
            return true;
        }
        if !is_running && is_ready(&program.ready).await {
            is_running = true;
            states.tell(program.name, RUNNING, child.id());
        }
    }
}

fn is_stopped(place: &Place, program: &Program) -> bool {
    place.file(&stopped(program.name)).exists()
}

fn spawn(place: &Place, program: &Program) -> anyhow::Result<Child> {
    let log = place.file(&format!("log/{}.log", program.name));
    let log = File::options().append(true).create(true).open(log)?;
    Command::new(place.program(program.name)?)
        .args(&program.arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting {}", program.name))
}

async fn is_ready(ready: &Ready) -> bool {
    const PATIENCE: Duration = Duration::from_secs(1);
    match ready {
        Ready::Connects(address) => tokio::net::TcpStream::connect(address).await.is_ok(),
        Ready::Answers(get) => {
            timeout(PATIENCE, http::get(get)).await.is_ok_and(|answer| answer.is_ok_and(|(code, _)| code == 200))
        }
    }
}
