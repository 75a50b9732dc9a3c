//! Tables of what fleets get besides listeners and routes: clusters and secrets, only those that something names.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::ObjectKey;
use engine::{Cx, Graph, Index, Table};
use ir::cluster::CircuitBreaker;
use ir::{Cluster, ClusterName, EndpointSetName, FleetName, Runtime, Secret, SecretName};

use super::{
    BackendPolicies, Backends, Gateways, Policies, RefusedSecrets, Routes, Secrets, SharedSet, Telemetry, TlsPolicies,
};
use crate::backend::{SecretUse, cluster};
use crate::gating::Effective;
use crate::key::{AttachmentKey, ClusterKey, ClusterTarget, InFleet};
use crate::output::{ClusterTables, ReaderIndex};
use crate::secret;

/// What this stage reads.
#[derive(Clone, Copy)]
pub(super) struct Sources {
    pub(super) gateways: Gateways,
    pub(super) backends: Backends,
    pub(super) policies: Policies,
    pub(super) tls_policies: TlsPolicies,
    pub(super) backend_policies: BackendPolicies,
    pub(super) routes: Routes,
    pub(super) secrets: Secrets,
    pub(super) refused_secrets: RefusedSecrets,
    pub(super) telemetry: Telemetry,
}

/// What of a fleet's own holds for its clusters: limits, and the certificate that its proxies show.
type Defaults = Table<FleetName, (CircuitBreaker, Option<SecretName>)>;

impl Sources {
    /// Returns true for a cluster that would wait for a secret which the fleet's proxies refuse.
    fn lacks_secret(&self, cx: &mut Cx<'_>, key: &ClusterKey) -> bool {
        self.refused_secrets.find(cx, &key.fleet, key.target.encryption().secrets()).is_some()
    }

    /// A backend as a fleet uses it.
    fn cluster(&self, cx: &mut Cx<'_>, key: &ClusterKey, defaults: Defaults) -> Cluster {
        let backend = key.target.backend();
        let reading = cx.get(self.backends.readings_of(&backend.object), backend);
        let view = reading.and_then(|reading| reading.view.as_ref().ok());
        // One question of each cluster, in place of one per setting.
        let (limits, certificate) = cx.get(defaults, &key.fleet).cloned().unwrap_or_default();
        let limits = key.target.policy().map_or(limits, |own| self.policies.limits(cx, own));
        let retry_budget = self.backend_policies.retry_budget(cx, &backend.object);
        let mut cluster = if self.lacks_secret(cx, key) {
            cluster::closed(&key.target)
        } else {
            cluster::cluster(&key.target, view, CircuitBreaker { retry_budget, ..limits })
        };
        if let Some(tls) = cluster.tls.as_mut().filter(|tls| tls.certificate.is_none()) {
            tls.certificate = certificate;
        }
        cluster
    }
}

/// What fleets get.
#[derive(Clone, Copy)]
pub(super) struct Delivery {
    /// What Gateways use whatever their routes: whom listeners ask, and collectors.
    pub(super) own_uses: Table<ClusterKey, ()>,
    pub(super) clusters: ClusterTables,
    pub(super) clusters_by_set: [ReaderIndex; 3],
    pub(super) shared_sets: Table<EndpointSetName, Arc<SharedSet>>,
    /// By the sets that have a share.
    pub(super) shared_by_set: Index<EndpointSetName, EndpointSetName, Arc<SharedSet>>,
    pub(super) secrets: Table<InFleet<SecretName>, Arc<Secret>>,
    pub(super) runtimes: Table<FleetName, Arc<Runtime>>,
    /// Which fleets send to a backend that a policy is about: what routes say, and what proxies tell of themselves.
    pub(super) policy_uses: [PolicyUses; 2],
}

/// What routes send to.
type Used = Index<ClusterKey, AttachmentKey, Effective>;

/// By backend.
pub(super) type PolicyUses = Index<ObjectKey, ClusterKey, ()>;

pub(super) fn delivery(g: &mut Graph, sources: Sources) -> Delivery {
    let Sources { gateways, backends, policies, tls_policies, backend_policies, routes, telemetry, .. } = sources;
    let used = g.index("cluster_by_use", routes.effective, |key: &AttachmentKey, effective: &Effective| {
        let key = |target: &ClusterTarget| ClusterKey { fleet: key.fleet.clone(), target: target.clone() };
        effective.clusters().map(key).collect::<Vec<_>>()
    });
    let defaults = g.derive("cluster_defaults", gateways.plans, move |cx, _, plan| {
        // One that proxies refuse is not named, and goes on being published: so its next content is noticed.
        let certificate = plan.client_certificate.as_ref().filter(|_| plan.unresolved.is_none()).map(secret::name);
        let limits = policies.limits_of_fleet(cx, &plan.fleet);
        let any = certificate.is_some() || limits != CircuitBreaker::default();
        any.then(|| (plan.fleet.clone(), (limits, certificate)))
    });
    let row = move |cx: &mut Cx<'_>, key: &ClusterKey| {
        let cluster = sources.cluster(cx, key, defaults);
        (InFleet { fleet: key.fleet.clone(), name: cluster.name.clone() }, Arc::new(cluster))
    };
    let own_uses = own_uses(g, gateways, telemetry);
    // Routes answer 500 in place of one that lacks a secret; listeners have to name theirs.
    let clusters = g.distinct("cluster", used, move |cx, key| {
        (!sources.lacks_secret(cx, key) || cx.contains(own_uses, key)).then(|| row(cx, key))
    });
    // What routes use as well has its row there.
    let of_gateways = g.derive("own_cluster", own_uses, move |cx, key, ()| (!cx.any(used, key)).then(|| row(cx, key)));
    let secrets = secrets_of(g, (gateways, sources.secrets), used, own_uses);
    let reached = move |cx: &mut Cx<'_>, key: &ClusterKey| {
        let backend = &key.target.backend().object;
        let any = tls_policies.claims.any(cx, backend) || backend_policies.claims.any(cx, backend);
        (any && !key.target.is_passthrough()).then(|| (key.clone(), ()))
    };
    let by_routes = g.distinct("policy_use", used, reached);
    let by_proxies = g.derive("policy_own_use", own_uses, move |cx, key, ()| reached(cx, key));
    let backend = |key: &ClusterKey, (): &()| [key.target.backend().object.clone()];
    let policy_uses = [
        g.index("policy_use_by_backend", by_routes, backend),
        g.index("policy_own_use_by_backend", by_proxies, backend),
    ];
    let datagrams = routes.streams.datagrams;
    let of_listeners = g.map("datagram_cluster", datagrams, |_, key: &InFleet<ClusterName>, _| {
        Arc::new(cluster::of_datagrams(key.name.clone()))
    });
    let clients = g.derive("datagram_clients", datagrams, move |cx, key: &InFleet<ClusterName>, datagrams| {
        let (limits, _) = cx.get(defaults, &key.fleet).cloned().unwrap_or_default();
        let limits = datagrams.policy.as_ref().map_or(limits, |own| policies.limits(cx, own));
        Some((key.clone(), cluster::datagram_clients(limits)?))
    });
    let clients = g.index("datagram_clients_by_fleet", clients, |key, _| [key.fleet.clone()]);
    let runtimes = g.derive("runtime", gateways.plans, move |cx, _, plan| {
        let limits = cx.members(clients, &plan.fleet);
        let max_connections = limits.iter().map(|(key, limit)| (key.name.clone(), *limit)).collect();
        [(plan.fleet.clone(), Arc::new(Runtime { max_connections }))]
    });
    let shared_sets = g.derive("shared_endpoint_set", datagrams, move |cx, key, datagrams| {
        [(EndpointSetName(key.name.0.clone()), Arc::new(backends.sets.shared(cx, &datagrams.shares)))]
    });
    let shared_by_set = g.index("shared_set_by_share", shared_sets, |_, shared: &Arc<SharedSet>| shared.sets());
    let set_of = |_: &InFleet<ClusterName>, cluster: &Arc<Cluster>| cluster.endpoints.set().cloned();
    let clusters_by_set = [
        g.index("cluster_by_endpoint_set", clusters, set_of),
        g.index("datagram_cluster_by_set", of_listeners, set_of),
        g.index("own_cluster_by_set", of_gateways, set_of),
    ];
    let clusters = [clusters, of_listeners, of_gateways];
    Delivery { own_uses, clusters, clusters_by_set, shared_sets, shared_by_set, secrets, runtimes, policy_uses }
}

/// What Gateways use whatever their routes.
fn own_uses(g: &mut Graph, gateways: Gateways, telemetry: Telemetry) -> Table<ClusterKey, ()> {
    g.derive("own_use", gateways.plans, move |cx, gateway, plan| {
        let collector = cx.get(telemetry.tracers, gateway).map(|tracer| tracer.collector.clone());
        let targets: BTreeSet<_> = plan.asked().cloned().chain(collector).collect();
        targets.into_iter().map(|target| (ClusterKey { fleet: plan.fleet.clone(), target }, ())).collect::<Vec<_>>()
    })
}

/// Secrets of the fleets' listeners and of what they send to.
fn secrets_of(
    g: &mut Graph,
    (gateways, secrets): (Gateways, Secrets),
    used: Used,
    own_uses: Table<ClusterKey, ()>,
) -> Table<InFleet<SecretName>, Arc<Secret>> {
    let rows = |key: &ClusterKey| {
        let named = key.target.encryption().secrets().iter();
        named.map(|wanted| ((key.clone(), wanted.clone()), ())).collect::<Vec<_>>()
    };
    let named = g.distinct("backend_secret", used, move |_, key| rows(key));
    let of_gateways = g.derive("own_secret", own_uses, move |_, key, ()| rows(key));
    let fleet = |(cluster, _): &(ClusterKey, SecretUse), (): &()| [cluster.fleet.clone()];
    let by_fleet = [g.index("secret_by_fleet", named, fleet), g.index("own_secret_by_fleet", of_gateways, fleet)];
    g.derive("secret", gateways.plans, move |cx, _, plan| {
        let mut wanted = plan.secrets();
        for index in by_fleet {
            wanted.extend(cx.keys(index, &plan.fleet).map(|(_, wanted)| wanted.clone()));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut rows = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let content = secret::content(&wanted, |part| {
                let parsed = cx.get(secrets.parsed_of(&part.object), part)?;
                parsed.content.as_ref().ok().cloned()
            });
            if let Some(content) = content {
                let name = secret::name(&wanted);
                rows.push((
                    InFleet { fleet: plan.fleet.clone(), name: name.clone() },
                    Arc::new(Secret { name, content }),
                ));
            }
        }
        rows
    })
}
