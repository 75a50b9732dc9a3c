//! Fields of Services that ask for a choice among endpoints which proxies do not make.

use std::sync::Arc;

use api::service::ServiceSpec;
use api::{ObjectKey, Problem, Severity};

const AFFINITY: &str = "ClientIP is ignored: what one client sends goes to any endpoint; \
                        write sessionPersistence in the HTTPRoute and GRPCRoute rules that send here";
const DISTRIBUTION: &str = "it is ignored: traffic goes to the endpoints of all zones alike; \
                            where it must stay in a zone, send to a Service that has the endpoints of that zone only";

/// Returns a warning for each such field of a Service that a route uses.
pub(super) fn problems(service: &ObjectKey, spec: &ServiceSpec) -> Vec<Arc<Problem>> {
    let fields = [
        (spec.keeps_clients, "spec.sessionAffinity", AFFINITY),
        (spec.prefers_endpoints, "spec.trafficDistribution", DISTRIBUTION),
    ];
    let given = fields.into_iter().filter(|(is_given, ..)| *is_given);
    given.map(|(_, path, text)| Arc::new(Problem::of(service, path, Severity::Warning, text))).collect()
}
