//! Any messages of several clients in any order, any publications, refusals, breaks and times to the xDS server: no panic, what is kept is
//! bounded, nothing is said twice at once or to a stale request, and who acknowledges everything holds what the fleet has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use prost::Message;
use proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use proto::google::rpc::Status;
use xds::fuzzing::{Connection, Way, World};
use xds::{Change, Need, Resource, TypeUrl, Version};

/// Steps of a history, clients, and streams of one.
const STEPS: usize = 200;
const CLIENTS: usize = 3;
const STREAMS: usize = 6;

const NAMES: [&str; 6] = ["*", "a", "b", "r", "r/a", "xdstp://a/b"];
const KINDS: usize = 9;

/// What is kept for one client: of each name of each kind some marks, and as often as responses of it can be unanswered.
const MOST_ENTRIES: usize = KINDS * (NAMES.len() + 2) * (16 + 256) + 4_096;

/// After this time an answer is not waited for.
const UNANSWERED: Duration = Duration::from_secs(5);

fn kinds() -> [TypeUrl; KINDS] {
    use TypeUrl::{Cluster, Endpoints, ExtensionConfig, Listener, Other, Route, Runtime, Secret, VirtualHost};
    [Cluster, Endpoints, Listener, Route, VirtualHost, Secret, Runtime, ExtensionConfig, Other("other".into())]
}

/// Kinds of which nothing waits for anything.
fn is_plain(kind: &TypeUrl) -> bool {
    matches!(kind, TypeUrl::Runtime | TypeUrl::ExtensionConfig | TypeUrl::Other(_))
}

/// What a client makes of one kind on one stream.
#[derive(Clone, Default)]
struct Talk {
    spoken: bool,
    names: BTreeSet<String>,
    /// All that it ever asked for in requests that were not stale.
    allowed: BTreeSet<String>,
    version: String,
    /// Of the last response that it took from the stream, and that it answered.
    latest: String,
    answered: String,
    held: BTreeMap<String, u128>,
}

/// A response that was taken from its stream and is not answered yet.
struct Heard {
    kind: TypeUrl,
    nonce: String,
    version: String,
    puts: Vec<(String, u128)>,
    removed: Vec<String>,
    /// What the client has let go of since: asked for anew it is sent at once.
    let_go: BTreeSet<String>,
    at: Duration,
}

struct Stream {
    id: u32,
    kind: Option<TypeUrl>,
    talks: BTreeMap<TypeUrl, Talk>,
    inbox: VecDeque<Heard>,
}

struct Client {
    way: Way,
    id: String,
    connection: Connection,
    streams: Vec<Stream>,
    /// Takes each response as soon as it is there.
    prompt: bool,
    /// It said what no client says: nothing is expected of it.
    wild: bool,
}

#[derive(Default)]
struct Stage {
    world: World,
    clients: Vec<Client>,
    now: Duration,
    /// Kinds of which something was refused.
    refused: BTreeSet<TypeUrl>,
}

/// One input.
pub fn run(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let mut stage = Stage { now: Duration::from_secs(1), ..Stage::default() };
    let _ = stage.history(&mut source);
    stage.finish();
}

impl Stage {
    fn history(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        for _ in 0..STEPS {
            if source.is_empty() {
                break;
            }
            match source.int_in_range(0..=11)? {
                0 | 1 => self.publish(source)?,
                2 => self.come(source)?,
                3 => self.now += Duration::from_millis(source.int_in_range(0..=12_000)?),
                4 if source.ratio(1, 8)? => self.world.withdraw(),
                step => self.say(source, step)?,
            }
            self.look();
        }
        Ok(())
    }

    fn publish(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        let mut changes = Vec::new();
        for _ in 0..source.int_in_range(1..=4)? {
            let (kind, name) = (source.choose(&kinds())?.clone(), *source.choose(&NAMES[1..])?);
            if source.ratio(1, 4)? {
                changes.push(Change::Remove { type_url: kind, name: name.into() });
                continue;
            }
            let version = source.int_in_range(1..=6)?;
            let mut resource = Resource::new(
                kind.clone(),
                name,
                Version(version),
                [format!("{name}@{version};").into(), Bytes::new()],
            );
            let needed = match kind {
                TypeUrl::Listener => Some(TypeUrl::Route),
                TypeUrl::Route | TypeUrl::VirtualHost => Some(TypeUrl::Cluster),
                TypeUrl::Cluster if source.arbitrary()? => Some(TypeUrl::Secret),
                _ => None,
            };
            if let Some(needed) = needed.filter(|_| version % 2 == 0) {
                resource.needs = [Arc::from([Need::new(needed, *source.choose(&NAMES[1..])?)])].into();
            }
            resource.apart = kind == TypeUrl::Cluster && source.arbitrary()?;
            // its last piece asks for hosts, which nobody reads here
            resource.vhds = kind == TypeUrl::Route && version > 3;
            changes.push(Change::Put(resource.into()));
        }
        self.world.publish(changes);
        Ok(())
    }

    /// A client comes, or comes again.
    fn come(&mut self, source: &mut Unstructured<'_>) -> Result<()> {
        let place = source.choose_index(CLIENTS)?;
        if place < self.clients.len() {
            let Client { way, id, connection, streams, prompt, wild } = self.clients.remove(place);
            connection.leave(&mut self.world);
            let again = self.world.connect(way, &id);
            let mut client = Client { way, id, connection: again, streams: Vec::new(), prompt, wild };
            if source.arbitrary()? {
                // with what it has, as one that never went
                for Stream { kind, talks, .. } in streams {
                    let id = client.connection.open(kind.clone());
                    client.streams.push(Stream { id, kind, talks: BTreeMap::new(), inbox: VecDeque::new() });
                    for (kind, talk) in talks {
                        client.resume(&mut self.world, &kind, talk, self.now);
                    }
                }
            }
            self.clients.push(client);
        } else {
            let way = Way { delta: source.arbitrary()?, aggregated: source.arbitrary()?, envoy: source.arbitrary()? };
            let id = source.choose(&["one", "two"])?.to_string();
            let connection = self.world.connect(way, &id);
            let (streams, prompt) = (Vec::new(), source.arbitrary()?);
            self.clients.push(Client { way, id, connection, streams, prompt, wild: false });
        }
        Ok(())
    }

    /// A client does something on one of its streams.
    fn say(&mut self, source: &mut Unstructured<'_>, step: u8) -> Result<()> {
        if self.clients.is_empty() {
            return Ok(());
        }
        let at = source.choose_index(self.clients.len())?;
        let Some(client) = self.clients.get_mut(at) else { return Ok(()) };
        let most = if client.way.aggregated { 1 } else { STREAMS };
        let (kind, place) = (source.choose(&kinds())?.clone(), source.choose_index(most)?);
        if place >= client.streams.len() {
            let kind = Some(kind.clone()).filter(|_| !client.way.aggregated);
            let id = client.connection.open(kind.clone());
            client.streams.push(Stream { id, kind, talks: BTreeMap::new(), inbox: VecDeque::new() });
        }
        let place = place.min(client.streams.len() - 1);
        let kind = client.streams[place].kind.clone().unwrap_or(kind);
        match step {
            5..=7 => {
                let (mut more, mut less) = (Vec::new(), Vec::new());
                for _ in 0..source.int_in_range(0..=3)? {
                    let name = source.choose(&NAMES)?.to_string();
                    if source.ratio(1, 3)? { less.push(name) } else { more.push(name) }
                }
                client.want(&mut self.world, place, &kind, [&more, &less], self.now);
            }
            8 | 9 => {
                let refuse = source.ratio(1, 6)?;
                if let Some(kind) = client.answer(&mut self.world, place, refuse, self.now).filter(|_| refuse) {
                    self.refused.insert(kind);
                }
            }
            10 => client.take(place, self.now),
            11 if source.ratio(1, 2)? => client.garble(&mut self.world, source, place, &kind, self.now)?,
            _ => client.end(&mut self.world, place, self.now),
        }
        Ok(())
    }

    /// Everybody is told what there is; gives when to look again.
    fn look(&mut self) -> Option<Duration> {
        let (mut next, now) = (None, self.now);
        for client in &mut self.clients {
            let at = client.connection.advance(&mut self.world, now);
            assert!(at.is_none_or(|at| at > now), "what is due is done");
            next = [next, at].into_iter().flatten().min();
            if client.prompt {
                (0..client.streams.len()).for_each(|place| client.take(place, now));
            }
            let entries = client.connection.entries();
            assert!(entries <= MOST_ENTRIES, "{entries} things are kept for a client");
        }
        self.world.forget_events();
        next
    }

    /// Everything is taken, acknowledged and waited for; then everybody has what the fleet has.
    fn finish(&mut self) {
        self.world.publish(Vec::new());
        for round in 0.. {
            assert!(round < 5_000, "it never comes to rest");
            let next = self.look();
            let mut said = false;
            for client in &mut self.clients {
                for place in 0..client.streams.len() {
                    client.take(place, self.now);
                    while client.answer(&mut self.world, place, false, self.now).is_some() {
                        said = true;
                    }
                }
            }
            match next.filter(|at| *at < Duration::from_secs(1_000_000)) {
                _ if said => {}
                Some(at) => self.now = at,
                None => break,
            }
        }
        for client in self.clients.iter().filter(|client| !client.wild) {
            for stream in &client.streams {
                for (kind, talk) in stream.talks.iter().filter(|(kind, _)| !self.refused.contains(kind)) {
                    self.compare(client, kind, talk);
                }
            }
        }
    }

    fn compare(&self, client: &Client, kind: &TypeUrl, talk: &Talk) {
        // what needs something else may be held back for it, and a SotW client keeps what it is not told about
        let concerned = is_plain(kind) || *kind == TypeUrl::Endpoints;
        for name in talk.names.iter().filter(|name| *name != "*" && concerned) {
            let (target, has) = (self.world.target(kind, name).map(|version| version.0), talk.held.get(name).copied());
            match target {
                Some(_) => assert_eq!(has, target, "{kind:?} {name} of {:?}", client.way),
                None if client.way.delta && is_plain(kind) => {
                    assert_eq!(has, None, "{kind:?} {name}: {:?}", client.way)
                }
                None => {}
            }
        }
    }
}

impl Client {
    /// Sends a request.
    fn send(&mut self, world: &mut World, place: usize, message: Vec<u8>, now: Duration) {
        let id = self.streams[place].id;
        if !self.connection.receive(world, id, message, now) {
            self.end(world, place, now);
        }
    }

    fn end(&mut self, world: &mut World, place: usize, now: Duration) {
        let stream = self.streams.remove(place);
        self.connection.close(world, stream.id, now);
        if self.way.aggregated {
            // its only stream was the client
            let again = world.connect(self.way, &self.id);
            std::mem::replace(&mut self.connection, again).leave(world);
        }
    }

    /// The client comes again with what it had of a kind.
    fn resume(&mut self, world: &mut World, kind: &TypeUrl, before: Talk, now: Duration) {
        let place = self.streams.len() - 1;
        let type_url = kind.as_str().to_owned();
        let Talk { names, version, held, .. } = before;
        let message = if self.way.delta {
            let versions = held.iter().map(|(name, version)| (name.clone(), Version(*version).to_string()));
            let request = DeltaDiscoveryRequest {
                type_url,
                resource_names_subscribe: names.iter().cloned().collect(),
                initial_resource_versions: versions.collect(),
                ..DeltaDiscoveryRequest::default()
            };
            request.encode_to_vec()
        } else {
            let (version_info, resource_names) = (version.clone(), names.iter().cloned().collect());
            DiscoveryRequest { type_url, version_info, resource_names, ..DiscoveryRequest::default() }.encode_to_vec()
        };
        let mut talk = Talk { spoken: true, names, version, held, ..Talk::default() };
        talk.allow();
        self.streams[place].talks.insert(kind.clone(), talk);
        self.send(world, place, message, now);
    }

    /// The client wants more, or less.
    fn want(&mut self, world: &mut World, place: usize, kind: &TypeUrl, [more, less]: [&[String]; 2], now: Duration) {
        let Stream { talks, inbox, .. } = &mut self.streams[place];
        let talk = talks.entry(kind.clone()).or_default();
        talk.spoken = true;
        let before = talk.names.clone();
        talk.names.extend(more.iter().cloned());
        talk.names.retain(|name| !less.contains(name));
        let narrowed = if self.way.delta {
            less.iter().any(|name| name == "*")
        } else {
            let everything = |names: &BTreeSet<String>| names.is_empty() || names.contains("*");
            everything(&before) && !everything(&talk.names)
        };
        for heard in inbox.iter_mut().filter(|heard| heard.kind == *kind) {
            let names = heard.puts.iter().map(|(name, _)| name);
            let let_go = names.filter(|name| less.contains(name) || narrowed && !before.contains(*name));
            heard.let_go.extend(let_go.cloned());
        }
        let kept: Vec<&String> = less.iter().filter(|name| talk.held.contains_key(*name)).collect();
        if !talk.names.contains("*") {
            kept.into_iter().for_each(|name| _ = talk.held.remove(name));
        }
        let type_url = kind.as_str().to_owned();
        if self.way.delta {
            let request = DeltaDiscoveryRequest {
                type_url,
                resource_names_subscribe: more.iter().filter(|name| !less.contains(name)).cloned().collect(),
                resource_names_unsubscribe: less.to_vec(),
                ..DeltaDiscoveryRequest::default()
            };
            return self.send(world, place, request.encode_to_vec(), now);
        }
        let message = talk.request(type_url, None).encode_to_vec();
        self.send(world, place, message, now);
    }

    /// The client answers its oldest open response on a stream; the kind of it.
    fn answer(&mut self, world: &mut World, place: usize, refuse: bool, now: Duration) -> Option<TypeUrl> {
        let stream = &mut self.streams[place];
        let heard = stream.inbox.pop_front()?;
        let error = refuse.then(|| Status { code: 13, message: "no".into(), ..Status::default() });
        let talk = stream.talks.entry(heard.kind.clone()).or_default();
        talk.answered.clone_from(&heard.nonce);
        let type_url = heard.kind.as_str().to_owned();
        if !refuse {
            let complete = matches!(heard.kind, TypeUrl::Cluster | TypeUrl::Listener);
            if !self.way.delta && complete {
                talk.held.clear();
            }
            talk.version = heard.version;
            heard.removed.iter().for_each(|name| _ = talk.held.remove(name));
            let wanted =
                |name: &String| talk.names.contains(name) || talk.names.contains("*") || !is_plain(&heard.kind);
            let puts: Vec<_> = heard.puts.into_iter().filter(|(name, _)| wanted(name)).collect();
            talk.held.extend(puts);
        }
        let message = if self.way.delta {
            let (response_nonce, error_detail) = (heard.nonce, error);
            DeltaDiscoveryRequest { type_url, response_nonce, error_detail, ..DeltaDiscoveryRequest::default() }
                .encode_to_vec()
        } else {
            talk.request(type_url, error).encode_to_vec()
        };
        self.send(world, place, message, now);
        Some(heard.kind)
    }

    /// The client takes what there is on a stream.
    fn take(&mut self, place: usize, now: Duration) {
        let Some(stream) = self.streams.get_mut(place) else { return };
        while let Some(bytes) = self.connection.next(stream.id) {
            let heard = read(self.way.delta, bytes, now);
            let Stream { inbox, talks, .. } = stream;
            let talk = talks.entry(heard.kind.clone()).or_default();
            talk.latest.clone_from(&heard.nonce);
            if is_plain(&heard.kind) && !self.wild {
                if self.prompt && self.way.aggregated {
                    let young = inbox.iter().filter(|one| one.kind == heard.kind && now < one.at + UNANSWERED);
                    let awaited = young.flat_map(|one| one.puts.iter().filter(|put| !one.let_go.contains(&put.0)));
                    let twice = awaited.into_iter().find(|put| heard.puts.iter().any(|new| new.0 == put.0));
                    assert_eq!(twice, None, "a name is on its way once");
                }
                let named = !talk.allowed.is_empty() && !talk.allowed.contains("*") && !talk.allowed.contains("");
                if named && !self.way.delta {
                    let unasked = heard.puts.iter().find(|(name, _)| !talk.allowed.contains(name));
                    assert_eq!(unasked, None, "a stale request is not answered");
                }
            }
            inbox.push_back(heard);
        }
    }

    /// The client says what no client says.
    fn garble(
        &mut self,
        world: &mut World,
        source: &mut Unstructured<'_>,
        place: usize,
        kind: &TypeUrl,
        now: Duration,
    ) -> Result<()> {
        self.wild = true;
        let length = source.int_in_range(0..=60)?;
        if source.arbitrary()? {
            let bytes = source.bytes(length.min(source.len()))?.to_vec();
            self.send(world, place, bytes, now);
            return Ok(());
        }
        let mut names = || -> Result<Vec<String>> {
            (0..source.int_in_range(0..=4)?).map(|_| Ok(source.choose(&NAMES)?.to_string())).collect()
        };
        let (some, others) = (names()?, names()?);
        let nonce = source.choose(&["", "0", "1", "2", "5", "18446744073709551615", "x"])?.to_string();
        let error = source.arbitrary::<bool>()?.then(Status::default);
        let type_url = kind.as_str().to_owned();
        let versions = others.iter().map(|name| (name.clone(), Version(u128::from(name.len() as u64)).to_string()));
        let message = if self.way.delta {
            let request = DeltaDiscoveryRequest {
                type_url,
                initial_resource_versions: if source.arbitrary()? { versions.collect() } else { Default::default() },
                resource_names_subscribe: some,
                resource_names_unsubscribe: others,
                response_nonce: nonce,
                error_detail: error,
                ..DeltaDiscoveryRequest::default()
            };
            request.encode_to_vec()
        } else {
            let request = DiscoveryRequest {
                type_url,
                version_info: if source.arbitrary()? { "7".into() } else { String::new() },
                resource_names: some,
                response_nonce: nonce,
                error_detail: error,
                ..DiscoveryRequest::default()
            };
            request.encode_to_vec()
        };
        self.send(world, place, message, now);
        Ok(())
    }
}

impl Talk {
    /// What is named now is asked for; naming nothing is asking for everything.
    fn allow(&mut self) {
        self.allowed.extend(self.names.iter().cloned());
        if self.names.is_empty() {
            self.allowed.insert(String::new());
        }
    }

    /// The next request of a SotW client.
    fn request(&mut self, type_url: String, error_detail: Option<Status>) -> DiscoveryRequest {
        if self.answered.is_empty() || self.answered == self.latest {
            // it is not stale as far as the client knows: what answers nothing never is
            self.allow();
        }
        DiscoveryRequest {
            type_url,
            version_info: self.version.clone(),
            resource_names: self.names.iter().cloned().collect(),
            response_nonce: self.answered.clone(),
            error_detail,
            ..DiscoveryRequest::default()
        }
    }
}

/// A response as it is on the wire: the body of each resource begins with its name and version, or is that of an
/// empty one.
fn read(delta: bool, bytes: Bytes, at: Duration) -> Heard {
    let put = |body: &[u8]| {
        let text = String::from_utf8_lossy(body).into_owned();
        // hosts stand behind
        let own = text.split(';').next().unwrap_or_default();
        match own.split_once('@') {
            Some((name, version)) => (name.to_owned(), version.parse().unwrap_or(0)),
            None => (text.get(2..).unwrap_or_default().to_owned(), 0),
        }
    };
    if delta {
        let message = DeltaDiscoveryResponse::decode(bytes).expect("a response");
        let bodies = message.resources.iter().filter_map(|resource| resource.resource.as_ref());
        let puts = bodies.map(|any| put(&any.value)).collect();
        let (nonce, removed) = (message.nonce, message.removed_resources);
        return Heard {
            kind: (&*message.type_url).into(),
            nonce,
            version: String::new(),
            puts,
            removed,
            let_go: BTreeSet::new(),
            at,
        };
    }
    let message = DiscoveryResponse::decode(bytes).expect("a response");
    let puts = message.resources.iter().map(|any| put(&any.value)).collect();
    let (nonce, version) = (message.nonce, message.version_info);
    Heard { kind: (&*message.type_url).into(), nonce, version, puts, removed: Vec::new(), let_go: BTreeSet::new(), at }
}
