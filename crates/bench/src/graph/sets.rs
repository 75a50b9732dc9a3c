//! Many `ListenerSet`s on one Gateway, as a platform with a domain for each of its users has them: an HTTPS listener with a host name of its own and
//! a route in each.

use serde_json::{Value, json};

fn object(kind: &str, name: &str, body: Value) -> String {
    let version = if kind == "Secret" { "v1" } else { "gateway.networking.k8s.io/v1" };
    let mut all = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    if let (Value::Object(all), Value::Object(body)) = (&mut all, body) {
        all.extend(body);
    }
    all.to_string()
}

fn listener(host: &str) -> Value {
    let tls = json!({"certificateRefs": [{"name": "certificate"}]});
    json!([{"name": "https", "port": 8443, "protocol": "HTTPS", "hostname": host, "tls": tls}])
}

/// The Gateway, its certificate, and `n` sets with their routes.
pub(super) fn all(n: usize) -> anyhow::Result<String> {
    let pair = rcgen::generate_simple_self_signed(["example.com".to_owned()])?;
    let data = json!({"tls.crt": pair.cert.pem(), "tls.key": pair.signing_key.serialize_pem()});
    let from = json!({"namespaces": {"from": "Same"}});
    let spec =
        json!({"gatewayClassName": "chancery", "allowedListeners": from, "listeners": listener("own.example.com")});
    let mut documents = vec![
        object("Secret", "certificate", json!({"type": "kubernetes.io/tls", "stringData": data})),
        object("Gateway", "edge", json!({"spec": spec})),
    ];
    for index in 0..n {
        documents.extend([set(index, 0), route(index, 0)]);
    }
    Ok(documents.join("\n---\n"))
}

/// Set number `index` with a host name of round `round`.
pub(super) fn set(index: usize, round: usize) -> String {
    let host =
        if round == 0 { format!("user-{index}.example.com") } else { format!("user-{index}-{round}.example.com") };
    object("ListenerSet", &name(index), json!({"spec": {"parentRef": {"name": "edge"}, "listeners": listener(&host)}}))
}

/// Its route, as it is in a round.
pub(super) fn route(index: usize, round: usize) -> String {
    let parent = json!({"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": name(index)});
    let filter =
        json!({"type": "RequestRedirect", "requestRedirect": {"hostname": format!("round-{round}.example.com")}});
    object("HTTPRoute", &name(index), json!({"spec": {"parentRefs": [parent], "rules": [{"filters": [filter]}]}}))
}

/// The name of a set and of its route.
pub(super) fn name(index: usize) -> String {
    format!("user-{index:05}")
}
