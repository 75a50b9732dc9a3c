//! The task that writes.

use std::sync::Arc;
use std::time::Duration;

use api::status::{OwnStatus, Status};
use api::{Kind, ObjectKey};
use hashbrown::{HashMap, HashSet};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::class_conflicts::{AGAIN, ClassConflicts};
use super::contest::Contests;
use super::merge::{is_behind, is_written_by, lack_of_room, merged, takes_back};
use super::retry::Retries;
use super::{Board, Refused, WriterOptions};
use crate::kubernetes::Error;
use crate::kubernetes::call::{BUSY, Caller, Failure};
use crate::kubernetes::target::{Resource, Target};

/// Writes that are under way at a time: each is a request of a few milliseconds, so 16 are some 5,000 statuses a second, and 16 connections.
const AT_A_TIME: usize = 16;

/// See the parent module.
pub(super) async fn run(
    options: WriterOptions,
    board: Board,
    mut leads: watch::Receiver<bool>,
    refused: watch::Sender<Refused>,
    stop: CancellationToken,
) -> Result<(), Error> {
    loop {
        board.open(false);
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            found = leads.wait_for(|leads| *leads) => if found.is_err() { return Ok(()) },
        }
        board.open(true);
        options.observed.note_changes(true);
        let mut writer = Writer::new(&options, &board, &refused);
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            found = leads.wait_for(|leads| !*leads) => if found.is_err() { return Ok(()) },
            result = writer.write() => return result,
        }
        options.observed.note_changes(false);
        // Whoever leads now tells what cannot be written.
        refused.send_replace(Vec::new());
    }
}

/// A time of leadership. What is under way at its end is broken off: the next leader writes the same.
struct Writer<'a> {
    options: &'a WriterOptions,
    board: &'a Board,
    refused: &'a watch::Sender<Refused>,
    caller: Caller,
    /// Until when nothing is taken back for want of news: who has just begun to lead may not have heard of all proxies.
    settled: Instant,
    tasks: JoinSet<Ended>,
    /// Objects that a task writes.
    busy: HashSet<ObjectKey>,
    /// What came for them meanwhile.
    behind: HashMap<ObjectKey, Option<Status>>,
    failed: Retries,
    /// When people are told what has changed of that; none: nothing has.
    tells: Option<Instant>,
    contests: Contests,
    conflicts: ClassConflicts,
}

/// What became of a write.
type Ended = (ObjectKey, Option<Status>, Result<Done, Failure>);

/// How a write ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// The object has got the status; the hash of which has that.
    Written(u64),
    /// The object has the status, or can have none.
    Same,
    /// It is too early to write it.
    Later,
    /// Somebody else replaces it whenever it is written: it waits until then.
    Contested(Instant),
}

/// People are told of failures so often at most: each time of all, and there may be as many as objects.
const TELLING: Duration = Duration::from_millis(100);

impl<'a> Writer<'a> {
    fn new(options: &'a WriterOptions, board: &'a Board, refused: &'a watch::Sender<Refused>) -> Self {
        let caller = Caller { client: options.client.clone(), pace: options.pace };
        Self {
            options,
            board,
            refused,
            caller,
            settled: Instant::now() + options.settle,
            tasks: JoinSet::new(),
            busy: HashSet::new(),
            behind: HashMap::new(),
            failed: Retries::new(options.pace),
            tells: None,
            contests: Contests::default(),
            conflicts: ClassConflicts::default(),
        }
    }

    async fn write(&mut self) -> Result<(), Error> {
        loop {
            self.tell_in_time();
            self.start_again();
            let (due, next) = self.board.take_due(AT_A_TIME.saturating_sub(self.tasks.len()));
            for (key, status) in due {
                self.start_new(key, status);
            }
            let has_room = self.tasks.len() < AT_A_TIME;
            let retry = self.failed.next();
            tokio::select! {
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(ended) => self.ended(ended),
                    Err(error) if error.is_panic() => return Err(Error::Panic(error.to_string())),
                    Err(_) => {}
                },
                () = self.board.news(), if has_room => {}
                () = until([next, retry]), if has_room => {}
                () = until([self.tells, None]) => {}
            }
        }
    }

    /// Starts what failed and is due again.
    fn start_again(&mut self) {
        let room = AT_A_TIME.saturating_sub(self.tasks.len());
        for (key, status) in self.failed.due(Instant::now(), room) {
            self.start_new(key, status);
        }
    }

    /// Starts a status that may have failed before: what people were told of that stays until it is known how this ends.
    fn start_new(&mut self, key: ObjectKey, status: Option<Status>) {
        let known = Instant::now() + self.options.pace.retry_last + self.options.pace.answer;
        self.failed.started(&key, status.as_ref(), known);
        self.start(key, status);
    }

    fn start(&mut self, key: ObjectKey, status: Option<Status>) {
        if self.busy.contains(&key) {
            self.behind.insert(key, status);
            return;
        }
        if self.conflicts.hold_back(&key, status.as_ref(), &self.options.observed) {
            let news = self.failed.put_off(&key, status, None, Instant::now() + AGAIN);
            return self.tell(news);
        }
        self.busy.insert(key.clone());
        let (caller, options) = (self.caller.clone(), self.options.clone());
        let settled = Instant::now() >= self.settled;
        let contested = self.contests.get(&key, Instant::now());
        self.tasks.spawn(async move {
            let result = write_one((&caller, &options), &key, status.as_ref(), (settled, contested)).await;
            (key, status, result)
        });
    }

    fn ended(&mut self, (key, status, result): Ended) {
        self.busy.remove(&key);
        let newer = self.behind.remove(&key);
        match result {
            // An object that is gone has no status.
            Ok(Done::Written(_) | Done::Same) | Err(Failure::Missing) => {
                let now = Instant::now();
                let waits = if let Ok(Done::Written(hash)) = result {
                    self.contests.note(&key, hash, now);
                    self.conflicts.written(&key, now)
                } else {
                    self.conflicts.settled(&key, now)
                };
                let news = match waits {
                    Some(until) => {
                        let words = self.conflicts.words(&key, &self.options.controller);
                        self.failed.put_off(&key, status, words, until)
                    }
                    None => self.failed.over(&key),
                };
                self.tell(news);
            }
            Ok(Done::Later) => self.again(&key, status, None),
            Ok(Done::Contested(until)) => self.put_off(&key, status, until),
            Err(failure) => {
                let words = self.words(&key, failure);
                self.again(&key, status, words);
            }
        }
        if let Some(status) = newer {
            self.start_new(key, status);
        }
    }

    /// Tries again, ever more slowly.
    fn again(&mut self, key: &ObjectKey, status: Option<Status>, words: Option<Arc<str>>) {
        let news = self.failed.again(key, status, words);
        self.tell(news);
    }

    /// Lets what somebody else replaces without end wait.
    fn put_off(&mut self, key: &ObjectKey, status: Option<Status>, until: Instant) {
        self.conflicts.note(key, &self.options.observed, Instant::now());
        let words = self.conflicts.words(key, &self.options.controller).unwrap_or_else(|| {
            let controller = &self.options.controller;
            format!("another writer replaces it whenever it is written; is there another installation with controllerName {controller}?")
                .into()
        });
        let news = self.failed.put_off(key, status, Some(words), until);
        self.tell(news);
    }

    /// The words about a failure in the list of what cannot be written. A server that asks to wait is given time.
    fn words(&self, key: &ObjectKey, failure: Failure) -> Option<Arc<str>> {
        match failure {
            Failure::Busy(_) if self.failed.since(key).is_none_or(|since| since.elapsed() < BUSY) => None,
            Failure::Forbidden(words) | Failure::Invalid(words) | Failure::Away(words) | Failure::Busy(words) => {
                Some(words.into())
            }
            // Another client wrote in between.
            Failure::Conflict | Failure::Missing | Failure::Gone | Failure::Closed => None,
        }
    }

    fn tell(&mut self, news: bool) {
        if news {
            self.tells.get_or_insert_with(|| Instant::now() + TELLING);
        }
    }

    fn tell_in_time(&mut self) {
        if self.tells.is_some_and(|at| at <= Instant::now()) {
            self.tells = None;
            let mut told: Refused = self.failed.words().collect();
            told.sort_unstable();
            self.refused.send_replace(told);
        }
    }
}

/// Waits for the first of these times; for ever if there is none.
async fn until(times: [Option<Instant>; 2]) {
    match times.into_iter().flatten().min() {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Writes one status, unless the object has it: into the object as the watch had it last, and into one that is read only where that is not known or
/// was changed since.
async fn write_one(
    (caller, options): (&Caller, &WriterOptions),
    key: &ObjectKey,
    status: Option<&Status>,
    (settled, contested): (bool, Option<(u64, Instant)>),
) -> Result<Done, Failure> {
    let Some(kind) = key.kind() else { return Ok(Done::Same) };
    let Some(standing) = options.observed.get(key) else { return Ok(Done::Same) };
    let ours = status.map(serde_json::to_value).transpose().map_err(|error| Failure::Invalid(error.to_string()))?;
    let wanted = ours.as_ref().map_or(0, |ours| options.observed.hash(kind, &ours.to_string()));
    if standing.own == wanted {
        return Ok(Done::Same);
    }
    let path = path(kind, standing.api_version, key);
    let write = Write { caller, options, kind, path: &path, ours, wanted, settled, contested };
    if let Some(object) = options.observed.object(key) {
        match write.replace(object, false).await {
            // It was changed since.
            Ok(None) | Err(Failure::Conflict) => {}
            Ok(Some(done)) => return Ok(done),
            Err(failure) => return Err(failure),
        }
    }
    let current = caller.send("GET", &path, Vec::new()).await?;
    let object =
        serde_json::from_slice(&current).map_err(|error| Failure::Away(format!("an object is no JSON: {error}")))?;
    Ok(write.replace(object, true).await?.unwrap_or(Done::Same))
}

/// One status on its way.
struct Write<'a> {
    caller: &'a Caller,
    options: &'a WriterOptions,
    kind: Kind,
    path: &'a str,
    ours: Option<Value>,
    /// Hash of that, as [`super::Observed`] makes it.
    wanted: u64,
    settled: bool,
    contested: Option<(u64, Instant)>,
}

impl Write<'_> {
    /// Replaces what is ours in the status of this object, unless it has it. None if it has to be read first: who wrote it is known only of one
    /// that is `whole`.
    async fn replace(&self, mut object: Value, whole: bool) -> Result<Option<Done>, Failure> {
        let Self { caller, options, kind, path, wanted, settled, .. } = *self;
        let ours = self.ours.as_ref();
        // An object that was made anew is another one.
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let written = xxh3_64_with_seed(uid.as_bytes(), wanted);
        let manager = options.observed.manager();
        if ours.is_none() && kind.own_status() == Some(OwnStatus::Whole) {
            if !whole {
                return Ok(None);
            }
            if !is_written_by(&object, manager) {
                return Ok(Some(Done::Same));
            }
        }
        if ours.is_some_and(|ours| is_behind(kind, &object, ours, &options.controller)) {
            return Ok(Some(Done::Later));
        }
        let now = (options.clock)().to_string();
        let before = object.get("status");
        let lack = before.zip(ours).and_then(|(before, ours)| lack_of_room(kind, before, ours, &options.controller));
        if let Some(words) = lack {
            return Err(Failure::Invalid(words));
        }
        let Some(new) = merged(kind, before, ours.cloned(), (&options.controller, &now)) else {
            return Ok(Some(Done::Same));
        };
        if let Some((_, until)) = self.contested.filter(|(before, _)| *before == written) {
            return Ok(Some(Done::Contested(until)));
        }
        if !settled && before.is_some_and(|before| takes_back(before, &new)) {
            return Ok(Some(Done::Later));
        }
        if let Value::Object(fields) = &mut object {
            fields.insert("status".to_owned(), new);
        }
        let body = object.to_string().into_bytes();
        caller.send("PUT", &format!("{path}/status?fieldManager={manager}"), body).await?;
        Ok(Some(Done::Written(written)))
    }
}

fn path(kind: Kind, version: &'static str, key: &ObjectKey) -> String {
    let target = Target::one(Resource::Kind(kind, version), key);
    format!("{}/{}", target.path(), key.name())
}
