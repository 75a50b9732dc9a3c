//! `chancery explain`, word for word: whose objects make what a workload gets, what of them does not count, and which are for others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use serde_json::Value;
use tests::running::Running;
use tests::{binary, wait};

const PODS: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web, tier: front}}
---
apiVersion: v1
kind: Pod
metadata: {name: api-1, labels: {app: api}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
";

fn object(kind: &str, name: &str, spec: &str, config: &str) -> String {
    let group = if kind.starts_with("Envoy") { "chancery.io/v1alpha1" } else { "bootes.io/v1" };
    format!("---\napiVersion: {group}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n  config: {config}\n")
}

/// Runs it on a folder with these objects, which stands as `DIR`.
fn told(objects: &str, words: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("pods.yaml"), PODS).unwrap();
    std::fs::write(place.path().join("raw.yaml"), objects.trim_start_matches("---\n")).unwrap();
    said(place.path(), words)
}

fn said(place: &Path, words: &[&str]) -> String {
    let folder = place.display().to_string();
    let words = ["explain"].iter().chain(words).map(|word| word.replace("DIR", &folder));
    let output = binary::run(words, "").unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    format!("exit code {}\n{}", output.status.code().unwrap(), squeezed(&text.replace(&folder, "DIR")))
}

/// Two spaces between columns, however long the name of the folder is.
fn squeezed(text: &str) -> String {
    let line =
        |line: &str| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<_>>().join("  ");
    text.lines().map(|one| line(one) + "\n").collect()
}

fn mixed() -> String {
    let hosts = |host: &str| format!("{{name: web, virtual_hosts: [{{name: {host}, domains: [{host}.example]}}]}}");
    [
        object("Route", "first", "priority: 0", &hosts("a")),
        object("EnvoyRoute", "second", "priority: 1", &hosts("a")),
        object("EnvoyRoute", "third", "workloadSelector: {matchLabels: {app: web}}", &hosts("b")),
        object("Cluster", "one", "workloadSelector: {labels: {app: web}}", "{name: shop, connect_timeout: 1s}"),
        object("EnvoyCluster", "two", "priority: -1", "{name: shop, connect_timeout: 2s}"),
        object("Cluster", "of-api", "workloadSelector: {labels: {app: api, zone: a}}", "{name: api}"),
        object(
            "EnvoyCluster",
            "sets",
            "workloadSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [front, back]}]}",
            "{name: sets}",
        ),
        object("EnvoyCluster", "odd", "priority: 0", "{name: odd, conect_timeout: 1s}"),
        object("EnvoyEndpoint", "cart", "service: {name: cart, port: 80}", "{cluster_name: cart}"),
        object(
            "EnvoyCluster",
            "eds",
            "priority: 0",
            "{name: eds, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}",
        ),
    ]
    .concat()
}

#[test]
fn every_object_of_the_namespace_is_told_with_what_becomes_of_it() {
    insta::assert_snapshot!(told(&mixed(), &["web-1", "DIR"]), @"
    exit code 0
    default/web-1 (DIR/pods.yaml:1): app=web, tier=front

    RESOURCE  NAME  MADE BY  WRITTEN AT  SELECTED BY  DETAIL
    Cluster  eds  EnvoyCluster default/eds  DIR/raw.yaml:64  every workload  missing: ClusterLoadAssignment eds, which it waits for
    Cluster  shop  Cluster default/one  DIR/raw.yaml:22  app=web
    EnvoyCluster default/two  DIR/raw.yaml:29  every workload  left out: all of it: Cluster default/one comes first
    ClusterLoadAssignment  cart  EnvoyEndpoint default/cart  DIR/raw.yaml:57  every workload  missing: the port default/cart/80 of a Service
    RouteConfiguration  web  EnvoyRoute default/second  DIR/raw.yaml:8  every workload
    Route default/first  DIR/raw.yaml:1  every workload  left out: virtual host a is that of EnvoyRoute default/second
    EnvoyRoute default/third  DIR/raw.yaml:15  app=web

    For it, and cannot be used:
    OBJECT  WRITTEN AT  WHY
    EnvoyCluster default/odd  DIR/raw.yaml:50  spec.config.conect_timeout: envoy.config.cluster.v3.Cluster has no field conect_timeout, did you mean connect_timeout

    Not for it:
    OBJECT  WRITTEN AT  WHY
    Cluster default/of-api  DIR/raw.yaml:36  app=api: it has app=web; zone=a: it has no label zone
    EnvoyCluster default/sets  DIR/raw.yaml:43  tier notin (front,back): it has tier=front
    ");
}

#[test]
fn more_columns_show_priorities() {
    let wide = told(&mixed(), &["pod/default/web-1", "-f", "DIR", "-o", "wide"]);
    assert!(wide.contains("PRIORITY") && wide.contains(" -1 "), "{wide}");
}

#[test]
fn data_has_the_same_as_the_tables() {
    let text = told(&mixed(), &["pod/web-1", "DIR", "--output", "json"]);
    let data: Value = serde_json::from_str(text.trim_start_matches("exit code 0\n")).unwrap();
    let list = |name: &str| data.get(name).and_then(Value::as_array).unwrap().len();
    assert_eq!((list("resources"), list("unusable"), list("others")), (4, 1, 2));
    let first = data.pointer("/resources/1/objects/1/leftOut/0").unwrap();
    assert_eq!(first, "all of it: Cluster default/one comes first");
    let yaml = told(&mixed(), &["web-1", "DIR", "-o", "yaml"]);
    assert!(yaml.contains("workload: default/web-1") && yaml.contains("leftOut:"), "{yaml}");
}

#[test]
fn a_workload_for_which_nothing_is_written_gets_nothing() {
    insta::assert_snapshot!(told(&mixed(), &["shop/web-1", "DIR"]), @"
    exit code 0
    shop/web-1 (DIR/pods.yaml:9): app=web

    No object gives it anything.
    ");
}

#[test]
fn objects_of_other_namespaces_are_told_where_a_grant_or_a_label_is_all_that_is_missing() {
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {env: dev}}\n";
    let abroad = |name: &str, env: &str, app: &str| {
        let spec = format!(
            "namespaceSelector: {{matchLabels: {{env: {env}}}}}\n  workloadSelector: {{matchLabels: {{app: {app}}}}}"
        );
        object("EnvoyCluster", name, &spec, &format!("{{name: {name}}}"))
    };
    let grant = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: pods, namespace: shop}\nspec:\n  \
                 from: [{group: chancery.io, kind: EnvoyCluster, namespace: default}]\n  to: [{group: \"\", kind: Pod}]\n";
    let all = [namespace, &abroad("near", "dev", "web"), &abroad("far", "prod", "web"), &abroad("api", "dev", "api")]
        .concat();
    insta::assert_snapshot!(told(&all, &["shop/web-1", "DIR"]), @"
    exit code 0
    shop/web-1 (DIR/pods.yaml:9): app=web

    No object gives it anything.

    Not for it:
    OBJECT  WRITTEN AT  WHY
    EnvoyCluster default/far  DIR/raw.yaml:13  no ReferenceGrant in shop allows it, from default to this Pod
    EnvoyCluster default/near  DIR/raw.yaml:5  no ReferenceGrant in shop allows it, from default to this Pod
    ");
    insta::assert_snapshot!(told(&(all + grant), &["shop/web-1", "DIR"]), @"
    exit code 0
    shop/web-1 (DIR/pods.yaml:9): app=web

    RESOURCE  NAME  MADE BY  WRITTEN AT  SELECTED BY  DETAIL
    Cluster  near  EnvoyCluster default/near  DIR/raw.yaml:5  app=web

    Not for it:
    OBJECT  WRITTEN AT  WHY
    EnvoyCluster default/far  DIR/raw.yaml:13  spec.namespaceSelector does not hold for the namespace shop
    ");
}

#[test]
fn a_workload_that_is_not_there_is_told_with_those_that_are() {
    let asked = |word: &str| told("", &[word, "DIR"]);
    insta::assert_snapshot!(asked("web-2"), @"
    exit code 1
    chancery: no workload is called default/web-2; did you mean default/web-1? (there are default/api-1, default/web-1, shop/web-1)
    ");
    insta::assert_snapshot!(asked("shop/api-1"), @"
    exit code 1
    chancery: no workload is called shop/api-1; did you mean default/api-1? (there are default/api-1, default/web-1, shop/web-1)
    ");
    let place = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(said(place.path(), &["web-1", "DIR"]), @"
    exit code 1
    chancery: no workload is called default/web-1 (there is none: workloads are objects of the kind Pod)
    ");
}

#[test]
fn what_is_no_workload_is_wrong_usage() {
    insta::assert_snapshot!(told("", &["gateway/default/edge", "DIR"]), @"
    exit code 2
    chancery: gateway/default/edge: what makes the configuration of a Gateway is told by `chancery status` and `chancery translate --to ir`; workloads are explained, as NAMESPACE/NAME, NAME, pod/NAME or pod/NAMESPACE/NAME
    ");
    insta::assert_snapshot!(told("", &["web 1", "DIR"]), @"
    exit code 2
    chancery: web 1: this is no name; workloads are explained, as NAMESPACE/NAME, NAME, pod/NAME or pod/NAMESPACE/NAME
    ");
    insta::assert_snapshot!(told("", &["a/b/c", "DIR"]), @"
    exit code 2
    chancery: a/b/c: this is no workload; workloads are explained, as NAMESPACE/NAME, NAME, pod/NAME or pod/NAMESPACE/NAME
    ");
}

#[test]
fn a_running_chancery_is_asked_where_no_files_are_named() {
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
    running.write("pods.yaml", PODS).unwrap();
    running.write("raw.yaml", mixed().trim_start_matches("---\n")).unwrap();
    running.start().unwrap();
    let state = running.state().display().to_string();
    let ask = |words: &[&str]| said(&running.conf(), &[words, &["--state-dir", &state]].concat());
    let told = ask(&["web-1"]);
    assert!(
        told.contains("STATE") && told.contains("no proxy is connected") && told.contains("DIR/raw.yaml:"),
        "{told}"
    );
    let unknown = ask(&["web-2"]);
    assert!(
        unknown.starts_with("exit code 1\nchancery: no workload is called default/web-2; did you mean"),
        "{unknown}"
    );
    running.remove("raw.yaml").unwrap();
    let nothing = || Some(ask(&["web-1"])).filter(|told| told.contains("No object gives it anything"));
    wait::until("nothing to give", nothing).unwrap();
}
