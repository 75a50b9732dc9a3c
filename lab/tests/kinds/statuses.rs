//! What others write into a status stays there: entries of their own, conditions beside ours, and a list that they have filled.

use serde_json::{Value, json};
use tests::{binary, certificate, wait};

use crate::place::{Place, service};
use crate::world::{HTTP, gateway, said};

const LISTENERS: [&str; 4] = [
    HTTP,
    "{name: passed, protocol: TLS, port: 8443, tls: {mode: Passthrough}}",
    "{name: streams, protocol: TCP, port: 9000}",
    "{name: datagrams, protocol: UDP, port: 9002}",
];

/// Who writes beside Chancery.
const OTHER: &str = "example.com/other";

/// The type of its condition.
const REVIEWED: &str = "example.com/Reviewed";

/// An object that others write too.
struct Shared {
    object: &'static str,
    /// The list in which each controller has its entries; none if the status is Chancery's, but for conditions of others.
    list: Option<&'static str>,
    /// A field of its spec, and what it becomes.
    change: (&'static str, Value),
}

impl Shared {
    fn route(object: &'static str) -> Self {
        Self { object, list: Some("parents"), change: ("/spec/rules/0/backendRefs/0/weight", json!(2)) }
    }

    fn policy(object: &'static str, field: &'static str, value: Value) -> Self {
        Self { object, list: Some("ancestors"), change: (field, value) }
    }

    fn whole(object: &'static str, field: &'static str, value: Value) -> Self {
        Self { object, list: None, change: (field, value) }
    }

    /// Waits until Chancery has said of what the object is now that all is well.
    fn until_told(&self, place: &Place, controller: &str) -> Value {
        place.namespace().until("conditions of this generation", self.object, |object| {
            let ours = self.ours(&object["status"], controller);
            let is_told = |holder: &&Value| is_told(holder, &object["metadata"]["generation"]);
            (!ours.is_empty() && ours.iter().all(is_told)).then(|| object.clone())
        })
    }

    /// What Chancery signs: its entries, or the status.
    fn ours<'v>(&self, status: &'v Value, controller: &str) -> Vec<&'v Value> {
        let Some(list) = self.list else { return vec![status] };
        items(status, list).iter().filter(|entry| entry["controllerName"] == controller).collect()
    }

    /// What is there of others: entries, and conditions of ours and of listeners.
    fn of_others<'v>(&self, status: &'v Value, controller: &str) -> (Vec<&'v Value>, Vec<&'v Value>) {
        let entries = self.list.map_or(&[][..], |list| items(status, list));
        let entries = entries.iter().take_while(|entry| entry["controllerName"] != controller).collect();
        let holders = self.ours(status, controller).into_iter().chain(items(status, "listeners"));
        let conditions = holders.flat_map(|holder| items(holder, "conditions"));
        (entries, conditions.filter(|condition| condition["type"] == REVIEWED).collect())
    }

    /// Writes an entry before all others, and a condition into each of ours and each listener.
    fn review(&self, place: &Place, controller: &str) {
        write(place, self.object, |status| {
            let listeners = status.get_mut("listeners").and_then(Value::as_array_mut);
            listeners.into_iter().flatten().for_each(add_condition);
            let Some(list) = self.list else { return add_condition(status) };
            let entries = status[list].as_array_mut().unwrap();
            entries.iter_mut().filter(|entry| entry["controllerName"] == controller).for_each(add_condition);
            entries.insert(0, entry(list, OTHER));
        });
    }

    fn change(&self, place: &Place) {
        let (field, value) = &self.change;
        let patch = json!([{ "op": "add", "path": field, "value": value }]).to_string();
        place.namespace().run(&["patch", self.object, "--type=json", "--patch", &patch]);
    }
}

/// Whether all conditions of ours are about this generation, and what matters is True.
fn is_told(holder: &Value, generation: &Value) -> bool {
    let mut ours = items(holder, "conditions").iter().filter(|condition| condition["type"] != REVIEWED).peekable();
    let matters = |condition: &Value| ["Accepted", "Programmed"].iter().any(|kind| condition["type"] == *kind);
    ours.peek().is_some()
        && ours.all(|it| it["observedGeneration"] == *generation && (it["status"] == "True" || !matters(it)))
}

fn items<'v>(holder: &'v Value, list: &str) -> &'v [Value] {
    holder[list].as_array().map_or(&[], Vec::as_slice)
}

/// A condition as others write it.
fn reviewed() -> Value {
    json!({
        "type": REVIEWED, "status": "False", "reason": "Waits", "message": "somebody looks at it", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

fn add_condition(holder: &mut Value) {
    holder["conditions"].as_array_mut().unwrap().push(reviewed());
}

/// An entry of another controller, about the Gateway that ours is about.
fn entry(list: &str, controller: &str) -> Value {
    let about = if list == "parents" { "parentRef" } else { "ancestorRef" };
    json!({
        about: { "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge" }, "controllerName": controller,
        "conditions": [reviewed()],
    })
}

/// Writes a status as somebody does who writes what he has read, and reads again if it was written meanwhile.
fn write(place: &Place, object: &str, edit: impl Fn(&mut Value)) {
    let written = || {
        let current = place.namespace().get(object)?;
        let mut status = current["status"].clone();
        edit(&mut status);
        let version = &current["metadata"]["resourceVersion"];
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status }).to_string();
        place.namespace().try_run(&["patch", object, "--subresource=status", "--type=merge", "--patch", &patch])
    };
    wait::until(&format!("a status of others in {object}"), written).unwrap();
}

fn controller(place: &Place) -> String {
    let class = place.namespace().get("gatewayclass/chancery").unwrap();
    class["spec"]["controllerName"].as_str().unwrap().to_owned()
}

/// Others write into the statuses; then Chancery writes all of them anew.
fn until_kept(place: &Place, all: &[Shared]) {
    let controller = &controller(place);
    for one in all {
        one.until_told(place, controller);
        one.review(place, controller);
    }
    for one in all {
        let before = place.namespace().get(one.object).unwrap();
        let theirs = one.of_others(&before["status"], controller);
        let entries: Vec<Value> = one.list.iter().map(|list| entry(list, OTHER)).collect();
        assert_eq!(theirs.0, entries.iter().collect::<Vec<_>>(), "{before:#}");
        assert!(!theirs.1.is_empty(), "{before:#}");
        one.change(place);
        let after = one.until_told(place, controller);
        assert_eq!(one.of_others(&after["status"], controller), theirs, "{after:#}");
        assert_ne!(after["metadata"]["generation"], before["metadata"]["generation"], "{after:#}");
    }
}

/// What Chancery says of the Gateway goes with it, or becomes something else: what others say does not.
fn until_kept_without_the_gateway(place: &Place, all: &[Shared]) {
    let controller = &controller(place);
    let current = |one: &Shared| place.namespace().get(one.object).unwrap()["status"].clone();
    let before: Vec<Value> = all.iter().map(current).collect();
    place.namespace().run(&["delete", "gateway", "edge"]);
    for (one, before) in all.iter().zip(&before) {
        let list = one.list.unwrap();
        let after = place.namespace().until("what is true without the Gateway", one.object, |object| {
            let ours = one.ours(&object["status"], controller);
            let is_said = if list == "parents" { ours.is_empty() } else { ours != one.ours(before, controller) };
            is_said.then(|| object["status"].clone())
        });
        assert_eq!(one.of_others(&after, controller).0, [&entry(list, OTHER)], "{after:#}");
    }
}

/// A route of each kind, with what stands before its rules.
fn routes() -> String {
    let route = |(kind, section, more, backend): (&str, &str, &str, &str)| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: told}}\nspec:\n  parentRefs: [{{name: edge, \
             sectionName: {section}}}]\n{more}  rules: [{{backendRefs: [{{name: {backend}, port: 80}}]}}]\n"
        )
    };
    [
        ("HTTPRoute", "http", "  hostnames: [told.example]\n", "cart"),
        ("GRPCRoute", "http", "", "cart"),
        ("TLSRoute", "passed", "  hostnames: [told.example]\n", "cart"),
        ("TCPRoute", "streams", "", "cart"),
        ("UDPRoute", "datagrams", "", "datagrams"),
    ]
    .map(route)
    .concat()
}

#[test]
fn routes_keep_what_others_say() {
    let place = Place::make("told-routes", &LISTENERS, "");
    place.apply(&service("datagrams", "{name: udp, port: 80, targetPort: 3000, protocol: UDP}"));
    place.apply(&routes());
    let all =
        ["httproute/told", "grpcroute/told", "tlsroute/told", "tcproute/told", "udproute/told"].map(Shared::route);
    until_kept(&place, &all);
    until_kept_without_the_gateway(&place, &all);
}

/// Each for a Service of its own, or for the Gateway.
const POLICIES: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: told}
spec: {targetRefs: [{group: '', kind: Service, name: bank}], validation: {hostname: bank.example, wellKnownCACertificates: System}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: told}
spec: {targetRefs: [{group: '', kind: Service, name: cart}], sessionPersistence: {type: Cookie, cookie: {name: visit}}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XTelemetryPolicy
metadata: {name: told}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}]
  tracing: {mode: Enabled, provider: {backendRef: {name: cart, port: 80}}, serviceName: edge}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: told}
spec: {type: EndpointSelector, port: {number: 3000}, endpointSelector: {matchLabels: {app: cart}}}
";

#[test]
fn policies_and_backends_keep_what_others_say() {
    let place = Place::make("told-policies", &[HTTP], "");
    place.apply(&service("bank", "{name: https, port: 443, targetPort: 8443}"));
    place.apply(POLICIES);
    let backend = "{group: gateway.networking.x-k8s.io, kind: XBackend, name: told}";
    let rules = format!("[{{backendRefs: [{{name: cart, port: 80}}, {{name: bank, port: 443}}, {backend}]}}]");
    place.world.route("told", "edge", &rules);
    let all = [
        Shared::policy("backendtlspolicy/told", "/spec/validation/hostname", json!("other.example")),
        Shared::policy("xbackendtrafficpolicy/told", "/spec/retryConstraint", json!({ "budget": { "percent": 50 } })),
        Shared::policy("xtelemetrypolicy/told", "/spec/tracing/serviceName", json!("other")),
        Shared::policy("xbackend/told", "/spec/port/number", json!(3001)),
    ];
    until_kept(&place, &all);
    until_kept_without_the_gateway(&place, &all);
}

const MORE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: told}
spec: {parentRef: {name: edge}, listeners: [{name: more, port: 81, protocol: HTTP}]}
";

#[test]
fn gateways_their_classes_and_sets_of_listeners_keep_conditions_of_others() {
    let place = Place::make("told-gateways", &[HTTP], "  allowedListeners: {namespaces: {from: Same}}\n");
    let controller = controller(&place);
    place.apply(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: told}}\nspec: {{controllerName: {controller}}}\n"
    ));
    place.apply(MORE);
    place.world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    let all = [
        Shared::whole("gatewayclass/told", "/spec/description", json!("told")),
        Shared::whole("gateway/edge", "/spec/listeners/0/hostname", json!("*.example")),
        Shared::whole("listenerset/told", "/spec/listeners/0/hostname", json!("*.example")),
    ];
    until_kept(&place, &all);
    place.until_pod("/", "cart");
    place.namespace().run(&["delete", "gatewayclass", "told"]);
}

/// The bound of the API on `status.ancestors`.
const MOST: usize = 16;

const TRUSTING: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: bank}
spec:
  targetRefs: [{group: '', kind: Service, name: bank}]
  validation: {hostname: bank.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: trusted}]}
";

/// What the leader says of an object's status, in the words of `chancery status problems`.
fn complaint(place: &Place, object: &str) -> Option<String> {
    let program = binary::chancery().unwrap();
    let words = ["status", "problems", "--output", "json"];
    let output = place.namespace().lab.command("exec").arg(program).args(words).output().unwrap();
    let problems: Vec<Value> = serde_json::from_slice(&output.stdout).ok()?;
    let of_it = |problem: &&Value| problem["object"] == object && problem["path"] == "status";
    Some(problems.iter().find(of_it).map_or_else(String::new, |problem| problem["text"].as_str().unwrap().to_owned()))
}

const POLICY: &str = "BackendTLSPolicy told-filled/bank";

#[test]
fn a_list_that_others_have_filled_stays_theirs_and_people_are_told() {
    let place = Place::make("told-filled", &[HTTP], "");
    let pair = certificate::self_signed(&["bank.example"], false).unwrap();
    place.secure("bank", &pair);
    let bundle = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "trusted" }, "data": { "ca.crt": pair.certificate }
    });
    place.apply(&bundle.to_string());
    place.apply(TRUSTING);
    let policy = "backendtlspolicy/bank";
    place.until_told(policy, "Accepted", "Accepted", &[]);
    // others were here before us, and have taken all the room
    let theirs: Vec<Value> = (0..MOST).map(|number| entry("ancestors", &format!("{OTHER}-{number}"))).collect();
    write(&place, policy, |status| *status = json!({ "ancestors": theirs }));
    let words = "other controllers have filled status.ancestors (16), there is no room";
    wait::until(words, || complaint(&place, POLICY)?.contains(words).then_some(())).unwrap();
    // the policy counts all the same
    place.world.route("bank", "edge", "[{backendRefs: [{name: bank, port: 443}]}]");
    place.until_pod("/", "bank");
    let there = || place.namespace().get(policy).unwrap()["status"]["ancestors"].clone();
    assert_eq!(there(), json!(theirs));

    // one of the others goes
    write(&place, policy, |status| *status = json!({ "ancestors": theirs[1..] }));
    place.namespace().until("our entry behind theirs", policy, |policy| {
        let is_ours = policy["status"]["ancestors"][MOST - 1]["ancestorRef"]["name"] == "edge";
        (is_ours && said(policy, "/ancestors/15", "Accepted")?.status == "True").then_some(())
    });
    assert_eq!(there().as_array().unwrap()[..MOST - 1], theirs[1..]);
    wait::until("no complaint", || complaint(&place, POLICY)?.is_empty().then_some(())).unwrap();
}

#[test]
fn a_class_that_another_controller_writes_is_left_to_it_until_it_stops() {
    let place = Place::make("told-contested", &[HTTP], "");
    let (controller, class) = (controller(&place), "gatewayclass/told-contested");
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "told-contested" },
        "spec": { "controllerName": controller },
    });
    place.apply(&object.to_string());
    place.apply(
        &gateway("contested", &[HTTP], "").replace("gatewayClassName: chancery", "gatewayClassName: told-contested"),
    );
    let is_ours = |class: &Value| (said(class, "", "Accepted")?.reason == "Accepted").then_some(());
    let another = json!([{
        "type": "Accepted", "status": "False", "reason": "Another", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    let is_told =
        || complaint(&place, "GatewayClass told-contested").is_some_and(|text| text.contains("another controller"));
    // It replaces what Chancery writes, each time.
    while !is_told() {
        place
            .namespace()
            .until("our status of the class", class, |class| is_ours(class).or_else(|| is_told().then_some(())));
        write(&place, class, |status| status["conditions"] = another.clone());
    }
    let hostname = json!([{ "op": "add", "path": "/spec/listeners/0/hostname", "value": "*.example" }]).to_string();
    place.namespace().run(&["patch", "gateway/contested", "--type=json", "--patch", &hostname]);
    let contested = Shared::whole("gateway/contested", "", Value::Null);
    // A Gateway of an uncontested class has its status after a later change, so the contested one has had its turn.
    let edge = Shared::whole("gateway/edge", "/spec/listeners/0/hostname", json!("*.example"));
    edge.change(&place);
    edge.until_told(&place, &controller);
    let held = place.namespace().get("gateway/contested").unwrap();
    let of_now = |condition: &Value| condition["observedGeneration"] == held["metadata"]["generation"];
    assert!(!items(&held["status"], "conditions").iter().any(of_now), "{held:#}");
    // It has stopped: what was held back comes.
    contested.until_told(&place, &controller);
    place.namespace().until("our status of the class", class, is_ours);
    wait::until("no complaint", || complaint(&place, "GatewayClass told-contested")?.is_empty().then_some(())).unwrap();
    place.namespace().run(&["delete", "gateway/contested", class]);
}
