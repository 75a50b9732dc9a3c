//! Who the Pods of a fleet are.

use std::sync::Arc;

use ir::Infra;
use ir::infra::ObjectName;
use ir::infra::kubernetes::Place;

use super::name::object_name;

/// The `ServiceAccount` of a fleet's Pods, by which they prove whose they are; none for a fleet of this machine.
#[must_use]
pub fn service_account(infra: &Infra, controller: &Arc<str>) -> Option<ObjectName> {
    let kubernetes = infra.kubernetes.as_deref()?;
    let own = || object_name(&infra.gateway, kubernetes.place).into();
    let name = kubernetes.service_account.clone().unwrap_or_else(own);
    Some(ObjectName { namespace: namespace(&infra.gateway, kubernetes.place, controller), name })
}

/// Those that it can be as long as nobody knows what is asked for, unless `EnvoyProxy` names another.
#[must_use]
pub fn usual_service_accounts(gateway: &ObjectName, controller: &Arc<str>) -> [ObjectName; 2] {
    [Place::Gateway, Place::Controller].map(|place| ObjectName {
        namespace: namespace(gateway, place, controller),
        name: object_name(gateway, place).into(),
    })
}

fn namespace(gateway: &ObjectName, place: Place, controller: &Arc<str>) -> Arc<str> {
    match place {
        Place::Gateway => Arc::clone(&gateway.namespace),
        Place::Controller => Arc::clone(controller),
    }
}
