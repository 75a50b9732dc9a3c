//! Schemas of the kinds that we read: structure, limits, defaults and rules, loaded once per kind when first needed.
//!
//! Those of Gateway API are generated (`cargo xtask schemas`); those of core and Envoy Gateway's kinds are our own
//! writing in `schemas/own`, in a short form of the same language that [`load`] describes.

#[cfg(test)]
mod bounds;
#[cfg(test)]
pub(crate) mod chance;
mod check;
#[cfg(test)]
mod differential;
mod load;
mod near;
mod openapi;
mod pattern;

use std::sync::OnceLock;

pub(crate) use self::check::{Checked, Violation, check};
pub use self::near::nearest;
pub use self::openapi::definition;
pub(crate) use self::pattern::Pattern;
pub(crate) use self::pattern::is_qualified_name;
pub use self::pattern::{is_dns_label, is_dns_subdomain};
use crate::cel::Program;
use crate::kind::Kind;
use crate::tree::Tree;

/// What a value must be like.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    value_type: Type,
    /// Fields, in the order of [`by_length`].
    properties: Box<[Property]>,
    /// What every field that is not in `properties` must be like; none: there may be no others.
    values: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    list: ListType,
    limits: Limits,
    pattern: Option<Pattern>,
    format: Option<Format>,
    /// The only strings or numbers allowed, if not empty.
    words: Box<[Word]>,
    default: Option<Tree<'static>>,
    rules: Box<[Rule]>,
    /// Exactly one of these must hold as well, if not empty.
    one_of: Box<[Schema]>,
    /// At least one of these must hold as well, if not empty.
    any_of: Box<[Schema]>,
    /// This must not hold.
    not: Option<Box<Schema>>,
    /// What a fault in it costs.
    unit: Option<UnitKind>,
    /// A field of the kind that this version does not act on.
    later: bool,
    /// Without this field, or what is in it, more is taken or let through: of [`GUARDS`].
    guards: bool,
    /// Fields that are not named guard, and are not built.
    others_guard: bool,
    /// Of a whole kind: names of its guards and of what is in these, with the paths where they belong.
    guard_names: Box<[(Box<str>, String)]>,
}

/// Types of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Type {
    /// Anything, unchecked.
    #[default]
    Any,
    Object,
    List,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

#[derive(Debug)]
pub(crate) struct Property {
    name: Box<str>,
    required: bool,
    pub(crate) schema: Schema,
}

/// How the items of a list relate.
#[derive(Debug, Default, PartialEq, Eq)]
enum ListType {
    #[default]
    Atomic,
    /// No two are equal.
    Set,
    /// No two have the same values in these fields.
    Map(Box<[Box<str>]>),
}

/// Bounds, each inclusive: of numbers, characters of strings, items of lists, entries of maps.
#[derive(Debug, Clone, Copy)]
struct Limits {
    minimum: i64,
    maximum: i64,
    least: u32,
    most: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { minimum: i64::MIN, maximum: i64::MAX, least: 0, most: u32::MAX }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Ipv4,
    Ipv6,
    /// An address of one machine, of either family; none yet is the empty text.
    Ip,
    /// An address of an `EndpointSlice`, by its `addressType`.
    SliceAddress,
    Base64,
    Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
enum Word {
    String(Box<str>),
    Int(i64),
}

/// A CEL rule.
#[derive(Debug)]
struct Rule {
    program: Program,
    message: Box<str>,
    /// For the test that compares with another implementation.
    #[cfg(test)]
    text: Box<str>,
}

/// What a fault inside a list's item, or inside a field, costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitKind {
    /// The item, which stays and knows its fault: a rule, a listener.
    Item,
    /// The item of a list inside such an item: a match.
    Inner,
    /// The item, which is left out: a parent reference, an endpoint.
    Dropped,
    /// As `Dropped`, unless none would be left where an empty list means something else: no hostname means every host.
    DroppedButLast,
    /// The field itself, which has no smaller parts: the object stays and knows its fault, so that its status can say it.
    Whole,
}

/// Which lists have items that fail alone: kind, path of the list; and which fields do not cost the object.
const UNITS: &[(Kind, &[&str], UnitKind)] = &[
    (Kind::Gateway, &["spec", "listeners"], UnitKind::Item),
    (Kind::Gateway, &["spec", "addresses"], UnitKind::DroppedButLast),
    (Kind::ListenerSet, &["spec", "listeners"], UnitKind::Item),
    (Kind::HttpRoute, &["spec", "rules"], UnitKind::Item),
    (Kind::HttpRoute, &["spec", "rules", "matches"], UnitKind::Inner),
    (Kind::HttpRoute, &["spec", "parentRefs"], UnitKind::Dropped),
    (Kind::HttpRoute, &["spec", "hostnames"], UnitKind::DroppedButLast),
    (Kind::GrpcRoute, &["spec", "rules"], UnitKind::Item),
    (Kind::GrpcRoute, &["spec", "rules", "matches"], UnitKind::Inner),
    (Kind::GrpcRoute, &["spec", "parentRefs"], UnitKind::Dropped),
    (Kind::GrpcRoute, &["spec", "hostnames"], UnitKind::DroppedButLast),
    (Kind::TlsRoute, &["spec", "rules"], UnitKind::Item),
    (Kind::TlsRoute, &["spec", "parentRefs"], UnitKind::Dropped),
    (Kind::TlsRoute, &["spec", "hostnames"], UnitKind::DroppedButLast),
    (Kind::TcpRoute, &["spec", "rules"], UnitKind::Item),
    (Kind::TcpRoute, &["spec", "parentRefs"], UnitKind::Dropped),
    (Kind::UdpRoute, &["spec", "rules"], UnitKind::Item),
    (Kind::UdpRoute, &["spec", "parentRefs"], UnitKind::Dropped),
    (Kind::BackendTlsPolicy, &["spec", "targetRefs"], UnitKind::Item),
    (Kind::BackendTlsPolicy, &["spec"], UnitKind::Whole),
    (Kind::XBackend, &["spec"], UnitKind::Whole),
    (Kind::XBackendTrafficPolicy, &["spec"], UnitKind::Whole),
    (Kind::XBackendTrafficPolicy, &["spec", "targetRefs"], UnitKind::Dropped),
    (Kind::XTelemetryPolicy, &["spec"], UnitKind::Whole),
    (Kind::XTelemetryPolicy, &["spec", "targetRefs"], UnitKind::Dropped),
    (Kind::ServiceImport, &["spec", "ports"], UnitKind::Dropped),
    (Kind::ReferenceGrant, &["spec", "from"], UnitKind::Dropped),
    (Kind::ReferenceGrant, &["spec", "to"], UnitKind::Dropped),
    (Kind::Service, &["spec", "ports"], UnitKind::Dropped),
    (Kind::EndpointSlice, &["endpoints"], UnitKind::Dropped),
    (Kind::EndpointSlice, &["ports"], UnitKind::Dropped),
    (Kind::Backend, &["spec"], UnitKind::Whole),
    (Kind::Backend, &["spec", "endpoints"], UnitKind::Dropped),
    (Kind::EnvoyProxy, &["spec"], UnitKind::Whole),
    (Kind::BackendTrafficPolicy, &["spec"], UnitKind::Whole),
    (Kind::BackendTrafficPolicy, &["spec", "targetRefs"], UnitKind::Item),
    (Kind::SecurityPolicy, &["spec"], UnitKind::Whole),
    (Kind::SecurityPolicy, &["spec", "targetRefs"], UnitKind::Item),
    (Kind::EnvoyExtensionPolicy, &["spec"], UnitKind::Whole),
    (Kind::EnvoyExtensionPolicy, &["spec", "targetRefs"], UnitKind::Item),
    (Kind::ClientTrafficPolicy, &["spec"], UnitKind::Whole),
    (Kind::ClientTrafficPolicy, &["spec", "targetRefs"], UnitKind::Item),
    (Kind::EnvoyPatchPolicy, &["spec"], UnitKind::Whole),
    (Kind::Pod, &["status"], UnitKind::Whole),
];

/// The lists of a kind whose items are left out if something is wrong with them.
pub(crate) fn lists_that_drop(kind: Kind) -> impl Iterator<Item = &'static [&'static str]> {
    let drops = |unit: UnitKind| matches!(unit, UnitKind::Dropped | UnitKind::DroppedButLast);
    UNITS.iter().filter(move |(of, _, unit)| *of == kind && drops(*unit)).map(|(_, path, _)| *path)
}

/// Fields that narrow or guard: without them more is taken, let through or changed. A misspelt one is an error where it would
/// otherwise count as left out: kind, path of the field. Of a field that has fields, those guard as well where it says so.
const GUARDS: &[(Kind, &[&str], Depth)] = &[
    (Kind::Gateway, &["spec", "addresses"], Depth::Field),
    (Kind::Gateway, &["spec", "allowedListeners"], Depth::All),
    (Kind::Gateway, &["spec", "listeners", "allowedRoutes"], Depth::All),
    (Kind::Gateway, &["spec", "listeners", "filters"], Depth::All),
    (Kind::Gateway, &["spec", "listeners", "hostname"], Depth::Field),
    (Kind::Gateway, &["spec", "tls"], Depth::All),
    (Kind::ListenerSet, &["spec", "listeners", "allowedRoutes"], Depth::All),
    (Kind::ListenerSet, &["spec", "listeners", "filters"], Depth::All),
    (Kind::ListenerSet, &["spec", "listeners", "hostname"], Depth::Field),
    (Kind::HttpRoute, &["spec", "hostnames"], Depth::Field),
    (Kind::HttpRoute, &["spec", "parentRefs"], Depth::Field),
    (Kind::HttpRoute, &["spec", "parentRefs", "port"], Depth::Field),
    (Kind::HttpRoute, &["spec", "parentRefs", "sectionName"], Depth::Field),
    (Kind::HttpRoute, &["spec", "rules"], Depth::Field),
    (Kind::HttpRoute, &["spec", "rules", "filters"], Depth::All),
    (Kind::HttpRoute, &["spec", "rules", "matches"], Depth::All),
    (Kind::HttpRoute, &["spec", "rules", "backendRefs", "filters"], Depth::All),
    (Kind::GrpcRoute, &["spec", "hostnames"], Depth::Field),
    (Kind::GrpcRoute, &["spec", "parentRefs"], Depth::Field),
    (Kind::GrpcRoute, &["spec", "parentRefs", "port"], Depth::Field),
    (Kind::GrpcRoute, &["spec", "parentRefs", "sectionName"], Depth::Field),
    (Kind::GrpcRoute, &["spec", "rules"], Depth::Field),
    (Kind::GrpcRoute, &["spec", "rules", "filters"], Depth::All),
    (Kind::GrpcRoute, &["spec", "rules", "matches"], Depth::All),
    (Kind::GrpcRoute, &["spec", "rules", "backendRefs", "filters"], Depth::All),
    (Kind::TlsRoute, &["spec", "hostnames"], Depth::Field),
    (Kind::TlsRoute, &["spec", "parentRefs"], Depth::Field),
    (Kind::TlsRoute, &["spec", "parentRefs", "port"], Depth::Field),
    (Kind::TlsRoute, &["spec", "parentRefs", "sectionName"], Depth::Field),
    (Kind::TlsRoute, &["spec", "rules"], Depth::Field),
    (Kind::TcpRoute, &["spec", "parentRefs"], Depth::Field),
    (Kind::TcpRoute, &["spec", "parentRefs", "port"], Depth::Field),
    (Kind::TcpRoute, &["spec", "parentRefs", "sectionName"], Depth::Field),
    (Kind::TcpRoute, &["spec", "rules"], Depth::Field),
    (Kind::UdpRoute, &["spec", "parentRefs"], Depth::Field),
    (Kind::UdpRoute, &["spec", "parentRefs", "port"], Depth::Field),
    (Kind::UdpRoute, &["spec", "parentRefs", "sectionName"], Depth::Field),
    (Kind::UdpRoute, &["spec", "rules"], Depth::Field),
    (Kind::BackendTlsPolicy, &["spec", "targetRefs", "sectionName"], Depth::Field),
    (Kind::BackendTlsPolicy, &["spec", "validation"], Depth::All),
    (Kind::XBackend, &["spec", "endpointSelector"], Depth::All),
    (Kind::XBackend, &["spec", "tls"], Depth::All),
    (Kind::ReferenceGrant, &["spec", "to", "name"], Depth::Field),
    (Kind::Backend, &["spec", "tls"], Depth::Field),
    (Kind::EnvoyPatchPolicy, &["spec", "jsonPatches"], Depth::Field),
    (Kind::BackendTrafficPolicy, &["spec", "targetRef", "sectionName"], Depth::Field),
    (Kind::BackendTrafficPolicy, &["spec", "targetRefs", "sectionName"], Depth::Field),
    (Kind::BackendTrafficPolicy, &["spec", "targetSelectors"], Depth::All),
    (Kind::SecurityPolicy, &["spec", "targetRef", "sectionName"], Depth::Field),
    (Kind::SecurityPolicy, &["spec", "targetRefs", "sectionName"], Depth::Field),
    (Kind::SecurityPolicy, &["spec", "targetSelectors"], Depth::All),
    (Kind::EnvoyExtensionPolicy, &["spec", "targetRef", "sectionName"], Depth::Field),
    (Kind::EnvoyExtensionPolicy, &["spec", "targetRefs", "sectionName"], Depth::Field),
    (Kind::EnvoyExtensionPolicy, &["spec", "targetSelectors"], Depth::All),
    (Kind::ClientTrafficPolicy, &["spec", "targetRef", "sectionName"], Depth::Field),
    (Kind::ClientTrafficPolicy, &["spec", "targetRefs", "sectionName"], Depth::Field),
    (Kind::ClientTrafficPolicy, &["spec", "targetSelectors"], Depth::All),
];

/// How far a guard reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Field,
    /// Everything below the field too.
    All,
}

impl Schema {
    /// The schema of a kind.
    pub(crate) fn of(kind: Kind) -> &'static Self {
        static SCHEMAS: [OnceLock<Schema>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];
        match SCHEMAS.get(kind as usize) {
            Some(schema) => schema.get_or_init(|| load::load(kind)),
            None => Self::any(),
        }
    }

    /// Whether it is the list of a rule's matches.
    fn is_matches(&self) -> bool {
        self.items().is_some_and(|items| items.unit == Some(UnitKind::Inner))
    }

    /// Whether a map has to have something in it.
    fn needs_any(&self) -> bool {
        let needs_entries = self.value_type == Type::Object && self.limits.least > 0;
        needs_entries || self.properties.iter().any(|property| property.required)
    }

    /// The schema that everything obeys.
    pub(crate) fn any() -> &'static Self {
        static ANY: OnceLock<Schema> = OnceLock::new();
        ANY.get_or_init(Self::default)
    }

    /// The field of a name.
    pub(crate) fn property(&self, name: &str) -> Option<&Property> {
        let at = self.properties.binary_search_by(|property| by_length(&property.name, name)).ok()?;
        self.properties.get(at)
    }

    /// A map of names of all kinds.
    fn is_open(&self) -> bool {
        self.values().is_some() && self.properties.is_empty()
    }

    /// Whether a field of this name can be in it, or in its items.
    fn takes(&self, name: &str) -> bool {
        self.is_open() || [Some(self), self.items()].into_iter().flatten().any(|schema| schema.property(name).is_some())
    }

    /// The schema of fields that are not listed.
    pub(crate) fn values(&self) -> Option<&Self> {
        self.values.as_deref()
    }

    /// The schema of items.
    pub(crate) fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    /// What counts where nothing is written.
    pub(crate) fn default_value(&self) -> Option<&Tree<'static>> {
        self.default.as_ref()
    }

    /// Marks the items of the list at a path, of a field or of a field of a list's items; or the field itself.
    fn mark_units(&mut self, path: &[&str], unit: UnitKind) -> Option<()> {
        let at = self.at(path)?;
        let marked = if unit == UnitKind::Whole { at } else { at.items.as_deref_mut()? };
        marked.unit = Some(unit);
        Some(())
    }

    /// Marks the field at a path as one that guards.
    fn mark_guard(&mut self, path: &[&str], depth: Depth) -> Option<()> {
        let field = self.at(path)?;
        field.guards = true;
        if depth == Depth::All {
            field.guard_below();
        }
        Some(())
    }

    fn guard_below(&mut self) {
        for property in &mut self.properties {
            property.schema.guards = true;
            property.schema.guard_below();
        }
        if let Some(items) = self.items.as_deref_mut() {
            items.guards = true;
            items.guard_below();
        }
    }

    /// The names that a guard at a path stands for: its own, and those in it.
    fn names_of_guard(&mut self, path: &[&str], depth: Depth) -> Vec<(Box<str>, String)> {
        let Some((own, above)) = path.split_last() else { return Vec::new() };
        let (mut place, mut so_far) = (String::new(), Vec::new());
        for name in above {
            so_far.push(*name);
            let is_list = self.at(&so_far).is_some_and(|field| field.value_type == Type::List);
            place += name;
            place += if is_list { "[]." } else { "." };
        }
        place += own;
        let mut names = vec![(Box::from(*own), place.clone())];
        let Some(field) = self.at(path).filter(|_| depth == Depth::All) else { return names };
        let (inside, dots) = match field.items() {
            Some(items) => (items, "[]."),
            None => (&*field, "."),
        };
        names.extend(
            inside.properties.iter().map(|property| (property.name.clone(), format!("{place}{dots}{}", property.name))),
        );
        names
    }

    /// The field at a path that goes through the items of lists.
    fn at(&mut self, path: &[&str]) -> Option<&mut Self> {
        let mut at = self;
        for name in path {
            at = match at.value_type {
                Type::List => at.items.as_deref_mut()?,
                _ => at,
            };
            let index = at.properties.binary_search_by(|property| by_length(&property.name, name)).ok()?;
            at = &mut at.properties.get_mut(index)?.schema;
        }
        Some(at)
    }
}

/// The order of fields: comparing lengths settles most look-ups without touching the names.
fn by_length(one: &str, two: &str) -> std::cmp::Ordering {
    one.len().cmp(&two.len()).then_with(|| one.cmp(two))
}

#[cfg(test)]
mod tests;
