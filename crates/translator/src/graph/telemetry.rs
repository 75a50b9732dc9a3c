//! Tables of what Gateways record, and of who gets it.

use std::sync::Arc;

use api::ObjectKey;
use engine::{Cx, Graph, Index, Table};
use store::{ClusterState, FactKey};

use super::{Backends, Base, Gateways, Secrets};
use crate::backend::{KINDS, is_backend};
use crate::backend_traffic_policy::{self as policy, Claim, Target};
use crate::gateway;
use crate::key::{ClusterTarget, Transport};
use crate::lookup::{BackendTables, Reader, backend};
use crate::reference::{RefFault, RefReason, Reference, permit, unfit};
use crate::status::policy::{Reached, Standing};
use crate::x_telemetry_policy::{self, TelemetryPolicy, Tracer};

/// What Gateways record.
#[derive(Clone, Copy)]
pub(crate) struct Telemetry {
    pub(crate) policies: Table<ObjectKey, Arc<TelemetryPolicy>>,
    /// By Gateway: which policy holds.
    by_gateway: Table<ObjectKey, ObjectKey>,
    /// By Gateway of ours that records anything.
    pub(crate) tracers: Table<ObjectKey, Arc<Tracer>>,
}

pub(super) fn telemetry(
    g: &mut Graph,
    base: &Base,
    gateways: Gateways,
    (secrets, backends): (Secrets, Backends),
) -> Telemetry {
    let Base { inputs, grants, addresses, installed, .. } = *base;
    let tables = BackendTables { grants, addresses, secrets, installed, sockets: inputs.socket_paths };
    let policies = g.map("telemetry_policy", inputs.x_telemetry_policies, move |cx, key, policy| {
        let follow = |to: &api::reference::BackendObjectRef| -> Result<ClusterTarget, RefFault> {
            let permit = permit(&mut Reader { cx: &mut *cx, tables }, key, Reference::from(to))?;
            if !is_backend(permit.target().kind()) {
                let text = unfit(&to.group, &to.kind, "a backend", &KINDS);
                return Err(RefFault { reason: RefReason::InvalidKind, text: text.into() });
            }
            backend(cx, (inputs, backends), &permit, (to.port, Transport::Tcp)).map(|found| found.target)
        };
        Arc::new(x_telemetry_policy::read(policy, follow))
    });
    let claims = g.derive("telemetry_policy_claim", inputs.x_telemetry_policies, |_, _, policy| {
        policy::claims(&policy.meta, x_telemetry_policy::targets(policy))
    });
    let claims: Index<ObjectKey, Claim, ()> =
        g.index("telemetry_policy_by_gateway", claims, |claim: &Claim, ()| [claim.target.object.clone()]);
    // The order of claims is that of precedence.
    let by_gateway = g.derive_group("telemetry_policy_of_gateway", claims, |_, gateway, members| {
        members.first().map(|(claim, ())| (gateway.clone(), claim.seniority.object.clone()))
    });
    let tracers = g.derive("tracer", by_gateway, move |cx, gateway, policy| {
        if !cx.contains(gateways.plans, gateway) {
            return None;
        }
        let tracer = cx.get(policies, policy)?.tracer.clone()?;
        Some((gateway.clone(), Arc::new(tracer)))
    });
    Telemetry { policies, by_gateway, tracers }
}

impl Telemetry {
    /// Whether proxies could make use of the collector of a Gateway.
    fn taken_up(&self, cx: &mut Cx<'_>, base: &Base, gateway: &ObjectKey) -> Standing {
        let Some(collector) = cx.get(self.tracers, gateway).map(|tracer| tracer.collector.clone()) else {
            return Standing::Accepted;
        };
        let fact = FactKey { fleet: gateway::fleet(gateway).0, name: collector.name().0.clone() };
        match cx.get(base.inputs.cluster_state, &fact) {
            Some(ClusterState::Refused(words)) => {
                let text = format!("a proxy of {gateway} refused the collector as it is written now: {words}");
                Standing::Invalid(text.into())
            }
            _ => Standing::Accepted,
        }
    }

    /// What became of a policy at each of its targets. Of Gateways of others they say it themselves.
    pub(super) fn reached(
        &self,
        cx: &mut Cx<'_>,
        base: &Base,
        gateways: Gateways,
        (key, policy): (&ObjectKey, &TelemetryPolicy),
    ) -> Vec<Reached> {
        let one = |target: &Target| {
            let target = match Reached::known(target) {
                Ok(target) => target.clone(),
                Err(refused) => return refused,
            };
            let gateway = &target.object;
            let standing = match (cx.contains(gateways.plans, gateway), cx.get(self.by_gateway, gateway)) {
                (false, _) if cx.contains(base.inputs.gateways, gateway) => Standing::Foreign,
                (false, _) => Standing::NotFound,
                (true, Some(winner)) if winner != key => Standing::Conflicted(winner.clone()),
                (true, _) => self.taken_up(cx, base, gateway),
            };
            let reached = Reached { ancestors: vec![gateway.clone()], target, standing };
            reached.spoilt_by(policy.fault.as_ref())
        };
        policy.targets.iter().map(one).collect()
    }
}
