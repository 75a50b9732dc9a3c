//! Authors of patches and of raw resources who hide what they do: as settings of another type, as configuration from a server of their own, behind a port or a
//! path that is not looked at.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::{Value as Json, json};
use tests::backend::Backend;
use tests::binary;
use tests::client::{get, get_with};
use tests::objects::gateway;
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

use crate::command_line::served;

const ALL: &str = "files,environment,admin,lua,sockets";

fn any(name: &str, mut fields: Json) -> Json {
    fields["@type"] = json!(format!("type.googleapis.com/{name}"));
    fields
}

/// A cluster at a loopback port.
fn cluster(port: u16, more: &Json) -> Json {
    let address = json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": address}}]}]);
    let mut cluster = json!({
        "name": "author", "type": "STATIC", "connect_timeout": "1s",
        "load_assignment": {"cluster_name": "author", "endpoints": endpoints},
    });
    cluster.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    cluster
}

/// Options of a cluster with Lua that says so to the file.
fn code(file: &str) -> Json {
    let source = format!(
        "local f = io.open('{file}', 'w') f:write('code') f:close() function envoy_on_request(h) h:headers():add('x', 'y') end"
    );
    let lua =
        any("envoy.extensions.filters.http.lua.v3.Lua", json!({"default_source_code": {"inline_string": source}}));
    let codec = any("envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec", json!({}));
    json!({
        "explicit_http_config": {"http_protocol_options": {}},
        "http_filters": [{"name": "l", "typed_config": lua}, {"name": "c", "typed_config": codec}],
    })
}

fn with_options(port: u16, options: &Json) -> Json {
    let options = json!({ "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options });
    cluster(port, &json!({ "typed_extension_protocol_options": options }))
}

/// The same settings under types that are not theirs.
fn hidden(file: &str) -> [Json; 3] {
    let typed = |wrapper: &str| {
        let url = "type.googleapis.com/envoy.config.core.v3.Locality";
        any(wrapper, json!({"type_url": url, "value": code(file)}))
    };
    [
        any("google.protobuf.Struct", json!({ "value": code(file) })),
        typed("xds.type.v3.TypedStruct"),
        typed("udpa.type.v1.TypedStruct"),
    ]
}

/// A source of configuration at a server of the author.
fn elsewhere(port: u16) -> Json {
    let service = json!({"google_grpc": {"target_uri": format!("127.0.0.1:{port}"), "stat_prefix": "x"}});
    let source = json!({"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [service]});
    json!({"api_config_source": source, "resource_api_version": "V3"})
}

fn traced() -> Json {
    let zipkin = json!({
        "collector_cluster": "collector", "collector_endpoint": "/spans", "collector_endpoint_version": "HTTP_JSON",
    });
    json!({
        "random_sampling": {"value": 100},
        "provider": {"name": "z", "typed_config": any("envoy.config.trace.v3.ZipkinConfig", zipkin)},
        "custom_tags": [{"tag": "stolen", "environment": {"name": "HOME", "default_value": "unset"}}],
    })
}

fn anywhere() -> Json {
    let original =
        any("envoy.extensions.clusters.original_dst.v3.OriginalDstCluster", json!({"use_http_header": true}));
    json!({
        "name": "author", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "1s",
        "cluster_type": {"name": "envoy.clusters.original_dst", "typed_config": original},
    })
}

fn checked(port: u16) -> Json {
    let check = json!({
        "timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1,
        "http_health_check": {"path": "/logging?level=debug", "method": "POST"},
    });
    let mut cluster = cluster(9, &json!({ "health_checks": [check] }));
    cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["health_check_config"] =
        json!({ "port_value": port });
    cluster
}

fn patch(kind: &str, name: &str, path: &str, value: &Json) -> Json {
    let kind = format!("type.googleapis.com/envoy.config.{kind}");
    json!({"type": kind, "name": name, "operation": {"op": "add", "path": path, "value": value}})
}

fn policy(name: &str, patches: &[Json]) -> Json {
    json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyPatchPolicy", "metadata": {"name": name},
        "spec": {
            "type": "JSONPatch", "jsonPatches": patches,
            "targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"},
        },
    })
}

#[test]
fn a_patch_hides_nothing_behind_a_type_or_a_server() {
    let (backend, mut running) = (Backend::start("one").unwrap(), Running::prepare().unwrap());
    let victim = Backend::start("victim").unwrap();
    let [port] = free_ports().unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    let place = tempfile::tempdir().unwrap();
    let written = place.path().join("written");
    let asked = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    asked.set_nonblocking(true).unwrap();
    let server = asked.local_addr().unwrap().port();
    served("{enableEnvoyPatchPolicy: true}", &mut running, port, &backend);

    let listener = format!("default/edge/{port}");
    let manager = "/filter_chains/0/filters/0/typed_config";
    let of_cluster = |value: &Json| {
        let route = json!({"match": {"prefix": "/author"}, "route": {"cluster": "author"}});
        vec![
            patch("cluster.v3.Cluster", "author", "", value),
            patch("route.v3.RouteConfiguration", &listener, "/virtual_hosts/0/routes/0", &route),
        ]
    };
    let lua = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua";
    let discovery =
        json!({"name": "author", "config_discovery": {"config_source": elsewhere(server), "type_urls": [lua]}});
    let discovery = patch("listener.v3.Listener", &listener, &format!("{manager}/http_filters/0"), &discovery);
    let tracing = patch("listener.v3.Listener", &listener, &format!("{manager}/tracing"), &traced());
    let endpoints = json!({"type": "EDS", "eds_cluster_config": {"eds_config": elsewhere(server)}});
    let collector = cluster(server, &json!({"name": "collector"}));
    let mut cases: Vec<(Vec<Json>, &str)> = hidden(&written.display().to_string())
        .iter()
        .map(|options| (of_cluster(&with_options(backend.port, options)), ALL))
        .collect();
    let mut by_eds = cluster(9, &endpoints);
    by_eds.as_object_mut().unwrap().remove("load_assignment");
    cases.extend([
        (vec![discovery], ALL),
        (of_cluster(&by_eds), ALL),
        (vec![patch("cluster.v3.Cluster", "collector", "", &collector), tracing], "environment"),
        (of_cluster(&anywhere()), "admin"),
        (of_cluster(&cluster(19_004, &json!({}))), "admin"),
        (of_cluster(&checked(19_004)), "admin"),
    ]);
    for (number, (patches, word)) in cases.into_iter().enumerate() {
        let name = format!("p{number}");
        let policy = policy(&name, &patches);
        running.write("policy.yaml", &policy.to_string()).unwrap();
        let said = || running.status(&["envoypatchpolicy", &name, "-o", "yaml"]).ok();
        let wanted = format!("--raw-resources {word}");
        let found = wait::until(&wanted, || said()?.replace('\n', " ").contains(&wanted).then_some(()));
        let to_victim = format!("127.0.0.1:{}", victim.port);
        let answer = get_with(port, "x.example", "/author", &[("x-envoy-original-dst-host", &to_victim)]).unwrap();
        assert_ne!(&*answer.body, "victim", "{policy}");
        let answer = get(port, "x.example", "/").unwrap();
        assert_eq!((answer.status, &*answer.body), (200, "one"), "{policy}");
        assert!(!written.exists(), "code of the author ran: {policy}");
        assert!(asked.accept().is_err(), "a server of the author was asked: {policy}");
        assert!(found.is_ok(), "{policy}: {}", said().unwrap_or_default());
    }
}

/// Raw resources, and what each needs.
fn resources() -> Vec<(&'static str, Json, &'static str)> {
    let manager = |mut fields: Json| {
        let name = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
        fields["stat_prefix"] = json!("x");
        let address = json!({"socket_address": {"address": "0.0.0.0", "port_value": 9999}});
        json!({"name": "author", "address": address, "filter_chains": [{"filters": [{"name": "m", "typed_config": any(name, fields)}]}]})
    };
    let state = json!({
        "object_key": "envoy.network.transport_socket.original_dst_address",
        "format_string": {"text_format_source": {"inline_string": "%REQ(x-dst)%"}},
    });
    let state =
        any("envoy.extensions.filters.http.set_filter_state.v3.Config", json!({ "on_request_headers": [state] }));
    let alts =
        any("envoy.extensions.transport_sockets.alts.v3.Alts", json!({"handshaker_service": "unix:/run/docker.sock"}));
    let iam = any(
        "envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions",
        json!({"aws_iam": {"cache_name": "c", "service_name": "elasticache", "region": "x"}, "auth_username": {"inline_string": "u"}}),
    );
    let original = |settings: Json| {
        json!({
            "name": "author", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "1s",
            "original_dst_lb_config": settings,
        })
    };
    let mut all: Vec<_> = hidden("/x").iter().map(|options| ("EnvoyCluster", with_options(80, options), ALL)).collect();
    all.extend([
        ("EnvoyListener", manager(json!({"rds": {"route_config_name": "x", "config_source": elsewhere(18_000)}})), ALL),
        ("EnvoyCluster", anywhere(), "admin"),
        ("EnvoyCluster", original(json!({})), "admin"),
        ("EnvoyCluster", original(json!({"metadata_key": {"key": "x", "path": [{"key": "dst"}]}})), "admin"),
        ("EnvoyCluster", original(json!({"upstream_port_override": 19_000})), "admin"),
        ("EnvoyCluster", checked(19_000), "admin"),
        ("EnvoyCluster", cluster(19_004, &json!({})), "admin"),
        ("EnvoyCluster", cluster(80, &json!({"transport_socket": {"name": "t", "typed_config": alts}})), "sockets"),
        (
            "EnvoyCluster",
            cluster(80, &json!({"typed_extension_protocol_options": {"envoy.filters.network.redis_proxy": iam}})),
            "environment",
        ),
        ("EnvoyListener", manager(json!({"route_config": {"name": "r"}, "tracing": traced()})), "environment"),
        (
            "EnvoyListener",
            manager(json!({"route_config": {"name": "r"}, "http_filters": [{"name": "s", "typed_config": state}]})),
            "admin",
        ),
    ]);
    all
}

fn object(kind: &str, config: &Json) -> String {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "labels": {"app": "web"}}});
    let spec = json!({"workloadSelector": {"labels": {"app": "web"}}, "config": config});
    let object =
        json!({"apiVersion": "chancery.io/v1alpha1", "kind": kind, "metadata": {"name": "author"}, "spec": spec});
    format!("{pod}\n---\n{object}\n")
}

/// What `chancery validate` says with powers, and what a proxy would get.
fn judged(text: &str, words: &str) -> (String, String) {
    let listed = ["--raw-resources", words];
    let listed = listed.iter().filter(|_| !words.is_empty());
    let said = binary::run(["validate"].iter().chain(listed.clone()).chain(&["-"]), text).unwrap();
    let made = binary::run(["translate", "--to", "ir"].iter().chain(listed).chain(&["-"]), text).unwrap();
    [said, made].map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).into()
}

#[test]
fn a_raw_resource_hides_nothing_behind_a_type_or_a_server() {
    for (kind, config, words) in resources() {
        let text = object(kind, &config);
        let (said, made) = judged(&text, "");
        assert!(said.contains(&format!("--raw-resources {words}")), "{config}: {said}");
        assert!(!made.contains("bytes"), "{config}: {made}");
        // Each but the last is not enough.
        if let Some((some, last)) = words.rsplit_once(',') {
            let (said, _) = judged(&text, some);
            assert!(said.contains(&format!("--raw-resources {last}")), "{config}: {said}");
        }
        let (said, made) = judged(&text, words);
        assert!(!said.contains("not allowed") && made.contains("bytes"), "{config}: {said}");
    }
}

#[test]
fn a_raw_resource_reaches_no_socket_next_to_its_proxy() {
    for path in ["admin.sock", "./admin.sock", "/proc/self/cwd/admin.sock", "/run/../tmp/a"] {
        let address = json!({"pipe": { "path": path }});
        let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": address}}]}]);
        let cluster = cluster(80, &json!({"load_assignment": {"cluster_name": "author", "endpoints": endpoints}}));
        let listener = json!({"name": "author", "address": address});
        for (kind, config) in [("EnvoyCluster", cluster), ("EnvoyListener", listener)] {
            let (said, made) = judged(&object(kind, &config), ALL);
            assert!(said.contains("write the absolute path of a socket elsewhere"), "{config}: {said}");
            assert!(!made.contains("bytes"), "{config}: {made}");
        }
    }
}
