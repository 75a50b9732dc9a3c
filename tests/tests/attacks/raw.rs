//! Authors of raw resources and of patches who reach for files, code, sockets, other control planes, and addresses of Chancery or of a cloud's metadata.

use tests::backend::Backend;
use tests::binary;
use tests::client::get;
use tests::objects::{documents, gateway, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

use super::command_line::served;

#[test]
fn a_patch_reads_no_file_and_runs_no_code() {
    let (backend, mut running) = (Backend::start("one").unwrap(), Running::prepare().unwrap());
    let [port] = free_ports().unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("of-the-operator");
    std::fs::write(&secret, "the operator's secret").unwrap();
    served("{enableEnvoyPatchPolicy: true}", &mut running, port, &backend);
    let policy = |name: &str, kind: &str, resource: &str, operation: &str| {
        format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyPatchPolicy\nmetadata: {{name: {name}}}\nspec:\n  type: JSONPatch\n  \
             targetRef: {{group: gateway.networking.k8s.io, kind: Gateway, name: edge}}\n  jsonPatches:\n  - type: \
             type.googleapis.com/envoy.config.{kind}\n    name: {resource}\n    operation: {operation}\n"
        )
    };
    let file = format!(
        "{{op: add, path: /virtual_hosts/0/routes/0, value: {{match: {{path: /file}}, direct_response: {{status: 200, body: {{filename: '{}'}}}}}}}}",
        secret.display()
    );
    let listener = format!("default/edge/{port}");
    let filters = "/filter_chains/0/filters/0/typed_config/http_filters/0";
    let lua = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua";
    let source = "default_source_code: {inline_string: 'function envoy_on_request(h) h:respond({[\":status\"] = \"203\"}, \"code\") end'}";
    let plain = format!("{{op: add, path: {filters}, value: {{name: a, typed_config: {{'@type': {lua}, {source}}}}}}}");
    let typed = format!(
        "{{op: add, path: {filters}, value: {{name: a, typed_config: {{'@type': type.googleapis.com/xds.type.v3.TypedStruct, type_url: {lua}, value: {{{source}}}}}}}}}"
    );
    for (name, text, word) in [
        ("file", policy("file", "route.v3.RouteConfiguration", &listener, &file), "files"),
        ("lua", policy("lua", "listener.v3.Listener", &listener, &plain), "lua"),
        ("typed", policy("typed", "listener.v3.Listener", &listener, &typed), "lua"),
    ] {
        running.write("policy.yaml", &text).unwrap();
        let said = || running.status(&["envoypatchpolicy", name, "-o", "yaml"]).ok();
        let named = format!("--raw-resources {word}");
        let found = wait::until(&named, || said()?.replace("\n", " ").contains(&named).then_some(()));
        assert!(found.is_ok(), "{name}: {}", said().unwrap_or_default());
        for path in ["/file", "/"] {
            let answer = get(port, "x.example", path).unwrap();
            assert_eq!((answer.status, &*answer.body), (200, "one"), "{name} at {path}");
        }
    }
}

/// Raw resources that reach beyond requests, and the word that allows each.
const RAW: [(&str, &str, &str); 13] = [
    (
        "EnvoyCluster",
        "{name: a, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: /run/docker.sock}}}}]}]}}",
        "sockets",
    ),
    (
        "EnvoyCluster",
        "{name: a, transport_socket: {name: t, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {key_log: {path: /x}}}}}",
        "files",
    ),
    (
        "EnvoyRoute",
        "{name: a, virtual_hosts: [{name: h, domains: ['*'], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {filename: /etc/shadow}}}]}]}",
        "files",
    ),
    (
        "EnvoyRoute",
        "{name: a, virtual_hosts: [{name: h, domains: ['*'], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {environment_variable: TOKEN}}}]}]}",
        "environment",
    ),
    (
        "EnvoyRoute",
        "{name: a, virtual_hosts: [{name: h, domains: ['*'], response_headers_to_add: [{header: {key: x, value: '%ENVIRONMENT(TOKEN)%'}}]}]}",
        "environment",
    ),
    (
        "EnvoyRoute",
        "{name: a, virtual_hosts: [{name: h, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: chancery.admin}}]}]}",
        "admin",
    ),
    (
        "EnvoyRoute",
        "{name: a, virtual_hosts: [{name: h, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster_header: x-to}}]}]}",
        "admin",
    ),
    (
        "EnvoyExtensionConfig",
        "{name: a, typed_config: {'@type': type.googleapis.com/udpa.type.v1.TypedStruct, type_url: type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, value: {default_source_code: {inline_string: x}}}}",
        "lua",
    ),
    ("EnvoyCluster", "{name: a, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED}", "admin"),
    (
        "EnvoyCluster",
        "{name: a, cluster_type: {name: envoy.cluster.original_dst}, lb_policy: CLUSTER_PROVIDED}",
        "admin",
    ),
    (
        "EnvoyEndpoint",
        "{cluster_name: a, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: '127.1', port_value: 19000}}}}]}]}",
        "admin",
    ),
    (
        "EnvoyEndpoint",
        "{cluster_name: a, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 80}}, health_check_config: {port_value: 19000}}}]}]}",
        "admin",
    ),
    (
        "EnvoyCluster",
        "{name: a, transport_socket: {name: t, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {validation_context_sds_secret_config: {name: s, sds_config: {path_config_source: {path: /x}}}}}}}",
        "files",
    ),
];

/// A workload `web-1` and a raw resource for it.
fn raw(kind: &str, config: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web-1, labels: {{app: web}}}}\n---\napiVersion: chancery.io/v1alpha1\nkind: {kind}\n\
         metadata: {{name: a}}\nspec:\n  workloadSelector: {{labels: {{app: web}}}}\n  config: {config}\n"
    )
}

/// Returns the intent that `chancery translate` prints.
fn made(text: &str) -> String {
    let made = binary::run(["translate", "--to", "ir", "-"], text).unwrap();
    String::from_utf8_lossy(&made.stdout).into_owned()
}

#[test]
fn a_raw_resource_asks_no_other_control_plane() {
    let service = "{google_grpc: {target_uri: 'attacker.example:443', stat_prefix: x}}";
    let source = format!("{{api_config_source: {{api_type: GRPC, grpc_services: [{service}]}}}}");
    let text = raw("EnvoyCluster", &format!("{{name: a, type: EDS, eds_cluster_config: {{eds_config: {source}}}}}"));
    let refused = binary::run(["validate", "-"], &text).unwrap();
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(said.contains("--raw-resources files,environment,admin,lua,sockets"), "{said}");
    assert!(!made(&text).contains("bytes"), "{text}");
}

#[test]
fn no_raw_resource_leads_to_the_credentials_of_the_machine() {
    let at = |address: &str| format!("{{socket_address: {{address: '{address}', port_value: 80}}}}");
    let endpoint =
        |endpoint: &str| format!("{{cluster_name: a, endpoints: [{{lb_endpoints: [{{endpoint: {endpoint}}}]}}]}}");
    let plain = |address: &str| endpoint(&format!("{{address: {}}}", at(address)));
    let mut resources = Vec::new();
    for address in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fe80::1",
        "fe80::1%eth0",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0xa9.254",
        "metadata.google.internal",
        "METADATA.google.internal.",
    ] {
        resources.push(("EnvoyEndpoint", plain(address)));
        resources.push(("EnvoyCluster", format!("{{name: a, type: STRICT_DNS, load_assignment: {}}}", plain(address))));
    }
    let away = at("169.254.169.254");
    let proxy = "type.googleapis.com/envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport";
    let raw_buffer = "{name: r, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}}";
    let log = "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig";
    let target = |target: &str| {
        format!(
            "{{name: a, address: {}, access_log: [{{name: l, typed_config: {{'@type': {log}, common_config: {{log_name: x, transport_api_version: V3, \
             grpc_service: {{google_grpc: {{target_uri: '{target}', stat_prefix: x}}}}}}}}}}]}}",
            at("127.0.0.1")
        )
    };
    resources.extend([
        ("EnvoyEndpoint", endpoint(&format!("{{address: {}, health_check_config: {{address: {away}}}}}", at("10.0.0.1")))),
        ("EnvoyEndpoint", endpoint(&format!("{{address: {}, additional_addresses: [{{address: {away}}}]}}", at("10.0.0.1")))),
        ("EnvoyCluster", format!("{{name: a, upstream_bind_config: {{source_address: {{address: 169.254.1.1, port_value: 0}}}}, load_assignment: {}}}", plain("10.0.0.1"))),
        ("EnvoyCluster", format!("{{name: a, type: STRICT_DNS, dns_resolvers: [{away}], load_assignment: {}}}", plain("a.example"))),
        (
            "EnvoyCluster",
            format!(
                "{{name: a, load_assignment: {}, transport_socket: {{name: t, typed_config: {{'@type': {proxy}, transport_socket: {raw_buffer}, default_proxy_address: {away}}}}}}}",
                plain("10.0.0.1")
            ),
        ),
        ("EnvoyListener", target("169.254.169.254:80")),
        ("EnvoyListener", target("ipv4:169.254.169.254:80")),
        ("EnvoyListener", target("dns:///169.254.169.25%34:80")),
    ]);
    for (kind, config) in resources {
        let text = raw(kind, &config);
        let refused = binary::run(["validate", "-"], &text).unwrap();
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(said.contains("credentials") && said.contains("--allow-link-local"), "{config}: {said}");
        assert!(!made(&text).contains("bytes"), "{config}");
        let allowed = binary::run(["validate", "--allow-link-local", "-"], &text).unwrap();
        let said = String::from_utf8_lossy(&allowed.stdout).into_owned();
        assert!(!said.contains("credentials"), "{config}: {said}");
    }
}

#[test]
fn the_endpoints_of_a_service_lead_a_raw_resource_to_no_closed_address() {
    let slice = service("cloud", 80).replace("127.0.0.1", "169.254.169.254");
    let cluster = raw("EnvoyCluster", "{name: a, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}");
    let endpoints = "apiVersion: chancery.io/v1alpha1\nkind: EnvoyEndpoint\nmetadata: {name: e}\nspec:\n  workloadSelector: {labels: {app: web}}\n  \
                     service: {name: cloud, port: 80}\n  config: {cluster_name: a}\n";
    let text = documents([&*cluster, endpoints]);
    let of = |slice: &str| {
        let made = binary::run(["translate", "--to", "envoy", "-"], &documents([&*text, slice])).unwrap();
        String::from_utf8_lossy(&made.stdout).into_owned()
    };
    assert!(of(&service("cloud", 80)).contains("127.0.0.1"), "{}", of(&service("cloud", 80)));
    assert!(!of(&slice).contains("169.254"), "{}", of(&slice));
}

#[test]
fn no_patch_leads_to_an_address_of_chancery() {
    let backend = Backend::start("one").unwrap();
    let [port, health] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap().with(&["--health-listen", &format!("127.0.0.1:{health}")]);
    running.write("gateway.yaml", &gateway(port)).unwrap();
    served("{enableEnvoyPatchPolicy: true}", &mut running, port, &backend);
    let to = |host: &str, port: u16, with: &str| {
        format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyPatchPolicy\nmetadata: {{name: p}}\nspec:\n  type: JSONPatch\n  \
             targetRef: {{group: gateway.networking.k8s.io, kind: Gateway, name: edge}}\n  jsonPatches:\n  - type: \
             type.googleapis.com/envoy.config.cluster.v3.Cluster\n    name: away\n    operation: {{op: add, path: '', value: {{name: away, \
             type: STRICT_DNS, load_assignment: {{cluster_name: away, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: \
             {{address: '{host}', port_value: {port}}}}}{with}}}}}]}}]}}}}}}\n"
        )
    };
    let other = format!(", health_check_config: {{port_value: {health}}}");
    for (host, port, with, words) in [
        ("127.0.0.1", health, "", "where Chancery listens"),
        ("127.1", health, "", "where Chancery listens"),
        ("::ffff:127.0.0.1", health, "", "where Chancery listens"),
        ("localhost", health, "", "where Chancery listens"),
        ("x.localhost", health, "", "where Chancery listens"),
        ("0.0.0.0", health, "", "where Chancery listens"),
        ("127.0.0.1", backend.port, &*other, "where Chancery listens"),
        ("169.254.169.254", 80, "", "--allow-link-local"),
    ] {
        running.write("policy.yaml", &to(host, port, with)).unwrap();
        let said = || running.status(&["envoypatchpolicy", "p", "-o", "yaml"]).ok();
        let found = wait::until(words, || {
            let said = said()?.replace('\n', " ");
            let words = words.split(' ').all(|word| said.contains(word));
            (words && said.contains(&format!("leads to {}", if with.is_empty() { host } else { "port" }))).then_some(())
        });
        assert!(found.is_ok(), "{host}: {}", said().unwrap_or_default());
    }
    // What leads elsewhere is taken.
    running.write("policy.yaml", &to("127.0.0.1", backend.port, "")).unwrap();
    let said = || running.status(&["envoypatchpolicy", "p", "-o", "yaml"]).ok();
    let found = wait::until("programmed", || (!said()?.contains("leads to")).then_some(()));
    assert!(found.is_ok(), "{}", said().unwrap_or_default());
}

#[test]
fn a_raw_resource_has_no_power_that_is_not_listed() {
    for (kind, config, word) in RAW {
        let text = raw(kind, config);
        let refused = binary::run(["validate", "-"], &text).unwrap();
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{config}: {said}");
        assert!(said.contains(&format!("--raw-resources {word}")), "{config}: {said}");
        assert!(!made(&text).contains("bytes"), "{config}");
        let allowed = binary::run(["validate", "--raw-resources", word, "-"], &text).unwrap();
        let said = String::from_utf8_lossy(&allowed.stdout).into_owned();
        assert!(!said.contains("is not allowed"), "{config}: {said}");
    }
}
