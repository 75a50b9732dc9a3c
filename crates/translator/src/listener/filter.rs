//! Filters of a listener, which see every request before its route is chosen (Gateway API GEP-5224).

use std::sync::Arc;

use api::ObjectKey;
use api::gateway::{Listener, ListenerFilter, ListenerFilterType};
use api::http_route::ExternalAuthFilter;
use ir::VirtualHost;
use ir::route::ExternalAuth;

use super::Refusal;
use super::check::UNSUPPORTED_VALUE;
use crate::backend::{KINDS, is_backend};
use crate::external_auth;
use crate::gateway::Lookup;
use crate::key::ClusterTarget;
use crate::reference::{RefFault, RefReason, Reference, permit, unfit};

/// Where the filters stand in their listener.
const FIELD: &str = "filters.requests";

/// What stands between a listener and its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Who is asked whether a request may pass, in this order.
    pub(crate) asked: Box<[Arc<ExternalAuth>]>,
    /// Their clusters.
    pub(crate) clusters: Arc<[ClusterTarget]>,
    /// Nothing may pass, and why: somebody who would have to be asked is not there.
    pub(crate) closed: Option<Arc<str>>,
}

impl Gate {
    /// Lets nothing pass.
    pub(super) fn close(&mut self, why: Arc<str>) {
        *self = Self { closed: Some(why), ..Self::default() };
    }
}

/// The filters of a listener, with why `Accepted` and why `ResolvedRefs` do not hold.
pub(super) fn gate(
    lookup: &mut impl Lookup,
    owner: &ObjectKey,
    listener: &Listener,
) -> (Gate, Option<Refusal>, Option<Refusal>) {
    let filters = listener.filters.as_deref().map(|filters| &*filters.requests).unwrap_or_default();
    let (mut asked, mut clusters) = (Vec::with_capacity(filters.len()), Vec::with_capacity(filters.len()));
    let (mut refused, mut unresolved) = (None, None);
    for (index, filter) in filters.iter().enumerate() {
        let at = format!("{FIELD}[{index}]");
        let auth = match external_auth_of(filter).and_then(|auth| in_bounds(index).map(|()| auth)) {
            Ok(auth) => auth,
            Err(refusal) => {
                refused.get_or_insert(refusal.at(at));
                continue;
            }
        };
        let whole = match external_auth::read(auth, owner.namespace()) {
            Ok(whole) => whole,
            Err(text) => {
                refused.get_or_insert(Refusal::new("InvalidListenerFilter", text).at(format!("{at}.externalAuth")));
                continue;
            }
        };
        match follow(lookup, owner, auth) {
            Ok(target) => {
                asked.push(Arc::new(whole(target.name().clone())));
                clusters.push(target);
            }
            Err(refusal) => drop(unresolved.get_or_insert(refusal.at(format!("{at}.externalAuth.backendRef")))),
        }
    }
    let closed = unresolved.as_ref().map(|refusal: &Refusal| refusal.text.clone());
    let (asked, clusters) = if closed.is_some() { Default::default() } else { (asked, clusters) };
    (Gate { asked: asked.into(), clusters: clusters.into(), closed }, refused, unresolved)
}

impl Refusal {
    /// It is about a filter that names what is not there: the listener serves, and lets nothing pass.
    pub(super) fn closes(&self) -> bool {
        self.at.starts_with(FIELD)
    }
}

fn external_auth_of(filter: &ListenerFilter) -> Result<&ExternalAuthFilter, Refusal> {
    match (&filter.filter_type, &filter.external_auth, &filter.extension_ref) {
        (ListenerFilterType::ExternalAuth, Some(auth), _) => Ok(auth),
        (ListenerFilterType::ExternalAuth, None, _) => {
            Err(Refusal::new("InvalidListenerFilter", "externalAuth is missing"))
        }
        (ListenerFilterType::ExtensionRef, _, Some(target)) => {
            let text = format!("filter {} {:?} is not supported", target.kind, target.name);
            Err(Refusal::new(UNSUPPORTED_VALUE, text))
        }
        (other, ..) => Err(Refusal::new(UNSUPPORTED_VALUE, format!("filter type {other} is not supported"))),
    }
}

fn in_bounds(index: usize) -> Result<(), Refusal> {
    const MOST: usize = VirtualHost::MOST_EXTERNAL_AUTH;
    let text = || format!("more than {MOST} filters are not supported");
    if index < MOST { Ok(()) } else { Err(Refusal::new(UNSUPPORTED_VALUE, text())) }
}

fn follow(lookup: &mut impl Lookup, owner: &ObjectKey, auth: &ExternalAuthFilter) -> Result<ClusterTarget, Refusal> {
    let server = &auth.backend_ref;
    let refusal = |fault: RefFault| match fault.reason {
        RefReason::NotPermitted => Refusal::new("RefNotPermitted", fault.text),
        RefReason::NotFound => {
            let namespace = server.namespace.as_deref().unwrap_or_else(|| owner.namespace());
            let object = ObjectKey::new(&server.group, &server.kind, namespace, &server.name);
            Refusal::new("InvalidListenerFilterRef", fault.text).naming(object)
        }
        RefReason::InvalidKind | RefReason::NoPort | RefReason::UnsupportedProtocol => {
            Refusal::new("InvalidListenerFilterRef", fault.text)
        }
    };
    let permit = permit(lookup, owner, Reference::from(server)).map_err(refusal)?;
    if !is_backend(permit.target().kind()) {
        let text = unfit(&server.group, &server.kind, "a backend", &KINDS);
        return Err(Refusal::new("InvalidListenerFilterRef", text));
    }
    let target = lookup.backend(&permit, server.port).map_err(refusal)?;
    Ok(if external_auth::is_grpc(auth) { target.over_grpc() } else { target })
}
