//! `examples/raw`: what its README says, with the example's own scripts, kustomize as kubectl has it, and a real Envoy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use infra::kubernetes::sidecar::SIDECAR_CONFIG;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tests::backend::Backend;
use tests::client::{Answer, get, get_with};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{binary, wait};

fn example(path: &str) -> PathBuf {
    binary::root().join("examples/raw").join(path)
}

/// The text of a file of the example.
fn text(path: &str) -> String {
    std::fs::read_to_string(example(path)).unwrap()
}

/// The objects of a folder with a kustomization.
fn rendered(folder: &str) -> String {
    let kubectl = binary::root().join(".tools/lab/current/bin/kubectl");
    assert!(kubectl.is_file(), "{} is missing; tools/install-lab builds it", kubectl.display());
    let output = Command::new(kubectl).arg("kustomize").arg(example(folder)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// For loopback, and other ports in place of those that may be taken here.
fn moved(text: &str, ports: &[(u16, u16)]) -> String {
    let text = text.replace("0.0.0.0", "127.0.0.1");
    ports.iter().fold(text, |text, (written, port)| {
        text.replace(&format!("port_value: {written}"), &format!("port_value: {port}"))
    })
}

/// What `chancery validate` says of texts, as files.
fn judged(texts: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    for (number, text) in texts.iter().enumerate() {
        std::fs::write(place.path().join(format!("{number}.yaml")), text).unwrap();
    }
    let output = binary::run(["validate".as_ref(), place.path().as_os_str()], "").unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What Envoy gets for a text and the workloads, as JSON.
fn translated(text: &str) -> Value {
    let workloads = example("workloads.yaml");
    let words = ["translate", "--to", "envoy", "-o", "json", "-"].map(AsRef::as_ref);
    let output = binary::run(words.into_iter().chain([workloads.as_os_str()]), text).unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn object<'a>(all: &'a [Value], kind: &str) -> &'a Value {
    all.iter().find(|object| object.get("kind").is_some_and(|found| found == kind)).unwrap()
}

/// An Envoy that `envoy.sh` started; it ends with this value.
struct Started(Child);

impl Started {
    fn of(workload: &str, running: &Running) -> Self {
        let place = running.state().join("gateways");
        let wanted = format!("workload/{workload}");
        let named =
            |folder: PathBuf| std::fs::read_to_string(folder.join("gateway")).is_ok_and(|name| name.trim() == wanted);
        let is_there = || std::fs::read_dir(&place).ok()?.flatten().any(|folder| named(folder.path())).then_some(());
        wait::until("the workload's socket", is_there).unwrap();
        let mut command = Command::new(example("envoy.sh"));
        command.arg(workload).arg(running.state()).env("CHANCERY_ENVOY", binary::envoy().unwrap());
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It ends its Envoy, and then itself.
        let _gone = i32::try_from(self.0.id()).map(|id| kill(Pid::from_raw(id), Signal::SIGTERM));
        let _reaped = self.0.wait();
    }
}

fn answers(what: &str, ask: impl Fn() -> anyhow::Result<Answer>, wanted: (u16, Option<&str>)) {
    let (status, body) = wanted;
    let fits = |answer: &Answer| answer.status == status && body.is_none_or(|body| body == answer.body);
    wait::until(what, || ask().ok().filter(fits)).unwrap();
}

fn explained(running: &Running, workload: &str) -> String {
    let state = running.state().display().to_string();
    let output = binary::run(["explain", workload, "--state-dir", &state], "").unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn base_and_overlays_are_right_and_say_what_they_change() {
    let workloads = text("workloads.yaml");
    for folder in ["base", "overlays/dev", "overlays/prod"] {
        let told = judged(&[&rendered(folder), &workloads]);
        assert!(told.contains(" 0 errors, 0 warnings"), "{folder}:\n{told}");
    }
    let replicas = |folder| object(&documents(&rendered(folder)), "Deployment").pointer("/spec/replicas").cloned();
    assert_eq!(
        [replicas("base"), replicas("overlays/dev"), replicas("overlays/prod")],
        [2, 1, 3].map(|count| Some(Value::from(count)))
    );
    let [base, prod] = ["base", "overlays/prod"].map(|folder| translated(&rendered(folder)).to_string());
    assert!(base.contains(r#""15s""#) && !base.contains("circuit"), "{base}");
    assert!(prod.contains(r#""3s""#) && prod.contains("0.250s") && prod.contains("100"), "{prod}");
    // as a folder too, with what is not for Chancery in it
    let files = [example("base"), example("workloads.yaml")];
    let words = ["validate".as_ref()].into_iter().chain(files.iter().map(|path| path.as_os_str()));
    let told = String::from_utf8(binary::run(words, "").unwrap().stdout).unwrap();
    assert!(told.contains(" 0 errors, 0 warnings, 2 notes"), "{told}");
}

#[test]
fn a_sidecar_serves_base_and_overlays_one_after_the_other() {
    let (shop, tools) = (Backend::start("shop").unwrap(), Backend::start("tools").unwrap());
    let [port] = free_ports().unwrap();
    let ports = [(8080, port), (9001, shop.port), (9002, tools.port)];
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
    running.write("workloads.yaml", &text("workloads.yaml")).unwrap();
    running.write("all.yaml", &moved(&rendered("base"), &ports)).unwrap();
    running.start().unwrap();
    let _envoy = Started::of("default/shop-1", &running);
    let ask = || get(port, "shop.example", "/tools/any");
    answers("base", ask, (200, Some("shop")));
    let told = wait::until("what is in use", || Some(explained(&running, "shop-1")).filter(|told| said_of(told, 3)));
    let told = told.unwrap();
    assert!(!told.contains("tools"), "{told}");

    running.write("all.yaml", &moved(&rendered("overlays/dev"), &ports)).unwrap();
    answers("dev", ask, (200, Some("tools")));
    answers("dev", || get(port, "shop.example", "/"), (200, Some("shop")));
    wait::until("a cluster more", || Some(explained(&running, "shop-1")).filter(|told| said_of(told, 4))).unwrap();

    running.write("all.yaml", &moved(&rendered("overlays/prod"), &ports)).unwrap();
    answers("prod", ask, (200, Some("shop")));
}

/// So many resources are said to be in use.
fn said_of(told: &str, count: usize) -> bool {
    told.matches(" in use ").count() == count
}

#[test]
fn the_sidecar_mounts_what_chancery_makes_where_its_bootstrap_looks_for_it() {
    let all = documents(&rendered("base"));
    let pod = object(&all, "Deployment").pointer("/spec/template/spec").unwrap();
    let volumes = pod.get("volumes").and_then(Value::as_array).unwrap();
    let [config, token] = volumes.as_slice() else { panic!("{volumes:?}") };
    assert_eq!(config.pointer("/configMap/name").unwrap(), SIDECAR_CONFIG);
    let token = token.pointer("/projected/sources/0/serviceAccountToken").unwrap();
    let word = |field: &str| token.get(field).and_then(Value::as_str);
    assert_eq!([word("path"), word("audience")], [Some("token"), Some("chancery")]);
    let containers = pod.get("containers").and_then(Value::as_array).unwrap();
    let envoy = containers.iter().find(|container| container.get("name").is_some_and(|name| name == "envoy")).unwrap();
    let mounts = envoy.get("volumeMounts").and_then(Value::as_array).unwrap();
    let paths: Vec<_> = mounts.iter().filter_map(|mount| mount.get("mountPath")?.as_str()).collect();
    assert_eq!(paths, ["/etc/chancery", "/var/run/secrets/chancery"]);
    assert_eq!(envoy.pointer("/readinessProbe/httpGet/port"), Some(&Value::from(19_003)));
}

#[test]
fn the_kpt_package_has_a_value_for_each_of_its_setters_and_serves() {
    let [kptfile, setters] = ["kpt/Kptfile", "kpt/setters.yaml"].map(|path| object_of(&text(path)));
    assert_eq!(kptfile.get("apiVersion").and_then(Value::as_str), Some("kpt.dev/v1"));
    let config = kptfile.pointer("/pipeline/mutators/0/configPath").and_then(Value::as_str);
    assert_eq!(config, Some("setters.yaml"));
    let values = setters.get("data").and_then(Value::as_object).unwrap();
    let objects = text("kpt/envoy.yaml");
    let mut used = Vec::new();
    for (line, setter) in objects.lines().filter_map(|line| line.split_once(" # kpt-set: ${")) {
        let setter = setter.trim_end_matches('}');
        let value = line.rsplit(": ").next().unwrap();
        assert_eq!(values.get(setter).and_then(Value::as_str), Some(value), "{setter}");
        used.push(setter);
    }
    used.sort_unstable();
    let mut named: Vec<&str> = values.keys().map(String::as_str).collect();
    named.sort_unstable();
    assert_eq!(used, named);
    let workloads = text("workloads.yaml");
    // Whatever Kptfile is called, it is no mistake.
    let told = judged(&[&objects, &workloads, &text("kpt/setters.yaml"), &text("kpt/Kptfile")]);
    assert!(told.contains(" 0 errors, 0 warnings, 1 note"), "{told}");

    let catalog = Backend::start("catalog").unwrap();
    let [port] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
    running.write("workloads.yaml", &workloads).unwrap();
    running.write("envoy.yaml", &moved(&objects, &[(8082, port), (9003, catalog.port)])).unwrap();
    running.start().unwrap();
    let _envoy = Started::of("default/catalog-1", &running);
    answers("the catalog", || get(port, "catalog.example", "/"), (200, Some("catalog")));
}

fn object_of(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// What `keys.py` prints with these words.
fn keys(words: &[&str], folder: &Path) -> String {
    let output = Command::new(example("preview/keys.py")).args(words).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_claim_of_a_token_leads_to_the_preview_of_its_pull_request() {
    let (seven, twelve) = (Backend::start("pr-7").unwrap(), Backend::start("pr-12").unwrap());
    let [port] = free_ports().unwrap();
    let ports = [(8081, port), (9007, seven.port), (9012, twelve.port)];
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
    running.write("workloads.yaml", &text("workloads.yaml")).unwrap();
    for name in ["settings.yaml", "envoy.yaml", "pr-7.yaml", "pr-12.yaml"] {
        running.write(name, &moved(&text(&format!("preview/{name}")), &ports)).unwrap();
    }
    let conf = running.conf();
    keys(&["new"], &conf);
    running.start().unwrap();
    let _envoy = Started::of("default/preview-1", &running);
    let ask = |token: &str| get_with(port, "preview.example", "/", &[("authorization", &format!("Bearer {token}"))]);
    let [to_seven, to_twelve] = ["pr-7", "pr-12"].map(|claim| keys(&["token", claim], &conf));
    answers("no token", || get(port, "preview.example", "/"), (401, None));
    answers("pr-7", || ask(&to_seven), (200, Some("pr-7")));
    answers("pr-12", || ask(&to_twelve), (200, Some("pr-12")));
    // none of this number; a cluster that there is, and that is no preview
    for claim in ["pr-99", "xds"] {
        answers(claim, || ask(&keys(&["token", claim], &conf)), (404, None));
    }
    // what a client itself says in the header counts for nothing
    let bearer = format!("Bearer {to_seven}");
    let headers = [("authorization", bearer.as_str()), ("x-preview", "pr-12")];
    assert_eq!(get_with(port, "preview.example", "/", &headers).unwrap().body, "pr-7");
    // another's key
    let elsewhere = tempfile::tempdir().unwrap();
    keys(&["new"], elsewhere.path());
    assert_eq!(ask(&keys(&["token", "pr-7"], elsewhere.path())).unwrap().status, 401);

    // a pull request is closed; keys are replaced
    running.remove("pr-12.yaml").unwrap();
    answers("pr-12 closed", || ask(&to_twelve), (404, None));
    keys(&["new"], &conf);
    answers("the old key", || ask(&to_seven), (401, None));
    assert_eq!(ask(&keys(&["token", "pr-7"], &conf)).unwrap().body, "pr-7");
}

#[test]
fn the_guides_show_what_is_printed() {
    let printed = |words: &str| {
        let words = words.split(' ').chain(["examples/raw/workloads.yaml"]);
        let output =
            Command::new(binary::chancery().unwrap()).args(words).current_dir(binary::root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let readme = text("README.md");
    for words in ["validate examples/raw/base", "explain shop-1 examples/raw/base"] {
        let told = printed(words);
        assert!(readme.contains(&told) && readme.contains(words), "{told}");
    }
    // Somebody may have made keys while trying it.
    let preview =
        ["settings", "envoy", "pr-7", "pr-12"].map(|name| format!(" examples/raw/preview/{name}.yaml")).concat();
    let told = printed(&format!("explain preview-1 examples/raw/base{preview}"));
    let guide = std::fs::read_to_string(binary::root().join("docs/raw-envoy.md")).unwrap();
    assert!(guide.contains(&told), "{told}");
}

#[test]
fn keys_are_never_part_of_the_repository() {
    let ignored = text("preview/.gitignore");
    assert_eq!(ignored.lines().collect::<Vec<_>>(), ["/.key.pem", "/jwt.yaml"]);
}
