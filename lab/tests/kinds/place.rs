//! A namespace with a Gateway `edge` and a service `cart`, and requests to it from inside the lab.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tests::certificate::Pair;
use tests::{objects, wait};

use crate::cluster::installed_with;
use crate::harness::{Lab, Namespace};
use crate::inside::enter;
use crate::world::{World, said};

/// What no answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What no connection may take.
const CONNECTED: Duration = Duration::from_secs(10);

/// The address of the lab's node, which every Pod reaches.
pub(crate) const NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 244, 0, 1));

/// A Service of a server on the node, which is a test's own and no Pod: `NAME`, and `PORT` for the one there.
const OF_THE_TEST: &str = "
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {ports: [{name: grpc, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: NAME-1, labels: {kubernetes.io/service-name: NAME}}
addressType: IPv4
ports: [{name: grpc, port: PORT, protocol: TCP}]
endpoints: [{addresses: [ADDRESS], conditions: {ready: true}}]
";

/// The cluster's bundle of this name with these certificates, in the version that the API server has.
pub(crate) fn trust_bundle(name: &str, certificates: &str) -> String {
    objects::trust_bundle(name, certificates).replacen("k8s.io/v1\n", "k8s.io/v1beta1\n", 1)
}

/// The lab that the tests share.
pub(crate) fn lab() -> Arc<Lab> {
    Lab::shared_as(|| installed_with("experimental"))
}

/// A namespace of a test.
pub(crate) struct Place {
    pub(crate) world: World,
    pub(crate) state: PathBuf,
    pub(crate) address: IpAddr,
}

impl Place {
    /// Makes a Service `name` with port 80 for what listens on this port of [`NODE`].
    pub(crate) fn serve_own(&self, name: &str, port: u16) {
        let object = OF_THE_TEST.replace("NAME", name).replace("PORT", &port.to_string());
        self.apply(&object.replace("ADDRESS", &NODE.to_string()));
    }

    /// Makes it, with these listeners and more of the Gateway's spec.
    pub(crate) fn make(name: &'static str, listeners: &[&str], more: &str) -> Self {
        let world = World::made_in(lab(), name);
        world.gateway("edge", listeners, more);
        let address = world.namespace.until("an address", "gateway/edge", |gateway| {
            gateway.pointer("/status/addresses/0/value")?.as_str()?.parse().ok()
        });
        let state = world.namespace.lab.state();
        Self { world, state, address }
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.world.namespace
    }

    pub(crate) fn apply(&self, yaml: &str) {
        self.world.namespace.apply(yaml);
    }

    /// A port of the Gateway.
    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }

    /// Asks the Gateway on port 80.
    pub(crate) fn ask(&self, path: &str) -> Option<Answer> {
        self.ask_with(80, path, "")
    }

    /// The same on a port, with lines of a head more, each with its end.
    pub(crate) fn ask_with(&self, port: u16, path: &str, more: &str) -> Option<Answer> {
        inside(&self.state, || exchange(self.at(port), path, more)).ok()
    }

    /// Waits until an answer is right, and gives it.
    pub(crate) fn until(&self, what: &str, path: &str, is_right: impl Fn(&Answer) -> bool) -> Answer {
        self.until_on(80, what, path, is_right)
    }

    /// The same on a port.
    pub(crate) fn until_on(&self, port: u16, what: &str, path: &str, is_right: impl Fn(&Answer) -> bool) -> Answer {
        let mut last = None;
        let found = wait::until(&format!("{what} at {path} on port {port}"), || {
            last = self.ask_with(port, path, "");
            last.clone().filter(&is_right)
        });
        found.unwrap_or_else(|error| panic!("{error}: the last answer is {last:?}"))
    }

    /// Waits until a Pod answers.
    pub(crate) fn until_pod(&self, path: &str, pod: &str) -> Answer {
        self.until(pod, path, |answer| answer.pod().as_deref() == Some(pod))
    }

    /// Waits until a status is answered.
    pub(crate) fn until_status(&self, path: &str, status: u16) {
        self.until(&status.to_string(), path, |answer| answer.status == status);
    }

    /// Waits until a condition in the first entry of a status by parents or ancestors is True for the reason of its own name, or
    /// False for another one.
    pub(crate) fn until_told(&self, object: &str, kind: &str, reason: &str, words: &[&str]) {
        self.namespace().until(&format!("{kind}: {reason} with {words:?}"), object, |object| {
            let said = said(object, "/ancestors/0", kind).or_else(|| said(object, "/parents/0", kind))?;
            let status = if kind == reason { "True" } else { "False" };
            let right = said.status == status && said.reason == reason;
            (right && words.iter().all(|word| said.message.contains(word))).then_some(())
        });
    }

    /// Waits until the GatewayClass claims a feature.
    pub(crate) fn until_claimed(&self, feature: &str) {
        self.namespace().until(feature, "gatewayclass/chancery", |class| {
            let all = class["status"]["supportedFeatures"].as_array()?;
            all.iter().any(|one| one["name"] == feature).then_some(())
        });
    }

    /// A Pod of the echo server with more settings of its container; waits until it is ready.
    pub(crate) fn echo(&self, pod: &str, app: &str, container: &str) {
        self.apply(&echo(pod, app, container, ""));
        self.namespace().until_ready(pod);
    }

    /// A service that speaks TLS on port 443 with this certificate.
    pub(crate) fn secure(&self, name: &str, pair: &Pair) {
        self.apply(&objects::tls_secret(name, &pair.certificate, &pair.key));
        self.apply(&service(name, "{name: https, port: 443, targetPort: 8443}"));
        let environment =
            "{name: TLS_SERVER_CERT, value: /pair/tls.crt}, {name: TLS_SERVER_PRIVKEY, value: /pair/tls.key}";
        let container = format!(
            "env: [{{name: POD_NAME, value: {name}}}, {environment}], volumeMounts: [{{name: pair, mountPath: /pair}}], {}",
            ready(8443)
        );
        let of_pod = format!(", volumes: [{{name: pair, secret: {{secretName: {name}}}}}]");
        self.apply(&echo(name, name, &container, &of_pod));
        self.namespace().until_ready(name);
    }
}

/// A Service with a port for the Pods of the app of its name.
pub(crate) fn service(name: &str, port: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{selector: {{app: {name}}}, ports: [{port}]}}\n"
    )
}

/// The settings of a container that says its Pod's name and answers HTTP.
pub(crate) fn http(pod: &str) -> String {
    format!("env: [{{name: POD_NAME, value: {pod}}}], {}", ready(3000))
}

/// Ready once it takes connections.
pub(crate) fn ready(port: u16) -> String {
    format!("readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 1}}")
}

fn echo(pod: &str, app: &str, container: &str, of_pod: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}, labels: {{app: {app}}}}}\nspec: {{containers: [{{name: main, image: \
         'registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0', {container}}}]{of_pod}}}\n"
    )
}

/// What a client gets.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// What the echo server says of the request.
    pub(crate) fn echo(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Which Pod answered.
    pub(crate) fn pod(&self) -> Option<String> {
        Some(self.echo()["pod"].as_str()?.to_owned())
    }

    /// The cookie that says to which endpoint its client comes back.
    pub(crate) fn cookie(&self) -> Option<String> {
        let mut set = self.head.lines().filter_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        set.find(|cookie| !cookie.contains("-backend=")).map(str::to_owned)
    }
}

/// Does something in the lab's network.
pub(crate) fn inside<T: Send>(state: &Path, deed: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let within = scope.spawn(|| {
            enter(state);
            deed()
        });
        within.join().unwrap()
    })
}

/// A request over a fresh connection.
pub(crate) fn exchange(to: SocketAddr, path: &str, more: &str) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&to, CONNECTED).context("connecting")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).context("writing")?;
    let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
    // a proxy may put off the end of a connection
    while !is_whole(&bytes) {
        let length = stream.read(&mut room).context("reading")?;
        anyhow::ensure!(length > 0, "the connection ended");
        bytes.extend(room.get(..length).unwrap_or_default());
    }
    let text = String::from_utf8(bytes)?;
    let (head, body) = text.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).context("an answer without a status")?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Whether an answer is there to its end. Proxies and echo servers say the length of all that they answer.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}
