//! `chancery status` and `chancery proxy` against a cluster, with the rights that people are given by docs/kubernetes.md.

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{binary, certificate, objects, wait};

use crate::cluster::{SYSTEM, run, served};
use crate::harness::{Lab, Namespace, text};
use crate::world::{HTTP, World};

fn chancery(lab: &Lab, words: &[&str]) -> Output {
    lab.command("exec").arg(binary::chancery().unwrap()).args(words).output().unwrap()
}

/// What it prints, if all is fine.
fn said(lab: &Lab, words: &[&str]) -> String {
    let output = chancery(lab, words);
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What it complains of.
fn complaint(lab: &Lab, words: &[&str]) -> String {
    let output = chancery(lab, words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output));
    text(&output)
}

/// What an object's conditions say.
fn conditions(holder: &Value) -> Vec<[String; 3]> {
    let of =
        |condition: &Value| ["type", "status", "reason"].map(|field| condition[field].as_str().unwrap().to_owned());
    holder["conditions"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn status_says_what_objects_say() {
    let world = World::serving("told");
    let lab = &*world.namespace.lab;
    let table = said(lab, &["status", "gateway", "told/edge"]);
    assert!(table.contains("told/edge") && table.contains("  ok  "), "{table}");
    let data: Value = serde_json::from_str(&said(lab, &["status", "gateway", "told/edge", "-o", "json"])).unwrap();
    let written = world.namespace.get("gateway/edge").unwrap();
    assert_eq!(conditions(&data[0]["status"]), conditions(&written["status"]));

    world.route("lost", "edge", "[{backendRefs: [{name: nobody, port: 80}]}]");
    world.until_said("httproute/lost", "/parents/0", ("ResolvedRefs", "False", "BackendNotFound"), &[]);
    let told = complaint(lab, &["status", "httproute", "told/lost"]);
    assert!(told.contains("not ResolvedRefs: BackendNotFound"), "{told}");
    let problems = text(&chancery(lab, &["status", "problems"]));
    assert!(problems.contains("HTTPRoute told/lost"), "{problems}");
    let nowhere = complaint(lab, &["status", "--chancery-namespace", "told"]);
    assert!(nowhere.starts_with("chancery: no Chancery answers in namespace told of the cluster"), "{nowhere}");
}

/// `chancery status` that stays, until this is dropped.
struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn status_stays_and_tells_what_changes() {
    let world = World::serving("watched");
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("output");
    let mut command = world.namespace.lab.command("exec");
    command.arg(binary::chancery().unwrap()).args(["status", "gateway", "watched/edge", "--watch"]);
    let child = command.stdout(std::fs::File::create(&output).unwrap()).stderr(Stdio::null()).spawn().unwrap();
    let _watcher = Watcher(child);
    let until = |words: &str| {
        let seen = || std::fs::read_to_string(&output).unwrap().contains(words).then_some(());
        wait::until(words, seen).unwrap();
    };
    until("1 route\n");
    world.route("another", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    until("2 routes");
}

/// A kubeconfig with the rights of another user.
fn kubeconfig(lab: &Lab, folder: &Path, user: &str) -> PathBuf {
    let mut config: Value = serde_json::from_str(&run(lab, "kubectl config view --raw -o json")).unwrap();
    config["users"][0]["user"]["as"] = json!(user);
    let file = folder.join(user);
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

/// The block of YAML in docs/kubernetes.md that has the rights of people.
fn documented() -> String {
    let text = std::fs::read_to_string(binary::root().join("docs/kubernetes.md")).unwrap();
    let mut blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0.to_owned());
    blocks.find(|block| block.contains("pods/portforward")).unwrap()
}

#[test]
fn the_rights_of_the_documentation_are_enough_and_needed() {
    let world = World::serving("rights");
    let lab = &*world.namespace.lab;
    let folder = TempDir::new().unwrap();
    let config = kubeconfig(lab, folder.path(), "jane").display().to_string();
    let with = |words: &[&'static str]| [words, &["--kubeconfig", &*config]].concat();
    let told = complaint(lab, &with(&["status", "gateway", "rights/edge"]));
    assert!(told.contains("User \"jane\" cannot get resource \"leases\""), "{told}");
    assert!(told.contains("it takes a Role in namespace chancery-system with `get` of leases"), "{told}");

    let system = Namespace { lab: served(), name: SYSTEM };
    system.apply(&documented());
    system.run(&["create", "rolebinding", "jane", "--role=chancery-people", "--user=jane"]);
    let granted = || chancery(lab, &with(&["status", "gateway", "rights/edge"])).status.success().then_some(());
    wait::until("the rights to count", granted).unwrap();
    let list = said(lab, &with(&["proxy", "list"]));
    assert!(list.contains("rights/edge"), "{list}");
    // The Pods of proxies are in another namespace.
    let told = complaint(lab, &with(&["proxy", "config", "gateway/rights/edge"]));
    assert!(told.contains("User \"jane\" cannot get resource \"pods/portforward\""), "{told}");
    assert!(told.contains("it takes a Role in namespace rights with `get` and `create` of pods/portforward"), "{told}");
    world.namespace.apply(&documented().replace("namespace: chancery-system", "namespace: rights"));
    world.namespace.run(&["create", "rolebinding", "jane", "--role=chancery-people", "--user=jane"]);
    let granted = || chancery(lab, &with(&["proxy", "config", "gateway/rights/edge"])).status.success().then_some(());
    wait::until("the rights to count", granted).unwrap();
}

#[test]
fn a_replica_without_an_admin_address_is_told_in_the_kubelets_words() {
    let namespace = Namespace::make_in(served(), "mute");
    namespace.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: mute, labels: {app.kubernetes.io/name: chancery, app.kubernetes.io/component: control-plane}}
spec: {containers: [{name: mute, image: registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0, env: [{name: POD_NAME, value: mute}]}]}
",
    );
    namespace.until_ready("mute");
    for words in
        [["status", "--chancery-namespace", "mute"].as_slice(), &["proxy", "list", "--chancery-namespace", "mute"]]
    {
        let told = complaint(&namespace.lab, words);
        assert!(
            told.starts_with("chancery: replica mute does not answer (`chancery run --admin-listen 127.0.0.1:8082`"),
            "{told}"
        );
        assert!(told.contains("error forwarding port 8082 to pod mute_mute: Connection refused"), "{told}");
    }
}

/// The proxies of a Gateway that `chancery proxy list` has.
fn listed(lab: &Lab, gateway: &str) -> Vec<Value> {
    let output = chancery(lab, &["proxy", "list", "-o", "json"]);
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    all.into_iter().filter(|proxy| proxy["gateway"] == gateway).collect()
}

#[test]
fn proxies_of_all_replicas_are_listed_as_their_pods_are() {
    let world = World::make("listed");
    let lab = &*world.namespace.lab;
    world.namespace.apply(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyProxy\nmetadata: {name: four}\nspec: {concurrency: 1, provider: {type: Kubernetes, kubernetes: {envoyDeployment: {replicas: 4}}}}\n",
    );
    let four = "  infrastructure: {parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: four}}\n";
    world.gateway("edge", &[HTTP], four);
    world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    let proxies = wait::until("four proxies that have everything", || {
        let all = listed(lab, "listed/edge");
        let settled =
            |proxy: &Value| proxy["pending"] == 0 && proxy["refused"] == 0 && proxy["accepted"].as_u64() > Some(3);
        (all.len() == 4 && all.iter().all(settled)).then_some(all)
    })
    .unwrap();
    let pods = world.namespace.get("pods").unwrap();
    let system = Namespace { lab: served(), name: SYSTEM };
    for proxy in &proxies {
        let (namespace, name) = proxy["name"].as_str().unwrap().split_once('/').unwrap();
        assert_eq!((namespace, &proxy["version"]), ("listed", &json!("1.40.0")));
        let pod = pods["items"].as_array().unwrap().iter().find(|pod| pod["metadata"]["name"] == name).unwrap();
        assert_eq!(pod["status"]["podIP"], proxy["address"]);
        let replica = format!("pod/{}", proxy["replica"].as_str().unwrap());
        assert!(system.get(&replica).unwrap()["metadata"]["name"].as_str().unwrap().starts_with("chancery-"));
    }
    let ambiguous = complaint(lab, &["proxy", "config", "gateway/listed/edge"]);
    assert!(ambiguous.contains("gateway/listed/edge may be each of listed/"), "{ambiguous}");
    let none = complaint(lab, &["proxy", "config", "listed/nobody"]);
    assert!(none.contains("no proxy listed/nobody is connected; there are "), "{none}");
}

#[test]
fn a_proxy_shows_its_configuration_to_who_may_forward_ports_and_to_nobody_else() {
    let world = World::make("shown");
    let lab = &*world.namespace.lab;
    let pair = certificate::self_signed(&["shown.example"], false).unwrap();
    world.namespace.apply(&objects::tls_secret("cert", &pair.certificate, &pair.key));
    let https = "{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: cert}]}}";
    world.gateway("edge", &[HTTP, https], "");
    world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    world.until_answered("edge", "/");
    world.until_said("gateway/edge", "/listeners/1", ("Programmed", "True", "Programmed"), &[]);
    let name = || Some(listed(lab, "shown/edge").first()?["name"].as_str()?.to_owned());
    let name = wait::until("the proxy", name).unwrap();
    let pod = name.strip_prefix("shown/").unwrap();
    for word in [&name, &format!("{pod}.shown"), "gateway/shown/edge"] {
        let shown = said(lab, &["proxy", "config", word, "listeners"]);
        assert!(shown.contains(":10080") && shown.contains(":10443"), "{word}: {shown}");
    }
    let endpoints = said(lab, &["proxy", "config", pod, "endpoints"]);
    assert!(endpoints.contains("shown/cart/80"), "{endpoints}");
    let whole = said(lab, &["proxy", "config", pod, "-o", "json"]);
    let key: String = pair.key.lines().filter(|line| !line.starts_with("---")).collect();
    for held in [&*pair.key, &key, &certificate::base64(pair.key.as_bytes())] {
        assert!(!whole.contains(held), "a private key is shown");
    }
    // From another Pod nobody reaches it; what is offered to collectors is reached.
    let address = world.namespace.get(&format!("pod/{pod}")).unwrap()["status"]["podIP"].as_str().unwrap().to_owned();
    let asked = |port: u16, path: &str| {
        lab.exec(&["curl", "--silent", "--fail", "--max-time", "5", &format!("http://{address}:{port}{path}")])
    };
    wait::until("its metrics", || asked(19003, "/stats/prometheus")).unwrap();
    assert!(asked(19003, "/config_dump").is_none() && asked(19004, "/config_dump").is_none());
}
