//! The proxies that are connected, as JSON.

use serde_json::{Value, json};
use xds::{ClientState, Refusal};

/// All of them.
pub(super) fn report(server: &xds::Server) -> Value {
    server.clients().iter().map(proxy).collect()
}

fn proxy(client: &ClientState) -> Value {
    json!({
        "name": &*client.node.id,
        "gateway": &*client.fleet,
        "address": client.from,
        "program": &*client.node.user_agent,
        "version": &*client.node.version,
        "accepted": client.accepted,
        "pending": client.pending,
        "refused": client.refused,
        "refusals": client.refusals.iter().map(refusal).collect::<Value>(),
    })
}

fn refusal(refusal: &Refusal) -> Value {
    let kind = refusal.type_url.as_str().rsplit('.').next();
    json!({ "kind": kind, "name": &*refusal.name, "text": &*refusal.words })
}
