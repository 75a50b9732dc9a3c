//! A client with a short way of writing messages down.
//!
//! Requests, delta: `node CDS +a -b =c@1 ack 3`, `nack 3: why`; state of the world: `node LDS v1 n3 [a b]`, `: why` behind a refusal.
//! Responses: `CDS 3 a@1 b@2~5 c~5 -d ?e:5`: nonce, resources with a time to live, a heartbeat, a removal, an error; in the state of
//! the world the version goes in front: `LDS v1 3 a@1`. A resource is bad if its version says so: `a@bad1`.

use std::time::Duration;

use prost::Message as _;
use proto::envoy::service::discovery::v3 as discovery;

use crate::client::{Action, Client, ClientNode, Config, Event, LinkId, Offer, Presence, Variant};
use crate::resource::TypeUrl;

const KINDS: [(&str, TypeUrl); 5] = [
    ("CDS", TypeUrl::Cluster),
    ("EDS", TypeUrl::Endpoints),
    ("LDS", TypeUrl::Listener),
    ("RDS", TypeUrl::Route),
    ("SDS", TypeUrl::Secret),
];

pub(super) fn kind(short: &str) -> TypeUrl {
    let found = KINDS.iter().find(|(name, _)| *name == short).map(|(_, kind)| kind.clone());
    found.unwrap_or_else(|| panic!("no kind {short}"))
}

fn short(kind: &TypeUrl) -> &'static str {
    KINDS.iter().find(|(_, known)| known == kind).map_or("?", |(name, _)| name)
}

/// Refuses what is bad.
pub(super) fn judge(offer: &Offer<'_>) -> Result<(), String> {
    let bad = offer.body.windows(3).any(|part| part == b"bad");
    if bad { Err(format!("{} is bad", offer.version)) } else { Ok(()) }
}

pub(super) fn config(servers: &[&str]) -> Config {
    let node = ClientNode { id: "agent".into(), cluster: "ns/gw".into(), zone: "z1".into(), ..ClientNode::default() };
    Config::new(node, servers.iter().map(|&name| name.into()).collect(), 1)
}

pub(super) struct Rig {
    pub(super) client: Client,
    pub(super) now: Duration,
    variant: Variant,
}

impl Rig {
    pub(super) fn new(config: Config) -> Self {
        let variant = config.variant;
        Self { client: Client::new(config), now: Duration::from_secs(1), variant }
    }

    /// With one server, in this variant.
    pub(super) fn of(variant: Variant) -> Self {
        Self::new(Config { variant, ..config(&["s"]) })
    }

    /// What the client does now: messages, and what is to be done about connections.
    pub(super) fn does(&mut self) -> String {
        let mut done = Vec::new();
        while let Some(action) = self.client.next_action(self.now) {
            done.push(match action {
                Action::Connect { link, server } => format!("connect {} to {server}", link.0),
                Action::Close { link } => format!("close {}", link.0),
                Action::Send { message, .. } if self.variant == Variant::Delta => show_delta(&message),
                Action::Send { message, .. } => show_sotw(&message),
            });
        }
        done.join(" | ")
    }

    /// Subscribes, as `CDS a b`.
    pub(super) fn subscribe(&mut self, text: &str) -> &mut Self {
        let (short, names) = text.split_once(' ').expect("names");
        self.client.subscribe(&kind(short), names.split(' '));
        self
    }

    pub(super) fn unsubscribe(&mut self, text: &str) -> &mut Self {
        let (short, names) = text.split_once(' ').expect("names");
        self.client.unsubscribe(&kind(short), names.split(' '));
        self
    }

    /// The stream with this number opens; what the client says then.
    pub(super) fn open(&mut self, link: u64) -> String {
        self.does();
        self.client.connected(LinkId(link), self.now);
        self.does()
    }

    /// A response on this stream; what the client does then.
    pub(super) fn tell(&mut self, link: u64, text: &str) -> String {
        let message = if self.variant == Variant::Delta { delta(text) } else { sotw(text) };
        self.client.received(LinkId(link), message.into(), self.now, &mut judge);
        self.does()
    }

    pub(super) fn end(&mut self, link: u64) -> String {
        self.client.ended(LinkId(link), "broken", self.now);
        self.does()
    }

    /// Time passes, as far as it goes without anything being due, and then on.
    pub(super) fn pass(&mut self, millis: u64) -> String {
        let end = self.now + Duration::from_millis(millis);
        let mut done = Vec::new();
        while let Some(at) = self.client.next_deadline().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.client.pass_time(self.now);
            done.push(self.does());
        }
        self.now = end;
        done.retain(|text| !text.is_empty());
        done.join(" | ")
    }

    /// What has happened since it was last asked.
    pub(super) fn events(&mut self) -> String {
        let mut told = Vec::new();
        while let Some(event) = self.client.next_event() {
            told.push(match event {
                Event::Changed { type_url, name } => format!("{} {name}", short(&type_url)),
                Event::Gone { type_url, name, absence } => format!("{} {name} {absence:?}", short(&type_url)),
                Event::Refused { type_url, name } => format!("{} {name} refused", short(&type_url)),
                Event::Failed { type_url, name } => format!("{} {name} failed", short(&type_url)),
                Event::InUse { server } => format!("in use {server}"),
                Event::Lost { server, reason } => format!("lost {server}: {reason}"),
            });
        }
        told.join(", ")
    }

    /// What is in force under a name, as `CDS a`.
    pub(super) fn has(&self, text: &str) -> String {
        let (short, name) = text.split_once(' ').expect("a name");
        let Some(entry) = self.client.cache().get(&kind(short), name) else { return "nothing".into() };
        let presence = match &entry.presence {
            Presence::Unknown => "unknown".into(),
            Presence::Absent(absence) => format!("{absence:?}"),
            Presence::Exists(held) => format!("{} {}", held.version, String::from_utf8_lossy(&held.body)),
        };
        let refusal =
            entry.refusal.as_ref().map(|refusal| format!(", refuses {}: {}", refusal.version, refusal.reason));
        let failure = entry.failure.as_ref().map(|failure| format!(", failed: {failure}"));
        presence + &refusal.unwrap_or_default() + &failure.unwrap_or_default()
    }
}

fn show_delta(message: &[u8]) -> String {
    let request = discovery::DeltaDiscoveryRequest::decode(message).expect("a request");
    let mut text = request.node.as_ref().map_or(String::new(), |_| "node ".into());
    text += short(&TypeUrl::from(request.type_url.as_str()));
    request.resource_names_subscribe.iter().for_each(|name| text += &format!(" +{name}"));
    request.resource_names_unsubscribe.iter().for_each(|name| text += &format!(" -{name}"));
    request.initial_resource_versions.iter().for_each(|(name, version)| text += &format!(" ={name}@{version}"));
    match (request.error_detail, request.response_nonce.as_str()) {
        (Some(status), nonce) => text + &format!(" nack {nonce}: {}", status.message),
        (None, "") => text,
        (None, nonce) => text + &format!(" ack {nonce}"),
    }
}

fn show_sotw(message: &[u8]) -> String {
    let request = discovery::DiscoveryRequest::decode(message).expect("a request");
    let node = request.node.as_ref().map_or("", |_| "node ");
    let kind = short(&TypeUrl::from(request.type_url.as_str()));
    let (version, nonce, names) = (request.version_info, request.response_nonce, request.resource_names.join(" "));
    let error = request.error_detail.map(|status| format!(": {}", status.message)).unwrap_or_default();
    format!("{node}{kind} v{version} n{nonce} [{names}]{error}")
}

fn any(kind: &TypeUrl, body: Vec<u8>) -> proto::google::protobuf::Any {
    proto::google::protobuf::Any { type_url: kind.as_str().into(), value: body.into() }
}

fn seconds(text: &str) -> prost_types::Duration {
    prost_types::Duration { seconds: text.parse().expect("seconds"), nanos: 0 }
}

/// One resource of the short form.
fn resource(kind: &TypeUrl, text: &str) -> discovery::Resource {
    let (text, ttl) = text.split_once('~').map_or((text, None), |(text, ttl)| (text, Some(seconds(ttl))));
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let body = version.map(|_| any(kind, text.as_bytes().to_vec()));
    let version = version.unwrap_or_default().to_owned();
    discovery::Resource { name: name.into(), version, resource: body, ttl, ..Default::default() }
}

fn error(text: &str) -> discovery::ResourceError {
    let (name, code) = text.split_once(':').expect("a code");
    let resource_name = Some(discovery::ResourceName { name: name.into(), ..Default::default() });
    let status = proto::google::rpc::Status {
        code: code.parse().expect("a number"),
        message: "no".into(),
        ..Default::default()
    };
    discovery::ResourceError { resource_name, error_detail: Some(status) }
}

pub(super) fn delta(text: &str) -> Vec<u8> {
    let mut words = text.split(' ');
    let kind = kind(words.next().expect("a kind"));
    let nonce = words.next().unwrap_or_default().to_owned();
    let mut response =
        discovery::DeltaDiscoveryResponse { type_url: kind.as_str().into(), nonce, ..Default::default() };
    for word in words {
        if let Some(name) = word.strip_prefix('-') {
            response.removed_resources.push(name.into());
        } else if let Some(failed) = word.strip_prefix('?') {
            response.resource_errors.push(error(failed));
        } else {
            response.resources.push(resource(&kind, word));
        }
    }
    response.encode_to_vec()
}

pub(super) fn sotw(text: &str) -> Vec<u8> {
    let mut words = text.split(' ');
    let kind = kind(words.next().expect("a kind"));
    let version_info = words.next().and_then(|version| version.strip_prefix('v')).expect("a version").to_owned();
    let nonce = words.next().expect("a nonce").to_owned();
    let mut response =
        discovery::DiscoveryResponse { type_url: kind.as_str().into(), version_info, nonce, ..Default::default() };
    for word in words {
        if let Some(failed) = word.strip_prefix('?') {
            response.resource_errors.push(error(failed));
        } else if word.contains('~') {
            let mut wrapped = resource(&kind, word);
            wrapped.version = String::new();
            let type_url = "type.googleapis.com/envoy.service.discovery.v3.Resource".into();
            response.resources.push(proto::google::protobuf::Any { type_url, value: wrapped.encode_to_vec().into() });
        } else {
            // the name is inside: field 1
            let (name, version) = word.split_once('@').expect("a version");
            let body = discovery::ResourceLocator {
                name: name.into(),
                dynamic_parameters: [("v".into(), version.into())].into(),
            };
            response.resources.push(any(&kind, body.encode_to_vec()));
        }
    }
    response.encode_to_vec()
}
