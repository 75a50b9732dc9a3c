//! Something that needs a power, inside any nest of messages: it is found however deep it is, or the resource is refused; and any JSON as a resource.

use ir::raw::Power;
use serde_json::{Value as Json, json};

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "envoy.config.listener.v3.Listener";
const EXTENSION: &str = "envoy.config.core.v3.TypedExtensionConfig";

/// Steps of a nest: more than any message may be deep, and few enough for the stack of a thread.
const DEEPEST: usize = 400;

/// One input: what is hidden, in which resource, and the steps to it; or JSON.
pub fn run(data: &[u8]) {
    if let Ok(config) = serde_json::from_slice::<Json>(data) {
        let read = |message| envoy::read_raw(message, &config, false);
        let _ = [CLUSTER, LISTENER, "envoy.config.endpoint.v3.ClusterLoadAssignment"].map(read);
        return;
    }
    let [hidden, place, steps @ ..] = data else { return };
    let (power, leaf) = leaf(*hidden);
    let held = steps.iter().take(DEEPEST).fold(leaf, |held, step| wrapped(*step, held));
    let (message, config) = resource(*place, held);
    let reading = envoy::read_raw(message, &config, place & 1 == 0);
    let is_found = reading.resource.is_none_or(|resource| resource.uses.iter().any(|found| found.power == power));
    assert!(is_found, "{power:?} is hidden behind {} steps", steps.len());
}

fn any(name: &str, mut fields: Json) -> Json {
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("@type".to_owned(), url(name));
    }
    fields
}

fn url(name: &str) -> Json {
    json!(format!("type.googleapis.com/{name}"))
}

/// A message that needs a power, as an `Any`.
fn leaf(choice: u8) -> (Power, Json) {
    let service = json!({"google_grpc": {"target_uri": "unix:/run/x.sock", "stat_prefix": "x"}});
    match choice % 7 {
        0 => (Power::Files, any("envoy.config.core.v3.DataSource", json!({"filename": "/etc/shadow"}))),
        1 => (Power::Environment, any("envoy.config.core.v3.DataSource", json!({"environment_variable": "X"}))),
        2 => (Power::Lua, any("envoy.extensions.filters.http.lua.v3.Lua", json!({"inline_code": "x"}))),
        3 => (Power::Sockets, any("envoy.config.core.v3.Pipe", json!({"path": "/run/x.sock"}))),
        4 => (Power::Sockets, any("envoy.config.core.v3.GrpcService", service)),
        5 => (Power::Admin, any("envoy.config.route.v3.RouteAction", json!({"cluster_header": "x"}))),
        _ => (
            Power::Files,
            any(
                "envoy.config.core.v3.SubstitutionFormatString",
                json!({
                    "text_format_source": {"inline_string": "%FILE_CONTENT(/etc/shadow)%"},
                }),
            ),
        ),
    }
}

/// One step around an `Any`.
fn wrapped(step: u8, held: Json) -> Json {
    let typed = |name: &str, held: Json| {
        any(name, json!({"type_url": url(EXTENSION), "value": {"name": "x", "typed_config": held}}))
    };
    match step % 6 {
        0 => any(EXTENSION, json!({"name": "x", "typed_config": held})),
        1 => typed("xds.type.v3.TypedStruct", held),
        2 => typed("udpa.type.v1.TypedStruct", held),
        3 => any("google.protobuf.Any", json!({"value": held})),
        4 => any("envoy.config.core.v3.Metadata", json!({"typed_filter_metadata": {"x": held}})),
        _ => {
            any("xds.type.matcher.v3.Matcher", json!({"on_no_match": {"action": {"name": "x", "typed_config": held}}}))
        }
    }
}

fn resource(place: u8, held: Json) -> (&'static str, Json) {
    match place >> 1 & 1 {
        0 => (CLUSTER, json!({"name": "c", "metadata": {"typed_filter_metadata": {"k": held}}})),
        _ => {
            let filter = json!({"name": "f", "typed_config": held});
            (LISTENER, json!({"name": "l", "filter_chains": [{"filters": [filter]}]}))
        }
    }
}
