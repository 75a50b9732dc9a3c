//! Authors of `EnvoyProxy`, of patches, of raw resources and of Backends who try to reach files, code, sockets or the credentials of the machine.

use tests::backend::Backend;
use tests::binary;
use tests::client::get;
use tests::objects::{documents, gateway, route, ruled, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::told::pointed;
use tests::wait;

/// A Gateway `edge` with a route to a backend, whose Envoy answers.
fn served(settings: &str, running: &mut Running, port: u16, backend: &Backend) {
    if !settings.is_empty() {
        let text =
            format!("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\nextensionApis: {settings}\n");
        running.write("settings.yaml", &text).unwrap();
    }
    running.write("service.yaml", &service("one", backend.port)).unwrap();
    running.write("route.yaml", &route("shop", &[("/", "one")])).unwrap();
    running.start().unwrap();
    wait::until("an answer", || get(port, "x.example", "/").ok().filter(|answer| answer.status == 200)).unwrap();
}

/// The command lines of the Envoys that this Chancery has started.
fn command_lines(running: &Running) -> Vec<String> {
    let line = |envoy| std::fs::read(format!("/proc/{envoy}/cmdline")).ok();
    let lines = running.envoys().into_iter().filter_map(line);
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

#[test]
fn arguments_of_an_author_reach_no_command_line() {
    let (backend, mut running) = (Backend::start("one").unwrap(), Running::prepare().unwrap());
    let [port, other] = free_ports().unwrap();
    let place = tempfile::tempdir().unwrap();
    let written = place.path().join("written");
    let yaml = format!(
        "{{static_resources: {{listeners: [{{address: {{socket_address: {{address: 127.0.0.1, port_value: {other}}}}}, \
         filter_chains: [{{}}], access_log: [{{name: a, typed_config: {{'@type': \
         type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: '{}'}}}}]}}]}}}}",
        written.display()
    );
    let of_proxy = |args: &str| {
        format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata: {{name: p}}\nspec:\n  extraArgs: {args}\n"
        )
    };
    let args = serde_json::json!([
        "--config-yaml",
        yaml,
        "--stats-tag=--config-yaml",
        yaml,
        "--stats-tag",
        "team:shop",
        "-c/etc/passwd"
    ]);
    running.write("proxy.yaml", &of_proxy(&args.to_string())).unwrap();
    let named = "  infrastructure:\n    parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: p}\n";
    running.write("gateway.yaml", &(gateway(port) + named)).unwrap();
    served("{enableExtraArgs: true, extraArgs: [stats-tag]}", &mut running, port, &backend);

    let lines = command_lines(&running);
    assert!(!lines.is_empty(), "the Envoy is found by its command line");
    for line in &lines {
        assert!(!line.contains("config-yaml") && !line.contains("passwd"), "{line}");
        assert!(line.contains("--stats-tag team:shop"), "what is allowed is passed on: {line}");
    }
    assert!(get(other, "x.example", "/").is_err(), "a listener of the author");
    assert!(!written.exists(), "a file of the author");
    let said = running.status(&["envoyproxy", "p", "-o", "yaml"]).unwrap();
    assert!(said.contains("config-yaml among extraArgs"), "{said}");
}

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
const RAW: [(&str, &str, &str); 8] = [
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
];

#[test]
fn a_raw_resource_has_no_power_that_is_not_listed() {
    for (kind, config, word) in RAW {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web-1, labels: {{app: web}}}}\n---\napiVersion: chancery.io/v1alpha1\nkind: {kind}\n\
             metadata: {{name: a}}\nspec:\n  workloadSelector: {{labels: {{app: web}}}}\n  config: {config}\n"
        );
        let refused = binary::run(["validate", "-"], &text).unwrap();
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{config}: {said}");
        assert!(said.contains(&format!("--raw-resources {word}")), "{config}: {said}");
        let made = binary::run(["translate", "--to", "ir", "-"], &text).unwrap();
        let made = String::from_utf8_lossy(&made.stdout).into_owned();
        assert!(!made.contains("bytes"), "{config}: {made}");
        let allowed = binary::run(["validate", "--raw-resources", word, "-"], &text).unwrap();
        let said = String::from_utf8_lossy(&allowed.stdout).into_owned();
        assert!(!said.contains("is not allowed"), "{config}: {said}");
    }
}

#[test]
fn no_backend_leads_to_the_credentials_of_the_machine() {
    let addresses = [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fe80::1",
        "fd00:ec2::254",
        "100.100.100.200",
    ];
    let ips = addresses.map(|address| format!("ip: {{address: '{address}', port: 80}}"));
    let names =
        ["metadata.google.internal", "metadata.goog"].map(|name| format!("fqdn: {{hostname: {name}, port: 80}}"));
    let to = ruled("r", "  rules:\n  - backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: b}]\n");
    for endpoint in ips.iter().chain(&names) {
        let backend = format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: b}}\nspec: {{endpoints: [{{{endpoint}}}]}}\n"
        );
        let text = documents([&*gateway(80), &*backend, &*to]);
        let said = pointed(&text).unwrap().join("\n");
        assert!(said.contains("credentials") && said.contains("--allow-link-local"), "{endpoint}: {said}");
        let allowed = binary::run(["validate", "--allow-link-local", "-"], &text).unwrap();
        assert!(!String::from_utf8_lossy(&allowed.stdout).contains("credentials"), "{endpoint}");
    }
    let slice = service("cloud", 80).replace("127.0.0.1", "169.254.169.254");
    let external = "apiVersion: v1\nkind: Service\nmetadata: {name: name}\nspec: {type: ExternalName, externalName: metadata.google.internal, ports: [{port: 80}]}\n";
    let to = ruled("r", "  rules:\n  - backendRefs: [{name: cloud, port: 80}, {name: name, port: 80}]\n");
    let text = documents([&*gateway(80), &*slice, external, &*to]);
    let made = binary::run(["translate", "--to", "envoy", "-"], &text).unwrap();
    let made = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(
        !made.contains("169.254") && !made.replace("address: \"", "address: ").contains("address: metadata"),
        "{made}"
    );
}
