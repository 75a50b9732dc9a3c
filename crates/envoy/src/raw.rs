//! Resources as their authors wrote them: from the JSON form of a message to its bytes, with what it needs and what is wrong with it.

use std::sync::Arc;

use bytes::Bytes;
use ir::raw::{RawFault, RawOutput, RawPart, RawReading};
use ir::{RawName, RawResource};
use protojson::{Message, Pool, Unknown, View};
use serde_json::Value as Json;
use xxhash_rust::xxh3::xxh3_128;

pub use inline::raw_bootstrap;

use crate::resource::{Encoded, EncodedSet, Need, Versions, sorted_needs, type_url};

mod addresses;
mod fields;
pub(crate) mod inline;
mod opaque;
mod powers;
mod references;
#[cfg(test)]
mod tests;

pub(crate) const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
pub(crate) const ENDPOINTS: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";
pub(crate) const ROUTE_CONFIGURATION: &str = "envoy.config.route.v3.RouteConfiguration";
const VIRTUAL_HOST: &str = "envoy.config.route.v3.VirtualHost";
const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";

/// Fields of messages that can be put together from several objects, and the number of the field whose items these are.
const PARTS: [(&str, &str, u32); 2] = [(ROUTE_CONFIGURATION, "virtual_hosts", 2), (ENDPOINTS, "endpoints", 2)];

/// The number of the field with the name, of these.
const NAME: u32 = 1;

/// `RouteConfiguration.vhds`: it has to be alone at the end, because clients that know no VHDS get hosts in its place.
const VHDS: u32 = 9;

/// Reads the resource of a message of this full name from its JSON form. With `strict` a field that a message does not have is an error.
///
/// What the rules in Envoy's API refuse is an error too; Envoy would refuse the resource for it.
pub fn read_raw(message: &'static str, config: &Json, strict: bool) -> RawReading {
    let unknown = if strict { Unknown::Refuse } else { Unknown::Tell };
    let (read, left_out) = match Pool::envoy().read(message, config, unknown) {
        Ok(read) => read,
        Err(error) => return wrong(vec![fault(&error.path, &*error.reason)]),
    };
    let ignored = left_out.iter().map(|error| fault(&error.path, &*error.reason)).collect();
    let mut errors: Vec<RawFault> = read.check().iter().map(|found| fault(&found.path, &found.text)).collect();
    if errors.is_empty() {
        errors.extend(references::lacking(&read).iter().map(|(path, text)| RawFault::new(*path, text.as_str())));
    }
    let name = read.view().text(name_field(message));
    if name.is_empty() && errors.is_empty() {
        let text = "is required: proxies ask for the resource by it".to_owned();
        errors.push(RawFault::new(name_field(message), text));
    }
    let of_configuration = || name.rsplit_once('/').is_some_and(|(one, other)| !one.is_empty() && !other.is_empty());
    if message == VIRTUAL_HOST && errors.is_empty() && !of_configuration() {
        let text = "has to be <route configuration>/<anything>: proxies ask for the hosts of a route configuration";
        errors.push(RawFault::new(name_field(message), text));
    }
    if !errors.is_empty() {
        return RawReading { ignored, ..wrong(errors) };
    }
    let id = RawName { message, name: name.into() };
    RawReading { resource: Some(Arc::new(resource(id, &read))), errors, ignored }
}

fn wrong(errors: Vec<RawFault>) -> RawReading {
    RawReading { errors, ..RawReading::default() }
}

fn fault(path: &protojson::Path, text: &impl ToString) -> RawFault {
    RawFault::new(path.to_string(), text.to_string())
}

/// The field with the name of a resource.
fn name_field(message: &str) -> &'static str {
    if message == ENDPOINTS { "cluster_name" } else { "name" }
}

fn resource(id: RawName, message: &Message<'_>) -> RawResource {
    let bytes = message.to_bytes();
    let field = PARTS.iter().find(|(of, ..)| *of == id.message);
    let is_tail = |number: u32| number == VHDS && id.message == ROUTE_CONFIGURATION;
    let (mut rest, mut parts, mut tail) = (Vec::with_capacity(bytes.len()), Vec::new(), None);
    let mut says_more = false;
    for (number, bytes) in fields::of(&bytes) {
        match field {
            Some((.., part)) if *part == number => parts.push(Arc::from(bytes)),
            _ if is_tail(number) => tail = Some(Arc::from(bytes)),
            _ => {
                says_more |= number != NAME;
                rest.extend_from_slice(bytes);
            }
        }
    }
    let items = field.map(|(_, name, _)| *name);
    let claims = items.map(|name| message.view().items(name).iter().map(claims).collect()).unwrap_or_else(Vec::new);
    let parts = parts.into_iter().zip(claims).map(|(bytes, claims)| RawPart { claims, bytes }).collect();
    let slow = id.message == CLUSTER && is_slow(&message.view());
    let powers::RawEffects { uses, leads: addresses, sockets, bound } = powers::of(message);
    RawResource {
        names: references::of(&id, message),
        bytes: rest.into(),
        parts,
        says_more,
        tail,
        slow,
        uses,
        addresses,
        sockets,
        bound,
        endpoints: None,
        id,
    }
}

/// What no other part of the same resource may be called: Envoy refuses the whole otherwise.
fn claims(part: &View<'_>) -> Vec<Arc<str>> {
    if part.is(VIRTUAL_HOST) {
        let domains = part.texts("domains").into_iter().map(|domain| format!("domain {}", domain.to_ascii_lowercase()));
        let name = format!("virtual host {}", part.text("name"));
        return [name].into_iter().chain(domains).map(Arc::from).collect();
    }
    let locality = part.inner("locality");
    let text = |field: &str| locality.as_ref().map(|locality| locality.text(field)).unwrap_or_default();
    let names = ["region", "zone", "sub_zone"].map(text);
    let is_named = names.iter().any(|name| !name.is_empty());
    let named =
        if is_named { format!("locality {}", names.join("/")) } else { "the locality without a name".to_owned() };
    vec![format!("{named} of priority {}", part.number("priority")).into()]
}

/// `Cluster.DiscoveryType`: a name that is resolved before the cluster is ready.
const STRICT_DNS: i64 = 1;
/// The same.
const LOGICAL_DNS: i64 = 2;

/// A cluster that becomes ready when somebody else has answered.
fn is_slow(cluster: &View<'_>) -> bool {
    let waits = cluster.inner("wait_for_warm_on_init").is_none_or(|flag| flag.flag("value"));
    !cluster.items("health_checks").is_empty() || (waits && [STRICT_DNS, LOGICAL_DNS].contains(&cluster.number("type")))
}

/// The bytes of what a workload gets under a name, with the endpoints of the Service that it names.
pub fn raw(output: &RawOutput, endpoints: Option<&EncodedSet>) -> Encoded {
    let RawOutput { resource, parts, needs } = output;
    let pieces = [&resource.bytes].into_iter().chain(parts).chain(&resource.tail);
    let mut body: Vec<Bytes> = pieces.map(|piece| Bytes::from_owner(Arc::clone(piece))).collect();
    body.extend(endpoints.map(|set| set.bytes.clone()));
    let mut versions = Versions::of(body.len());
    body.iter().for_each(|piece| versions.part(xxh3_128(piece)));
    let need = |need: &RawName| Some(Need { type_url: type_url::of(need.message)?, name: Arc::clone(&need.name) });
    Encoded {
        type_url: type_url::of(resource.id.message).unwrap_or_default(),
        name: Arc::clone(&resource.id.name),
        version: versions.version(),
        body,
        needs: sorted_needs(needs.iter().filter_map(need).collect()),
        vhds: resource.tail.is_some(),
    }
}
