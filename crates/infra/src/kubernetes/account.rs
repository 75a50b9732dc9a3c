//! Who the Pods of a fleet are.

use std::sync::Arc;

use ir::infra::ObjectName;
use ir::infra::kubernetes::Place;

use super::name::object_name;

/// The `ServiceAccount`s of a Gateway's Pods where no `EnvoyProxy` names another, one for each place. Its workload has the same name.
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
