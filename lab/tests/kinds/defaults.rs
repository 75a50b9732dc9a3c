//! Gateways for routes that name none.

use tests::wait;

use crate::place::Place;
use crate::world::HTTP;

const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: anywhere}
spec: {useDefaultGateways: All, rules: [{backendRefs: [{name: cart, port: 80}]}]}
";

#[test]
fn a_route_without_parents_is_attached_while_there_is_a_default_gateway() {
    let place = Place::make("defaults", &[HTTP], "  defaultScope: All\n");
    place.apply(ROUTE);
    place.until_pod("/", "cart");
    place.world.until_said("gateway/edge", "", ("DefaultGateway", "True", "DefaultGateway"), &[]);
    place.until_told("httproute/anywhere", "Accepted", "Accepted", &[]);
    place.until_told("httproute/anywhere", "ResolvedRefs", "ResolvedRefs", &[]);
    let route = place.namespace().get("httproute/anywhere").unwrap();
    assert_eq!(route["status"]["parents"][0]["parentRef"]["name"], "edge", "{route:#}");
    place.namespace().until("one attached route", "gateway/edge", |gateway| {
        (gateway["status"]["listeners"][0]["attachedRoutes"] == 1).then_some(())
    });

    // a Gateway that is the default one no more
    place.world.gateway("edge", &[HTTP], "");
    place.until_status("/", 404);
    place.namespace().until("no parents", "httproute/anywhere", |route| {
        route["status"]["parents"].as_array()?.is_empty().then_some(())
    });
    wait::until("no DefaultGateway", || {
        let gateway = place.namespace().get("gateway/edge")?;
        let all = gateway["status"]["conditions"].as_array()?;
        (!all.iter().any(|one| one["type"] == "DefaultGateway" && one["status"] == "True")).then_some(())
    })
    .unwrap();
    // and again
    place.world.gateway("edge", &[HTTP], "  defaultScope: All\n");
    place.until_pod("/", "cart");
}
