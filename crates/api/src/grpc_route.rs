//! `GRPCRoute`: rules for gRPC calls. Filters and backends are those of [`HttpRoute`](crate::HttpRoute), of which the schema lets fewer pass.

use std::sync::Arc;

use serde::Deserialize;

use crate::http_route::{HeaderMatch, HttpBackendRef, HttpRouteFilter, SessionPersistence, list};
use crate::kind::Kind;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::reference::{GatewayScope, ParentRef};
use crate::resource::{Resource, Spec};
use crate::route_object::mark_rules;

/// Rules for gRPC calls.
pub type GrpcRoute = Resource<GrpcRouteSpec>;

/// `GRPCRoute.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteSpec {
    /// What it attaches to.
    #[serde(deserialize_with = "list")]
    pub parent_refs: Arc<[ParentRef]>,
    /// Whether it attaches to default Gateways (experimental).
    pub use_default_gateways: Option<GatewayScope>,
    /// Hosts, as written; empty means those of the listener.
    pub hostnames: Box<[Box<str>]>,
    /// Up to 16 rules; a route without any takes nothing.
    pub rules: Box<[GrpcRouteRule]>,
}

impl Spec for GrpcRouteSpec {
    const KIND: Kind = Kind::GrpcRoute;

    fn mark(&mut self, faults: UnitFaults) {
        mark_rules(&mut self.rules, faults, |rule| (&mut rule.fault, &mut rule.matches), |matched| &mut matched.fault);
    }
}

/// `GRPCRoute.spec.rules[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteRule {
    /// Name, unique in the route.
    pub name: Option<Box<str>>,
    /// Any of these must match; none: every call.
    pub matches: Box<[GrpcRouteMatch]>,
    /// What happens to matching calls.
    pub filters: Box<[HttpRouteFilter]>,
    /// Where matching calls go.
    pub backend_refs: Box<[HttpBackendRef]>,
    /// Sticky sessions (experimental, deprecated).
    pub session_persistence: Option<Box<SessionPersistence>>,
    /// Why what the rule wants cannot be done. Its matches are good, and calls that match are answered with UNAVAILABLE.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
}

/// `GRPCRoute.spec.rules[].matches[]`: all of its conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteMatch {
    /// Service and method; none: every one.
    pub method: Option<Box<GrpcMethodMatch>>,
    /// Header conditions.
    pub headers: Box<[HeaderMatch]>,
    /// Why this match cannot be used: it matches nothing, the rule's other matches hold.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
}

/// `matches[].method`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcMethodMatch {
    /// How both are compared.
    #[serde(rename = "type")]
    pub match_type: GrpcMethodMatchType,
    /// Full name of the service; none or empty: every one.
    pub service: Option<Box<str>>,
    /// Name of the method; none or empty: every one.
    pub method: Option<Box<str>>,
}

open_enum! {
    /// `matches[].method.type`.
    GrpcMethodMatchType {
        /// Equal, case-sensitive.
        Exact = "Exact",
        /// Regular expressions, each over the whole name.
        RegularExpression = "RegularExpression",
    }
}
