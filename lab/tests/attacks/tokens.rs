//! A token that was stolen from a Pod is good as long as the Pod is there, and no longer; and a Pod is a proxy of a Gateway only if Chancery made it.

use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;

use tests::wait;

use crate::cluster::{SYSTEM, served};
use crate::harness::{Lab, Namespace};

/// A client with a stolen token: curl, with a request of gRPC again and again, as it looks for an answer between two of them.
struct Thief {
    child: Child,
    headers: PathBuf,
    body: PathBuf,
    errors: PathBuf,
}

impl Thief {
    fn call(lab: &Lab, address: &str, token: &str, name: &str) -> Self {
        Self::request(lab, address, token, name, &request("", CLUSTERS))
    }

    fn request(lab: &Lab, address: &str, token: &str, name: &str, request: &[u8]) -> Self {
        let file = |end: &str| lab.state().join(format!("{name}-{end}"));
        let (frame, headers, body) = (file("frame"), file("headers"), file("body"));
        std::fs::write(&frame, request).unwrap();
        let script = format!(
            "exec curl --silent --show-error --insecure --http2 --max-time 100 --request POST --upload-file - --no-buffer --dump-header {headers} --output {body} \
             --header 'Expect:' --header 'te: trailers' --header 'content-type: application/grpc' --header 'authorization: Bearer {token}' \
             https://{address}/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources < <(while cat {frame}; do sleep 0.3; done)",
            headers = headers.display(),
            body = body.display(),
            frame = frame.display(),
        );
        let errors = file("errors");
        let output = std::fs::File::create(&errors).unwrap();
        let child = lab.command("exec").args(["bash", "-euc", &script]).stderr(output).spawn().unwrap();
        Self { child, headers, body, errors }
    }

    /// The answer so far: the headers, and the trailers once the stream has ended.
    fn answered(&self) -> String {
        std::fs::read_to_string(&self.headers).unwrap_or_default()
    }

    /// The messages so far, as far as they are text.
    fn received(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.body).unwrap_or_default()).into_owned()
    }

    fn until_answered(&self, words: &str) {
        let answered = || self.answered().contains(words).then_some(());
        if wait::until(words, answered).is_err() {
            panic!("{words:?} is not in {:?}", self.answered());
        }
    }

    /// Waits until the call has ended, and not by its own time. An answer that comes before the request has ended can reach curl together with the end
    /// of the stream; then it says that the stream has failed.
    fn until_refused(mut self) {
        wait::until("the end of the call", || self.child.try_wait().unwrap()).unwrap();
        let (answered, errors) = (self.answered(), std::fs::read_to_string(&self.errors).unwrap());
        let is_reset = answered.is_empty() && errors.contains("(92)");
        assert!(answered.contains("grpc-status: 16") || is_reset, "{answered:?} {errors:?}");
        assert_eq!(self.received(), "");
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        let _it_has_ended = self.child.kill();
        let _its_status = self.child.wait();
    }
}

const CLUSTERS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LISTENERS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

/// A request for all of a type (`DeltaDiscoveryRequest`) of a node with this `cluster`, with the prefix of gRPC.
fn request(cluster: &str, type_url: &str) -> Vec<u8> {
    let text = |field: u8, text: &[u8]| [&[field << 3 | 2, u8::try_from(text.len()).unwrap()], text].concat();
    let node = [text(1, b"x"), text(2, cluster.as_bytes())].concat();
    let message = [text(1, &node), text(2, type_url.as_bytes())].concat();
    [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], &message].concat()
}

#[test]
fn a_token_of_a_deleted_pod_opens_nothing_and_its_streams_end() {
    let lab = served();
    let namespace = Namespace::make_in(Arc::clone(&lab), "tokens");
    let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
    let address =
        system.run(&["get", "service", "chancery", "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}"]);
    for pod in ["robbed", "kept", "late"] {
        namespace.shell(pod, "sleep 600", "terminationGracePeriodSeconds: 0", "");
        namespace.until_ready(pod);
    }
    let token = |pod: &str| {
        let bound = ["--bound-object-kind=Pod", &format!("--bound-object-name={pod}"), "--audience=chancery"];
        namespace.run(&[&["create", "token", "default"], &bound[..]].concat())
    };
    let (stolen, other) = (token("robbed"), token("kept"));
    let stream = Thief::call(&lab, &address, stolen.trim(), "stolen");
    let kept = Thief::call(&lab, &address, other.trim(), "kept");
    stream.until_answered("HTTP/2 200");
    kept.until_answered("HTTP/2 200");
    namespace.run(&["delete", "pod", "robbed", "--wait=true"]);
    stream.until_answered("grpc-status: 16");
    Thief::call(&lab, &address, stolen.trim(), "again").until_refused();
    // Another Pod of the name does not make it good.
    namespace.shell("robbed", "sleep 600", "terminationGracePeriodSeconds: 0", "");
    namespace.until_ready("robbed");
    Thief::call(&lab, &address, stolen.trim(), "later").until_refused();
    let own = Thief::call(&lab, &address, token("robbed").trim(), "own");
    own.until_answered("HTTP/2 200");
    // Used for the first time right before its Pod goes: the API server remembers for ten seconds that it was good.
    let late = token("late");
    let stream = Thief::call(&lab, &address, late.trim(), "late");
    stream.until_answered("HTTP/2 200");
    namespace.run(&["delete", "pod", "late", "--force", "--grace-period=0", "--wait=true"]);
    stream.until_answered("grpc-status: 16");
    for again in 0..5 {
        Thief::call(&lab, &address, late.trim(), &format!("late-{again}")).until_refused();
    }
    assert!(![kept, own].iter().any(|stream| stream.answered().contains("grpc-status: 16")));
}

/// An `EnvoyProxy` that names the account of all Pods of its namespace, and a Gateway that uses it.
const THIEF: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: thief}
spec: {provider: {type: Kubernetes, kubernetes: {envoyServiceAccount: {name: default}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec:
  gatewayClassName: chancery
  infrastructure: {parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: thief}}
  listeners: [{name: http, protocol: HTTP, port: 80}]
";

#[test]
fn an_account_that_an_envoy_proxy_names_makes_no_pod_a_proxy() {
    let lab = served();
    let namespace = Namespace::make_in(Arc::clone(&lab), "accounts");
    let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
    let address =
        system.run(&["get", "service", "chancery", "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}"]);
    namespace.shell("side", "sleep 600", "terminationGracePeriodSeconds: 0", "");
    namespace.until_ready("side");
    let token = || {
        let bound = ["--bound-object-kind=Pod", "--bound-object-name=side", "--audience=chancery"];
        namespace.run(&[&["create", "token", "default"], &bound[..]].concat()).trim().to_owned()
    };
    let ask = |name: &str, cluster: &str, token: &str| {
        Thief::request(&lab, &address, token, name, &request(cluster, LISTENERS))
    };
    ask("before", "accounts", &token()).until_answered("HTTP/2 200");
    namespace.apply(THIEF);
    namespace.until("the refusal", "gateways/g", |gateway| {
        gateway["status"].to_string().contains("was not made by Chancery").then_some(())
    });
    // The Pod goes on as a workload, whatever it says of itself.
    let streams =
        [("workload", "accounts"), ("gateway", "accounts/g")].map(|(name, cluster)| ask(name, cluster, &token()));
    streams.iter().for_each(|stream| stream.until_answered("HTTP/2 200"));
    // A token without a Pod opens nothing.
    let unbound = namespace.run(&["create", "token", "default", "--audience=chancery"]);
    ask("unbound", "accounts/g", unbound.trim()).until_refused();
    for stream in &streams {
        assert!(!stream.answered().contains("grpc-status"), "{:?}", stream.answered());
        assert!(!stream.received().contains("accounts/g"), "{:?}", stream.received());
    }
    // A token that is withdrawn with its account ends its streams.
    namespace.run(&["create", "serviceaccount", "own"]);
    namespace.apply(OTHER);
    namespace.until_ready("other");
    let bound = ["--bound-object-kind=Pod", "--bound-object-name=other", "--audience=chancery"];
    let withdrawn = namespace.run(&[&["create", "token", "own"], &bound[..]].concat());
    let stream = ask("withdrawn", "", withdrawn.trim());
    stream.until_answered("HTTP/2 200");
    namespace.run(&["delete", "serviceaccount", "own"]);
    stream.until_answered("grpc-status: 16");
}

/// A Pod with an account of its own.
const OTHER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  serviceAccountName: own
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: lab/machine, command: [sleep, '600']}]
";

/// A Gateway of a namespace that others want to be proxies of.
const VICTIM: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec:
  gatewayClassName: chancery
  listeners: [{name: http, protocol: HTTP, port: 80}]
";

/// An account and a workload with the labels of the objects of another namespace's Gateway, which finalizers keep there, and a Pod that seems to be of it.
fn forged(labels: &str) -> String {
    let held = "finalizers: [attacker.example/held]";
    let container = "containers: [{name: main, image: lab/machine, command: [sleep, '600']}]";
    format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: x, {held}, labels: {labels}}}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: x, {held}, labels: {labels}}}\nspec:\n  replicas: 0\n  selector: {{matchLabels: \
         {{a: b}}}}\n  template: {{metadata: {{labels: {{a: b}}}}, spec: {{{container}}}}}\n---\n\
         apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: x-6fc4f874b}}\nspec:\n  replicas: 1\n  selector: {{matchLabels: {{c: d}}}}\n  \
         template:\n    metadata: {{labels: {labels}}}\n    spec: {{serviceAccountName: x, terminationGracePeriodSeconds: 0, {container}}}\n"
    )
}

#[test]
fn labels_make_no_pod_of_another_namespace_a_proxy() {
    let lab = served();
    let victim = Namespace::make_in(Arc::clone(&lab), "victim");
    let attacker = Namespace::make_in(Arc::clone(&lab), "attacker");
    let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
    let address =
        system.run(&["get", "service", "chancery", "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}"]);
    victim.apply(VICTIM);
    victim.until("a Gateway that serves", "gateway/g", |gateway| {
        gateway["status"].to_string().contains("have acknowledged").then_some(())
    });
    let made = victim.get("deployments").unwrap();
    let mut labels = made["items"][0]["metadata"]["labels"].clone();
    labels["c"] = "d".into();
    attacker.apply(&forged(&labels.to_string()));
    let pod = attacker.until("the Pod", "pods", |pods| Some(pods["items"][0]["metadata"]["name"].as_str()?.to_owned()));
    attacker.until_ready(&pod);
    let bound = ["--bound-object-kind=Pod", &format!("--bound-object-name={pod}"), "--audience=chancery"];
    let token = attacker.run(&[&["create", "token", "x"], &bound[..]].concat());
    let thief = Thief::request(&lab, &address, token.trim(), "forged", &request("victim/g", LISTENERS));
    thief.until_answered("grpc-status: 7");
    assert_eq!(thief.received(), "");
    for object in ["deployment/x", "serviceaccount/x"] {
        attacker.run(&["patch", object, "--type=merge", "--patch", "{\"metadata\": {\"finalizers\": null}}"]);
    }
}
