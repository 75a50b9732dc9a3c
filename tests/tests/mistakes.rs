//! What is said of mistakes that newcomers make: each is told where it is, with what follows and what to write instead.

use tests::told::pointed;

const GATEWAY: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: edge
spec:
  gatewayClassName: chancery
  listeners:
  - name: http
    protocol: HTTP
    port: 8080
---
";

const SERVICE: &str = "\
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: far
spec:
  ports:
  - port: 80
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: far
  labels:
    kubernetes.io/service-name: web
addressType: IPv4
ports:
- port: 8000
endpoints:
- addresses: [127.0.0.1]
";

/// A route to a Service of another namespace, and leave for it.
fn granted(from: &str, to: &str) -> String {
    let rules = "  rules:\n  - backendRefs:\n    - {name: web, namespace: far, port: 80}\n";
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata:\n  name: g\n  namespace: far\nspec:\n  \
         from:\n  - {{{from}, namespace: default}}\n  to:\n  - {{{to}}}\n---\n{GATEWAY}{}{SERVICE}",
        route(rules)
    )
}

fn route(rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: shop\nspec:\n  parentRefs:\n  - name: \
         edge\n{rules}"
    )
}

const FROM: &str = "group: gateway.networking.k8s.io, kind: HTTPRoute";
const TO: &str = "group: \"\", kind: Service";

const NOT_PERMITTED: &str = "32:7 error: Service far/web is in another namespace and no ReferenceGrant there allows it; add a \
                             ReferenceGrant in namespace far that allows HTTPRoute of default to Service";

#[test]
fn words_of_a_grant_that_no_reference_has_are_told_at_the_grant() {
    assert_eq!(pointed(&granted(FROM, TO)).unwrap(), [""; 0]);
    let found = pointed(&granted("group: gateway.networking.k8s.io, kind: HttpRoute", "group: core, kind: service"));
    let [from, group, kind, error] = &found.unwrap()[..] else { panic!("four") };
    assert_eq!(from, "8:46 warning: this allows nothing: no reference is of kind HttpRoute; did you mean HTTPRoute?");
    assert_eq!(group, "10:13 warning: this allows nothing: the core group is written as \"\"");
    assert_eq!(kind, "10:25 warning: this allows nothing: no reference is of kind service; did you mean Service?");
    assert_eq!(error, NOT_PERMITTED);
}

#[test]
fn a_known_kind_of_a_grant_with_another_known_group_is_told_and_foreign_ones_are_not() {
    let group = "group: gateway.networking.k8.io, kind: HTTPRoute";
    let told = "8:13 warning: this allows nothing: HTTPRoute is of group gateway.networking.k8s.io";
    assert_eq!(pointed(&granted(group, TO)).unwrap(), [told, NOT_PERMITTED]);
    let to = "10:13 warning: this allows nothing: Service is of the core group, which is written as \"\"";
    let found = pointed(&granted(FROM, "group: gateway.networking.k8s.io, kind: Service"));
    assert_eq!(found.unwrap(), [to, NOT_PERMITTED]);
    for from in ["group: networking.istio.io, kind: Gateways", "group: gateway.networking.x-k8s.io, kind: XListenerSet"]
    {
        assert_eq!(pointed(&granted(from, TO)).unwrap(), [NOT_PERMITTED], "{from}");
    }
    for to in ["group: serving.knative.dev, kind: Service", "group: \"\", kind: Pod"] {
        assert_eq!(pointed(&granted(FROM, to)).unwrap(), [NOT_PERMITTED], "{to}");
    }
}

#[test]
fn a_misspelt_field_in_place_of_one_that_is_missing_costs_the_match() {
    let told = |matched: &str| {
        let rules = format!(
            "  rules:\n  - matches:\n    - {matched}\n    filters: [{{type: RequestRedirect, requestRedirect: {{scheme: https}}}}]\n"
        );
        pointed(&format!("{GATEWAY}{}", route(&rules))).unwrap()
    };
    let lost = "20:5 warning: no match of this rule can be used, it takes no request";
    let takes_none = |word: &str, place: &str, near: &str| {
        format!("{place} error: {word} is missing: this match takes no request{near}")
    };
    for (matched, place, missing, near) in [
        (
            "path: {type: PathPrefix, valeu: /cart}",
            "21:32",
            "valeu is not a field here and value",
            "; did you mean value?",
        ),
        ("path: {prefix: /cart}", "21:14", "prefix is not a field here and value", ""),
        ("path: {tpye: Exact, value: /cart}", "21:14", "tpye is not a field here and type", "; did you mean type?"),
        ("{pth: {value: /cart}}", "21:8", "pth is not a field here and path", "; did you mean path?"),
        ("{metod: GET}", "21:8", "metod is not a field here and method", "; did you mean method?"),
        ("uri: /cart", "21:7", "uri is not a field here and path", ""),
    ] {
        assert_eq!(told(matched), [takes_none(missing, place, near), lost.to_owned()], "{matched}");
    }
    // Beside what is written, an unknown field takes nothing away.
    assert_eq!(told("path: {value: /cart, comment: x}"), ["21:28 warning: comment is not a field here and is ignored"]);
}

const CLASS: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata:
  name: chancery
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
---
";

#[test]
fn a_class_whose_controller_is_nearly_ours_is_told_and_so_are_its_gateways() {
    assert_eq!(pointed(&format!("{CLASS}{GATEWAY}")).unwrap(), [""; 0]);
    let misspelt = CLASS.replace("gatewayclass-controller", "gatewayclas-controller");
    let theirs = "gateway.envoyproxy.io/gatewayclas-controller";
    let near = format!(
        "6:19 warning: {theirs} is not this controller, so Gateways of this class are not served; did you mean \
         gateway.envoyproxy.io/gatewayclass-controller?"
    );
    let gateway = format!(
        "13:21 warning: GatewayClass chancery belongs to {theirs}, so this Gateway is not served; here a class with \
         controllerName gateway.envoyproxy.io/gatewayclass-controller is"
    );
    assert_eq!(pointed(&format!("{misspelt}{GATEWAY}")).unwrap(), [near, gateway]);
    // Where some class is ours the others are meant to be of others.
    let other = CLASS.replace("name: chancery", "name: other").replace("gateway.envoyproxy.io", "example.com");
    let theirs = GATEWAY.replace("gatewayClassName: chancery", "gatewayClassName: other");
    assert_eq!(pointed(&format!("{CLASS}{other}{theirs}")).unwrap(), [""; 0]);
}
