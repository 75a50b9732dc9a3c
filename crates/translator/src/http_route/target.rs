//! What a route sends to: references to backends, with the clusters that come of them.

use std::sync::Arc;

use api::http_route::ExternalAuthFilter;
use api::reference::BackendObjectRef;
use api::{Kind, ObjectKey};
use ir::ClusterName;

use super::{Finding, Lookup};
use crate::backend::{KINDS, Sendable, Treatment, has_ports, is_backend};
use crate::backend_traffic_policy::PolicyTarget;
use crate::external_auth;
use crate::key::{BackendKey, ClusterTarget, Transport};
use crate::reference::{RefFault, RefReason, Reference, permit, unfit};

/// How the listeners of a route send.
#[derive(Clone, Copy)]
pub(super) struct Sends {
    /// TLS of clients, which is passed through.
    pub(super) as_it_comes: bool,
    /// Connections of the proxy's own.
    pub(super) by_itself: bool,
}

/// The clusters of a backend.
pub(super) struct Resolved {
    pub(super) backend: BackendKey,
    pub(super) by_itself: ClusterName,
    /// The same without TLS of the proxy's own.
    pub(super) as_it_comes: ClusterName,
    /// How the backend wants what is sent to it to be treated.
    pub(super) treatment: Option<Arc<Treatment>>,
}

/// Resolves the references of one route and keeps what they led to.
pub(super) struct Targets<'a, L> {
    lookup: &'a mut L,
    route: &'a ObjectKey,
    sends: Sends,
    /// Some policy is in the route's namespace: most have none, and nothing more is asked.
    policies: bool,
    route_policy: Option<ObjectKey>,
    policy: Option<ObjectKey>,
    clusters: Vec<ClusterTarget>,
    bad: Vec<(Finding, RefFault)>,
    /// What is written and has no effect.
    ignored: Vec<Finding>,
}

impl<'a, L: Lookup> Targets<'a, L> {
    pub(super) fn new(lookup: &'a mut L, route: &'a ObjectKey, sends: Sends) -> Self {
        let policies = lookup.has_policies(route.namespace());
        let own = PolicyTarget { object: route.clone(), section: None };
        let route_policy = if policies { lookup.policy(&own) } else { None };
        let policy = route_policy.clone();
        Self {
            lookup,
            route,
            sends,
            policies,
            route_policy,
            policy,
            clusters: Vec::new(),
            bad: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// What follows belongs to a rule of this name: a policy on the rule beats one on the route.
    pub(super) fn enter_rule(&mut self, name: Option<&str>) {
        let section = name.filter(|_| self.policies).map(Arc::from);
        let own = section.and_then(|section| {
            self.lookup.policy(&PolicyTarget { object: self.route.clone(), section: Some(section) })
        });
        self.policy = own.or_else(|| self.route_policy.clone());
    }

    /// The cluster of a backend, or why there is none.
    pub(super) fn resolve(
        &mut self,
        target: &BackendObjectRef,
        path: impl Fn() -> String,
    ) -> Result<Resolved, Arc<str>> {
        let kind = Kind::find(&target.group, &target.kind);
        if target.port.is_some() && is_backend(kind) && !has_ports(kind) {
            let text = format!("a {} has a port of its own, this one is ignored", target.kind);
            self.ignored.push(Finding::warning(format!("{}.port", path()), text));
        }
        match self.follow(target) {
            Ok(Sendable { target, treatment }) if self.sends.as_it_comes => {
                let passed = target.passed_through();
                let (by_itself, as_it_comes) = (target.name().clone(), passed.name().clone());
                let found = Resolved { backend: target.backend().clone(), by_itself, as_it_comes, treatment };
                self.clusters.push(passed);
                self.clusters.extend(self.sends.by_itself.then_some(target));
                Ok(found)
            }
            Ok(Sendable { target, treatment }) => {
                let (backend, name) = (target.backend().clone(), target.name().clone());
                self.clusters.push(target);
                Ok(Resolved { backend, by_itself: name.clone(), as_it_comes: name, treatment })
            }
            Err(_) if target.name.is_empty() => {
                let text = format!("a reference to a {} names none", target.kind).into();
                Err(self.bad(target, RefFault { reason: RefReason::NotFound, text }, path))
            }
            Err(fault) => Err(self.bad(target, fault, path)),
        }
    }

    /// The cluster of who is asked whether a request may pass, or why there is none. The route's policy is about its own traffic, not about that.
    pub(super) fn authority(
        &mut self,
        filter: &ExternalAuthFilter,
        path: impl FnOnce() -> String,
    ) -> Result<ClusterName, Arc<str>> {
        match self.backend(&filter.backend_ref) {
            Ok(Sendable { target, .. }) => {
                let target = if external_auth::is_grpc(filter) { target.over_grpc() } else { target };
                let name = target.name().clone();
                self.clusters.push(target);
                Ok(name)
            }
            Err(fault) => Err(self.bad(&filter.backend_ref, fault, path)),
        }
    }

    /// The namespace of the route.
    /// Whether nobody is behind a backend.
    pub(super) fn is_empty(&mut self, backend: &BackendKey) -> bool {
        self.lookup.is_empty(backend)
    }

    pub(super) fn namespace(&self) -> &str {
        self.route.namespace()
    }

    /// Notes what has no effect: fields of what stands at a place, and why.
    pub(super) fn ignore(&mut self, fields: impl Iterator<Item = (String, &'static str)>, place: impl Fn() -> String) {
        self.ignored.extend(fields.map(|(field, text)| Finding::warning(format!("{}.{field}", place()), text)));
    }

    /// Notes a reference that leads nowhere, and says why.
    fn bad(&mut self, target: &BackendObjectRef, fault: RefFault, path: impl FnOnce() -> String) -> Arc<str> {
        let text = fault.text.clone();
        let namespace = target.namespace.as_deref().unwrap_or_else(|| self.route.namespace());
        let field = if fault.reason == RefReason::NoPort { ".port" } else { "" };
        let finding = Finding::error(format!("{}{field}", path()), &*text);
        // of what may not be used nothing is said, not even what is there
        let finding = match fault.reason {
            RefReason::NotFound => finding.naming(ObjectKey::new(&target.group, &target.kind, namespace, &target.name)),
            RefReason::NotPermitted | RefReason::InvalidKind | RefReason::NoPort | RefReason::UnsupportedProtocol => {
                finding
            }
        };
        self.bad.push((finding, fault));
        text
    }

    /// The clusters, sorted, and the first bad reference.
    pub(super) fn finish(mut self, problems: &mut Vec<Finding>) -> (Box<[ClusterTarget]>, Option<RefFault>) {
        self.clusters.sort_unstable();
        self.clusters.dedup();
        let first = self.bad.first().map(|(_, fault)| fault.clone());
        problems.extend(self.bad.into_iter().map(|(finding, _)| finding).chain(self.ignored));
        (self.clusters.into(), first)
    }

    fn follow(&mut self, target: &BackendObjectRef) -> Result<Sendable, RefFault> {
        let Sendable { target, treatment } = self.backend(target)?;
        let target = if self.route.kind() == Some(Kind::GrpcRoute) { target.over_grpc() } else { target };
        let target = match &self.policy {
            None => target,
            Some(policy) => target.under(policy),
        };
        Ok(Sendable { target, treatment })
    }

    /// A backend by itself.
    fn backend(&mut self, target: &BackendObjectRef) -> Result<Sendable, RefFault> {
        let permit = permit(self.lookup, self.route, Reference::from(target))?;
        if !is_backend(permit.target().kind()) {
            let text = unfit(&target.group, &target.kind, "a backend", &KINDS);
            return Err(RefFault { reason: RefReason::InvalidKind, text: text.into() });
        }
        self.lookup.backend(&permit, target.port, Transport::of_route(self.route))
    }
}
