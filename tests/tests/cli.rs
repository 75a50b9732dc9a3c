//! What the command line says, word for word: exit code, standard output and standard error of every verb that ends by itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use tests::binary;

#[path = "cli/usage.rs"]
mod usage;

/// A Gateway, a route and what it needs: nothing is wrong with it.
const SHOP: &str = "\
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
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: shop
  generation: 3
spec:
  parentRefs:
  - name: edge
  rules:
  - backendRefs:
    - name: web
      port: 80
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  ports:
  - port: 80
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  labels:
    kubernetes.io/service-name: web
addressType: IPv4
ports:
- port: 8000
endpoints:
- addresses: [127.0.0.1]
";

/// For verbs that need no folder.
const NOWHERE: &str = "/no/such/folder";

/// A folder with files of these names and contents.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// Runs with `DIR` standing for the folder; gives the exit code and both outputs, the folder written as `DIR` again.
fn told(folder: &Path, words: &[&str], input: &str) -> String {
    let Output { status, stdout, stderr } = run(folder, words, input);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&folder.display().to_string(), "DIR");
    let mut told = format!("exit code {}\n", status.code().unwrap());
    for (name, bytes) in [("stdout", &stdout), ("stderr", &stderr)].iter().filter(|(_, bytes)| !bytes.is_empty()) {
        told.push_str(&format!("--- {name}\n{}", text(bytes)));
    }
    told
}

fn run(folder: &Path, words: &[&str], input: &str) -> Output {
    let words = words.iter().map(|word| word.replace("DIR", &folder.display().to_string()));
    binary::run(words, input).unwrap()
}

/// What `translate` with these words prints as JSON about `SHOP`.
fn json(words: &[&str]) -> Value {
    let place = folder(&[("shop.yaml", SHOP.as_bytes())]);
    let words: Vec<&str> = ["translate", "-f", "DIR", "-o", "json"].iter().chain(words).copied().collect();
    let output = run(place.path(), &words, "");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn version_names_chancery_and_envoy() {
    insta::assert_snapshot!(told(Path::new(NOWHERE), &["version"], ""), @"
    exit code 0
    --- stdout
    chancery 0.1.0 (Envoy 1.40.0)
    ");
}

#[test]
fn each_shell_gets_a_completion_script_that_knows_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(Path::new(NOWHERE), &["completion", shell], "");
        let script = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(["translate", "validate", "status"].iter().all(|verb| script.contains(verb)), "{shell}:\n{script}");
    }
}

#[test]
fn files_may_be_named_without_an_option() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
    insta::assert_snapshot!(told(Path::new(NOWHERE), &["validate", "-"], text), @"
    exit code 0
    --- stdout
    1 object: 0 errors, 0 warnings, 0 notes
    ");
}

#[test]
fn a_log_level_that_is_none_is_refused() {
    insta::assert_snapshot!(told(Path::new(NOWHERE), &["run", "x", "--log-level", "info,xds=chatty"], ""), @r#"
    exit code 1
    --- stderr
    chancery: --log-level info,xds=chatty: "chatty" is no level; levels are error, warn, info, debug, trace and off
    "#);
}

#[test]
fn an_unknown_stage_is_wrong_usage() {
    insta::assert_snapshot!(told(Path::new(NOWHERE), &["translate", "-f", "x", "--to", "xds"], ""), @"
    exit code 2
    --- stderr
    error: invalid value 'xds' for '--to <STAGES>'
      [possible values: status, ir, envoy]

    For more information, try '--help'.
    ");
}

#[test]
fn a_right_folder_validates() {
    let place = folder(&[("shop.yaml", SHOP.as_bytes())]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 0
    --- stdout
    4 objects: 0 errors, 0 warnings, 1 note (--notes prints them)
    ");
}

#[test]
fn broken_yaml_is_shown_with_line_column_and_caret_and_other_files_go_on() {
    let broken = b"apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n spec: {}\n";
    let place = folder(&[("broken.yaml", broken), ("shop.yaml", SHOP.as_bytes())]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    error: this line does not fit the map around it: look at its indentation, and for a missing colon
      --> DIR/broken.yaml:5:2
      |
    5 |  spec: {}
      |  ^

    4 objects: 1 error, 0 warnings, 1 note (--notes prints them)
    ");
}

#[test]
fn an_unknown_field_is_told_with_the_nearest_name() {
    let place = folder(&[("shop.yaml", SHOP.replace("backendRefs", "backendRef").as_bytes())]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    warning: backendRef is not a field here and is ignored; did you mean backendRefs?
      --> DIR/shop.yaml:21:5
       in HTTPRoute default/shop, spec.rules[0].backendRef
       |
    21 |   - backendRef:
       |     ^

    warning: the rule has no backends: requests get 500
      --> DIR/shop.yaml:21:5
       in HTTPRoute default/shop, spec.rules[0].backendRefs
       |
    21 |   - backendRef:
       |     ^

    4 objects: 0 errors, 2 warnings, 1 note (--notes prints them)
    ");
}

#[test]
fn a_kind_that_nobody_reads_is_a_note_and_one_that_is_nearly_right_an_error() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n---\n\
                apiVersion: gateway.networking.k8s.io/v1\nkind: HttpRoute\nmetadata:\n  name: shop\n";
    let place = folder(&[("a.yaml", text.as_bytes())]);
    insta::assert_snapshot!(told(place.path(), &["validate", "--notes", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    note: the kind Deployment of apps is not read
      --> DIR/a.yaml:2:7
       in Deployment web
      |
    2 | kind: Deployment
      |       ^

    error: there is no kind HttpRoute in gateway.networking.k8s.io; did you mean HTTPRoute?
      --> DIR/a.yaml:7:7
       in HttpRoute shop, kind
      |
    7 | kind: HttpRoute
      |       ^

    0 objects and 1 that cannot be used: 1 error, 0 warnings, 1 note; not read: 1 Deployment
    ");
    let only_note = folder(&[("a.yaml", text.split("---").next().unwrap().as_bytes())]);
    insta::assert_snapshot!(told(only_note.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    warning: no object that is read in DIR: of files those are read whose names end with .yaml, .yml or .json

    0 objects: 0 errors, 1 warning, 1 note (--notes prints them); not read: 1 Deployment
    ");
}

#[test]
fn of_two_objects_of_one_name_the_first_file_wins_and_both_are_named() {
    let service = b"# one\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 80\n";
    let place = folder(&[("b.yaml", service), ("a.yaml", service), ("c/d.yaml", service)]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    error: written twice: the one at DIR/a.yaml:1 comes first and is effective, this one at DIR/b.yaml:1 has no effect; remove or rename one of them
      --> DIR/b.yaml:5:9
       in Service default/web
      |
    5 |   name: web
      |         ^

    error: written twice: the one at DIR/a.yaml:1 comes first and is effective, this one at DIR/c/d.yaml:1 has no effect; remove or rename one of them
      --> DIR/c/d.yaml:5:9
       in Service default/web
      |
    5 |   name: web
      |         ^

    1 object: 2 errors, 0 warnings, 0 notes
    ");
}

#[test]
fn a_reference_that_leads_nowhere_is_told_where_it_is_written() {
    let place = folder(&[("shop.yaml", SHOP.replace("name: web\n      port", "name: nobody\n      port").as_bytes())]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    error: Service default/nobody does not exist
      --> DIR/shop.yaml:22:7
       in HTTPRoute default/shop, spec.rules[0].backendRefs[0]
       |
    22 |     - name: nobody
       |       ^

    4 objects: 1 error, 0 warnings, 1 note (--notes prints them)
    ");
}

#[test]
fn translate_shows_what_is_wrong_on_standard_error_and_leaves_judging_to_validate() {
    let place = folder(&[("shop.yaml", SHOP.replace("name: web\n      port", "name: nobody\n      port").as_bytes())]);
    let output = run(place.path(), &["translate", "-f", "DIR"], "");
    assert_eq!(output.status.code(), Some(0));
    let stderr = String::from_utf8_lossy(&output.stderr).replace(&place.path().display().to_string(), "DIR");
    insta::assert_snapshot!(stderr, @"
    error: Service default/nobody does not exist
      --> DIR/shop.yaml:22:7
       in HTTPRoute default/shop, spec.rules[0].backendRefs[0]
       |
    22 |     - name: nobody
       |       ^
    ");
}

#[test]
fn statuses_as_json_are_in_kubernetes_shape() {
    let statuses = json(&["--to", "status"]);
    for object in statuses.as_array().unwrap() {
        let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["apiVersion", "kind", "metadata", "status"]);
    }
    let route = statuses.as_array().unwrap().iter().find(|object| object["kind"] == "HTTPRoute").unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(route).unwrap(), @r#"
    {
      "apiVersion": "gateway.networking.k8s.io/v1",
      "kind": "HTTPRoute",
      "metadata": {
        "name": "shop",
        "namespace": "default"
      },
      "status": {
        "parents": [
          {
            "parentRef": {
              "group": "gateway.networking.k8s.io",
              "kind": "Gateway",
              "namespace": "default",
              "name": "edge"
            },
            "controllerName": "gateway.envoyproxy.io/gatewayclass-controller",
            "conditions": [
              {
                "type": "Accepted",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "1970-01-01T00:00:00Z",
                "reason": "Accepted",
                "message": "the route is attached"
              },
              {
                "type": "ResolvedRefs",
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "1970-01-01T00:00:00Z",
                "reason": "ResolvedRefs",
                "message": "all references lead to something"
              }
            ]
          }
        ]
      }
    }
    "#);
}

#[test]
fn several_stages_are_one_object_with_a_key_each() {
    let both = json(&["--to", "status,envoy", "--to", "ir"]);
    let keys: Vec<&String> = both.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["status", "envoy", "ir"]);
    assert_eq!(both["status"], json(&["--to", "status"]));
    assert_eq!(both["ir"], json(&["--to", "ir"]));
    assert_eq!(both["envoy"], json(&["--to", "envoy"]));
}

#[test]
fn statuses_are_the_default_stage_and_yaml_the_default_format() {
    let place = folder(&[("shop.yaml", SHOP.as_bytes())]);
    let by_default = run(place.path(), &["translate", "-f", "DIR"], "").stdout;
    let named = run(place.path(), &["translate", "-f", "DIR", "--to", "status", "-o", "yaml"], "").stdout;
    assert!(!by_default.is_empty());
    assert_eq!(by_default, named);
}

#[test]
fn standard_input_is_read_as_a_file() {
    let broken = SHOP.replace("port: 8080", "port: 8080\n    hostnme: a.example");
    insta::assert_snapshot!(told(Path::new(NOWHERE), &["validate", "-f", "-"], &broken), @"
    exit code 1
    --- stdout
    error: hostnme is not a field here and hostname is missing: without it this would mean something else; did you mean hostname?
      --> <stdin>:11:5
       in Gateway default/edge, spec.listeners[0].hostnme
       |
    11 |     hostnme: a.example
       |     ^

    4 objects: 1 error, 0 warnings, 1 note (--notes prints them)
    ");
}

#[test]
fn files_folders_and_standard_input_come_together() {
    let (gateway, rest) = SHOP.split_once("---\n").unwrap();
    let (route, service) = rest.split_once("---\n").unwrap();
    let place = folder(&[("gateway.yaml", gateway.as_bytes()), ("folder/route.yaml", route.as_bytes())]);
    let words = ["validate", "-f", "DIR/gateway.yaml", "-f", "DIR/folder", "-f", "-"];
    insta::assert_snapshot!(told(place.path(), &words, service), @"
    exit code 0
    --- stdout
    4 objects: 0 errors, 0 warnings, 1 note (--notes prints them)
    ");
}

#[test]
fn a_static_configuration_among_the_files_counts() {
    let class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata:\n  name: chancery\n\
                 spec:\n  controllerName: example.com/mine\n";
    let settings = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\n\
                    gateway:\n  controllerName: example.com/mine\n";
    let kinds = |files: &[(&str, &[u8])]| {
        let output = run(folder(files).path(), &["translate", "-f", "DIR", "-o", "json"], "");
        let statuses: Value = serde_json::from_slice(&output.stdout).unwrap();
        let spoken = statuses.as_array().unwrap().iter().filter(|object| object.to_string().contains("\"conditions\""));
        spoken.map(|object| object["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let without = [("class.yaml", class.as_bytes()), ("shop.yaml", SHOP.as_bytes())];
    assert_eq!(kinds(&without), Vec::<String>::new());
    let with = [("class.yaml", class.as_bytes()), ("own.yaml", settings.as_bytes()), ("shop.yaml", SHOP.as_bytes())];
    assert_eq!(kinds(&with), ["GatewayClass", "Gateway", "HTTPRoute"]);
}

#[test]
fn a_missing_file_is_named() {
    let place = folder(&[]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR/missing.yaml"], ""), @"
    exit code 1
    --- stderr
    chancery: DIR/missing.yaml: no such file or folder
    ");
    insta::assert_snapshot!(told(place.path(), &["translate", "-f", "DIR/missing"], ""), @"
    exit code 1
    --- stderr
    chancery: DIR/missing: no such file or folder
    ");
}

#[test]
fn a_link_that_leads_back_to_itself_is_named_for_what_it_is() {
    let place = folder(&[]);
    std::os::unix::fs::symlink(place.path().join("loop.yaml"), place.path().join("loop.yaml")).unwrap();
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR/loop.yaml"], ""), @"
    exit code 1
    --- stderr
    chancery: DIR/loop.yaml: Too many levels of symbolic links (os error 40)
    ");
}

#[test]
fn a_route_to_a_gateway_that_is_not_there_is_told() {
    let place = folder(&[("shop.yaml", SHOP.replace("- name: edge", "- name: egde").as_bytes())]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    error: Gateway default/egde does not exist, the route is not attached to it; did you mean edge?
      --> DIR/shop.yaml:19:11
       in HTTPRoute default/shop, spec.parentRefs[0].name
       |
    19 |   - name: egde
       |           ^

    4 objects: 1 error, 0 warnings, 1 note (--notes prints them)
    ");
    // Beside a parent that is there it is a warning: the route serves.
    let both = SHOP.replace("- name: edge", "- name: edge\n  - name: egde");
    let place = folder(&[("shop.yaml", both.as_bytes())]);
    let told = told(place.path(), &["validate", "-f", "DIR"], "");
    assert!(told.contains("warning: Gateway default/egde does not exist") && !told.contains("error: "), "{told}");
}

#[test]
fn characters_that_control_a_terminal_are_shown_and_not_sent() {
    let place =
        folder(&[("shop.yaml", SHOP.replace("name: web\n      port", "name: \"\\e[31mred\"\n      port").as_bytes())]);
    let output = run(place.path(), &["validate", "-f", "DIR"], "");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("␛[31mred") && !told.contains('\u{1b}'), "{told}");
}

#[test]
fn a_rule_that_can_only_answer_500_is_told() {
    let none = SHOP.replace("  - backendRefs:\n    - name: web\n      port: 80\n", "  - name: empty\n");
    let zero =
        SHOP.replace("      port: 80\n---\napiVersion: v1", "      port: 80\n      weight: 0\n---\napiVersion: v1");
    for (text, words) in [(none, "the rule has no backends"), (zero, "all backend weights are 0")] {
        let place = folder(&[("shop.yaml", text.as_bytes())]);
        let told = String::from_utf8(run(place.path(), &["validate", "-f", "DIR"], "").stdout).unwrap();
        assert!(told.contains(words) && told.contains("requests get 500"), "{told}");
    }
}

#[test]
fn status_of_a_kind_that_is_none_names_those_that_are() {
    let said = |word: &str| told(Path::new(NOWHERE), &["status", word], "");
    let (other, words) = (said("mesh"), "there is no kind mesh; there are gatewayclass, gateway");
    assert!(other.contains("exit code 2") && other.contains(words), "{other}");
    assert!(["gw", "gtw", "gateways"].iter().all(|known| !said(known).contains("there is no kind")));
}

#[test]
fn an_interval_of_load_reports_that_cannot_be_is_wrong_usage() {
    for interval in ["1ms", "2h"] {
        let told = told(Path::new(NOWHERE), &["run", "--dir", "DIR", "--load-reports", interval], "");
        let words = "load reports come every 100ms at most, and every 1h at least";
        assert!(told.starts_with("exit code 2\n") && told.contains(words), "{told}");
    }
}

#[test]
fn what_is_read_may_be_named_with_its_option_or_without() {
    for verb in ["validate", "translate"] {
        let told = told(Path::new(NOWHERE), &[verb], "");
        assert!(told.starts_with("exit code 2\n") && told.contains("<PATH>..."), "{told}");
    }
}

#[test]
fn a_name_without_end_is_shown_by_its_beginning() {
    let text = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {}\n", "é".repeat(100_000));
    let place = folder(&[("long.yaml", text.as_bytes())]);
    let told = String::from_utf8(run(place.path(), &["validate", "-f", "DIR"], "").stdout).unwrap();
    assert!(told.contains("at most 253") && told.contains('…') && told.len() < 5_000, "{told}");
}

#[test]
fn without_a_folder_or_a_cluster_it_is_told_how_to_name_one() {
    let none = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\n".to_owned();
    let files = none.clone() + "provider: {type: Custom, custom: {resource: {type: File}}}\n";
    let place = folder(&[("files.yaml", files.as_bytes()), ("none.yaml", none.as_bytes())]);
    for (config, words) in [("files", "under provider.custom.resource.file.paths"), ("none", "--kubeconfig")] {
        let config = format!("DIR/{config}.yaml");
        let arguments = ["run", "--config", &config, "--state-dir", "DIR/s", "--kubeconfig", "DIR/k"];
        let told = told(place.path(), &arguments, "");
        assert!(told.starts_with("exit code 1\n") && told.contains("name a folder with --dir, "), "{told}");
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn nothing_is_read_without_a_static_configuration_that_can_be_understood() {
    let place = folder(&[("config.yaml", b"kind: ["), ("conf/a.yaml", b"")]);
    for config in ["DIR/config.yaml", "DIR/none.yaml"] {
        let words = ["run", "--config", config, "--dir", "DIR/conf", "--state-dir", "DIR/state", "--no-envoy"];
        let told = told(place.path(), &words, "");
        assert!(told.starts_with("exit code 1\n") && told.contains(&format!("chancery: {config}:1:")), "{told}");
        assert!(told.ends_with("without it it is not known what to read. Envoys that run serve on\n"), "{told}");
    }
}

#[test]
fn a_text_that_is_not_utf_8_is_told_with_its_place() {
    let place = folder(&[("bad.yaml", b"kind: Service\nmetadata:\n  name: \xff\xfe\n")]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    error: not UTF-8 from here on; save the file as UTF-8
      --> DIR/bad.yaml:3:9

    0 objects: 1 error, 0 warnings, 0 notes
    ");
}

#[test]
fn a_billion_laughs_stop_at_a_bound() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![below; 9].join(", ")));
    }
    let place = folder(&[("laughs.yaml", text.as_bytes())]);
    insta::assert_snapshot!(told(place.path(), &["validate", "-f", "DIR"], ""), @"
    exit code 1
    --- stdout
    error: aliases and merge keys copy more than 262144 values
      --> DIR/laughs.yaml:6:15

    0 objects: 1 error, 0 warnings, 0 notes
    ");
}

#[test]
fn status_without_a_process_says_how_to_name_another_folder() {
    let place = folder(&[]);
    insta::assert_snapshot!(told(place.path(), &["status", "--state-dir", "DIR"], ""), @"
    exit code 1
    --- stderr
    chancery: no Chancery answers in DIR; start one with `chancery run`, or name its folder with --state-dir, or its cluster with --kubeconfig: connecting to DIR/admin.sock: No such file or directory (os error 2)
    ");
}

#[test]
fn private_keys_are_printed_only_when_asked_for() {
    let marks = tests::certificate::Marks::default();
    let secret = "\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: cert\ntype: kubernetes.io/tls\n\
                  data:\n  tls.crt: @cert(a.example)\n  tls.key: @key(a.example)\n";
    let tls = "protocol: HTTPS\n    tls:\n      certificateRefs:\n      - name: cert";
    let text = marks.fill(&(SHOP.replace("protocol: HTTP", tls) + secret)).unwrap();
    let key = marks.fill("@key(a.example)").unwrap();
    let place = folder(&[("shop.yaml", text.as_bytes())]);
    let printed = |words: &[&str]| {
        let words: Vec<&str> = ["translate", "-f", "DIR", "-o", "json"].iter().chain(words).copied().collect();
        String::from_utf8(run(place.path(), &words, "").stdout).unwrap()
    };
    // A line in the middle of the key as it was written, and as base64.
    let pem = String::from_utf8(decode(&key)).unwrap();
    let line = pem.lines().nth(1).unwrap();
    let shows = |text: &str| text.contains(line) || text.contains(key.get(60..120).unwrap());
    assert!(!shows(&printed(&["--to", "status,ir,envoy"])));
    assert!(shows(&printed(&["--to", "envoy", "--show-secrets"])));
}

/// Standard base64 (RFC 4648 section 4) of a text that is right.
fn decode(text: &str) -> Vec<u8> {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut held) = (0_u32, 0);
    for digit in text.chars().filter_map(|digit| digits.find(digit)) {
        bits = (bits << 6 | u32::try_from(digit).unwrap()) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    bytes
}

#[test]
fn a_thousand_routes_are_translated() {
    let mut text = SHOP.to_owned();
    for number in 0..1_000 {
        text.push_str(&format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: route-{number}\n\
             spec:\n  parentRefs:\n  - name: edge\n  hostnames: [h{number}.example.com]\n  rules:\n  - matches:\n    \
             - path:\n        value: /p{number}\n    backendRefs:\n    - name: web\n      port: 80\n"
        ));
    }
    let place = folder(&[("all.yaml", text.as_bytes())]);
    let output = run(place.path(), &["translate", "-f", "DIR", "--to", "status,envoy", "-o", "json"], "");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let both: Value = serde_json::from_slice(&output.stdout).unwrap();
    let statuses = both["status"].as_array().unwrap();
    assert_eq!(statuses.iter().filter(|object| object["kind"] == "HTTPRoute").count(), 1_001);
    assert_eq!(both["status"][0]["status"]["listeners"][0]["attachedRoutes"], 1_001);
    let envoy = both["envoy"].to_string();
    assert!(envoy.contains("\"h0.example.com\"") && envoy.contains("\"h999.example.com\""));
    assert!(envoy.contains("/p999"));
}

/// Every problem of a file as `line:column severity: text`.
fn pointed(text: &str) -> Vec<String> {
    tests::told::pointed(text).unwrap()
}

#[test]
fn names_that_are_nearly_right_are_suggested() {
    let said = |from: &str, to: &str| pointed(&SHOP.replacen(from, to, 1));
    let parent = "  parentRefs:\n  - name: edge\n";
    assert_eq!(
        said("    - name: web\n", "    - name: wbe\n"),
        ["22:7 error: Service default/wbe does not exist; did you mean web?"]
    );
    assert_eq!(
        said(parent, &format!("{parent}    sectionName: htpp\n")),
        ["20:18 error: Gateway edge has no listener htpp; did you mean http?"]
    );
    assert_eq!(
        said("service-name: web", "service-name: wep"),
        [
            "28:9 warning: no EndpointSlice gives it endpoints, so requests to it are answered with 503 (connections that are passed on are closed); add one with the \
             label kubernetes.io/service-name: web",
            "38:5 warning: Service default/wep does not exist, so these endpoints get no requests; did you mean web?",
        ]
    );
    assert_eq!(
        said("      port: 80\n", "      port: 81\n"),
        ["23:13 error: Service default/web has no port 81; it has 80"]
    );
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: shop-cert\nstringData:\n  a: b\n";
    let tls = "protocol: HTTPS\n    tls:\n      certificateRefs:\n      - name: shop-crt\n";
    assert_eq!(
        pointed(&(SHOP.replacen("protocol: HTTP\n", tls, 1) + secret)),
        ["12:15 error: Secret default/shop-crt does not exist; did you mean shop-cert?"]
    );
}

#[test]
fn a_match_whose_fields_are_beside_path_takes_no_requests_and_is_told() {
    let matches = "  - matches:\n    - path:\n      type: PathPrefix\n      value: /a\n    backendRefs:\n";
    assert_eq!(
        pointed(&SHOP.replacen("  - backendRefs:\n", matches, 1)),
        [
            "23:7 error: type is not a field here; path is empty: indent type below it",
            "24:7 error: value is not a field here; path is empty: indent value below it",
            "21:5 warning: no match of this rule can be used, it takes no request",
        ]
    );
}

#[test]
fn a_listener_of_an_unknown_protocol_is_named_as_the_reason_why_a_route_is_not_attached() {
    let told = "protocol http is not supported, HTTP, HTTPS, TLS, TCP and UDP are; did you mean HTTP?";
    assert_eq!(
        pointed(&SHOP.replacen("protocol: HTTP", "protocol: http", 1)),
        [format!("9:15 error: {told}"), format!("19:5 error: listener http is not accepted: {told}"),]
    );
}

#[test]
fn problems_of_a_gateway_point_at_their_field_and_are_told_once() {
    let with = |line: &str| pointed(&SHOP.replacen("  listeners:\n", &format!("{line}  listeners:\n"), 1));
    assert_eq!(
        with("  addresses:\n  - type: Hostname\n    value: a.example\n"),
        ["8:11 error: addresses of type Hostname are not supported, IPAddress is"]
    );
    assert_eq!(
        pointed(&SHOP.replacen("    - name: web\n      port: 80\n", "    - name: web\n", 1)),
        ["22:7 error: must have port for Service reference (requests get 500)"]
    );
}

#[test]
fn texts_that_are_no_yaml_are_told_in_words_about_the_text() {
    let told = |text: &str| pointed(text).join("\n");
    let key = "4:2 error: this line does not fit the map around it: look at its indentation, and for a missing colon";
    assert_eq!(told("kind: Service\nmetadata:\n  name: x\n bad: y\n"), key);
    assert_eq!(
        told("spec: [a, b\nkind: x\n"),
        "2:5 error: a colon is not allowed here: a bracket or quote before it may be open"
    );
    assert_eq!(told("spec: \"a\n"), "2:1 error: a quote before this line is not closed");
    assert!(told("a: b: c\n").contains("a colon is not allowed here"), "{}", told("a: b: c\n"));
}

#[test]
fn plain_text_in_the_data_of_a_secret_is_told_where_it_belongs() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\ndata:\n  tls.key: not in base64\n";
    assert_eq!(pointed(secret), ["6:12 error: expected base64 (plain text goes below stringData), found a string"]);
}

#[test]
fn a_configuration_that_asks_for_a_cluster_is_told_that_none_is_asked() {
    let with = |provider: &str| {
        pointed(&format!("apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\nprovider:\n{provider}"))
    };
    let told = "4:9 warning: objects come from files and Envoys run on this machine, no cluster is asked; write Custom";
    assert_eq!(with("  type: Kubernetes\n"), [told]);
    let custom = "  type: Custom\n  custom:\n    resource:\n      type: Kubernetes\n";
    assert_eq!(with(custom), ["7:13 warning: objects come from files, no cluster is asked; write File"]);
}

#[test]
fn an_address_for_xds_that_is_taken_is_named_with_its_option() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let place = folder(&[]);
    let words = ["run", "--no-envoy", "--dir", "DIR", "--state-dir", "DIR/state", "--xds-listen", &address];
    let told = told(place.path(), &words, "");
    let wanted = format!("--xds-listen {address}: another process listens there; end it or name another port\n");
    assert!(told.starts_with("exit code 1\n") && told.ends_with(&wanted), "{told}");
}

#[test]
fn the_tls_of_xds_is_told_with_option_file_and_remedy() {
    let place = folder(&[("bad.pem", b"no PEM\n")]);
    let run = |words: &[&str]| {
        let all = ["run", "--no-envoy", "--dir", "DIR", "--state-dir", "DIR/state", "--xds-listen"];
        told(place.path(), &[&all[..], words].concat(), "")
    };
    let open = run(&["0.0.0.0:0"]);
    assert!(
        open.starts_with("exit code 2\n") && open.contains("--xds-tls-cert, --xds-tls-key and --xds-client-ca"),
        "{open}"
    );
    let alone = run(&["0.0.0.0:0", "--xds-tls-cert", "DIR/bad.pem"]);
    assert!(alone.starts_with("exit code 2\n") && alone.contains("--xds-tls-key <FILE>"), "{alone}");
    let domain = run(&["127.0.0.1:0", "--xds-trust-domain", "example.org"]);
    assert!(domain.starts_with("exit code 2\n") && domain.contains("without --xds-tls-cert"), "{domain}");
    let domain = run(&["0.0.0.0:0", "--xds-trust-domain", "https://example.org"]);
    assert!(domain.starts_with("exit code 2\n") && domain.contains("the name of a SPIFFE trust domain"), "{domain}");
    for (file, words) in [("DIR/none.pem", "No such file"), ("DIR/bad.pem", "no certificate in PEM that can be read")] {
        let told = run(&["0.0.0.0:0", "--xds-tls-cert", file, "--xds-tls-key", file, "--xds-client-ca", file]);
        assert!(told.starts_with("exit code 1\n") && told.contains("--xds-tls-cert") && told.contains(words), "{told}");
    }
}
