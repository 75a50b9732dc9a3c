//! The replacement of an Envoy that serves by one that is started otherwise: the earlier one serves until the other does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ir::Infra;
use rustix::process::Signal;
use tokio::time::timeout;

use super::super::handover::{self, Handover, Lineage, linger};
use super::super::launch::Launch;
use super::super::layout::write_whole;
use super::super::process::{Process, Record, search};
use super::super::retired::Retired;
use super::super::run::Ending;
use super::super::{Error, ProxyPaths, admin};
use super::{Order, Supervisor};

/// From the start of a successor until it serves: an Envoy with a large configuration needs some seconds.
const TAKE_OVER: Duration = Duration::from_mins(1);

/// From SIGKILL until we stop waiting for the kernel.
const KILL_GRACE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Starts an Envoy next to one that serves, hands the listening sockets over, and drains the earlier one. One that cannot hand over is drained first.
    /// If the successor does not come to serve, the earlier one stays as it is, and the next try is after a pause.
    pub(super) async fn replace(&mut self, mut process: Process, infra: &Arc<Infra>, fresh: &Launch) {
        self.tell_replaced(&process, fresh);
        // One that does not serve yet has nothing to hand over.
        self.home().hide_admin_socket();
        let serves = self.earlier.is_none() && admin::ready(&self.paths.admin_socket).await.unwrap_or(false);
        let from = Lineage::of(process.pid).filter(|_| serves);
        let Some((from, to)) = from.and_then(|from| Some((from, from.next()?))) else {
            tracing::info!(
                gateway = self.fleet.as_str(),
                "connections are refused until its successor serves: it does not serve yet, or was started without sockets to hand over"
            );
            return self.retire(process, Some(infra)).await;
        };
        match self.hand_over((from, to), &mut process, fresh).await {
            Ok(Some(successor)) => {
                let retired = Retired::replaced(process, &self.paths);
                let paths = self.paths.clone();
                self.let_end((retired, paths), Some(infra));
                self.state.pid = Some(successor.pid);
                self.state.ready = false;
                self.tell().await;
                self.successor = Some(successor);
            }
            // Another order.
            Ok(None) => {}
            Err(Error::Silent) => {
                tracing::warn!(
                    gateway = self.fleet.as_str(),
                    pid = process.pid,
                    "envoy does not hand its sockets over, so it is ended first"
                );
                self.retire(process, Some(infra)).await;
            }
            // Two versions of Envoy may share no sockets.
            Err(Error::Successor(problem)) if !process.runs(&fresh.program) => {
                tracing::warn!(
                    gateway = self.fleet.as_str(),
                    problem,
                    "another envoy does not start next to the earlier one, which is ended first"
                );
                self.retire(process, Some(infra)).await;
            }
            Err(error) => {
                let pause = self.backoff.died(Duration::ZERO);
                let problem = format!("its successor does not start, and the earlier envoy serves on: {error}");
                tracing::warn!(gateway = self.fleet.as_str(), problem, again_in = ?pause, "the proxy is not replaced");
                self.state.problem = Some(problem.into());
                self.tell().await;
                self.pause(pause).await;
            }
        }
    }

    /// Starts the successor and gives it the sockets. None if the proxy is to go, or Chancery ends.
    async fn hand_over(
        &mut self,
        (from, to): (Lineage, Lineage),
        predecessor: &mut Process,
        launch: &Launch,
    ) -> Result<Option<Process>, Error> {
        let mut orders = self.orders.clone();
        let ends = async move {
            let goes = |order: &Order| order.infra.is_none() || order.ending != Ending::No;
            if orders.wait_for(goes).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::pin!(ends);
        // One Envoy that drains and one that takes over would be too many.
        for room in self.rooms.drain(..) {
            let _ends_anyway = room.send(());
        }
        while !self.drains.is_empty() {
            tokio::select! {
                biased;
                () = &mut ends => return Ok(None),
                Some(ended) = self.drains.join_next() => self.ended(ended),
            }
        }
        self.shared.options.layout.prepare(&self.fleet)?;
        write_whole(&self.paths.bootstrap, launch.bootstrap.as_bytes())?;
        let handover = Handover::open(&self.paths, from, to)?;
        let next = ProxyPaths { record: self.paths.next_record.clone(), ..self.paths.clone() };
        let mut successor = match Process::start(launch, Some(to), &next).await {
            Ok(successor) => successor,
            Err(error) => {
                end_unfinished(&self.paths, &self.leaving);
                return Err(error);
            }
        };
        tracing::info!(gateway = self.fleet.as_str(), pid = successor.pid, "started envoy next to the earlier one");
        let (earlier, pid) = (predecessor.pid, successor.pid);
        let outcome = tokio::select! {
            biased;
            () = &mut ends => Ok(false),
            _ = predecessor.ended() => Err(Error::Silent),
            how = successor.ended() => Err(Error::Successor(format!("it ended ({how})"))),
            done = timeout(TAKE_OVER, handover.serve(earlier, pid)) => match done {
                Ok(Ok(handover::Outcome::Done)) => Ok(true),
                Ok(Ok(handover::Outcome::Silent)) => Err(Error::Silent),
                Ok(Err(error)) => Err(Error::file("use sockets in", &self.paths.sockets)(error)),
                Err(_) => Err(Error::Successor(format!("it does not serve after {TAKE_OVER:?}"))),
            },
        };
        if let Ok(true) = outcome {
            return Ok(Some(successor));
        }
        handover.linger();
        successor.signal(Signal::KILL);
        let _gone = timeout(KILL_GRACE, successor.ended()).await;
        from.unmark();
        forget_next(&self.paths);
        outcome.map(|_| None)
    }

    /// Says what is other about the start of a process that is about to be replaced, as far as files still tell.
    fn tell_replaced(&self, process: &Process, fresh: &Launch) {
        let pid = process.pid;
        let same = std::fs::read_to_string(&self.home().bootstrap).is_ok_and(|text| text == fresh.bootstrap);
        let other = match &process.identity {
            _ if self.earlier.is_some() => "an earlier version of Chancery started it",
            None => "how it was started is not known: its record is missing or damaged",
            Some(_) if same => "Envoy itself, or its arguments",
            Some(_) => "its bootstrap",
        };
        tracing::info!(gateway = self.fleet.as_str(), pid, other, "replaces envoy: it would be started otherwise now");
    }
}

/// Ends a successor that an earlier Chancery did not see take over: it waits for sockets that no process gives it. None of those that are `leaving`.
pub(crate) fn end_unfinished(paths: &ProxyPaths, leaving: &BTreeSet<u32>) {
    let running = |file| Process::of(Record::read(file)?, paths).ok().flatten();
    let next = running(&paths.next_record).map(|process| process.pid);
    // Next to one that serves, also one that was not recorded yet.
    let serving = running(&paths.record);
    let others = serving.as_ref().map(|serving| {
        let known = leaving.iter().copied().chain([serving.pid]).collect();
        search(&paths.bootstrap, &known)
    });
    let unfinished: BTreeSet<u32> = next.into_iter().chain(others.into_iter().flatten()).collect();
    // Else the admin socket can be that of an Envoy which was started right before Chancery ended.
    let is_left = !unfinished.is_empty() || paths.next_record.exists();
    for process in unfinished.into_iter().filter_map(|pid| Process::watch(pid, None).ok()) {
        tracing::info!(
            pid = process.pid,
            "ends an envoy that was taking over when chancery ended; the earlier one serves on"
        );
        let lineage = Lineage::of(process.pid);
        process.signal(Signal::KILL);
        lineage.into_iter().for_each(Lineage::unmark);
    }
    if is_left {
        if let Some(from) = serving.and_then(|serving| Lineage::of(serving.pid)) {
            linger(paths, from);
        }
        forget_next(paths);
    }
}

/// Removes what a successor that is gone had. The names in the folder are the successor's only: those of the earlier one are others.
fn forget_next(paths: &ProxyPaths) {
    for file in [&paths.next_record, &paths.bound_admin_socket] {
        let _absent = std::fs::remove_file(file);
    }
}
