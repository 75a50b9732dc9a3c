//! The Helm chart and the plain manifests: what of them is generated is as the code says, and what they render is what was meant.
//! `UPDATE=1` rewrites the generated files (`charts/chancery/rules` and `crds`, then `deploy/kubernetes/install.yaml`).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use api::Kind;
use infra::kubernetes::access as proxies;
use provider::kubernetes::access::{Only, Reach, access};
use serde_json::{Value, json};
use tests::binary::root;

/// Kinds of `gateway.envoyproxy.io` that are objects of an API server, with short names.
const DEFINED: [(Kind, &str); 7] = [
    (Kind::Backend, "be"),
    (Kind::BackendTrafficPolicy, "btp"),
    (Kind::ClientTrafficPolicy, "ctp"),
    (Kind::EnvoyExtensionPolicy, "eep"),
    (Kind::EnvoyPatchPolicy, "epp"),
    (Kind::EnvoyProxy, "eproxy"),
    (Kind::SecurityPolicy, "sp"),
];

/// Kinds that the chart defines: those, and those of which each object holds a resource of Envoy's.
fn defined() -> impl Iterator<Item = (Kind, Value)> {
    let with_names = DEFINED
        .into_iter()
        .map(|(kind, short)| (kind, definition(kind, json!({"shortNames": [short], "categories": ["envoy-gateway"]}))));
    let raw = Kind::ALL.iter().copied().filter(|kind| kind.message().is_some());
    with_names.chain(raw.map(|kind| {
        let mut definition = definition(kind, json!({"categories": ["envoy-resources"]}));
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns();
        (kind, definition)
    }))
}

/// What `kubectl get` shows of objects with resources of Envoy's; the words with `-o wide`.
fn columns() -> Value {
    let condition = |name: &str, field: &str| format!(".status.conditions[?(@.type==\"{name}\")].{field}");
    let column = |name: &str, path: String, priority: u8| json!({"name": name, "type": "string", "jsonPath": path, "priority": priority});
    json!([
        column("Accepted", condition("Accepted", "status"), 0),
        column("Resolved", condition("ResolvedRefs", "status"), 0),
        column("Programmed", condition("Programmed", "status"), 0),
        column("Proxies", condition("Programmed", "message"), 1),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

/// Rights: group, resource, verbs, and the name of the only object if there is one.
type Rights = BTreeSet<(String, String, Vec<String>, Option<String>)>;

/// What the chart calls an object.
fn template(only: Only) -> &'static str {
    match only {
        Only::Lease => r#"{{ include "chancery.name" . }}"#,
        Only::Authority => r#"{{ include "chancery.caSecret" . }}"#,
    }
}

/// The files of rules that the chart gives out, each with where it holds.
fn rules() -> BTreeMap<&'static str, Rights> {
    let mut files: BTreeMap<&str, Rights> = BTreeMap::new();
    let mut add = |file, group: &str, (resource, only): (String, Option<Only>), verbs: &[&str]| {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        let only = only.map(|only| template(only).to_owned());
        files.entry(file).or_default().insert((group.to_owned(), resource, verbs, only));
    };
    for right in access() {
        let file = match right.reach {
            Reach::Cluster => "cluster",
            Reach::Watched => "watched",
            Reach::Own => "own",
        };
        let resource = right.part.map_or_else(|| right.plural.to_owned(), |part| format!("{}/{part}", right.plural));
        add(file, right.group, (resource, right.only), right.verbs);
    }
    proxies::objects().for_each(|(group, plural)| add("proxies", group, (plural.to_owned(), None), proxies::VERBS));
    proxies::OWN.into_iter().for_each(|(group, plural, verbs)| add("own", group, (plural.to_owned(), None), verbs));
    let (group, plural, verbs) = proxies::NODES;
    add("cluster", group, (plural.to_owned(), None), verbs);
    files
}

/// One rule for each group and set of verbs.
fn rules_text(rights: &Rights) -> String {
    let mut joined: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (group, resource, verbs, only) in rights {
        joined.entry((group, only, verbs)).or_default().push(&**resource);
    }
    let mut text =
        "# Made of what the program asks for: UPDATE=1 cargo test -p tests --test chart\nrules:\n".to_owned();
    for ((group, only, verbs), resources) in joined {
        let (resources, verbs) = (resources.join(", "), verbs.join(", "));
        let only = only.as_ref().map(|name| format!("  resourceNames: ['{name}']\n")).unwrap_or_default();
        writeln!(text, "- apiGroups: [{group:?}]\n  resources: [{resources}]\n{only}  verbs: [{verbs}]").unwrap();
    }
    text
}

fn definition(kind: Kind, more: Value) -> Value {
    let version = json!({
        "name": kind.versions()[0], "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": api::definition(kind)},
    });
    let singular = kind.name().to_lowercase();
    let mut names = json!({
        "kind": kind.name(), "listKind": format!("{}List", kind.name()), "plural": kind.plural(), "singular": singular,
    });
    names.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural(), kind.group())},
        "spec": {"group": kind.group(), "names": names, "scope": "Namespaced", "versions": [version]},
    })
}

fn chart() -> PathBuf {
    root().join("charts/chancery")
}

/// What the chart renders with these arguments of Helm; or what is wrong with them.
fn render(arguments: &[&str]) -> Result<String, String> {
    render_in("chancery-system", arguments)
}

fn render_in(namespace: &str, arguments: &[&str]) -> Result<String, String> {
    let helm = root().join(".tools/helm/current/bin/helm");
    assert!(helm.is_file(), "{} is missing; tools/install-helm builds it", helm.display());
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(helm)
        .args(["template", "chancery"])
        .arg(chart())
        .args(["--namespace", namespace])
        .args(arguments)
        .envs(["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|name| (name, empty.path())))
        .output()
        .unwrap();
    let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

/// The objects that the chart renders with these values.
fn objects(values: &[&str]) -> Vec<Value> {
    objects_in("chancery-system", values)
}

fn objects_in(namespace: &str, values: &[&str]) -> Vec<Value> {
    let arguments: Vec<_> = values.iter().flat_map(|value| ["--set", value]).collect();
    let text = render_in(namespace, &arguments).unwrap();
    let documents = text.split("\n---\n").filter(|part| part.contains("apiVersion:"));
    documents.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

fn find<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// Roles by the rules that they stand for, with the namespaces in which they hold; none is the cluster.
fn bindings(objects: &[Value]) -> BTreeSet<(String, Option<String>)> {
    let bound = objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("RoleBinding"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let rules = |object: &Value| text(&object["roleRef"]["name"]).unwrap().rsplit('-').next().unwrap().to_owned();
    bound.map(|object| (rules(object), text(&object["metadata"]["namespace"]))).collect()
}

/// The plain manifests: a namespace, the definitions, and what the chart renders without a word.
fn install() -> String {
    let own = "# What the chart makes of its values as they are, with its namespace and definitions: UPDATE=1 cargo test -p tests --test chart\n\
               # The definitions of the Gateway API itself come from its own releases.\n\
               apiVersion: v1\nkind: Namespace\nmetadata:\n  name: chancery-system\n";
    let rendered = render(&["--include-crds"]).unwrap();
    let comment = |line: &&str| !line.starts_with("# ") && !line.is_empty();
    let lines: Vec<_> = rendered.lines().filter(comment).collect();
    format!("{own}{}\n", lines.join("\n"))
}

#[test]
fn what_is_generated_is_as_the_code_says() {
    let update = std::env::var_os("UPDATE").is_some_and(|word| !word.is_empty());
    let check = |file: PathBuf, wanted: String| {
        if update {
            std::fs::write(&file, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == wanted,
            "{} is not as generated; UPDATE=1 cargo test -p tests --test chart writes it",
            file.display()
        );
    };
    for (name, rights) in rules() {
        check(chart().join(format!("rules/{name}.yaml")), rules_text(&rights));
    }
    for (kind, definition) in defined() {
        let file = format!("crds/{}_{}.yaml", kind.group(), kind.plural());
        let text = serde_saphyr::to_string(&definition).unwrap();
        check(
            chart().join(file),
            format!("# Made of the schemas in crates/api: UPDATE=1 cargo test -p tests --test chart\n{text}"),
        );
    }
    check(root().join("deploy/kubernetes/install.yaml"), install());
}

#[test]
fn the_roles_hold_what_the_program_asks_for_and_nothing_else() {
    let objects = objects(&["fullnameOverride=second"]);
    let mut found = Rights::new();
    for role in find(&objects, "ClusterRole") {
        for rule in role["rules"].as_array().unwrap() {
            let words = |name: &str| -> Vec<String> {
                let words = rule[name].as_array().into_iter().flatten();
                words.map(|word| word.as_str().unwrap().to_owned()).collect()
            };
            let (groups, resources, verbs) = (words("apiGroups"), words("resources"), words("verbs"));
            let only = words("resourceNames").into_iter().next();
            found.extend(groups.iter().flat_map(|group| {
                let right = |resource: &String| (group.clone(), resource.clone(), verbs.clone(), only.clone());
                resources.iter().map(right).collect::<Vec<_>>()
            }));
        }
    }
    let named = |only: Option<String>| {
        only.map(|name| name.replace(template(Only::Lease), "second").replace(template(Only::Authority), "second-ca"))
    };
    let wanted = rules().into_values().flatten();
    let wanted: Rights = wanted.map(|(group, resource, verbs, only)| (group, resource, verbs, named(only))).collect();
    assert_eq!(found, wanted);
    assert!(
        !found.iter().any(|(group, resource, verbs, _)| [group, resource].contains(&&"*".to_owned())
            || verbs.contains(&"*".to_owned()))
    );
}

#[test]
fn with_named_namespaces_no_secret_can_be_read_elsewhere() {
    let everywhere = |rules: &str| (rules.to_owned(), None);
    let within = |rules: &str, namespace: &str| (rules.to_owned(), Some(namespace.to_owned()));
    let wide = [everywhere("cluster"), everywhere("watched"), everywhere("proxies"), within("own", "chancery-system")];
    assert_eq!(bindings(&objects(&[])), wide.into());
    let narrow = bindings(&objects(&["watch.namespaces={a,b}"]));
    let wanted = [
        everywhere("cluster"),
        within("own", "chancery-system"),
        within("watched", "a"),
        within("watched", "b"),
        within("proxies", "a"),
        within("proxies", "b"),
        within("proxies", "chancery-system"),
    ];
    assert_eq!(narrow, wanted.into());
    let beside = bindings(&objects(&["deploy.type=ControllerNamespace"]));
    assert!(
        beside.contains(&within("proxies", "chancery-system")) && !beside.contains(&everywhere("proxies")),
        "{beside:?}"
    );
    assert!(!rules()["cluster"].iter().any(|(_, resource, ..)| resource == "secrets" || resource == "configmaps"));
}

#[test]
fn the_configuration_says_what_the_values_say() {
    let configuration = |values: &[&str]| -> Value {
        let objects = objects(values);
        let map = find(&objects, "ConfigMap")[0]["data"]["chancery.yaml"].as_str().unwrap().to_owned();
        serde_saphyr::from_str(&map).unwrap()
    };
    let plain = configuration(&["controllerName=example.com/x"]);
    assert_eq!(plain["gateway"]["controllerName"], "example.com/x");
    assert_eq!(
        plain["provider"],
        json!({"type": "Kubernetes", "kubernetes": {"deploy": {"type": "GatewayNamespace"}}})
    );
    let kubernetes = |values: &[&str]| configuration(values)["provider"]["kubernetes"].clone();
    assert_eq!(kubernetes(&["watch.namespaces={a}"])["watch"], json!({"type": "Namespaces", "namespaces": ["a"]}));
    let selector = kubernetes(&["watch.namespaceSelector.matchLabels.team=x"]);
    assert_eq!(
        selector["watch"],
        json!({"type": "NamespaceSelector", "namespaceSelector": {"matchLabels": {"team": "x"}}})
    );
    assert_eq!(plain["unsupportedPolicies"], "Deny");
    assert_eq!(configuration(&["unsupportedPolicies=Allow"])["unsupportedPolicies"], "Allow");
    assert!(plain.get("extensionApis").is_none(), "nothing is allowed without a word");
    let allowed = configuration(&[
        "rawResources={files,lua}",
        "allowLinkLocal=true",
        "proxyExtraArgs={stats-tag}",
        "config.extensionApis.enableBackend=true",
    ]);
    assert_eq!(
        allowed["extensionApis"],
        json!({
            "enableBackend": true,
            "enableExtraArgs": true,
            "enableLinkLocalBackends": true,
            "extraArgs": ["stats-tag"],
            "rawResources": ["files", "lua"],
        })
    );
    let narrowed = kubernetes(&["deploy.allowedFields={envoyService}", "deploy.allowedServiceAccounts={plain}"]);
    let wanted =
        json!({"type": "GatewayNamespace", "allowedFields": ["envoyService"], "allowedServiceAccounts": ["plain"]});
    assert_eq!(narrowed["deploy"], wanted);
    let more = configuration(&[
        "replicas=1",
        "config.extensionApis.enableBackend=true",
        "config.provider.kubernetes.leaderElection.disable=true",
    ]);
    assert_eq!(more["extensionApis"]["enableBackend"], true);
    assert_eq!(
        more["provider"]["kubernetes"],
        json!({"deploy": {"type": "GatewayNamespace"}, "leaderElection": {"disable": true}})
    );
}

/// Fields of `EnvoyGateway` as docs/kinds.md has them, each with the values that say it and where it stands then.
const FIELDS: [(&str, &[&str], &str); 20] = [
    ("gateway.controllerName", &["controllerName=example.com/x"], "/gateway/controllerName"),
    ("envoyProxy", &["config.envoyProxy.concurrency=2"], "/envoyProxy/concurrency"),
    ("extensionApis.enableBackend", &["config.extensionApis.enableBackend=true"], "/extensionApis/enableBackend"),
    ("unsupportedPolicies", &["unsupportedPolicies=Allow"], "/unsupportedPolicies"),
    (
        "extensionApis.enableEnvoyPatchPolicy",
        &["config.extensionApis.enableEnvoyPatchPolicy=true"],
        "/extensionApis/enableEnvoyPatchPolicy",
    ),
    ("extensionApis.enableExtraArgs", &["proxyExtraArgs={stats-tag}"], "/extensionApis/enableExtraArgs"),
    ("extraArgs", &["proxyExtraArgs={stats-tag}"], "/extensionApis/extraArgs/0"),
    ("extensionApis.rawResources", &["rawResources={lua}"], "/extensionApis/rawResources/0"),
    ("extensionApis.enableLinkLocalBackends", &["allowLinkLocal=true"], "/extensionApis/enableLinkLocalBackends"),
    ("provider.type", &[], "/provider/type"),
    (
        "provider.custom.resource.file.paths",
        &["config.provider.custom.resource.file.paths={/etc/more}"],
        "/provider/custom/resource/file/paths/0",
    ),
    ("provider.kubernetes.watch", &["watch.namespaces={a}"], "/provider/kubernetes/watch/namespaces/0"),
    ("provider.kubernetes.deploy.type", &["deploy.type=ControllerNamespace"], "/provider/kubernetes/deploy/type"),
    (
        "provider.kubernetes.deploy.allowedFields",
        &["deploy.allowedFields={envoyService}"],
        "/provider/kubernetes/deploy/allowedFields/0",
    ),
    (
        "provider.kubernetes.deploy.allowedServiceAccounts",
        &["deploy.allowedServiceAccounts={plain}"],
        "/provider/kubernetes/deploy/allowedServiceAccounts/0",
    ),
    (
        "provider.kubernetes.deploy.allowedLabels",
        &["deploy.allowedLabels={team,example.com/}"],
        "/provider/kubernetes/deploy/allowedLabels/1",
    ),
    (
        "allowedAnnotations",
        &["deploy.allowedAnnotations={example.com/}"],
        "/provider/kubernetes/deploy/allowedAnnotations/0",
    ),
    (
        "provider.kubernetes.leaderElection",
        &["config.provider.kubernetes.leaderElection.retryPeriod=1s"],
        "/provider/kubernetes/leaderElection/retryPeriod",
    ),
    // Warnings without effect.
    ("logging", &["config.logging.level.default=info"], "/logging/level/default"),
    ("admin", &["config.admin.enablePprof=true"], "/admin/enablePprof"),
];

#[test]
fn each_field_of_the_static_configuration_can_be_said_in_the_chart() {
    let docs = std::fs::read_to_string(root().join("docs/kinds.md")).unwrap();
    let (_, section) = docs.split_once("| `gateway.controllerName` |").unwrap();
    let (rows, _) = section.split_once("| every other field |").unwrap();
    let first_columns = rows.lines().skip(1).filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    let words = first_columns.flat_map(|column| column.split('`').skip(1).step_by(2));
    let documented: BTreeSet<&str> = words.chain(["gateway.controllerName"]).collect();
    assert_eq!(documented, FIELDS.iter().map(|(field, ..)| *field).collect());
    for (field, values, pointer) in FIELDS {
        let objects = objects(values);
        let text = find(&objects, "ConfigMap")[0]["data"]["chancery.yaml"].as_str().unwrap();
        let configuration: Value = serde_saphyr::from_str(text).unwrap();
        assert!(configuration.pointer(pointer).is_some_and(|value| !value.is_null()), "{field} by {values:?}: {text}");
    }
    // An empty list is not the same as none: nothing is allowed.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "deploy: {type: GatewayNamespace, allowedFields: [], allowedServiceAccounts: []}")
        .unwrap();
    let text = render(&["--values", file.path().to_str().unwrap()]).unwrap();
    assert!(text.contains("allowedFields: []") && text.contains("allowedServiceAccounts: []"), "{text}");
}

#[test]
fn its_pods_can_do_nothing_that_they_do_not_need() {
    let objects = objects(&[]);
    let pod = &find(&objects, "Deployment")[0]["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    let wanted =
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(container["securityContext"], wanted);
    let service = &find(&objects, "Service")[0]["spec"];
    let selector = service["selector"].as_object().unwrap();
    let labels = find(&objects, "Deployment")[0]["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
    assert!(selector.iter().all(|(name, value)| labels.get(name) == Some(value)), "{selector:?}, {labels:?}");
    assert_eq!(
        container["ports"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|port| port["name"] == service["ports"][0]["targetPort"])
            .count(),
        1
    );
}

#[test]
fn a_release_of_another_name_shares_nothing_with_the_first() {
    let names = |values: &[&str]| -> BTreeSet<String> {
        let id = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
        objects(values).iter().filter(|object| object["kind"] != "GatewayClass").map(id).collect()
    };
    assert_eq!(names(&[]).intersection(&names(&["fullnameOverride=second"])).count(), 0);
    // what it makes itself is called as these say: the Secret of the authority, and the lease like the Service
    let arguments = |values: &[&str]| -> BTreeSet<String> {
        let objects = objects(values);
        let container = &find(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
        let naming = |argument: &&str| argument.starts_with("--service=") || argument.starts_with("--ca-secret=");
        arguments.filter(naming).map(str::to_owned).collect()
    };
    let (one, other) = (arguments(&[]), arguments(&["fullnameOverride=second"]));
    assert!(one.len() == 2 && one.is_disjoint(&other), "{one:?}, {other:?}");
}

#[test]
fn a_budget_does_not_hold_up_a_node_with_the_only_replica() {
    assert_eq!(find(&objects(&[]), "PodDisruptionBudget").len(), 1);
    assert_eq!(find(&objects(&["replicas=1"]), "PodDisruptionBudget").len(), 0);
}

#[test]
fn values_that_do_not_exist_or_do_not_fit_are_refused() {
    for bad in [
        "replica=2",
        "replicas=0",
        "image.pullPolicy=Sometimes",
        "watch.namespaces={Bad_Name}",
        "deploy.type=Elsewhere",
        "service.port=80",
        "log.format=xml",
        "unsupportedPolicies=Maybe",
        "rawResources={everything}",
        "allowLinkLocal=perhaps",
        "proxyExtraArgs={a b}",
        "deploy.allowedField={envoyService}",
        "deploy.allowedFields=envoyService",
        "deploy=null",
        "image=null",
        "config.provider=x",
        "gatewayClass.parametersRef.name=x",
        r"podLabels.app\.kubernetes\.io/name=x",
    ] {
        let refused = render(&["--set", bad]).unwrap_err();
        assert!(refused.contains("values don't meet the specifications of the schema"), "{bad}: {refused}");
    }
    let both = ["--set", "watch.namespaces={a}", "--set", "watch.namespaceSelector.matchLabels.a=b"];
    assert!(render(&both).is_err(), "one of the two would have no effect");
}

#[test]
fn values_that_contradict_each_other_are_refused_with_the_one_to_change() {
    for (bad, words) in [
        ("config.gateway.controllerName=a.b/c", "say it with controllerName"),
        ("config.provider.kubernetes.watch.type=Namespaces", "say it with watch"),
        ("config.provider.kubernetes.deploy.type=ControllerNamespace", "say it with deploy"),
        ("config.extensionApis.rawResources={files}", "say it with rawResources"),
        ("config.extensionApis.enableLinkLocalBackends=true", "say it with allowLinkLocal"),
        ("config.extensionApis.extraArgs={a}", "say it with proxyExtraArgs"),
        ("config.unsupportedPolicies=Allow", "say it with unsupportedPolicies"),
        ("config.provider.kubernetes.leaderElection.disable=true", "one replica only"),
        ("podDisruptionBudget.minAvailable=2", "no node can be drained"),
        ("podDisruptionBudget.minAvailable=51%", "no node can be drained"),
    ] {
        let refused = render(&["--set", bad]).unwrap_err();
        assert!(refused.contains(words), "{bad}: {refused}");
    }
    assert_eq!(find(&objects(&["podDisruptionBudget.minAvailable=50%"]), "PodDisruptionBudget").len(), 1);
}

#[test]
fn releases_of_one_name_in_different_namespaces_can_watch_the_same_one() {
    let bound = |namespace: &'static str| -> BTreeSet<String> {
        let objects = objects_in(namespace, &["watch.namespaces={shop}"]);
        let in_shop =
            find(&objects, "RoleBinding").into_iter().filter(|object| object["metadata"]["namespace"] == "shop");
        in_shop.map(|object| object["metadata"]["name"].to_string()).collect()
    };
    let (one, other) = (bound("one"), bound("other"));
    assert!(!one.is_empty() && one.is_disjoint(&other), "{one:?}, {other:?}");
}
