//! Patches on what the proxies get: each is made known to both replicas of Chancery, and each of these hears from its own proxies what became of it.

use serde_json::{Value, json};
use tests::wait;

use crate::shop::Shop;

/// What the static configuration says besides.
const ENABLED: &str = "extensionApis: {enableEnvoyPatchPolicy: true, rawResources: [lua]}\n";

/// A policy with one operation on a resource of the Gateway's.
fn policy(name: &str, kind: &str, operation: &str) -> String {
    format!(
        "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyPatchPolicy
metadata: {{name: {name}}}
spec:
  type: JSONPatch
  targetRef: {{group: gateway.networking.k8s.io, kind: Gateway, name: edge}}
  jsonPatches:
  - {{type: type.googleapis.com/envoy.config.{kind}, name: shop/edge/80, operation: {operation}}}
"
    )
}

/// A Lua filter in front of all others.
fn lua(name: &str, code: &str) -> String {
    let filter = format!(
        "{{name: {name}, typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, \
         default_source_code: {{inline_string: '{code}'}}}}}}"
    );
    let path = "/filter_chains/0/filters/0/typed_config/http_filters/0";
    policy(name, "listener.v3.Listener", &format!("{{op: add, path: {path}, value: {filter}}}"))
}

/// Waits until a policy says of itself what this finds in its condition Programmed.
fn until_told(shop: &Shop, name: &str, is_so: impl Fn(&Value) -> bool) {
    shop.namespace.until("what became of the patches", &format!("envoypatchpolicy/{name}"), |policy| {
        let conditions = policy.pointer("/status/ancestors/0/conditions")?.as_array()?;
        let programmed = conditions.iter().find(|condition| condition["type"] == "Programmed")?;
        is_so(programmed).then_some(())
    });
}

#[test]
fn patches_come_are_refused_and_go() {
    let shop = Shop::open();
    let settings = shop.system.get("configmap/chancery").unwrap();
    let text = settings["data"]["chancery.yaml"].as_str().unwrap().replace(ENABLED, "") + ENABLED;
    let patch = json!({ "data": { "chancery.yaml": text } }).to_string();
    shop.system.run(&["patch", "configmap/chancery", "--type=merge", "--patch", &patch]);
    shop.system.run(&["rollout", "restart", "deployment/chancery"]);
    shop.until_well();
    let is_in_force = |programmed: &Value| programmed["status"] == "True";
    let is_refused = |programmed: &Value| programmed["message"].as_str().unwrap().contains("script load error");
    shop.under_load(|| {
        let pot = "{op: add, path: /virtual_hosts/0/routes/0, value: {match: {path: /pot}, direct_response: {status: 418, \
                   body: {inline_string: short}}}}";
        shop.namespace.apply(&policy("pot", "route.v3.RouteConfiguration", pot));
        until_told(&shop, "pot", is_in_force);
        // each replica sends it to its own proxies
        wait::until("the patched answer", || (shop.body("/pot")? == "short").then_some(())).unwrap();

        shop.namespace.apply(&lua("refused", "nonsense("));
        until_told(&shop, "refused", is_refused);
        shop.namespace.apply(&lua("works", "function envoy_on_request(handle) end"));
        until_told(&shop, "works", is_in_force);
        until_told(&shop, "refused", is_refused);
        until_told(&shop, "pot", is_in_force);

        shop.namespace.run(&["delete", "envoypatchpolicy", "pot", "refused", "works"]);
        shop.until_answered("/pot", "catalog");
    });
}
