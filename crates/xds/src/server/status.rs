//! `envoy.service.status.v3.ClientStatusDiscoveryService` (CSDS): what each client of the caller's own fleet holds, by name, version
//! and whether it took it. No resource is shown itself, and of no other fleet anything.

use std::sync::Arc;

use bytes::Bytes;
use prost::{Message, Oneof};

use super::exchange::{Answer, read};
use super::gate::Caller;
use super::grpc::{Broken, Code};
use super::{Shared, locked};
use crate::event::Node;
use crate::session::{Holding, Standing};
use crate::wire::message;
use crate::wire::read::LONGEST_NAME;

/// Largest answer, in bytes: gRPC clients take 4 MiB. It is some 40,000 names.
const LARGEST: usize = 4 << 20;

/// So many names cost as much as one request: 0.5 µs each beside 10 µs.
const NAMES_PER_REQUEST: usize = 20;

/// Matchers of one request, each no longer than a name: 10,000 clients are looked at in some milliseconds.
const MOST_MATCHERS: usize = 16;

/// `ClientStatusRequest`.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    matchers: Vec<NodeMatcher>,
    #[prost(message, optional, tag = "2")]
    node: Option<message::Node>,
}

/// `envoy.type.matcher.v3.NodeMatcher`.
#[derive(Clone, PartialEq, Message)]
struct NodeMatcher {
    #[prost(message, optional, tag = "1")]
    id: Option<StringMatcher>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    metadata: Vec<Bytes>,
}

/// `envoy.type.matcher.v3.StringMatcher`.
#[derive(Clone, PartialEq, Message)]
struct StringMatcher {
    #[prost(oneof = "Pattern", tags = "1, 2, 3, 7")]
    pattern: Option<Pattern>,
    #[prost(bool, tag = "6")]
    ignore_case: bool,
}

#[derive(Clone, PartialEq, Oneof)]
enum Pattern {
    #[prost(string, tag = "1")]
    Exact(String),
    #[prost(string, tag = "2")]
    Prefix(String),
    #[prost(string, tag = "3")]
    Suffix(String),
    #[prost(string, tag = "7")]
    Contains(String),
}

/// `ClientStatusResponse`.
#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, repeated, tag = "1")]
    clients: Vec<ClientConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct ClientConfig {
    #[prost(message, optional, tag = "1")]
    node: Option<message::Node>,
    #[prost(message, repeated, tag = "3")]
    resources: Vec<Resource>,
}

/// `ClientConfig.GenericXdsConfig`.
#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    version: String,
    /// `ConfigStatus`.
    #[prost(int32, tag = "6")]
    status: i32,
    #[prost(message, optional, tag = "8")]
    failure: Option<Failure>,
}

/// `envoy.admin.v3.UpdateFailureState`.
#[derive(Clone, PartialEq, Message)]
struct Failure {
    #[prost(string, tag = "3")]
    details: String,
}

impl StringMatcher {
    fn pattern(&self) -> Option<&str> {
        match self.pattern.as_ref()? {
            Pattern::Exact(text) | Pattern::Prefix(text) | Pattern::Suffix(text) | Pattern::Contains(text) => {
                Some(text)
            }
        }
    }

    fn matches(&self, text: &str) -> Result<bool, Broken> {
        let fold = |text: &str| if self.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let text = fold(text);
        Ok(match &self.pattern {
            Some(Pattern::Exact(pattern)) => text == fold(pattern),
            Some(Pattern::Prefix(pattern)) => text.starts_with(&fold(pattern)),
            Some(Pattern::Suffix(pattern)) => text.ends_with(&fold(pattern)),
            Some(Pattern::Contains(pattern)) => text.contains(&fold(pattern)),
            None => return Err(NOT_MATCHED),
        })
    }
}

const NOT_MATCHED: Broken =
    Broken(Code::InvalidArgument, "clients are matched by node_id only: exact, prefix, suffix or contains");

const MANY_MATCHERS: Broken =
    Broken(Code::InvalidArgument, "more than 16 node_matchers, or one longer than 4096 bytes: ask several times");

impl Request {
    /// Whether it can be asked of thousands of clients.
    fn is_short(&self) -> bool {
        let mut patterns = self.matchers.iter().filter_map(|matcher| matcher.id.as_ref()?.pattern());
        self.matchers.len() <= MOST_MATCHERS && patterns.all(|pattern| pattern.len() <= LONGEST_NAME)
    }

    /// Whether this client is asked for.
    fn matches(&self, node: &Node) -> Result<bool, Broken> {
        let mut any = self.matchers.is_empty();
        for matcher in &self.matchers {
            match &matcher.id {
                Some(id) if matcher.metadata.is_empty() => any |= id.matches(&node.id)?,
                _ => return Err(NOT_MATCHED),
            }
        }
        Ok(any)
    }
}

/// Answers requests. Whose fleet it is about is decided like that of a discovery stream, by the caller and the node that it says to be;
/// the node of the first request counts for later ones without.
pub(super) fn answer(shared: Arc<Shared>) -> Answer {
    let mut fleet: Option<Arc<str>> = None;
    Box::new(move |caller, request| {
        let request: Request = read(request)?;
        if !request.is_short() {
            return Err(MANY_MATCHERS);
        }
        if request.node.is_some() || fleet.is_none() {
            fleet = Some(caller.fleet(&request.node.clone().unwrap_or_default().into())?);
        }
        let clients = fleet.as_ref().map_or(Ok(Vec::new()), |fleet| clients(&shared, caller, fleet, &request))?;
        Ok(Response { clients }.encode_to_vec().into())
    })
}

/// The clients of a fleet that are asked for, in the order in which they came. The caller is charged for those that were looked at, with
/// or without an answer.
fn clients(shared: &Shared, caller: &Caller, fleet: &str, request: &Request) -> Result<Vec<ClientConfig>, Broken> {
    let cell = locked(&shared.fleets).get(fleet).map(Arc::clone);
    let Some(cell) = cell else { return Ok(Vec::new()) };
    let (mut all, mut size) = (Vec::new(), 0);
    let clients = cell.clients.clients();
    caller.account().charge_answer(clients.len() * (1 + request.matchers.len()) / NAMES_PER_REQUEST);
    for client in clients {
        if !request.matches(&client.node)? {
            continue;
        }
        // one client at a time: others of the fleet are served in between
        let mut config = ClientConfig { node: Some(node(&client.node)), resources: Vec::new() };
        size += config.encoded_len();
        let shown = client.look(|session| {
            session.visit_holdings(&locked(&cell.fleet), |holding| add(&mut config, holding, &mut size));
        });
        if shown.is_none() {
            continue;
        }
        caller.account().charge_answer(config.resources.len().div_ceil(NAMES_PER_REQUEST));
        if size > LARGEST {
            return Err(Broken(Code::ResourceExhausted, "more than 4 MiB: ask for fewer clients with node_matchers"));
        }
        all.push(config);
    }
    Ok(all)
}

/// Adds a resource to a client and its bytes to the size of the answer; false if that is too large.
fn add(client: &mut ClientConfig, holding: Holding, size: &mut usize) -> bool {
    let resource = resource(holding);
    let length = resource.encoded_len();
    *size += 1 + prost::length_delimiter_len(length) + length;
    client.resources.push(resource);
    *size <= LARGEST
}

fn text(text: &Arc<str>) -> String {
    text.as_ref().to_owned()
}

fn resource(holding: Holding) -> Resource {
    let (status, failure) = match holding.standing {
        Standing::Synced => (1, None),
        Standing::NotSent => (2, None),
        Standing::Stale => (3, None),
        Standing::Refused(words) => (4, Some(Failure { details: text(&words) })),
    };
    let version = holding.version.map(|version| version.to_string()).unwrap_or_default();
    Resource { type_url: holding.type_url.as_str().to_owned(), name: text(&holding.name), version, status, failure }
}

fn node(node: &Node) -> message::Node {
    message::Node {
        id: text(&node.id),
        cluster: text(&node.cluster),
        user_agent: text(&node.user_agent),
        ..message::Node::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::TypeUrl;

    #[test]
    fn an_answer_is_measured_while_it_grows() {
        let name: Arc<str> = "n".repeat(4_000).into();
        let holding = || Holding {
            type_url: TypeUrl::Cluster,
            name: Arc::clone(&name),
            version: None,
            standing: Standing::NotSent,
        };
        let (mut client, mut size) = (ClientConfig { node: None, resources: Vec::new() }, 0);
        let added = (0..10_000).take_while(|_| add(&mut client, holding(), &mut size)).count();
        assert!((900..1_100).contains(&added), "{added}");
        assert_eq!(client.resources.len(), added + 1);
        assert_eq!(client.encoded_len(), size);
    }
}
