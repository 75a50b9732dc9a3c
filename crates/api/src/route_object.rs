//! `RouteObject`: a route of any kind, with what all kinds have.

use std::sync::Arc;

use crate::grpc_route::GrpcRoute;
use crate::http_route::HttpRoute;
use crate::kind::{Kind, Object};
use crate::meta::ObjectMeta;
use crate::problem::{Fault, UnitFaults};
use crate::reference::{BackendObjectRef, GatewayScope, ParentRef};
use crate::stream_route::{TcpRoute, TlsRoute, UdpRoute};

/// Declares the kinds of routes: each a variant of [`RouteObject`], of [`Object`] and of [`Kind`].
macro_rules! route_kinds {
    ($($(#[$meta:meta])* $variant:ident,)+) => {
        /// A route.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum RouteObject {
            $($(#[$meta])* $variant(Arc<$variant>),)+
        }

        impl RouteObject {
            /// The kinds of routes.
            pub const KINDS: &[Kind] = &[$(Kind::$variant),+];

            /// Metadata.
            #[must_use]
            pub fn meta(&self) -> &ObjectMeta {
                match self { $(Self::$variant(route) => &route.meta,)+ }
            }

            /// `spec.parentRefs`.
            #[must_use]
            pub fn parent_refs(&self) -> &Arc<[ParentRef]> {
                match self { $(Self::$variant(route) => &route.spec.parent_refs,)+ }
            }

            /// `spec.parentRefs`, to be replaced by equal ones that others have too; none if the object is shared already.
            pub fn parent_refs_mut(object: &mut Object) -> Option<&mut Arc<[ParentRef]>> {
                match object {
                    $(Object::$variant(route) => Arc::get_mut(route).map(|route| &mut route.spec.parent_refs),)+
                    _ => None,
                }
            }

            /// `spec.rules[].name`, of rules that have one.
            #[must_use]
            pub fn rule_names(&self) -> Vec<&str> {
                match self { $(Self::$variant(route) => route.spec.rules.iter().filter_map(|rule| rule.name.as_deref()).collect(),)+ }
            }

            /// Everything in `spec.rules[].backendRefs[]`.
            pub fn backend_refs(&self) -> Box<dyn Iterator<Item = &BackendObjectRef> + '_> {
                match self {
                    $(Self::$variant(route) => {
                        Box::new(route.spec.rules.iter().flat_map(|rule| rule.backend_refs.iter()).map(|to| &to.target))
                    })+
                }
            }

            /// `spec.useDefaultGateways`.
            #[must_use]
            pub fn use_default_gateways(&self) -> Option<&GatewayScope> {
                match self { $(Self::$variant(route) => route.spec.use_default_gateways.as_ref(),)+ }
            }
        }

        impl Kind {
            /// Whether it is a kind of routes.
            #[must_use]
            pub const fn is_route(self) -> bool {
                matches!(self, $(Self::$variant)|+)
            }
        }

        impl From<RouteObject> for Object {
            fn from(route: RouteObject) -> Self {
                match route { $(RouteObject::$variant(route) => Self::$variant(route),)+ }
            }
        }

        impl TryFrom<Object> for RouteObject {
            type Error = Object;

            /// The object itself if it is no route.
            fn try_from(object: Object) -> Result<Self, Object> {
                match object { $(Object::$variant(route) => Ok(Self::$variant(route)),)+ other => Err(other) }
            }
        }
    };
}

route_kinds! {
    /// For HTTP requests.
    HttpRoute,
    /// For gRPC calls.
    GrpcRoute,
    /// For TLS connections.
    TlsRoute,
    /// For TCP connections.
    TcpRoute,
    /// For UDP datagrams.
    UdpRoute,
}

impl Kind {
    /// Whether it is a kind of routes for connections, whatever is spoken on them.
    #[must_use]
    pub const fn is_stream_route(self) -> bool {
        matches!(self, Self::TlsRoute | Self::TcpRoute | Self::UdpRoute)
    }
}

impl RouteObject {
    /// `spec.hostnames`, of kinds that have them.
    #[must_use]
    pub fn hostnames(&self) -> &[Box<str>] {
        match self {
            Self::HttpRoute(route) => &route.spec.hostnames,
            Self::GrpcRoute(route) => &route.spec.hostnames,
            Self::TlsRoute(route) => &route.spec.hostnames,
            Self::TcpRoute(_) | Self::UdpRoute(_) => &[],
        }
    }
}

/// Notes what is wrong with rules and with their matches, the first of each.
///
/// A rule without matches has the one that is the API's default, so that it can be at fault.
pub(crate) fn mark_rules<R, M: Clone + Default>(
    rules: &mut [R],
    faults: UnitFaults,
    parts: impl Fn(&mut R) -> (&mut Option<Box<Fault>>, &mut Box<[M]>),
    of_match: impl Fn(&mut M) -> &mut Option<Box<Fault>>,
) {
    for (unit, fault) in faults.faults {
        let Some(rule) = rules.get_mut(unit.item) else { continue };
        let (of_rule, matches) = parts(rule);
        let place = match unit.inner {
            None => Some(of_rule),
            Some(at) => {
                if matches.is_empty() {
                    *matches = [M::default()].into();
                }
                matches.get_mut(at).map(&of_match)
            }
        };
        place.map(|place| place.get_or_insert_with(|| Box::new(fault)));
    }
}
