//! A token that was stolen from a Pod: it is good as long as the Pod is there, and no longer.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;

use tests::wait;

use crate::cluster::{SYSTEM, served};
use crate::harness::{Lab, Namespace};

/// A client with a stolen token: curl, with a request of gRPC again and again, as it looks for an answer between two of them.
struct Thief {
    child: Child,
    headers: PathBuf,
}

impl Thief {
    fn call(lab: &Lab, address: &str, token: &str, name: &str) -> Self {
        let (frame, headers) = (lab.state().join("frame"), lab.state().join(name));
        std::fs::write(&frame, request()).unwrap();
        let script = format!(
            "exec curl --silent --insecure --http2 --max-time 100 --request POST --upload-file - --dump-header {headers} --output /dev/null \
             --header 'Expect:' --header 'te: trailers' --header 'content-type: application/grpc' --header 'authorization: Bearer {token}' \
             https://{address}/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources < <(while cat {frame}; do sleep 0.3; done)",
            headers = headers.display(),
            frame = frame.display(),
        );
        let child = lab.command("exec").args(["bash", "-euc", &script]).stderr(Stdio::null()).spawn().unwrap();
        Self { child, headers }
    }

    /// The answer so far: the headers, and the trailers once the stream has ended.
    fn answered(&self) -> String {
        std::fs::read_to_string(&self.headers).unwrap_or_default()
    }

    fn until_answered(&self, words: &str) {
        let answered = || self.answered().contains(words).then_some(());
        if wait::until(words, answered).is_err() {
            panic!("{words:?} is not in {:?}", self.answered());
        }
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        let _it_has_ended = self.child.kill();
        let _its_status = self.child.wait();
    }
}

/// A request for clusters (`DeltaDiscoveryRequest`), with the prefix of gRPC.
fn request() -> Vec<u8> {
    const TYPE: &[u8] = b"type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let node = [0x0a, 0x03, 0x0a, 0x01, b'x'];
    let message = [&node, &[0x12, u8::try_from(TYPE.len()).unwrap()][..], TYPE].concat();
    [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], &message].concat()
}

#[test]
fn a_token_of_a_deleted_pod_opens_nothing_and_its_streams_end() {
    let lab = served();
    let namespace = Namespace::make_in(Arc::clone(&lab), "tokens");
    let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
    let address =
        system.run(&["get", "service", "chancery", "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}"]);
    for pod in ["robbed", "kept"] {
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
    Thief::call(&lab, &address, stolen.trim(), "again").until_answered("grpc-status: 16");
    // Another Pod of the name does not make it good.
    namespace.shell("robbed", "sleep 600", "terminationGracePeriodSeconds: 0", "");
    namespace.until_ready("robbed");
    Thief::call(&lab, &address, stolen.trim(), "later").until_answered("grpc-status: 16");
    let own = Thief::call(&lab, &address, token("robbed").trim(), "own");
    own.until_answered("HTTP/2 200");
    assert!(![kept, own].iter().any(|stream| stream.answered().contains("grpc-status: 16")));
}
