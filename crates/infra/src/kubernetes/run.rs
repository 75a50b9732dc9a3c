//! All proxies of a cluster: watches tell what there is, fleets what there shall be, and jobs make the one the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ir::{FleetName, Infra};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::apply::{Done, Job};
use super::call::Caller;
use super::fact::{PodsFact, PodsState};
use super::fleet::Fleet;
use super::name::{self, Owner};
use super::object::{ClusterOptions, ObjectKind, objects};
use super::proxy_objects::{ProxyObjects, is_proof};
use super::seen::{About, ObjectId};
use super::state::state;
use super::watch::{News, Target, follow};
use super::world::World;
use super::{Error, Fleets, Options, Scope};

/// Jobs at a time. A server takes some hundred requests of one client at once; what is left is for watches and statuses.
const MAX_JOBS: usize = 16;

/// News that wait: a list comes as one, so this is a burst of single changes.
const MAX_NEWS: usize = 256;

/// Makes what `wanted` asks for until `stop`, and tells what became of it. Until the first *change* of `wanted` nothing is known: nothing
/// is made and nothing removed. After it, what fleets of an earlier process have left is removed. Who does not lead writes nothing; all
/// tell facts. While the server is away nothing changes, and what was told stays.
///
/// `facts` gets each fleet's first state and every change, of which only the last counts; a closed one is ignored.
///
/// # Errors
/// [`Error::Task`] if a task broke, which is a fault of ours.
pub async fn run(
    options: Options,
    mut wanted: watch::Receiver<Fleets>,
    leading: watch::Receiver<bool>,
    facts: mpsc::Sender<PodsFact>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (mut cluster, mut inbox) = Cluster::new(options, leading);
    let mut options = cluster.options.clone();
    let mut leading = cluster.leading.clone();
    let (mut more, mut more_options, mut more_leading) = (true, true, true);
    loop {
        cluster.start();
        let due = cluster.queue.first().filter(|_| cluster.has_room()).map(|(due, _)| *due);
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            Some(news) = inbox.recv() => cluster.hear(news),
            changed = wanted.changed(), if more => match changed {
                Ok(()) => { let now = Arc::clone(&wanted.borrow_and_update()); cluster.want(now) }
                Err(_) => more = false,
            },
            changed = options.changed(), if more_options => match changed {
                Ok(()) => { options.mark_unchanged(); cluster.plan_all() }
                Err(_) => more_options = false,
            },
            changed = leading.changed(), if more_leading => match changed {
                Ok(()) => { let leads = *leading.borrow_and_update(); cluster.lead(leads) }
                Err(_) => more_leading = false,
            },
            Some(done) = cluster.jobs.join_next() => cluster.finish(done.map_err(broken)?),
            Some(ended) = cluster.watches.join_next() => ended.map_err(broken)?,
            permit = facts.reserve(), if !cluster.untold.is_empty() && !facts.is_closed() => {
                if let (Ok(permit), Some(fact)) = (permit, cluster.tell()) {
                    permit.send(fact);
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err asks for")]
fn broken(error: JoinError) -> Error {
    Error::Task(error.to_string())
}

/// What comes back from a job: whose it was and what it was asked to look at.
type Finished = (Owner, Vec<ObjectId>, Done);

/// All that is known.
struct Cluster {
    caller: Caller,
    scope: Scope,
    /// The label of this installation.
    controller: Arc<str>,
    options: watch::Receiver<Arc<ClusterOptions>>,
    leading: watch::Receiver<bool>,
    leads: bool,
    world: World,
    proxies: watch::Sender<Arc<ProxyObjects>>,
    targets: Vec<Target>,
    watches: JoinSet<()>,
    sender: mpsc::Sender<News>,
    looks_at_nodes: bool,
    /// Whether it is known which fleets there shall be.
    known: bool,
    fleets: BTreeMap<Owner, Fleet>,
    /// Fleets of which nothing is made now, and nothing removed.
    held: BTreeSet<Owner>,
    /// Which fleets want an object: more than one if settings give two the same name.
    claims: BTreeMap<ObjectId, BTreeSet<Owner>>,
    /// When something is to be done for whom.
    queue: BTreeSet<(Instant, Owner)>,
    due: BTreeMap<Owner, Instant>,
    jobs: JoinSet<Finished>,
    told: BTreeMap<Owner, PodsState>,
    untold: BTreeSet<Owner>,
}

impl Cluster {
    fn new(options: Options, leading: watch::Receiver<bool>) -> (Self, mpsc::Receiver<News>) {
        let Options { client, scope, cluster, pace, proxies } = options;
        let controller: Arc<str> = cluster.borrow().label().into();
        let (sender, inbox) = mpsc::channel(MAX_NEWS);
        let caller = Caller { client, pace };
        let mut watches = JoinSet::new();
        let targets = targets(&scope);
        let own = Arc::clone(&cluster.borrow().namespace);
        for target in &targets {
            let labels = Some(name::watched(&controller));
            watches.spawn(follow(caller.clone(), target.clone(), (labels, Arc::clone(&own)), sender.clone()));
        }
        let leads = *leading.borrow();
        let cluster = Self {
            caller,
            scope,
            controller,
            options: cluster,
            leading,
            leads,
            world: World::default(),
            proxies,
            targets,
            watches,
            sender,
            looks_at_nodes: false,
            known: false,
            fleets: BTreeMap::new(),
            held: BTreeSet::new(),
            claims: BTreeMap::new(),
            queue: BTreeSet::new(),
            due: BTreeMap::new(),
            jobs: JoinSet::new(),
            told: BTreeMap::new(),
            untold: BTreeSet::new(),
        };
        (cluster, inbox)
    }

    /// These there shall be.
    fn want(&mut self, wanted: Fleets) {
        self.known = true;
        let on_pods = wanted.values().filter(|infra| infra.kubernetes.is_some());
        let (wanted, held): (BTreeMap<Owner, &Arc<Infra>>, BTreeMap<_, _>) =
            on_pods.map(|infra| (Owner::of(&infra.gateway), infra)).partition(|(_, infra)| infra.is_served());
        self.held = held.into_keys().collect();
        let stays = |owner: &Owner| wanted.contains_key(owner) || self.held.contains(owner);
        let going: Vec<Owner> = self.fleets.keys().filter(|owner| !stays(owner)).cloned().collect();
        for owner in going {
            self.plan(&owner, None);
        }
        for (owner, infra) in wanted {
            let same = self.fleets.get(&owner).is_some_and(|fleet| fleet.infra.as_ref() == Some(infra));
            if !same {
                self.plan(&owner, Some(Arc::clone(infra)));
            }
        }
        let all: BTreeSet<Owner> = self.world.owners().cloned().collect();
        self.find_orphans(&all);
    }

    /// Other options: other objects, perhaps.
    fn plan_all(&mut self) {
        let all: Vec<_> = self.fleets.iter().map(|(owner, fleet)| (owner.clone(), fleet.infra.clone())).collect();
        for (owner, infra) in all {
            self.plan(&owner, infra);
        }
    }

    fn plan(&mut self, owner: &Owner, infra: Option<Arc<Infra>>) {
        let options = Arc::clone(&self.options.borrow());
        let pace = self.caller.pace;
        let fleet = self.fleets.entry(owner.clone()).or_insert_with(|| Fleet::new(owner.clone(), &pace));
        let before: Vec<ObjectId> = fleet.planned.iter().map(|(id, _)| id.clone()).collect();
        fleet.plan(infra, &options, &self.scope);
        let now: Vec<ObjectId> = fleet.planned.iter().map(|(id, _)| id.clone()).collect();
        for id in before {
            if let Some(claims) = self.claims.get_mut(&id) {
                claims.remove(owner);
                if claims.is_empty() {
                    self.claims.remove(&id);
                }
            }
        }
        for id in now {
            self.claims.entry(id).or_default().insert(owner.clone());
        }
        self.touch(owner);
    }

    /// Which of these have objects and are no fleets that anybody wants.
    fn find_orphans(&mut self, owners: &BTreeSet<Owner>) {
        let unknown = owners.iter().filter(|owner| !self.fleets.contains_key(*owner) && !self.held.contains(*owner));
        let orphans: Vec<Owner> = unknown.filter(|owner| self.world.has(owner)).cloned().collect();
        for owner in orphans {
            tracing::info!(gateway = %format_args!("{}/{}", owner.namespace, owner.name), "objects of a Gateway that is gone are removed");
            self.plan(&owner, None);
        }
    }

    /// From now on we write, or no longer.
    fn lead(&mut self, leads: bool) {
        if self.leads == leads {
            return;
        }
        self.leads = leads;
        // whoever led meanwhile has written; and what is on its way ends here
        self.jobs = JoinSet::new();
        for fleet in self.fleets.values_mut() {
            fleet.forget();
        }
        self.touch_all();
    }

    /// News of what there is.
    fn hear(&mut self, news: News) {
        let (changes, all) = self.world.take(news);
        let proofs = |target: &&Target| target.kind.is_some_and(is_proof);
        let is_listed = self.targets.iter().filter(proofs).all(|target| self.world.is_listed(target));
        let world = &self.world;
        self.proxies.send_if_modified(|known| Arc::make_mut(known).update(&changes, world, is_listed));
        let now = Instant::now();
        let mut touched = BTreeSet::new();
        for change in &changes {
            let mut owners = self.claims.get(&change.id).cloned().unwrap_or_default();
            owners.extend(change.before.as_ref().map(|seen| seen.owner.clone()));
            owners.extend(self.world.get(&change.id).map(|seen| seen.owner.clone()));
            for owner in &owners {
                if let Some(fleet) = self.fleets.get_mut(owner) {
                    fleet.saw(change, &self.world, now);
                }
            }
            touched.append(&mut owners);
            self.look_at_nodes(&change.id);
        }
        if self.known {
            self.find_orphans(&touched);
        }
        touched.iter().for_each(|owner| self.touch(owner));
        if all {
            self.touch_all();
        }
    }

    /// Where a Service is reached at nodes, their addresses are needed. Others do without the right to read them.
    fn look_at_nodes(&mut self, id: &ObjectId) {
        let at_nodes = |about: &About| matches!(about, About::Service(service) if &*service.of_type == "NodePort");
        if !self.looks_at_nodes && self.world.get(id).is_some_and(|seen| at_nodes(&seen.about)) {
            self.looks_at_nodes = true;
            let target = Target { kind: None, namespace: None };
            self.watches.spawn(follow(self.caller.clone(), target, (None, "".into()), self.sender.clone()));
        }
    }

    fn touch_all(&mut self) {
        let all: Vec<Owner> = self.fleets.keys().cloned().collect();
        all.iter().for_each(|owner| self.touch(owner));
    }

    /// Something of a fleet is other than before: when there is something to do for it, and that there may be something to tell.
    fn touch(&mut self, owner: &Owner) {
        let Some(fleet) = self.fleets.get(owner) else { return };
        let idle = fleet.running || fleet.work(&self.world, self.leads).is_empty();
        let due = (!idle).then(|| fleet.not_before.unwrap_or_else(Instant::now));
        if let Some(before) = self.due.remove(owner) {
            self.queue.remove(&(before, owner.clone()));
        }
        if let Some(due) = due {
            self.due.insert(owner.clone(), due);
            self.queue.insert((due, owner.clone()));
        }
        self.untold.insert(owner.clone());
    }

    fn has_room(&self) -> bool {
        self.jobs.len() < MAX_JOBS
    }

    /// Starts what is due.
    fn start(&mut self) {
        let now = Instant::now();
        while self.has_room() && self.queue.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, owner)) = self.queue.pop_first() else { return };
            self.due.remove(&owner);
            let options = Arc::clone(&self.options.borrow());
            let Some(fleet) = self.fleets.get_mut(&owner) else { continue };
            let work = fleet.work(&self.world, self.leads);
            let made = fleet.infra.as_deref().map(|infra| objects(infra, &options)).unwrap_or_default();
            let wanted = made.into_iter().filter_map(|wanted| {
                let id = ObjectId { kind: wanted.kind, namespace: wanted.namespace.clone(), name: wanted.name.clone() };
                work.wanted.contains(&id).then_some((id, wanted))
            });
            let job = Job {
                caller: self.caller.clone(),
                owner: owner.clone(),
                controller: Arc::clone(&self.controller),
                wanted: wanted.collect(),
                stale: work.stale,
                leading: self.leading.clone(),
            };
            (fleet.running, fleet.not_before) = (true, None);
            self.jobs.spawn(async move { (owner, work.wanted, job.run().await) });
        }
    }

    /// A job is over.
    fn finish(&mut self, (owner, asked, done): Finished) {
        if let Some(fleet) = self.fleets.get_mut(&owner) {
            fleet.take(&asked, done, &self.world, Instant::now());
        }
        self.touch(&owner);
    }

    /// The next fact that is news, if this fleet has one.
    fn tell(&mut self) -> Option<PodsFact> {
        let owner = self.untold.pop_first()?;
        let known = self.known && self.targets.iter().all(|target| self.world.is_listed(target));
        let forbidden = self.world.forbidden().next().is_some();
        let fleet = self.fleets.get(&owner).filter(|_| known || forbidden)?;
        let fleet_name = fleet.name.clone();
        let Some(infra) = &fleet.infra else { return self.forget(&owner, fleet_name) };
        let state = state(fleet, infra, &self.world);
        if self.told.get(&owner) == Some(&state) {
            return None;
        }
        self.told.insert(owner, state.clone());
        Some(PodsFact { fleet: fleet_name?, state: Some(state) })
    }

    /// A fleet that nobody wants, once nothing is left of it.
    fn forget(&mut self, owner: &Owner, fleet: Option<FleetName>) -> Option<PodsFact> {
        let running = self.fleets.get(owner).is_some_and(|fleet| fleet.running);
        if running || self.world.of(owner).next().is_some() {
            return None;
        }
        self.fleets.remove(owner);
        self.told.remove(owner);
        Some(PodsFact { fleet: fleet?, state: None })
    }
}

/// Everything that is looked at.
fn targets(scope: &Scope) -> Vec<Target> {
    let namespaces: Vec<Option<Arc<str>>> = match scope {
        Scope::All => vec![None],
        Scope::Namespaces(names) => names.iter().cloned().map(Some).collect(),
    };
    let of = |kind: ObjectKind| namespaces.iter().cloned().map(move |namespace| Target { kind: Some(kind), namespace });
    ObjectKind::ALL.into_iter().flat_map(of).collect()
}
