//! A fleet and a client's stream with a short way of writing messages down.
//!
//! Resources: `rds r@2 -> a, b; -cds c; cds d@1 !apart; eds e !ttl 4; lds l2@1 -> r, sds:s ~l1`: kind, name, version, needs (of the kind that
//! the kind usually names, or with a prefix), what it replaces. Responses: `CDS a@1 b@2 -c | EDS a@1`.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::event::{Event, Node};
use crate::fleet::Fleet;
use crate::resource::{Change, Need, Resource, TypeUrl, Version};
use crate::session::Session;
use crate::wire::{Request, Response, Variant};

const KINDS: [(&str, TypeUrl); 10] = [
    ("cds", TypeUrl::Cluster),
    ("eds", TypeUrl::Endpoints),
    ("lds", TypeUrl::Listener),
    ("sds", TypeUrl::Secret),
    ("rds", TypeUrl::Route),
    ("vhds", TypeUrl::VirtualHost),
    ("rtds", TypeUrl::Runtime),
    ("srds", TypeUrl::ScopedRoute),
    ("ecds", TypeUrl::ExtensionConfig),
    ("leds", TypeUrl::LocalityEndpoint),
];

/// One of the four variants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) variant: Variant,
    /// One stream for all kinds.
    pub(crate) aggregated: bool,
}

/// All of them.
pub(crate) const WAYS: [Way; 4] = [
    Way { variant: Variant::Delta, aggregated: true },
    Way { variant: Variant::Delta, aggregated: false },
    Way { variant: Variant::Sotw, aggregated: true },
    Way { variant: Variant::Sotw, aggregated: false },
];

impl Default for Way {
    fn default() -> Self {
        Self { variant: Variant::Delta, aggregated: true }
    }
}

/// A kind that nobody here has heard of, `other`.
const OTHER: &str = "type.googleapis.com/some.other.Kind";

/// The kind of a short name.
pub(crate) fn kind(short: &str) -> TypeUrl {
    if short == "other" {
        return TypeUrl::from(OTHER);
    }
    KINDS
        .iter()
        .find(|(name, _)| *name == short)
        .map(|(_, kind)| kind.clone())
        .unwrap_or_else(|| panic!("no kind {short}"))
}

pub(crate) fn short(kind: &TypeUrl) -> &'static str {
    KINDS.iter().find(|(_, known)| known == kind).map_or("other", |(name, _)| name)
}

fn need(of: &TypeUrl, text: &str) -> Need {
    if let Some((prefix, name)) = text.split_once(':') {
        return Need::new(kind(prefix), name);
    }
    let usual = if *of == TypeUrl::Listener { TypeUrl::Route } else { TypeUrl::Cluster };
    Need::new(usual, text)
}

/// Changes in the short form.
pub(crate) fn changes(text: &str) -> Vec<Change> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(change).collect()
}

fn change(text: &str) -> Change {
    if let Some(gone) = text.strip_prefix('-') {
        let (short, name) = gone.split_once(' ').expect("a kind and a name");
        return Change::Remove { type_url: kind(short), name: name.trim().into() };
    }
    let (text, replaces) =
        text.split_once('~').map_or((text, None), |(text, old)| (text, Some(Box::new(old.trim().into()))));
    let (text, ttl) = text.split_once("!ttl").map_or((text, None), |(text, seconds)| (text, Some(seconds.trim())));
    let ttl_millis = ttl.and_then(|seconds| NonZeroU32::new(seconds.parse::<u32>().expect("seconds") * 1000));
    let (text, apart) = text.split_once("!apart").map_or((text, false), |(text, _)| (text, true));
    let (head, needs) = text.split_once("->").unwrap_or((text, ""));
    let (short, named) = head.trim().split_once(' ').expect("a kind and a name");
    let (name, version) = named.trim().split_once('@').unwrap_or((named.trim(), "1"));
    let type_url = kind(short);
    let needs: Vec<Need> =
        needs.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| need(&type_url, n)).collect();
    let version = Version(version.parse().expect("a number"));
    // a route configuration `v…` asks for its hosts
    let vhds = type_url == TypeUrl::Route && name.starts_with('v');
    let body = if vhds { asking(name).into() } else { [named.trim().to_owned().into()].into() };
    let needs = [needs.into()].into();
    let resource = Resource { type_url, name: name.into(), version, body, needs, replaces, ttl_millis, apart, vhds };
    Change::Put(Arc::new(resource))
}

/// A route configuration with nothing but its name and `vhds: {}`.
fn asking(name: &str) -> [Bytes; 2] {
    let length = u8::try_from(name.len()).expect("short");
    [[&[0x0a, length], name.as_bytes()].concat().into(), Bytes::from_static(&[0x4a, 0])]
}

/// A response in the short form.
pub(super) fn show(response: &Response) -> String {
    let puts = response.puts.iter().map(|item| match item.version() {
        Version::STAND_IN => format!(" {}@none", item.name()),
        Version(version) => format!(" {}@{version}", item.name()),
    });
    let removed = response.removed.iter().map(|name| format!(" -{name}"));
    format!("{}{}", short(&response.type_url).to_uppercase(), puts.chain(removed).collect::<String>())
}

/// An event in the short form.
pub(super) fn show_event(event: &Event) -> String {
    match event {
        Event::Connected { node, .. } => format!("connected {}", node.id),
        Event::Live { .. } => "live".into(),
        Event::Gone { node, connected, .. } => format!("gone {}, {connected} left", node.id),
        Event::ClusterWarm { name, .. } => format!("warm {name}"),
        Event::Accepted { type_url, name, version, .. } => format!("accepted {} {name}@{}", short(type_url), version.0),
        Event::Refused { type_url, name, version, text, .. } => {
            format!("refused {} {name}@{}: {text}", short(type_url), version.0)
        }
        Event::Disputed { type_url, name, by, .. } => match &by[..] {
            [] => format!("settled {} {name}", short(type_url)),
            [one] => format!("disputed {} {name}: {}", short(type_url), one.text),
            more => {
                let said: Vec<String> = more.iter().map(|one| format!("{} {}", one.node, one.text)).collect();
                format!("disputed {} {name}: {}", short(type_url), said.join("; "))
            }
        },
        Event::Stalled { name, nodes, .. } if nodes.is_empty() => format!("stalled no more {name}"),
        Event::Stalled { name, was_warm: true, .. } => format!("stalled {name}, ready elsewhere"),
        Event::Stalled { name, nodes, .. } if nodes.len() == 1 => format!("stalled {name}"),
        Event::Stalled { name, nodes, .. } => format!("stalled {name} on {}", nodes.join(" ")),
        Event::Namesakes { node, .. } => format!("namesakes {}", node.id),
        Event::Load { .. } | Event::Misreported { .. } => unreachable!("no session reports loads"),
    }
}

/// One client of a fleet.
pub(super) struct Client {
    pub(super) session: Session,
    /// Sent and not answered.
    pub(super) open: VecDeque<Response>,
}

/// A fleet, its clients (the first is the usual one) and the time.
pub(super) struct Rig {
    pub(super) fleet: Fleet,
    pub(super) clients: Vec<Client>,
    pub(super) now: Duration,
}

impl Rig {
    /// A fleet with these resources and one client that has said nothing yet.
    pub(super) fn new(resources: &str) -> Self {
        let mut fleet = Fleet::new("ns/gw".into());
        fleet.keep(true);
        fleet.publish(changes(resources));
        let mut rig = Self { fleet, clients: Vec::new(), now: Duration::from_secs(1) };
        rig.connect("envoy");
        rig
    }

    /// The same with a client that is no Envoy.
    pub(super) fn foreign(resources: &str) -> Self {
        let mut rig = Self::new(resources);
        let node = Node { id: "foreign".into(), user_agent: "gRPC C-core linux".into(), ..Node::default() };
        rig.clients[0].session = Session::new(&mut rig.fleet, Arc::new(node), Variant::Delta, true);
        rig
    }

    /// A client that has had a first start with everything acknowledged, subscriptions as Envoy's.
    pub(super) fn started(resources: &str) -> Self {
        let mut rig = Self::new(resources);
        rig.start(0);
        rig.events();
        rig
    }

    /// Lets a client start: it asks for what it is told about, and acknowledges everything.
    pub(super) fn start(&mut self, client: usize) {
        let names = |changes: &Fleet, kind: &TypeUrl| -> Vec<String> {
            changes.snapshot().targets(kind).map(|item| item.name().to_string()).collect()
        };
        self.say(client, request("cds", &[], &[]));
        for short in ["eds", "lds", "sds", "rds", "vhds"] {
            let names = names(&self.fleet, &kind(short));
            if short == "lds" || short == "vhds" {
                self.say(client, request(short, &[], &[]));
            } else if !names.is_empty() {
                self.say(client, request(short, &names.iter().map(String::as_str).collect::<Vec<_>>(), &[]));
            }
            self.ack_all(client);
        }
        self.ack_all(client);
    }

    pub(super) fn connect(&mut self, id: &str) -> usize {
        let node = Node { id: id.into(), user_agent: "envoy".into(), ..Node::default() };
        let session = Session::new(&mut self.fleet, Arc::new(node), Variant::Delta, true);
        self.clients.push(Client { session, open: VecDeque::new() });
        self.clients.len() - 1
    }

    /// A client says something; what it is told.
    pub(super) fn say(&mut self, client: usize, request: Request) -> String {
        let session = &mut self.clients[client].session;
        session.receive(&mut self.fleet, request, self.now).expect("within the bounds");
        self.advance(client)
    }

    /// The first client subscribes.
    pub(super) fn subscribe(&mut self, short: &str, names: &[&str]) -> String {
        self.say(0, request(short, names, &[]))
    }

    /// The first client unsubscribes.
    pub(super) fn unsubscribe(&mut self, short: &str, names: &[&str]) -> String {
        self.say(0, request(short, &[], names))
    }

    /// The first client opens a kind on a resumed stream, with what it has: `a@1`.
    pub(super) fn resume(&mut self, short: &str, names: &[&str], has: &[&str]) -> String {
        let versions = has.iter().map(|one| {
            let (name, version) = one.split_once('@').expect("name@version");
            (name.into(), version.parse().ok().map(Version))
        });
        self.say(0, Request { initial_versions: versions.collect(), ..request(short, names, &[]) })
    }

    /// The fleet changes; what the first client is told.
    pub(super) fn publish(&mut self, text: &str) -> String {
        self.fleet.publish(changes(text));
        self.advance(0)
    }

    /// Time passes.
    pub(super) fn pass(&mut self, millis: u64) -> String {
        self.now += Duration::from_millis(millis);
        self.advance(0)
    }

    pub(super) fn advance(&mut self, client: usize) -> String {
        let client = &mut self.clients[client];
        let responses = client.session.advance(&mut self.fleet, self.now);
        let shown: Vec<String> = responses.iter().map(show).collect();
        client.open.extend(responses);
        shown.join(" | ")
    }

    /// The first client acknowledges its oldest open response of this kind; what it is told then.
    pub(super) fn ack(&mut self, short: &str) -> String {
        self.answer(0, short, None)
    }

    /// The first client refuses its oldest open response of this kind.
    pub(super) fn nack(&mut self, short: &str, text: &str) -> String {
        self.answer(0, short, Some(text))
    }

    pub(super) fn answer(&mut self, client: usize, short: &str, error: Option<&str>) -> String {
        let kind = kind(short);
        let open = &mut self.clients[client].open;
        let index = open.iter().position(|response| response.type_url == kind);
        let response =
            open.remove(index.unwrap_or_else(|| panic!("no open response of {short}"))).expect("it is there");
        self.say(client, answer(&response, error))
    }

    /// Acknowledges everything, also what comes then; all that comes.
    pub(super) fn ack_all(&mut self, client: usize) -> String {
        let mut told = Vec::new();
        while let Some(response) = self.clients[client].open.pop_front() {
            told.push(self.say(client, answer(&response, None)));
        }
        told.retain(|text| !text.is_empty());
        told.join(" | ")
    }

    /// The stream of the last client breaks, and it comes again.
    pub(super) fn reconnect(&mut self) {
        let old = self.clients.pop().expect("a client");
        old.session.leave(&mut self.fleet);
        self.connect("envoy");
    }

    /// What happened since it was last asked.
    pub(super) fn events(&mut self) -> String {
        self.fleet.take_events().iter().map(show_event).collect::<Vec<_>>().join(", ")
    }

    /// Milliseconds until the first client is to be looked at again.
    pub(super) fn deadline(&self) -> Option<u128> {
        let at = self.clients[0].session.next_deadline(&self.fleet, self.now)?;
        Some(at.saturating_sub(self.now).as_millis())
    }
}

/// A message about subscriptions.
pub(super) fn request(short: &str, subscribe: &[&str], unsubscribe: &[&str]) -> Request {
    let owned = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
    Request {
        type_url: kind(short).as_str().into(),
        subscribe: owned(subscribe),
        unsubscribe: owned(unsubscribe),
        ..Request::default()
    }
}

/// The answer to a response.
pub(super) fn answer(response: &Response, error: Option<&str>) -> Request {
    Request {
        type_url: response.type_url.as_str().into(),
        nonce: response.nonce.to_string().into(),
        error: error.map(str::to_owned),
        ..Request::default()
    }
}
