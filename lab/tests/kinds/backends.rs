//! Backends that are no Services of the cluster, and authorities that are the cluster's own.

use tests::{certificate, wait};

use crate::place::{Place, http, trust_bundle};
use crate::world::{HTTP, SERVICE_IMPORTS};

/// Each on a path of its own: Pods by their labels; a name by which the proxies find a Service; the same over TLS.
const X_BACKENDS: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: pods}
spec: {type: EndpointSelector, port: {number: 3000}, endpointSelector: {matchLabels: {app: cart}}, MORE}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: name}
spec: {type: ExternalHostname, port: {number: 80}, externalHostname: {hostname: cart.x-backends.svc}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: secure}
spec:
  type: ExternalHostname
  port: {number: 443}
  externalHostname: {hostname: bank.x-backends.svc}
  tls: {mode: ServerOnly, validation: {hostname: bank.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: trusted}]}}
";

/// These, with more of the first one's spec.
fn x_backends(more: &str) -> String {
    X_BACKENDS.replace(", MORE", &if more.is_empty() { String::new() } else { format!(", {more}") })
}

/// A route to an XBackend by its name as the path.
fn route(backend: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {backend}}}\nspec:\n  parentRefs: [{{name: edge}}]\n  \
         rules: [{{matches: [{{path: {{value: /{backend}}}}}], backendRefs: [{{group: gateway.networking.x-k8s.io, kind: XBackend, name: \
         {backend}}}]}}]\n"
    )
}

/// A ConfigMap with a certificate.
fn bundle(certificate: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "trusted" }, "data": { "ca.crt": certificate }
    })
    .to_string()
}

#[test]
fn pods_by_their_labels_and_names_elsewhere_are_backends_and_say_so() {
    let place = Place::make("x-backends", &[HTTP], "");
    let pair = certificate::self_signed(&["bank.example"], false).unwrap();
    place.apply(&x_backends(""));
    for backend in ["pods", "name", "secure"] {
        place.apply(&route(backend));
    }
    place.until_pod("/pods", "cart");
    place.until_pod("/name", "cart");
    for backend in ["pods", "name"] {
        place.until_told(&format!("xbackend/{backend}"), "Accepted", "Accepted", &[]);
        place.until_told(&format!("httproute/{backend}"), "ResolvedRefs", "ResolvedRefs", &[]);
    }
    let told = place.namespace().get("xbackend/name").unwrap();
    assert_eq!(told["status"]["ancestors"][0]["ancestorRef"]["name"], "edge", "{told:#}");

    // what it says of TLS leads nowhere, until the bundle comes
    place.until_told("xbackend/secure", "Accepted", "Invalid", &["trusted"]);
    place.until_told("httproute/secure", "ResolvedRefs", "BackendNotFound", &[]);
    place.until_status("/secure", 500);
    place.secure("bank", &pair);
    place.apply(&bundle(&pair.certificate));
    let answer = place.until_pod("/secure", "bank");
    assert_eq!(answer.echo()["tls"]["serverName"], "bank.example", "{answer:?}");
    place.until_told("xbackend/secure", "Accepted", "Accepted", &[]);
    place.until_told("httproute/secure", "ResolvedRefs", "ResolvedRefs", &[]);

    // Pods that have the label, and have it no more
    place.echo("other", "other", &http("other"));
    place.namespace().run(&["label", "pod", "other", "app=cart", "--overwrite"]);
    place.until_pod("/pods", "other");
    place.apply(&x_backends("sessionPersistence: {type: Cookie, cookie: {}}"));
    let first = place.until("a cookie", "/pods", |answer| answer.cookie().is_some());
    let cookie = format!("cookie: {}\r\n", first.cookie().unwrap());
    let again = || place.ask_with(80, "/pods", &cookie).unwrap().pod();
    assert!((0..20).all(|_| again() == first.pod()), "a client comes back to its Pod");
    place.namespace().run(&["label", "pod", "cart", "other", "app=none", "--overwrite"]);
    place.until_status("/pods", 503);
}

const IMPORTED: &str = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: far}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: far}
spec:
  parentRefs: [{name: edge}]
  rules: [{backendRefs: [{group: multicluster.x-k8s.io, kind: ServiceImport, name: far, port: 80}]}]
";

/// Endpoints as a controller of these Services brings them from another cluster.
const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: far-1, labels: {multicluster.kubernetes.io/service-name: far, multicluster.kubernetes.io/source-cluster: other}}
addressType: IPv4
ports: [{name: http, port: 3000, protocol: TCP}]
endpoints: [{addresses: [ADDRESS], conditions: {ready: true}}]
";

#[test]
fn a_service_of_another_cluster_is_a_backend_once_the_cluster_knows_the_kind() {
    let place = Place::make("imports", &[HTTP], "");
    let pod = |name: &str| {
        place.namespace().until("its address", name, |pod| pod["status"]["podIP"].as_str().map(str::to_owned))
    };
    place.apply(SERVICE_IMPORTS);
    let name = "customresourcedefinition/serviceimports.multicluster.x-k8s.io";
    place.namespace().run(&["wait", "--for=condition=Established", name, "--timeout=180s"]);
    place.apply(IMPORTED);
    place.until_told("httproute/far", "Accepted", "Accepted", &[]);
    place.until_told("httproute/far", "ResolvedRefs", "ResolvedRefs", &[]);
    place.until_status("/", 503);
    place.apply(&SLICE.replace("ADDRESS", &pod("pod/cart")));
    place.until_pod("/", "cart");
    // it moves
    place.echo("other", "other", &http("other"));
    place.apply(&SLICE.replace("ADDRESS", &pod("pod/other")));
    place.until_pod("/", "other");
    place.namespace().run(&["delete", "serviceimport", "far"]);
    place.until_status("/", 500);
    place.until_told("httproute/far", "ResolvedRefs", "BackendNotFound", &["far"]);
}

const TRUSTING: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: bank}
spec:
  targetRefs: [{group: '', kind: Service, name: bank}]
  validation: {hostname: bank.example, caCertificateRefs: [{group: certificates.k8s.io, kind: ClusterTrustBundle, name: authorities}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: bank}
spec:
  parentRefs: [{name: edge}]
  rules: [{backendRefs: [{name: bank, port: 443}]}]
";

/// Makes the backend close its connection behind the answer: whom to believe counts for new connections only.
const LAST: &str = "x-echo-set-header: Connection:close\r\n";

/// Waits for 503 where every request takes a new connection to the backend.
fn until_unbelieved(place: &Place) {
    let refused = || place.ask_with(80, "/", LAST).filter(|answer| answer.status == 503);
    wait::until("503 over new connections to the backend", refused).unwrap();
}

#[test]
fn a_backend_is_believed_by_a_bundle_of_the_cluster() {
    let place = Place::make("bundles", &[HTTP], "");
    let [own, foreign] = ["own.authority", "other.authority"].map(|name| certificate::authority(name).unwrap());
    place.secure("bank", &certificate::issued("bank.example", &own).unwrap());
    place.apply(TRUSTING);
    place.until_told("backendtlspolicy/bank", "ResolvedRefs", "InvalidCACertificateRef", &["authorities"]);
    place.until_told("backendtlspolicy/bank", "Accepted", "NoValidCACertificate", &[]);
    place.until_status("/", 503);
    place.apply(&trust_bundle("authorities", &own.certificate));
    let answer = place.until_pod("/", "bank");
    assert_eq!(answer.echo()["tls"]["serverName"], "bank.example", "{answer:?}");
    place.until_told("backendtlspolicy/bank", "Accepted", "Accepted", &[]);
    place.until_told("backendtlspolicy/bank", "ResolvedRefs", "ResolvedRefs", &[]);
    place.until_claimed("ClusterTrustBundle");
    // whoever is believed changes
    place.apply(&trust_bundle("authorities", &foreign.certificate));
    until_unbelieved(&place);
    place.apply(&trust_bundle("authorities", &(foreign.certificate + &own.certificate)));
    // Each thread of the proxy has connections of its own.
    let believed = || place.ask_with(80, "/", LAST).is_some_and(|answer| answer.status == 200);
    wait::until("answers over new connections", || (0..40).all(|_| believed()).then_some(())).unwrap();
    // nobody is believed: nothing is sent, over connections that are kept neither
    place.namespace().run(&["delete", "clustertrustbundle", "authorities"]);
    let refused = || place.ask("/").is_some_and(|answer| answer.status == 503);
    wait::until("503 of every thread", || (0..40).all(|_| refused()).then_some(())).unwrap();
    place.until_told("backendtlspolicy/bank", "ResolvedRefs", "InvalidCACertificateRef", &[]);
}
