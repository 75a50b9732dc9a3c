//! Backends that are no Service: Pods by their labels, and what several clusters have, from files through a real Envoy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tests::backend::Backend;
use tests::client::get;
use tests::objects::{documents, gateway, ruled};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

const HOST: &str = "www.example.com";

/// A route to this backend reference, with what it names.
fn start(reference: &str, objects: &[&str]) -> (Running, u16) {
    let [port] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap();
    let rules = format!("  rules:\n  - backendRefs: [{reference}]\n");
    let all = [gateway(port), ruled("shop", &rules)];
    running.write("all.yaml", &documents(all.iter().map(String::as_str).chain(objects.iter().copied()))).unwrap();
    running.start().unwrap();
    (running, port)
}

fn until(port: u16, status: u16) -> String {
    let asked = || get(port, HOST, "/").ok().filter(|answer| answer.status == status);
    wait::until(&format!("{status}"), asked).unwrap().body
}

fn pod(labels: &str, more: &str, ready: bool) -> String {
    let ready = if ready { "True" } else { "False" };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, labels: {labels}{more}}}\nstatus:\n  phase: Running\n  podIP: 127.0.0.1\n  \
         conditions: [{{type: Ready, status: \"{ready}\"}}]\n"
    )
}

#[test]
fn pods_are_sent_to_while_they_have_the_labels_and_are_ready() {
    let server = Backend::start("web").unwrap();
    let backend = format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {{name: web}}\nspec:\n  type: EndpointSelector\n  \
         port: {{number: {}}}\n  endpointSelector: {{matchLabels: {{app: web, tier: front}}}}\n",
        server.port
    );
    let reference = "{group: gateway.networking.x-k8s.io, kind: XBackend, name: web}";
    let (running, port) = start(reference, &[&backend]);
    until(port, 503);
    let told = || running.status(&["problems"]).ok().filter(|told| told.contains("no Pod of namespace default"));
    wait::until("the missing Pods to be told", told).unwrap();
    let labels = "{app: web, tier: front}";
    running.write("pod.yaml", &pod(labels, "", true)).unwrap();
    assert_eq!(until(port, 200), "web");
    for gone in [pod(labels, "", false), pod("{app: web}", "", true), pod(labels, ", namespace: elsewhere", true)] {
        running.write("pod.yaml", &gone).unwrap();
        until(port, 503);
        running.write("pod.yaml", &pod(labels, "", true)).unwrap();
        until(port, 200);
    }
    // one that is about to go is the last that is left
    running.write("pod.yaml", &pod(labels, ", deletionTimestamp: \"2026-01-01T00:00:00Z\"", true)).unwrap();
    let other = pod("{app: web}", "", true).replace("name: web,", "name: other,");
    running.write("other.yaml", &other).unwrap();
    assert_eq!(until(port, 200), "web");
    running.remove("pod.yaml").unwrap();
    until(port, 503);
}

#[test]
fn endpoints_of_other_clusters_are_sent_to() {
    let server = Backend::start("far").unwrap();
    let import = "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\nmetadata: {name: store}\nspec:\n  type: ClusterSetIP\n  \
                  ports: [{name: http, port: 80, protocol: TCP}]\n";
    let slice = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: far\n  labels: {{multicluster.kubernetes.io/service-name: store}}\n\
         addressType: IPv4\nports: [{{name: http, port: {}}}]\nendpoints: [{{addresses: [\"127.0.0.1\"]}}]\n",
        server.port
    );
    let reference = "{group: multicluster.x-k8s.io, kind: ServiceImport, name: store, port: 80}";
    let (running, port) = start(reference, &[import]);
    until(port, 503);
    running.write("slice.yaml", &slice).unwrap();
    assert_eq!(until(port, 200), "far");
    running.remove("slice.yaml").unwrap();
    until(port, 503);
}
