//! [`follow`]: where all that comes is taken, and handed on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use api::{Kind, Labels, ObjectKey, Problem, group};
use serde::Deserialize;
use store::{Batch, Change, Definitions, GatewayApi, Source};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::kubernetes::call::{Caller, Failure};
use crate::kubernetes::catalog::{Catalog, Outcome, SOURCE};
use crate::kubernetes::discovery::{self, Found, Served};
use crate::kubernetes::plan::{Given, Namespaces};
use crate::kubernetes::report::{self, Circumstances};
use crate::kubernetes::seen::Seen;
use crate::kubernetes::target::{Resource, Target, can_be_name};
use crate::kubernetes::usage::Usage;
use crate::kubernetes::wanted::Wanted;
use crate::kubernetes::watch::{Event, Id, Message, News};
use crate::kubernetes::watches::Watches;
use crate::kubernetes::{Error, Options, Scope, is_named, kinds};

/// Messages that wait before watches do. Most have one object of some kB; a page has up to 500, so 16 pages of 1 MB are 16 MB.
const QUEUE: usize = 16;

/// See the parent module.
pub(super) async fn follow<F>(
    options: Options,
    mut sink: impl FnMut(Batch) -> F + Send,
    stop: CancellationToken,
) -> Result<(), Error>
where
    F: Future<Output = ControlFlow<()>> + Send,
{
    let caller = Caller { client: options.client.clone(), pace: options.pace };
    let (sender, mut inbox) = mpsc::channel(QUEUE);
    let (finder, mut found) = watch::channel(Found::default());
    let mut follower = Follower::new(&options, Watches::new(caller.clone(), sender));
    follower.watches.tasks.spawn(discovery::run(caller, Arc::clone(&follower.nudge), finder));
    loop {
        follower.settle();
        if let Some(batch) = follower.batch() {
            let flow = tokio::select! {
                flow = sink(batch) => flow,
                () = stop.cancelled() => ControlFlow::Break(()),
            };
            if flow.is_break() {
                break;
            }
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Some(message) = inbox.recv() => {
                follower.take(message);
                // All that waits goes into one batch.
                (0..QUEUE).map_while(|_| inbox.try_recv().ok()).for_each(|message| follower.take(message));
            }
            Ok(()) = found.changed() => follower.discovered(found.borrow_and_update().clone()),
            Some(ended) = follower.watches.tasks.join_next() => is_fine(ended)?,
        }
    }
    follower.watches.tasks.shutdown().await;
    Ok(())
}

/// A task ends by itself when nobody listens or its work is done, and by being told to.
fn is_fine(ended: Result<(), JoinError>) -> Result<(), Error> {
    match ended {
        Err(error) if error.is_panic() => Err(Error::Panic(error.to_string())),
        _ => Ok(()),
    }
}

/// All that is known, and what is followed: messages go in, batches come out.
pub(super) struct Follower {
    scope: Scope,
    watches: Watches,
    catalog: Catalog,
    wanted: Wanted,
    usage: Usage,
    namespaces: Namespaces,
    found: Found,
    /// Wakes whoever looks which kinds there are.
    nudge: Arc<Notify>,
    /// See [`Given::refused`].
    refused: BTreeSet<Target>,
    nameless: BTreeMap<Target, String>,
    left_out: usize,
    /// What shall be watched may have changed.
    replan: bool,
    /// What is wrong may have changed.
    report: bool,
    /// What the definitions of the Gateway API say of themselves, by name: version and channel. Nothing is known where they may not be read.
    annotations: BTreeMap<Box<str>, (Arc<str>, bool)>,
    /// What definitions there are, or what they say, may have changed.
    redefine: bool,
    /// What was handed on of definitions last.
    definitions: Arc<Definitions>,
    /// What was said to be wrong last.
    problems: Vec<Problem>,
    /// Everything has been handed on once.
    listed: bool,
}

impl Follower {
    pub(super) fn new(options: &Options, watches: Watches) -> Self {
        Self {
            scope: options.scope.clone(),
            watches,
            catalog: Catalog::new(options.observed.clone()),
            wanted: Wanted::default(),
            usage: Usage::new(options.observed.controller()),
            namespaces: Namespaces::default(),
            found: Found::default(),
            nudge: Arc::new(Notify::new()),
            refused: BTreeSet::new(),
            nameless: BTreeMap::new(),
            left_out: 0,
            replan: false,
            report: false,
            annotations: BTreeMap::new(),
            redefine: false,
            definitions: Arc::default(),
            problems: Vec::new(),
            listed: false,
        }
    }

    /// What has come together, if that is anything.
    pub(super) fn batch(&mut self) -> Option<Batch> {
        let mut changes = self.catalog.take_changes();
        changes.extend(self.changed_problems());
        changes.extend(self.changed_definitions());
        let listed = self.listed || self.is_complete();
        let is_news = !changes.is_empty() || listed && !self.listed;
        self.listed = listed;
        is_news.then_some(Batch { source: Source::Kubernetes, changes, listed })
    }

    fn is_complete(&self) -> bool {
        let knows_namespaces = self.namespaces.listed || !matches!(self.scope, Scope::Selector(_));
        self.found.served.is_some() && knows_namespaces && self.watches.iter().all(|watch| watch.is_settled())
    }

    fn changed_problems(&mut self) -> Option<Change> {
        if !std::mem::take(&mut self.report) {
            return None;
        }
        let Self { watches, found, refused, nameless, left_out, .. } = self;
        let problems = report::problems(&Circumstances { watches, found, refused, nameless, left_out: *left_out });
        if problems == self.problems {
            return None;
        }
        self.problems.clone_from(&problems);
        Some(Change::Problems { origin: SOURCE.into(), problems })
    }

    fn changed_definitions(&mut self) -> Option<Change> {
        let served = self.found.served.as_ref().filter(|_| std::mem::take(&mut self.redefine))?;
        let own = self.annotations.values();
        let gateway_api = (!self.annotations.is_empty()).then(|| GatewayApi {
            versions: own.clone().map(|(version, _)| Arc::clone(version)).collect(),
            is_experimental: own.clone().all(|(_, is_experimental)| *is_experimental),
        });
        let definitions = Definitions { kinds: served.keys().copied().collect(), gateway_api };
        if definitions == *self.definitions {
            return None;
        }
        self.definitions = Arc::new(definitions);
        Some(Change::Definitions(Arc::clone(&self.definitions)))
    }

    /// A definition came, or went.
    fn defined(&mut self, seen: &Seen, is_there: bool) {
        let is_ours = |kind| Resource::Kind(kind, "").full_name() == seen.key.name();
        if kinds().any(is_ours) {
            self.nudge.notify_one();
        }
        // Those that are experimental by their group are of one channel only.
        if seen.key.name().ends_with(&format!(".{}", group::GATEWAY)) {
            self.redefine = true;
            if is_there {
                self.annotations.insert(seen.key.name().into(), says(seen));
            } else {
                self.annotations.remove(seen.key.name());
            }
        }
    }

    pub(super) fn discovered(&mut self, found: Found) {
        if let Some(served) = &found.served {
            self.catalog.observed().note_kinds(served);
        }
        self.replan |= found.served != self.found.served;
        self.redefine |= found.served != self.found.served;
        self.report = true;
        self.found = found;
    }

    pub(super) fn take(&mut self, message: Message) {
        // Of one that was told to end some may be left.
        let Some(watch) = self.watches.get_mut(message.watch) else { return };
        match message.news {
            News::Begin => {
                watch.listing = Some(self.catalog.begin());
                watch.lists = true;
                self.report |= self.nameless.remove(&watch.target).is_some();
            }
            News::Events(events) => {
                // What a list has counts whatever its age: a server may have been set back.
                let (target, is_truth) = (watch.target.clone(), watch.lists && !watch.once);
                events.into_iter().for_each(|event| self.event(&target, event, is_truth));
            }
            News::End => self.ended(message.watch),
            News::Trouble(failure) => self.failed(message.watch, failure),
            News::Well => {
                watch.trouble = None;
                self.report = true;
            }
        }
    }

    fn event(&mut self, target: &Target, event: Event, is_truth: bool) {
        match event {
            Event::Nameless(text) => {
                self.nameless.insert(target.clone(), text);
                self.report = true;
            }
            Event::Applied(seen) if target.resource == Resource::Definitions => self.defined(&seen, true),
            Event::Deleted(seen) if target.resource == Resource::Definitions => self.defined(&seen, false),
            Event::Applied(seen) if !is_truth && self.catalog.knows_better(&seen) => {}
            Event::Applied(seen) => self.applied(&seen),
            Event::Deleted(seen) => {
                if self.catalog.delete(&seen) {
                    self.name_nothing(&seen.key);
                }
                self.selected(&seen.key, false);
            }
        }
    }

    fn applied(&mut self, seen: &Seen) {
        if seen.key.kind() == Some(Kind::Namespace) && matches!(self.scope, Scope::Selector(_)) {
            let selected = self.scope.selects(seen.key.name(), &metadata(seen).labels.unwrap_or_default());
            self.selected(&seen.key, selected);
            if !selected {
                return self.forget(&seen.key);
            }
        }
        let counts = self.given(&Served::new()).counts(&seen.key);
        if counts && let Outcome::Changed(object) = self.catalog.apply(seen) {
            self.wanted.set(&seen.key, self.usage.note(&object));
        }
    }

    /// Forgets what an object names that is gone, or counts no more.
    fn name_nothing(&mut self, key: &ObjectKey) {
        self.usage.forget(key);
        self.wanted.set(key, Vec::new());
    }

    /// Notes whether a namespace is selected.
    fn selected(&mut self, key: &ObjectKey, selected: bool) {
        if key.kind() != Some(Kind::Namespace) || !matches!(self.scope, Scope::Selector(_)) {
            return;
        }
        let name: Arc<str> = key.name().into();
        let Namespaces { selected: all, news, .. } = &mut self.namespaces;
        if if selected { all.insert(Arc::clone(&name)) } else { all.remove(&name) } {
            news.insert(name);
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        if self.catalog.forget(key) {
            self.name_nothing(key);
        }
    }

    /// A list is complete.
    fn ended(&mut self, id: Id) {
        let Some(watch) = self.watches.get_mut(id) else { return };
        self.replan = true;
        self.report = true;
        if watch.once {
            self.watches.looked(id);
            return;
        }
        (watch.listed, watch.lists) = (true, false);
        let target = watch.target.clone();
        for key in self.catalog.unlisted(&target, watch.listing.unwrap_or_default()) {
            self.forget(&key);
            self.selected(&key, false);
        }
        self.namespaces.listed |= target.resource.kind() == Some(Kind::Namespace);
        self.watches.look_again(&target);
    }

    /// Something failed, and is tried again.
    fn failed(&mut self, id: Id, failure: Failure) {
        let Some(watch) = self.watches.get_mut(id) else { return };
        self.report = true;
        match failure {
            // A definition may have gone.
            Failure::Missing => self.nudge.notify_one(),
            Failure::Forbidden(_) if has_other_way(&watch.target, &self.scope) => {
                self.refused.insert(watch.target.clone());
                self.replan = true;
            }
            _ => {}
        }
        watch.trouble = Some(failure);
    }

    /// Brings what is watched, and what is known, in line with what is named, selected and served.
    pub(super) fn settle(&mut self) {
        let Some(served) = self.found.served.clone() else { return };
        // What is let go may have named something in turn, or let others do so.
        while self.usage.is_stale()
            || std::mem::take(&mut self.replan)
            || self.wanted.has_news()
            || !self.namespaces.news.is_empty()
        {
            if self.usage.is_stale() {
                let Self { usage, wanted, .. } = self;
                usage.refresh().into_iter().for_each(|(by, names)| wanted.set(&by, names));
            }
            for key in self.wanted.take_news() {
                self.named(&served, key);
            }
            for namespace in std::mem::take(&mut self.namespaces.news) {
                self.began_or_ended(&served, &namespace);
            }
            self.watches.stop_looking(|target| !target.is_served(&served));
            let (targets, left_out) = self.given(&served).targets();
            self.report |= self.left_out != left_out;
            self.left_out = left_out;
            for old in self.watches.reconcile(&targets) {
                self.report = true;
                for key in self.catalog.covered(&old) {
                    if !targets.iter().any(|target| target.covers(&key)) {
                        self.forget(&key);
                        self.selected(&key, false);
                    }
                }
            }
        }
        self.catalog.keep_graves(self.watches.are_looking());
    }

    /// Something is named that was not, or the other way round.
    fn named(&mut self, served: &Served, key: ObjectKey) {
        let is_meant = |kind: &Kind| is_named(*kind) || *kind == Kind::Pod;
        let Some((kind, version)) = key.kind().filter(is_meant).and_then(|kind| served.get_key_value(&kind)) else {
            return;
        };
        let resource = Resource::Kind(*kind, version);
        let of_namespace = || Target::of(resource, &key.namespace().into());
        let (meant, among) = match kind {
            Kind::Pod => (of_namespace(), Target::all(resource)),
            kind if kind.scope() == api::Scope::Cluster => (Target::one(resource, &key), Target::all(resource)),
            _ => (Target::one(resource, &key), of_namespace()),
        };
        if !self.wanted.has(&key) {
            self.watches.stop_looking(|target| *target == meant);
            self.catalog.covered(&meant).iter().for_each(|key| self.forget(key));
        } else if [&among, &meant].into_iter().any(|watched| self.watches.has_begun(watched))
            // A watch of its own too has dropped what came while nothing named it: it may have ceased to be named only for a moment.
            && [&meant.namespace, &meant.name].into_iter().flatten().all(|name| can_be_name(name))
        {
            self.watches.look(meant);
        }
    }

    /// A namespace began or ceased to be selected.
    fn began_or_ended(&mut self, served: &Served, namespace: &Arc<str>) {
        if !self.namespaces.selected.contains(namespace) {
            self.watches.stop_looking(|target| target.namespace.as_ref() == Some(namespace));
            self.catalog.of_namespace(namespace).iter().for_each(|key| self.forget(key));
            return;
        }
        // Watches within the namespace run on where it was selected all but a moment, and have dropped what came in that.
        let mut meant: BTreeSet<Target> = self.watches.begun_in(namespace).cloned().collect();
        for (kind, version) in served {
            let resource = Resource::Kind(*kind, version);
            if kind.scope() == api::Scope::Namespaced && self.watches.has_begun(&Target::all(resource)) {
                meant.insert(Target::of(resource, namespace));
            }
        }
        meant.into_iter().for_each(|target| self.watches.look(target));
    }

    fn given<'a>(&'a self, served: &'a Served) -> Given<'a> {
        let Self { scope, wanted, namespaces, refused, .. } = self;
        Given { scope, served, wanted, namespaces, refused }
    }
}

/// Whether what may not be read together can be read otherwise.
fn has_other_way(target: &Target, scope: &Scope) -> bool {
    let Some(kind) = target.resource.kind() else { return true };
    let is_together = target.name.is_none();
    let by_cluster = kind.scope() == api::Scope::Cluster && matches!(scope, Scope::Namespaces(_));
    is_together && (is_named(kind) || by_cluster)
}

/// Of which release and channel a definition of the Gateway API is.
fn says(seen: &Seen) -> (Arc<str>, bool) {
    let annotations = metadata(seen).annotations.unwrap_or_default();
    let of = |name: &str| annotations.get(&format!("{}/{name}", group::GATEWAY)).unwrap_or_default();
    (of("bundle-version").into(), of("channel") == "experimental")
}

/// Labels and annotations of an object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    labels: Option<Labels>,
    annotations: Option<Labels>,
}

/// Those of one that came.
fn metadata(seen: &Seen) -> Metadata {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    serde_json::from_slice::<Object>(&seen.text).map(|object| object.metadata).unwrap_or_default()
}
