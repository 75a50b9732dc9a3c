//! Authors of `EnvoyProxy` and of Backends who reach for files, code, sockets or the credentials of the machine, and how `/metrics` counts what is refused.

use tests::backend::Backend;
use tests::binary;
use tests::client::get;
use tests::objects::{documents, gateway, route, ruled, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::told::pointed;
use tests::wait;

/// A Gateway `edge` with a route to a backend, whose Envoy answers.
pub(super) fn served(settings: &str, running: &mut Running, port: u16, backend: &Backend) {
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

/// A test of `/metrics`: an object for each reason, and the reason.
#[test]
fn metrics_name_each_refusal_by_its_reason() {
    let backend = Backend::start("one").unwrap();
    let [port, health] = free_ports().unwrap();
    let sockets = tempfile::tempdir().unwrap();
    let arguments =
        ["--health-listen", &format!("127.0.0.1:{health}"), "--backend-sockets", &sockets.path().display().to_string()];
    let mut running = Running::prepare().unwrap().with(&arguments);
    running.write("gateway.yaml", &gateway(port)).unwrap();
    let deploy = "{allowedFields: [envoyServiceAccount], allowedServiceAccounts: [plain]}";
    let settings = format!("{{enableBackend: true}}\nprovider: {{type: Kubernetes, kubernetes: {{deploy: {deploy}}}}}");
    served(&settings, &mut running, port, &backend);
    let told = || get(health, "x.example", "/metrics").unwrap().body;
    let count = |reason: &str| {
        let name = format!("chancery_refusals{{reason=\"{reason}\"}} ");
        told().lines().find_map(|line| line.strip_prefix(&name)?.parse::<usize>().ok()).unwrap()
    };
    let aimed = |endpoint: &str| {
        let to = ruled("r", "  rules:\n  - backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: b}]\n");
        let backend = format!(
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: b}}\nspec: {{endpoints: [{{{endpoint}}}]}}\n"
        );
        documents([&*backend, &*to])
    };
    let proxy = |spec: &str| {
        format!("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata: {{name: p}}\nspec: {spec}\n")
    };
    let raw = "apiVersion: chancery.io/v1alpha1\nkind: EnvoyCluster\nmetadata: {name: a}\nspec:\n  config: {name: a, type: ORIGINAL_DST}\n";
    let policy = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: s}\nspec:\n  targetRefs: [{group: \
                  gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]\n  basicAuth: {users: {name: x}}\n";
    for (reason, text) in [
        ("own_address", aimed(&format!("ip: {{address: 127.0.0.1, port: {health}}}"))),
        ("link_local", aimed("ip: {address: 169.254.169.254, port: 80}")),
        ("socket", aimed("unix: {path: /run/docker.sock}")),
        ("raw_power", raw.to_owned()),
        ("argument", proxy("{extraArgs: [--config-yaml, '{}']}")),
        ("service_account", proxy("{provider: {type: Kubernetes, kubernetes: {envoyServiceAccount: {name: admin}}}}")),
        ("pod_field", proxy("{provider: {type: Kubernetes, kubernetes: {envoyDeployment: {replicas: 2}}}}")),
        ("policy", policy.to_owned()),
    ] {
        assert_eq!(count(reason), 0, "{reason}: {}", told());
        running.write("evil.yaml", &text).unwrap();
        wait::until(reason, || (count(reason) > 0).then_some(())).unwrap_or_else(|error| panic!("{error}: {}", told()));
        running.remove("evil.yaml").unwrap();
        wait::until(reason, || (count(reason) == 0).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {}", told()));
    }
    let link = |to: &str| std::os::unix::fs::symlink(to, running.conf().join("evil.yaml")).unwrap();
    let large = || std::fs::File::create(running.conf().join("evil.yaml")).unwrap().set_len((256 << 20) + 1).unwrap();
    let files: [(&str, &dyn Fn()); 3] =
        [("link", &|| link("/etc/passwd")), ("special_file", &|| link("/dev/zero")), ("large_file", &large)];
    for (reason, write) in files {
        assert_eq!(count(reason), 0, "{reason}: {}", told());
        write();
        wait::until(reason, || (count(reason) > 0).then_some(())).unwrap_or_else(|error| panic!("{error}: {}", told()));
        running.remove("evil.yaml").unwrap();
    }
    assert!(!told().contains("docker"), "no text of an author");
}
