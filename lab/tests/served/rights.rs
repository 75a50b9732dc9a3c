//! Rights: what Chancery asked of the API server in a life with everything in it, and what its roles allow, are the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tests::{binary, certificate, objects, wait};

use crate::cluster::{SYSTEM, installed};
use crate::harness::{Lab, Namespace};
use crate::world::{HTTP, SERVICE_IMPORTS, gateway};

/// A verb on a resource: `update gateways/status.gateway.networking.k8s.io`, with `own` behind it in Chancery's namespace.
type Right = String;

fn right(verb: &str, group: &str, resource: &str, own: bool) -> Right {
    format!("{verb} {resource}.{group}{}", if own { " own" } else { "" })
}

/// What the roles of the installation allow.
fn granted(system: &Namespace) -> BTreeSet<Right> {
    let roles = system.get("clusterroles").unwrap();
    let mut all = BTreeSet::new();
    for role in roles["items"].as_array().unwrap() {
        let Some(part) = role["metadata"]["name"].as_str().unwrap().strip_prefix("chancery-system-chancery-") else {
            continue;
        };
        let words = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        for rule in role["rules"].as_array().unwrap() {
            let [groups, resources, verbs] = ["apiGroups", "resources", "verbs"].map(|field| words(&rule[field]));
            for (resource, verb) in resources.iter().flat_map(|resource| verbs.iter().map(move |verb| (resource, verb)))
            {
                all.insert(right(verb, &groups[0], resource, part == "own"));
            }
        }
    }
    all
}

/// What was asked for so far, and what of it was refused.
fn asked(lab: &Lab) -> (BTreeSet<Right>, BTreeSet<Right>) {
    let log = std::fs::read_to_string(lab.state().join("log/audit.log")).unwrap();
    let (mut all, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for line in log.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let (object, text) = (&event["objectRef"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        if event["user"]["username"] != "system:serviceaccount:chancery-system:chancery" || object.is_null() {
            continue;
        }
        let part = object["subresource"].as_str().map(|part| format!("/{part}")).unwrap_or_default();
        let own = object["namespace"] == SYSTEM;
        let right = right(&text(&event["verb"]), &text(&object["apiGroup"]), &(text(&object["resource"]) + &part), own);
        if event["responseStatus"]["code"] == 403 {
            refused.insert(right.clone());
        }
        all.insert(right);
    }
    (all, refused)
}

/// What is applied is a `patch`, for which its object has to be one that may be made. A server that does not stream lists is asked for them.
fn is_used(right: &Right, asked: &BTreeSet<Right>) -> bool {
    let verb_of = [("create ", "patch "), ("list ", "watch ")];
    let mut stands_for =
        verb_of.iter().filter_map(|(verb, other)| Some(format!("{other}{}", right.strip_prefix(verb)?)));
    asked.contains(right) || stands_for.any(|other| asked.contains(&other))
}

const SETTINGS: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: NAME}
spec: {provider: {type: Kubernetes, kubernetes: {KUBERNETES}}}
";

const POLICIES: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: far}
spec: {endpoints: [{ip: {address: 192.0.2.1, port: 80}}]}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: policy}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: many}], connection: {bufferLimit: 64Ki}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: far}
spec:
  parentRefs: [{name: many}]
  rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: far}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more}
spec:
  parentRef: {name: many}
  listeners: [{name: other, port: 80, protocol: HTTP, hostname: other.example.com}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: far}
spec:
  parentRefs: [{name: many}]
  rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: far}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: far}
spec:
  parentRefs: [{name: many}]
  hostnames: [far.example.com]
  rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: far}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: policy}
spec:
  targetRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: far}]
  validation: {hostname: far.example.com, wellKnownCACertificates: System}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: far}
spec:
  parentRefs: [{name: many}]
  rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: far}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: far}
spec:
  parentRefs: [{name: many}]
  rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: far}]}]
";

/// Rights that this installation does not need: proxies are in Chancery's own namespace where it makes them there (`ControllerNamespace`).
const OF_OTHER_MODES: [&str; 2] = ["list pods. own", "watch pods. own"];

/// Definitions that not every cluster has, as far as they are needed here.
const DEFINITIONS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xbackends.gateway.networking.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: gateway.networking.x-k8s.io
  scope: Namespaced
  names: {kind: XBackend, plural: xbackends, singular: xbackend}
  versions:
  - {name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xbackendtrafficpolicies.gateway.networking.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: gateway.networking.x-k8s.io
  scope: Namespaced
  names: {kind: XBackendTrafficPolicy, plural: xbackendtrafficpolicies, singular: xbackendtrafficpolicy}
  versions:
  - {name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xtelemetrypolicies.gateway.networking.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: gateway.networking.x-k8s.io
  scope: Namespaced
  names: {kind: XTelemetryPolicy, plural: xtelemetrypolicies, singular: xtelemetrypolicy}
  versions:
  - {name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";

const X_BACKEND: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: far}
spec: {type: EndpointSelector, port: {number: 80}, endpointSelector: {matchLabels: {app: far}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: pods}
spec:
  parentRefs: [{name: many}]
  rules: [{backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: far}]}]
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: far}
spec: {targetRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: far}], retryConstraint: {}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XTelemetryPolicy
metadata: {name: far}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: many}], tracing: {mode: Disabled}}
";

/// Policies whose guards are not built, one of each kind.
const UNSUPPORTED: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: one}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: far}]
  authorization: {defaultAction: Deny}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: one}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: far}]
  lua: [{type: Inline, inline: 'return'}]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: ClientTrafficPolicy
metadata: {name: one}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: each}]
  timeout: {http: {idleTimeout: 60s}}
";

/// Policies that name more `ClusterTrustBundle`s than are watched one by one, so that all are listed together.
fn bundles() -> String {
    let policy = |number: usize| {
        let references: Vec<String> = (0..8)
            .map(|item| {
                format!("{{group: certificates.k8s.io, kind: ClusterTrustBundle, name: trust-{number}-{item}}}")
            })
            .collect();
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: trust-{number}}}\nspec:\n  targetRefs: \
             [{{group: '', kind: Service, name: trust-{number}}}]\n  validation: {{hostname: a.example, caCertificateRefs: [{}]}}\n",
            references.join(", ")
        )
    };
    (0..5).map(policy).collect()
}

/// Resources of Envoy's for the workloads of a namespace: an object of each kind, and a Pod that needs nothing.
fn resources() -> String {
    let bootes = ["Cluster", "Listener", "Route", "Endpoint"].map(|kind| ("bootes.io/v1", kind));
    let own = [
        "EnvoyCluster",
        "EnvoyEndpoint",
        "EnvoyExtensionConfig",
        "EnvoyListener",
        "EnvoyRoute",
        "EnvoyRuntime",
        "EnvoyScopedRoute",
        "EnvoySecret",
        "EnvoyVirtualHost",
    ];
    let own = own.map(|kind| ("chancery.io/v1alpha1", kind));
    let object = |(version, kind): &(&str, &str)| {
        format!(
            "---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: one}}\nspec: {{config: {{name: one, cluster_name: one}}}}\n"
        )
    };
    let patch = "---\napiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyPatchPolicy\nmetadata: {name: one}\n\
                 spec: {type: JSONPatch, targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: many}, jsonPatches: []}\n";
    bootes.iter().chain(&own).map(object).collect::<String>() + patch
}

fn settings(name: &str, kubernetes: &str) -> String {
    SETTINGS.replace("NAME", name).replace("KUBERNETES", kubernetes)
}

fn parameters(name: &str) -> String {
    format!("  infrastructure: {{parametersRef: {{group: gateway.envoyproxy.io, kind: EnvoyProxy, name: {name}}}}}\n")
}

#[test]
fn the_roles_allow_what_is_used_and_no_more() {
    let lab = Arc::new(installed());
    let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
    let namespace = Namespace::make_in(Arc::clone(&lab), "life");
    let pair = certificate::self_signed(&["life.example"], false).unwrap();
    namespace.apply(&objects::tls_secret("pair", &pair.certificate, &pair.key));
    namespace.apply(&settings("many", "envoyHpa: {maxReplicas: 2}, envoyPDB: {minAvailable: 1}"));
    namespace.apply(&settings("each", "envoyDaemonSet: {}, envoyService: {type: NodePort}"));
    let https = "{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: pair}]}}";
    namespace.apply(&gateway("many", &[HTTP, https], &parameters("many")));
    namespace.apply(&gateway("each", &[HTTP], &parameters("each")));
    namespace.apply(POLICIES);
    namespace.apply(DEFINITIONS);
    namespace.apply(SERVICE_IMPORTS);
    for name in [
        "xbackends.gateway.networking.x-k8s.io",
        "xbackendtrafficpolicies.gateway.networking.x-k8s.io",
        "serviceimports.multicluster.x-k8s.io",
        "xtelemetrypolicies.gateway.networking.x-k8s.io",
    ] {
        namespace.run(&["wait", "crd", name, "--for=condition=Established", "--timeout=180s"]);
    }
    namespace.apply(X_BACKEND);
    namespace.apply(&resources());
    namespace.apply(UNSUPPORTED);
    namespace.apply(&bundles());
    namespace.shell("workload", "sleep 600", "", "");
    for name in ["many", "each"] {
        namespace.run(&["wait", "gateway", name, "--for=condition=Programmed", "--timeout=180s"]);
    }
    let granted = granted(&system);
    // A Gateway of another class has nothing of ours any more.
    for name in ["many", "each"] {
        namespace.run(&[
            "patch",
            "gateway",
            name,
            "--type=merge",
            "--patch",
            "{\"spec\": {\"gatewayClassName\": \"other\"}}",
        ]);
    }
    // the bundle that proxies trust gets a second authority
    lab.exec(&[binary::chancery().unwrap().to_str().unwrap(), "certs", "rotate"]).unwrap();
    let mut unused = Vec::new();
    // Whose status is written is read only where another client wrote in between.
    let of_conflicts = |right: &Right| {
        let (_, resource) = right.split_once("get ").unwrap_or_default();
        let (plural, group) = resource.split_once('.').unwrap_or_default();
        granted.contains(&format!("update {plural}/status.{group}"))
    };
    let all = wait::until("all rights to be used", || {
        let (asked, _) = asked(&lab);
        let is_unused = |right: &&Right| {
            !is_used(right, &asked) && !OF_OTHER_MODES.contains(&right.as_str()) && !of_conflicts(right)
        };
        unused = granted.iter().filter(is_unused).cloned().collect();
        unused.is_empty().then_some(())
    });
    assert!(all.is_ok(), "nobody used {unused:#?}");
    let (asked, refused) = asked(&lab);
    assert_eq!(refused, BTreeSet::new());
    assert_eq!(asked.difference(&granted).collect::<Vec<_>>(), Vec::<&Right>::new());
}
