//! A client of any of the four variants, in messages as they are on the wire, with a short way of writing down what it is told.
//!
//! What it is told: `CDS a@1 b@2 -c | EDS a@1`, where `-c` is a removal (delta), `!c` an error "not found", `a@1/4s` a resource with a
//! time to live, `a/4s` a heartbeat and `a@none` an empty resource. Resources are written as for the session's tests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource, ResourceError,
};
use proto::google::protobuf::Any;
use proto::google::rpc::Status;

use crate::event::{Features, Node};
use crate::fleet::Fleet;
use crate::resource::{TypeUrl, Version};
use crate::session::Violation;
pub(super) use crate::session::tests::rig::Way;
use crate::session::tests::rig::{WAYS, changes, kind, short};
use crate::streams::Streams;
use crate::wire::read::Discovery;
use crate::wire::write::{Step, Writing};
use crate::wire::{Response, StreamId, Variant};

/// Who the client says it is.
pub(super) fn envoy() -> Node {
    Node { id: "one".into(), user_agent: "envoy".into(), ..Node::default() }
}

/// A client that is no Envoy.
pub(super) fn grpc() -> Node {
    Node { id: "two".into(), user_agent: "gRPC C-core".into(), ..Node::default() }
}

/// A client that understands times to live.
pub(super) fn lasting(node: Node, wrapped_in_sotw: bool) -> Node {
    Node { features: Features { ttl: true, wrapped_in_sotw }, ..node }
}

/// Tells a story in all four variants, with these resources.
pub(super) fn four(node: fn() -> Node, resources: &str, story: impl Fn(&mut Talk)) {
    WAYS.iter().for_each(|way| story(&mut Talk::new(*way, node(), resources)));
}

/// The same in both delta variants.
pub(super) fn delta(node: fn() -> Node, resources: &str, story: impl Fn(&mut Talk)) {
    let ways = WAYS.iter().filter(|way| way.variant == Variant::Delta);
    ways.for_each(|way| story(&mut Talk::new(*way, node(), resources)));
}

/// The same in both state-of-the-world variants.
pub(super) fn sotw(node: fn() -> Node, resources: &str, story: impl Fn(&mut Talk)) {
    let ways = WAYS.iter().filter(|way| way.variant == Variant::Sotw);
    ways.for_each(|way| story(&mut Talk::new(*way, node(), resources)));
}

/// A stream on which a client speaks of one kind.
#[derive(Default)]
pub(super) struct Talks {
    stream: StreamId,
    /// What it wants, in the words of a SotW request.
    names: BTreeSet<String>,
    /// The version (in delta that of the system) and the nonce of the last response that it accepted, and answered.
    pub(super) version: String,
    pub(super) nonce: String,
    /// What it has: the version of each name.
    held: BTreeMap<String, String>,
}

/// A response that came in.
struct Heard {
    kind: TypeUrl,
    stream: StreamId,
    nonce: String,
    version: String,
    /// Resources with their versions; those without a body are not among them.
    puts: Vec<(String, String)>,
    removed: Vec<String>,
}

/// What the client was told.
#[must_use]
pub(super) struct Told {
    way: Way,
    text: String,
}

impl Told {
    /// It is this, whatever the variant.
    #[track_caller]
    pub(super) fn is(self, expected: &str) {
        assert_eq!(self.text, expected, "{:?}", self.way);
    }

    /// The words.
    pub(super) fn text(self) -> String {
        self.text
    }

    /// It is something.
    #[track_caller]
    pub(super) fn any(self) {
        assert_ne!(self.text, "", "{:?}", self.way);
    }

    /// It is the first for delta, the second for state of the world.
    #[track_caller]
    pub(super) fn are(self, delta: &str, sotw: &str) {
        let expected = if self.way.variant == Variant::Delta { delta } else { sotw };
        assert_eq!(self.text, expected, "{:?}", self.way);
    }
}

/// See the module.
pub(super) struct Talk {
    pub(super) way: Way,
    node: Arc<Node>,
    pub(super) fleet: Fleet,
    streams: Streams,
    pub(super) kinds: BTreeMap<TypeUrl, Talks>,
    open: VecDeque<Heard>,
    now: Duration,
}

impl Talk {
    pub(super) fn new(way: Way, node: Node, resources: &str) -> Self {
        let (node, mut fleet) = (Arc::new(node), Fleet::new("ns/gw".into()));
        fleet.publish(changes(resources));
        let streams = Streams::new(&mut fleet, Arc::clone(&node), way.variant, way.aggregated);
        let now = Duration::from_secs(1);
        Self { way, node, fleet, streams, kinds: BTreeMap::new(), open: VecDeque::new(), now }
    }

    pub(super) fn is_delta(&self) -> bool {
        self.way.variant == Variant::Delta
    }

    fn talks(&mut self, short: &str) -> &mut Talks {
        let kind = kind(short);
        if !self.kinds.contains_key(&kind) {
            self.begin(&kind);
        }
        self.kinds.get_mut(&kind).unwrap()
    }

    /// The kind is spoken of on a new stream, which may be the only one for all kinds.
    pub(super) fn begin(&mut self, kind: &TypeUrl) {
        let first = self.kinds.values().next().map(|talks| talks.stream);
        let stream = match first.filter(|_| self.way.aggregated) {
            Some(stream) => stream,
            None => self.streams.open(Some(kind.clone()).filter(|_| !self.way.aggregated)),
        };
        self.kinds.insert(kind.clone(), Talks { stream, ..Talks::default() });
    }

    /// From now on the kind is spoken of on another stream, where it is none for everything; the one before.
    pub(super) fn begin_anew(&mut self, short: &str) -> StreamId {
        let before = self.kinds.remove(&kind(short)).map(|talks| talks.stream);
        self.begin(&kind(short));
        before.unwrap_or_default()
    }

    /// The stream that the last response came on.
    pub(super) fn heard_on(&self) -> StreamId {
        self.open.back().expect("a response").stream
    }

    /// The client refuses the response that came on this stream.
    pub(super) fn refuse_on(&mut self, stream: StreamId) -> Told {
        let at = self.open.iter().position(|heard| heard.stream == stream).expect("a response");
        let Heard { kind, nonce, .. } = self.open.remove(at).unwrap();
        self.answer_on(stream, &kind, nonce, Some(refusal("no")), &[])
    }

    /// The client, which asked for this only, does not want it any more on this stream.
    pub(super) fn drop_on(&mut self, stream: StreamId, short: &str, name: &str) -> Told {
        self.answer_on(stream, &kind(short), String::new(), None, &[name])
    }

    fn answer_on(
        &mut self,
        stream: StreamId,
        kind: &TypeUrl,
        nonce: String,
        error: Option<Status>,
        less: &[&str],
    ) -> Told {
        let less: Vec<String> = less.iter().map(|&name| name.to_owned()).collect();
        let type_url = kind.as_str().to_owned();
        if self.is_delta() {
            let request = DeltaDiscoveryRequest {
                type_url,
                resource_names_unsubscribe: less,
                response_nonce: nonce,
                error_detail: error,
                ..DeltaDiscoveryRequest::default()
            };
            self.hand_in(stream, &request).unwrap();
        } else {
            let resource_names = if less.is_empty() { vec!["a".to_owned()] } else { Vec::new() };
            let request = DiscoveryRequest {
                type_url,
                resource_names,
                response_nonce: nonce,
                error_detail: error,
                ..DiscoveryRequest::default()
            };
            self.hand_in(stream, &request).unwrap();
        }
        self.advance()
    }

    /// The client asks for these too.
    pub(super) fn ask(&mut self, short: &str, names: &[&str]) -> Told {
        self.want(short, names, &[])
    }

    /// The client asks for this, and takes no notice of what it is told yet.
    pub(super) fn ask_in_passing(&mut self, short: &str, name: &str) {
        let (stream, type_url, names) = (self.stream(short), kind(short).as_str().to_owned(), vec![name.to_owned()]);
        let taken = if self.is_delta() {
            let resource_names_subscribe = names;
            let request =
                DeltaDiscoveryRequest { type_url, resource_names_subscribe, ..DeltaDiscoveryRequest::default() };
            self.hand_in(stream, &request)
        } else {
            self.hand_in(stream, &DiscoveryRequest { type_url, resource_names: names, ..DiscoveryRequest::default() })
        };
        taken.unwrap();
    }

    /// The client asks for everything, by naming nothing.
    pub(super) fn ask_all(&mut self, short: &str) -> Told {
        self.want(short, &[], &[])
    }

    /// The client does not want these any more.
    pub(super) fn drop(&mut self, short: &str, names: &[&str]) -> Told {
        self.want(short, &[], names)
    }

    /// The client wants some more and some no longer.
    pub(super) fn want(&mut self, short: &str, more: &[&str], less: &[&str]) -> Told {
        self.talks(short);
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let talks = self.talks(short);
        talks.names.extend(owned(more));
        talks.names.retain(|name| !less.contains(&&**name));
        if !self.is_delta() {
            return self.say_whole(short, None);
        }
        self.say(
            short,
            DeltaDiscoveryRequest {
                resource_names_subscribe: owned(more),
                resource_names_unsubscribe: owned(less),
                ..DeltaDiscoveryRequest::default()
            },
        )
    }

    /// Says this to the kind's stream.
    pub(super) fn say(&mut self, short: &str, request: DeltaDiscoveryRequest) -> Told {
        let type_url = kind(short).as_str().to_owned();
        let stream = self.talks(short).stream;
        self.hand_in(stream, &DeltaDiscoveryRequest { type_url, ..request }).unwrap();
        self.advance()
    }

    /// Says in SotW what the client wants now, and what it makes of the response that it answers.
    fn say_whole(&mut self, short: &str, error: Option<&str>) -> Told {
        let Talks { stream, names, version, nonce, .. } = self.talks(short);
        let request = DiscoveryRequest {
            version_info: version.clone(),
            resource_names: names.iter().cloned().collect(),
            response_nonce: nonce.clone(),
            error_detail: error.map(refusal),
            ..DiscoveryRequest::default()
        };
        let stream = *stream;
        self.say_sotw(short, stream, request)
    }

    /// Says this to a stream.
    pub(super) fn say_sotw(&mut self, short: &str, stream: StreamId, request: DiscoveryRequest) -> Told {
        self.hand_in(stream, &DiscoveryRequest { type_url: kind(short).as_str().to_owned(), ..request }).unwrap();
        self.advance()
    }

    /// Whether the server knows that the client has this version.
    pub(super) fn holds(&self, short: &str, name: &str, version: u128) -> bool {
        let holdings = self.streams.session().holdings(&self.fleet);
        let one = holdings.iter().find(|holding| holding.type_url == kind(short) && &*holding.name == name);
        one.is_some_and(|holding| holding.version == Some(Version(version)))
    }

    /// How many things the server keeps for the client.
    pub(super) fn entries(&self) -> usize {
        self.streams.session().entries()
    }

    /// The nonce of the kind's last response that the client has answered.
    pub(super) fn nonce(&mut self, short: &str) -> String {
        self.talks(short).nonce.clone()
    }

    pub(super) fn stream(&mut self, short: &str) -> StreamId {
        self.talks(short).stream
    }

    /// A message reaches the server.
    pub(super) fn hand_in(&mut self, stream: StreamId, request: &impl Message) -> Result<(), Violation> {
        let message = Discovery::decode(self.way.variant, Bytes::from(request.encode_to_vec())).unwrap();
        self.streams.receive(&mut self.fleet, stream, message, self.now)
    }

    /// The client accepts its oldest open response of this kind.
    pub(super) fn ack(&mut self, short: &str) -> Told {
        self.answer(short, None)
    }

    /// The client refuses its oldest open response of this kind.
    pub(super) fn nack(&mut self, short: &str, text: &str) -> Told {
        self.answer(short, Some(text))
    }

    fn answer(&mut self, short: &str, error: Option<&str>) -> Told {
        let wanted = kind(short);
        let at = self.open.iter().position(|heard| heard.kind == wanted);
        let heard = self.open.remove(at.unwrap_or_else(|| panic!("no open response of {short}"))).unwrap();
        let delta = self.is_delta();
        let talks = self.talks(short);
        talks.nonce.clone_from(&heard.nonce);
        if error.is_none() {
            talks.version = heard.version;
            if !delta && ["cds", "lds"].contains(&short) {
                talks.held.clear();
            }
            heard.removed.iter().for_each(|name| drop(talks.held.remove(name)));
            talks.held.extend(heard.puts);
        }
        if !delta && talks.stream != heard.stream {
            return self.answer_on(heard.stream, &wanted, heard.nonce, error.map(refusal), &[]);
        }
        if !delta {
            return self.say_whole(short, error);
        }
        let request = DeltaDiscoveryRequest {
            type_url: wanted.as_str().to_owned(),
            response_nonce: heard.nonce,
            error_detail: error.map(refusal),
            ..DeltaDiscoveryRequest::default()
        };
        self.hand_in(heard.stream, &request).unwrap();
        self.advance()
    }

    /// The client accepts everything, also what comes then; all that comes.
    pub(super) fn ack_all(&mut self) -> Told {
        let mut told = Vec::new();
        while let Some(heard) = self.open.front() {
            let kind = short(&heard.kind);
            told.push(self.ack(kind).text);
        }
        told.retain(|text| !text.is_empty());
        self.told(told.join(" | "))
    }

    /// The fleet changes.
    pub(super) fn publish(&mut self, text: &str) -> Told {
        self.fleet.publish(changes(text));
        self.advance()
    }

    /// The fleet changes while the client is away.
    pub(super) fn fleet_only(&mut self, text: &str) {
        self.fleet.publish(changes(text));
    }

    /// The client has this version under a name, or of the whole kind.
    pub(super) fn pretend(&mut self, short: &str, name: &str, version: &str) {
        let talks = self.talks(short);
        talks.version = version.into();
        talks.held.insert(name.into(), version.into());
    }

    /// Time passes.
    pub(super) fn pass(&mut self, millis: u64) -> Told {
        self.now += Duration::from_millis(millis);
        self.advance()
    }

    /// The connection breaks and the client comes again, which says of each of these kinds what it has and wants.
    pub(super) fn reconnect(&mut self, shorts: &[&str]) -> Told {
        self.open.clear();
        let new = Streams::new(&mut self.fleet, Arc::clone(&self.node), self.way.variant, self.way.aggregated);
        std::mem::replace(&mut self.streams, new).leave(&mut self.fleet);
        let before = std::mem::take(&mut self.kinds);
        let mut told = Vec::new();
        for one in shorts {
            let Talks { names, version, held, .. } = before.get(&kind(one)).expect("a kind that it has used");
            self.talks(one).names.clone_from(names);
            self.talks(one).version.clone_from(version);
            self.talks(one).held.clone_from(held);
            told.push(if self.is_delta() {
                self.say(
                    one,
                    DeltaDiscoveryRequest {
                        resource_names_subscribe: names.iter().cloned().collect(),
                        initial_resource_versions: held.clone().into_iter().collect(),
                        ..DeltaDiscoveryRequest::default()
                    },
                )
            } else {
                self.say_whole(one, None)
            });
        }
        let told: Vec<String> = told.into_iter().map(|told| told.text).filter(|text| !text.is_empty()).collect();
        self.told(told.join(" | "))
    }

    /// The stream of a kind ends.
    pub(super) fn end(&mut self, short: &str) -> Told {
        let stream = self.talks(short).stream;
        self.close(stream)
    }

    pub(super) fn close(&mut self, stream: StreamId) -> Told {
        self.streams.close(&mut self.fleet, stream, self.now);
        self.advance()
    }

    /// What the client is told now.
    pub(super) fn advance(&mut self) -> Told {
        let mut waiting = VecDeque::new();
        self.streams.advance(&mut self.fleet, self.now, |stream| waiting.push_back(stream));
        let mut shown = Vec::new();
        for stream in waiting {
            let response = self.streams.next(stream).expect("it was woken");
            let (text, heard) = self.hear(stream, response);
            shown.push(text);
            self.open.push_back(heard);
        }
        self.told(shown.join(" | "))
    }

    fn told(&self, text: String) -> Told {
        Told { way: self.way, text }
    }

    /// Reads a response as it is on the wire.
    fn hear(&self, stream: StreamId, response: Response) -> (String, Heard) {
        let kind = response.type_url.clone();
        let bytes = written(response);
        let mut heard = Heard {
            kind: kind.clone(),
            stream,
            nonce: String::new(),
            version: String::new(),
            puts: Vec::new(),
            removed: Vec::new(),
        };
        let (resources, errors): (Vec<Resource>, Vec<ResourceError>) = if self.is_delta() {
            let message = DeltaDiscoveryResponse::decode(bytes).unwrap();
            assert_eq!(message.type_url, kind.as_str());
            (heard.nonce, heard.removed) = (message.nonce, message.removed_resources);
            heard.version = message.system_version_info;
            (message.resources, message.resource_errors)
        } else {
            let message = DiscoveryResponse::decode(bytes).unwrap();
            assert_eq!(message.type_url, kind.as_str());
            (heard.nonce, heard.version) = (message.nonce, message.version_info);
            (message.resources.into_iter().map(unwrapped).collect(), message.resource_errors)
        };
        let names: Vec<String> = resources.iter().map(|resource| show(&kind, resource)).collect();
        heard.puts = resources
            .into_iter()
            .filter(|resource| resource.resource.is_some())
            .map(|resource| (name(&resource), resource.version))
            .collect();
        let removed = heard.removed.iter().map(|name| format!("-{name}"));
        let errors = errors.into_iter().map(|error| {
            assert_eq!(error.error_detail.unwrap().code, 5);
            format!("!{}", error.resource_name.unwrap().name)
        });
        let words: Vec<String> =
            [short(&kind).to_uppercase()].into_iter().chain(names).chain(removed).chain(errors).collect();
        (words.join(" "), heard)
    }
}

/// A refusal in these words.
fn refusal(text: &str) -> Status {
    Status { code: 13, message: text.into(), ..Status::default() }
}

/// The bytes of a response without the head of gRPC.
fn written(response: Response) -> Bytes {
    let (mut writing, mut bytes) = (Writing::new(response), BytesMut::new());
    while !matches!(writing.step(&mut bytes, usize::MAX), Step::Done) {}
    bytes.freeze().slice(5..)
}

/// What stands in a SotW response, as a delta client would be told.
fn unwrapped(any: Any) -> Resource {
    if any.type_url.ends_with("discovery.v3.Resource") {
        return Resource::decode(&*any.value).unwrap();
    }
    Resource { resource: Some(any), ..Resource::default() }
}

/// The text in a resource's message, which has its name and version; or the name that a stand-in has as its first field.
fn body(resource: &Resource) -> Option<String> {
    let any = resource.resource.as_ref()?;
    let text = String::from_utf8_lossy(&any.value);
    Some(text.strip_prefix('\n').map_or_else(|| text.to_string(), |rest| format!("{}@none", &rest[1..])))
}

fn name(resource: &Resource) -> String {
    let text = body(resource).unwrap_or_else(|| resource.name.clone());
    text.split_once('@').map_or(text.clone(), |(name, _)| name.to_owned())
}

fn show(kind: &TypeUrl, resource: &Resource) -> String {
    let ttl = resource.ttl.map(|ttl| format!("/{}s", ttl.seconds)).unwrap_or_default();
    let Some(text) = body(resource) else { return format!("{}{ttl}", resource.name) };
    assert_eq!(resource.resource.as_ref().unwrap().type_url, kind.as_str());
    let text = if text.contains('@') { text } else { format!("{text}@1") };
    if !resource.name.is_empty() {
        let version =
            text.split_once('@').and_then(|(_, version)| version.parse().ok()).map_or(Version::STAND_IN, Version);
        assert_eq!((name(resource), Version::parse(&resource.version)), (resource.name.clone(), Some(version)));
    }
    format!("{text}{ttl}")
}

/// What an Envoy that has started has.
pub(super) const WORLD: &str = "cds a; eds a; lds l -> r; rds r -> a";

/// Lets an Envoy start, with [`WORLD`].
pub(super) fn start(talk: &mut Talk) {
    talk.ask_all("cds").is("CDS a@1");
    talk.ask("eds", &["a"]).is("EDS a@1");
    talk.ack_all().is("");
    talk.ask_all("lds").is("LDS l@1");
    talk.ask("rds", &["r"]).is("RDS r@1");
    talk.ack_all().is("");
}
