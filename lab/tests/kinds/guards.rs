//! Policies that guard with fields which are not built: in a cluster, with the definitions of the chart.

use crate::place::Place;
use crate::world::{HTTP, said};

/// A policy `NAME` that lets no request pass to `TARGET`.
const GUARD: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: NAME}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, TARGET}]
  authorization: {defaultAction: Deny}
";

fn guard(name: &str, target: &str) -> String {
    GUARD.replace("NAME", name).replace("TARGET", target)
}

#[test]
fn a_guarded_route_answers_500_until_its_policy_goes() {
    let place = Place::make("guards", &[HTTP], "");
    place.world.route("open", "edge", "[{matches: [{path: {value: /open}}], backendRefs: [{name: cart, port: 80}]}]");
    place.world.route(
        "guarded",
        "edge",
        "[{matches: [{path: {value: /guarded}}], backendRefs: [{name: cart, port: 80}]}]",
    );
    place.until_pod("/open", "cart");
    place.until_pod("/guarded", "cart");

    place.apply(&guard("guard", "kind: HTTPRoute, name: guarded"));
    place.until_status("/guarded", 500);
    place.until_told("securitypolicy/guard", "Accepted", "Invalid", &["spec.authorization", "get 500"]);
    place.namespace().until("the condition of the route", "httproute/guarded", |route| {
        said(route, "/parents/0", "UnsupportedPolicy")
            .filter(|said| said.reason == "Closed" && said.message.contains("guard"))
    });
    assert_eq!(place.ask("/open").unwrap().status, 200);

    place.apply(&guard("all", "kind: Gateway, name: edge"));
    place.until_status("/open", 500);
    place.namespace().run(&["delete", "securitypolicy", "guard", "all"]);
    place.until_pod("/open", "cart");
    place.until_pod("/guarded", "cart");
}
