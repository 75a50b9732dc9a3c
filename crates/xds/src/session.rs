//! One client: what it asked for, what it has, and what it is to be told next, on all its streams. Driven by messages and the time,
//! sans-io.
//!
//! A session never queues history. Each change of the fleet only marks names; when something can be sent, [`Session::advance`]
//! walks the steps of [`crate::order`] and sends what those names are now. A name has at most one version on its way.
//!
//! Reading order: `channel` and `carriers`, what is known of each kind; `subscribe` and `answer`, what the client says; `judge`,
//! `blockers`, `put`, `remove` and `send`, what it is told; `clusters`, `cold`, `warm` and `ghost`, what of Envoy's ways with clusters;
//! `time` and `heartbeat`; `sotw`, what differs for clients of the state of the world; `view`, for people.
//!
//! ```text
//! receive: a message comes in                                advance: what can be said now goes out
//!   subscribe  names asked for, let go, and on a first         unmute             SotW: what it came with can be told now
//!              request listed as held        known, dirty      absorb             what changed in the fleet       dirty, cold
//!   inherit    what an earlier stream left in doubt            pass_time          retries, waits that are over, ghosts
//!                                      unsure, uncured         activate_listeners active, or taken back
//!   endpoints_asked_for   a witness of clusters  cold          STEPS              clusters first, removals last:
//!   answer     land    each name of the response is free         sort_out           judge each dirty name: wanted? passage?
//!     acked    confirm to the fleet, warm                        batches, send      known.sent, known.flying
//!     nacked   blame: one is refused, several are suspects       remove             when nothing that uses it is on its way
//!              cure: what was refused is undone                beat, tell_stalled, judge_client
//! ```
//!
//! What is kept per name: the first ten by kind ([`Channel`]), `waits` and `refused` of all kinds, the rest of clusters ([`Clusters`]).
//!
//! | | means | set by | cleared by |
//! |---|---|---|---|
//! | `known.acked` | the version that it took last | its list on a new stream, an ACK, witnesses | the name's end: let go, or gone |
//! | `known.sent` | the version sent last; a mark of its own if unsure | a response, its list, doubts | a removal; a refusal: `acked` |
//! | `known.flying` | the response to be answered before this name goes again | a response | its answer, a witness, 5 s, the stream's end |
//! | `known.confirmed` | the item that the fleet was told to be in use | `confirm` | the name's end |
//! | `dirty` | the fleet may have something else than the client | `absorb`, requests, refusals | a response, or `judge`: nothing to do |
//! | `force` | is sent though nothing changed (R9) | requests, doubts, a refused secret | as `dirty` |
//! | `suspects` | was refused with others; the group it is tried in (R11) | `suspect` | an ACK, a refusal alone, nobody wants it |
//! | `unsure` | the client may have taken it or not | a refusal of several, doubts | an ACK, the name's end |
//! | `kept` | gone, and stays until then for what drains | `remove` | its time, or it is back |
//! | `beats` | when it needs a heartbeat | a response with a time to live | the heartbeat, the next response |
//! | `waits` | what it waits for, and until when | `passage` | a response, `judge`: nothing to do |
//! | `refused` | the item that this client refused alone | `refuse`, a listener taken back | a later item is sent, or there is none |
//! | `graced` | the first listeners wait for it (R3) | a response, on a first start | 1.5 s |
//! | `cold` | no route may name it yet (R10) | `note_cold`: it is wanted | witnesses, a CDS ACK, not wanted any more |
//! | `uncured` | may be a ghost (R11a) | a CDS refusal, doubts | an ACK with its name in it; the stream's end: a doubt |
//! | `haunted` | how often it was taken back unanswered; a third time is a refusal | `lay_ghosts` | an ACK, another version, it is gone |
//!
//! Words of our own:
//!
//! - *apart*: of a cluster that it goes alone and last (R3); of streams that there is one for each kind
//! - *carriers*: the streams for one kind that asked for a name; the last one's answers count
//! - *cold*: a cluster that is not ready on this client
//! - *cure*: the response that undoes a refused CDS response; *uncured* is what it has not been acknowledged for
//! - *haunt*: to tell the fleet what this client may hold as ghosts, so that it is saved
//! - *heirs*: the clients of one id, each of which takes over what one of them left in doubt; of streams, the one whose answers count next
//! - *in doubt*: what a client that left may have or not and will not say; its fleet keeps it for the next with that id
//! - *lay*: to take back, without an answer, what holds the CDS answers shut
//! - *muted*: SotW: came with a version before anything was published that it could stand for, and is told nothing of that kind until then
//! - *owe*, *pay*: a stream that asked for a name is owed an answer, and is paid with the response that has it
//! - *stand-in*: the empty resource in place of one that does not exist (R6)
//! - *swept in*: asked for with `*` or a collection and not by its own name
//! - *uncharted*: SotW: came with a version that nobody knows, so that the first response takes away whatever is not in it
//! - *unheard*: SotW: a refused response left something out, which the client may have still; the next leaves it out again
//! - *unsure*: of one name, that the client may have the version or not
//! - *witness*: whatever other than a CDS answer proves that a cluster is ready (R2)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::event::Node;
use crate::facts::ClientId;
use crate::fleet::{Fleet, Stage};
use crate::order::{STEPS, Step, is_rest};
use crate::resource::{Need, TypeUrl, route_configuration_of};
use crate::snapshot::{Item, Look, View};
use crate::wire::{Nonce, Request, Response, StreamId, Variant};

mod answer;
mod blockers;
mod carriers;
mod channel;
mod clusters;
mod cold;
mod ghost;
mod heartbeat;
mod judge;
mod known;
mod put;
mod remove;
mod send;
mod sotw;
mod subscribe;
mod time;
mod view;
mod warm;

#[cfg(test)]
pub(crate) mod tests;

use blockers::Wait;
use channel::Channel;
use clusters::Clusters;
use sotw::SentItems;
pub(crate) use sotw::Wants;
pub(crate) use subscribe::MOST_NAMES;
#[cfg(test)]
pub(crate) use time::GRACE;
pub(crate) use time::LAGGING;
pub use time::STALLED;
pub(crate) use view::{Holding, Standing};

/// Why a stream is ended by us.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Violation {
    /// More names than [`subscribe::MOST_NAMES`].
    #[error("more than {0} names subscribed by one client")]
    TooManyNames(usize),
    /// Longer names together than [`subscribe::MOST_NAME_BYTES`].
    #[error("the names of one client have more than {0} bytes")]
    NamesTooLong(usize),
    /// More kinds than [`subscribe::MOST_KINDS`].
    #[error("more than {0} kinds of resources for one client")]
    TooManyKinds(usize),
}

/// A listener that was sent and is not known to be active yet (R4).
struct Activation {
    item: Arc<Item>,
    acked: bool,
    /// The client had another version, which has connections.
    changes: bool,
}

/// See the module.
pub(crate) struct Session {
    client: ClientId,
    node: Arc<Node>,
    variant: Variant,
    /// What is known of Envoy holds.
    envoy: bool,
    /// One stream for everything. Without, Envoy acknowledges clusters before they are warm, and asks for the endpoints of each version
    /// of a cluster on a stream of its own (measured).
    aggregated: bool,
    /// The change of the fleet up to which names are marked.
    cursor: u64,
    /// Of the next response.
    nonce: Nonce,
    groups: u64,
    /// Each in a place of its own: a node of the tree has room for eleven, and most clients have few.
    channels: BTreeMap<TypeUrl, Box<Channel>>,
    /// The client is told of clusters, but has not asked for them on this stream.
    unasked: bool,
    /// What a SotW client was sent.
    sent_items: BTreeMap<TypeUrl, SentItems>,
    /// What the client's names are long: those that it asks for and those that it came with.
    name_bytes: usize,
    clusters: Clusters,
    waits: BTreeMap<Need, Wait>,
    /// Route configurations that were refused together with their first virtual hosts.
    lost_hosts: BTreeSet<Arc<str>>,
    /// Envoy has just asked for virtual hosts on a stream of its own.
    hosts_asked: bool,
    /// Endpoint sets that Envoy has just asked for.
    asked: Vec<Arc<str>>,
    activations: BTreeMap<Arc<str>, Activation>,
    /// What this client refuses of each name, by the numbers of the items: of the current version, and of the accepted one if others took that.
    refused: BTreeMap<Need, BTreeSet<u64>>,
    /// When the client spoke first.
    began: Option<Duration>,
    /// Until then a client of which a stream has ended may come again with what it had on it.
    parted_until: Option<Duration>,
    /// When the fleet tries again what was refused.
    retry: Option<Duration>,
    /// Until then a connection to a listener that has changed may bring a request for what was to be used before.
    drains_until: Option<Duration>,
    /// The client had a configuration before this stream.
    resumed: bool,
    /// What the client asks for that can name other resources.
    namers: remove::Namers,
    /// The client came in a way in which it gets no secrets.
    without_secrets: bool,
    /// The client has acknowledged a complete configuration.
    configured: bool,
    /// The client is waited for by its fleet.
    counted: bool,
    /// The client does not take what it is told.
    behind: bool,
    /// When it spoke last.
    heard: Duration,
    /// When it was last sent what it did not answer in time: until it speaks again nothing shows that it is there.
    ignored: Option<Duration>,
    /// Clusters of which the fleet knows that they do not get ready on this client.
    stalled: BTreeSet<Arc<str>>,
}

impl Session {
    /// A client comes.
    pub(crate) fn new(fleet: &mut Fleet, node: Arc<Node>, variant: Variant, aggregated: bool) -> Self {
        Self {
            client: fleet.join(Arc::clone(&node), variant),
            envoy: node.is_envoy(),
            node,
            variant,
            aggregated,
            cursor: fleet.seq(),
            nonce: Nonce::MIN,
            groups: 0,
            channels: BTreeMap::new(),
            unasked: false,
            sent_items: BTreeMap::new(),
            name_bytes: 0,
            clusters: Clusters::default(),
            waits: BTreeMap::new(),
            lost_hosts: BTreeSet::new(),
            hosts_asked: false,
            asked: Vec::new(),
            activations: BTreeMap::new(),
            refused: BTreeMap::new(),
            began: None,
            parted_until: None,
            retry: None,
            drains_until: None,
            resumed: false,
            namers: remove::Namers::default(),
            without_secrets: false,
            configured: false,
            counted: false,
            behind: false,
            heard: Duration::ZERO,
            ignored: None,
            stalled: BTreeSet::new(),
        }
    }

    /// From here on the client gets no secrets, and nothing that needs one.
    pub(crate) fn withhold_secrets(&mut self) {
        self.without_secrets = true;
    }

    /// Takes a message of the client in. What is to be said about it comes from [`Self::advance`].
    ///
    /// # Errors
    /// The client asks for more than one may: the stream is to be ended.
    pub(crate) fn receive(&mut self, fleet: &mut Fleet, request: Request, now: Duration) -> Result<(), Violation> {
        let type_url = TypeUrl::from(&*request.type_url);
        self.began.get_or_insert(now);
        self.heard = now;
        if self.envoy && self.aggregated {
            fleet.hear(self.client, &self.node, now);
        }
        let mut inherited = BTreeSet::new();
        if !self.is(&type_url, |channel| channel.opened) {
            inherited = fleet.take_doubts(&self.node.id, &type_url);
        }
        self.note_namer(&type_url);
        self.subscribe(fleet, &type_url, &request, now)?;
        self.inherit(fleet, &type_url, inherited);
        for set in std::mem::take(&mut self.asked) {
            self.endpoints_asked_for(fleet, &set);
        }
        if let Ok(nonce) = request.nonce.parse() {
            self.answer(fleet, &type_url, (request.stream, nonce), request.error.as_deref(), now);
        }
        self.tell_ghosts(fleet);
        Ok(())
    }

    /// Everything that the client can be told now, in order.
    pub(crate) fn advance(&mut self, fleet: &mut Fleet, now: Duration) -> Vec<Response> {
        let mut out = Vec::new();
        if fleet.stage() == Stage::Unknown {
            return out;
        }
        self.unmute(fleet);
        // what is due is judged by what the fleet has now, and can change that itself: a retry, a refusal, a listener taken back
        self.absorb(fleet, now);
        self.pass_time(fleet, now);
        self.activate_listeners(fleet, now);
        self.absorb(fleet, now);
        let mut turn = Turn { fleet, now, out: &mut out };
        for step in &STEPS {
            match step {
                Step::Clusters => self.put_clusters(&mut turn),
                Step::VirtualHosts => self.put_virtual_hosts(&mut turn),
                Step::PutRest => self.rest().iter().for_each(|type_url| self.put(&mut turn, type_url)),
                Step::RemoveRest => self.rest().iter().for_each(|type_url| self.remove(&mut turn, type_url)),
                Step::Put(type_url) | Step::Remove(type_url) if !self.channels.contains_key(type_url) => {}
                Step::Put(type_url) => self.put(&mut turn, type_url),
                Step::Remove(type_url) => self.remove(&mut turn, type_url),
            }
        }
        self.beat(&mut turn);
        self.tell_stalled(fleet);
        self.judge_client(fleet, now);
        out
    }

    /// One of several streams for a kind has ended: what only it asked for is not wanted any more.
    pub(crate) fn let_go(&mut self, type_url: &TypeUrl, stream: StreamId, now: Duration) {
        self.part(type_url, now);
        let carriers = &mut self.channel(type_url).carriers;
        let names = carriers.names_of(stream);
        self.drop_names(type_url, stream, names.iter().map(|name| &**name));
        self.channel(type_url).end(stream);
        self.clusters.ghosts_told &= *type_url != TypeUrl::Cluster;
    }

    /// The stream for one kind has ended, and the client has others still.
    pub(crate) fn close(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, now: Duration) {
        self.part(type_url, now);
        self.sent_items.remove(type_url);
        let Some(channel) = self.channels.remove(type_url) else { return };
        let is_cluster = *type_url == TypeUrl::Cluster;
        let mut doubts: BTreeSet<Need> =
            channel.doubts(is_cluster).map(|name| Need::new(type_url.clone(), Arc::clone(name))).collect();
        if is_cluster {
            let Clusters { uncured, .. } = std::mem::take(&mut self.clusters);
            doubts.extend(uncured.into_iter().map(|name| Need::new(TypeUrl::Cluster, name)));
        }
        if *type_url == TypeUrl::Listener {
            self.activations.clear();
        }
        let names: usize = channel.names.iter().map(|name| name.len()).sum();
        self.name_bytes = self.name_bytes.saturating_sub(names + channel.carriers.bytes + channel.listed.bytes);
        self.waits.retain(|need, _| need.type_url != *type_url);
        if std::mem::take(&mut self.counted) {
            fleet.uncount(self.client, |key| self.confirmed(key));
        }
        fleet.doubt(&self.node.id, doubts);
    }

    /// The client has gone.
    pub(crate) fn leave(self, fleet: &mut Fleet) {
        let need = |type_url: &TypeUrl, name: &Arc<str>| Need::new(type_url.clone(), Arc::clone(name));
        let mut doubts: BTreeSet<Need> =
            self.clusters.uncured.iter().map(|name| need(&TypeUrl::Cluster, name)).collect();
        for (type_url, channel) in &self.channels {
            let each_flight = *type_url == TypeUrl::Cluster;
            doubts.extend(channel.doubts(each_flight).map(|name| need(type_url, name)));
        }
        fleet.doubt(&self.node.id, doubts);
        fleet.leave(self.client, |key| self.confirmed(key));
    }

    /// Who this is among the clients of its fleet.
    pub(crate) fn id(&self) -> ClientId {
        self.client
    }

    /// Returns how many names it asks for, has said that it has or was sent, on all its streams, and how long they are together; those that it was
    /// sent without asking for each are shared with the fleet and have no length.
    pub(crate) fn names(&self) -> (usize, usize) {
        let names = |channel: &Channel| (channel.asked() + channel.listed.names).max(channel.known.len());
        let names = self.channels.values().map(|channel| names(channel)).sum();
        (names, self.name_bytes)
    }

    /// What there is for this client.
    fn see<'f>(&self, fleet: &'f Fleet) -> View<'f> {
        fleet.snapshot().view(self.variant).without_secrets(self.without_secrets)
    }

    /// The number of the item that the client was last reported to use, or to refuse, under a name; 0 if none.
    fn confirmed(&self, key: &Need) -> u64 {
        // to whom hosts do not come by themselves they come with their route configuration
        let inside = || route_configuration_of(&key.name).map(|route| Need::new(TypeUrl::Route, route));
        let whole = self.variant == Variant::Sotw && key.type_url == TypeUrl::VirtualHost;
        let whole = whole.then(inside).flatten();
        let key = whole.as_ref().unwrap_or(key);
        let known = self.channels.get(&key.type_url).and_then(|channel| channel.known.get(&key.name));
        let refused = self.refused.get(key).and_then(BTreeSet::last).copied().unwrap_or(0);
        known.map_or(0, |known| known.confirmed).max(refused)
    }

    /// What this client should have under a name: what its fleet should, or the version before if it has refused that.
    fn wanted<'f>(&self, fleet: &'f Fleet, type_url: &TypeUrl, name: &Arc<str>) -> Option<&'f Arc<Item>> {
        let target = self.see(fleet).target(type_url, name)?;
        if !self.has_refused(target) {
            return Some(target);
        }
        let another = |accepted: &&Arc<Item>| accepted.version() != target.version() && !self.has_refused(accepted);
        self.see(fleet).accepted(type_url, name).filter(another)
    }

    /// The client refuses this.
    fn note_refused(&mut self, fleet: &Fleet, item: &Item) {
        let (type_url, name) = (&item.resource.type_url, item.name());
        let see = self.see(fleet);
        let kept = [see.current(type_url, name), see.accepted(type_url, name)].map(|item| item.map(|item| item.seq));
        let refused = self.refused.entry(Need::new(type_url.clone(), Arc::clone(name))).or_default();
        refused.retain(|seq| kept.contains(&Some(*seq)));
        refused.insert(item.seq);
    }

    /// Whether the client has refused this. Once there is another, or it is to be tried again, that is forgotten.
    fn has_refused(&self, item: &Item) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let key = Need::new(item.resource.type_url.clone(), Arc::clone(item.name()));
        self.refused.get(&key).is_some_and(|refused| refused.contains(&item.seq))
    }

    /// The response with this name that is not answered yet.
    fn flying(&self, type_url: &TypeUrl, name: &str) -> Option<Nonce> {
        self.channels.get(type_url)?.known.get(name)?.flying
    }

    fn channel(&mut self, type_url: &TypeUrl) -> &mut Channel {
        self.channels.entry(type_url.clone()).or_default()
    }

    /// Whether this holds for the kind's channel; false if there is none.
    fn is(&self, type_url: &TypeUrl, test: impl Fn(&Channel) -> bool) -> bool {
        self.channels.get(type_url).is_some_and(|channel| test(channel))
    }

    /// The kinds without a place of their own in the order that the client has spoken of.
    fn rest(&self) -> Vec<TypeUrl> {
        self.channels.keys().filter(|type_url| is_rest(type_url)).cloned().collect()
    }
}

/// What the steps of one [`Session::advance`] work with.
struct Turn<'a> {
    fleet: &'a mut Fleet,
    now: Duration,
    out: &'a mut Vec<Response>,
}
