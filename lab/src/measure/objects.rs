//! Objects of a measurement, and the API server's own count of what is written.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::enter;
use crate::place::Place;

/// The namespace of everything that is measured.
pub(super) const NAMESPACE: &str = "measured";

/// The Gateway.
pub(super) const GATEWAY: &str = "edge";

/// Requests that are under way together: more than the API server works on with two cores.
const AT_ONCE: usize = 16;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often the API server is asked for what has no watch.
const ASK: Duration = Duration::from_millis(20);

/// The lab's, from inside.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) place: Place,
}

/// A kind: group and version, its name, its plural.
pub(super) type Kind = (&'static str, &'static str, &'static str);
pub(super) const ROUTE: Kind = ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes");
pub(super) const GATEWAYS: Kind = ("gateway.networking.k8s.io/v1", "Gateway", "gateways");
pub(super) const SERVICE: Kind = ("v1", "Service", "services");
pub(super) const SLICE: Kind = ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices");
pub(super) const POD: Kind = ("v1", "Pod", "pods");
const NAMESPACES: Kind = ("v1", "Namespace", "namespaces");

impl Cluster {
    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (api_version, name, plural) = kind;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: name.to_owned(),
            plural: plural.to_owned(),
        };
        match kind {
            NAMESPACES => Api::all_with(self.client.clone(), &resource),
            _ => Api::namespaced_with(self.client.clone(), NAMESPACE, &resource),
        }
    }

    /// Makes an object of these fields.
    pub(super) async fn make(&self, kind: Kind, name: &str, fields: Value) -> anyhow::Result<()> {
        let mut object = json!({ "apiVersion": kind.0, "kind": kind.1, "metadata": { "name": name } });
        merge(&mut object, fields);
        let object: DynamicObject = serde_json::from_value(object)?;
        match self.api(kind).create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("making {} {name}", kind.1)),
        }
    }

    /// Makes many, as fast as the API server takes them.
    pub(super) async fn make_all(
        &self,
        kind: Kind,
        objects: impl IntoIterator<Item = (String, Value)>,
    ) -> anyhow::Result<()> {
        let made = stream::iter(objects).map(|(name, fields)| async move { self.make(kind, &name, fields).await });
        made.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Removes these, as fast as the API server takes it.
    pub(super) async fn remove_all(&self, kind: Kind, names: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        let api = self.api(kind);
        let api = &api;
        let gone =
            stream::iter(names).map(|name| async move { api.delete(&name, &DeleteParams::default()).await.map(drop) });
        Ok(gone.buffer_unordered(AT_ONCE).try_collect().await?)
    }

    /// Changes fields of an object.
    pub(super) async fn patch(&self, kind: Kind, name: &str, fields: Value) -> anyhow::Result<()> {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(fields)).await?;
        Ok(())
    }

    /// Waits until something of an object is found.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        (kind, name): (Kind, &str),
        find: impl Fn(&Value) -> Option<T>,
    ) -> anyhow::Result<T> {
        let (api, began) = (self.api(kind), Instant::now());
        loop {
            let object = api.get_opt(name).await?;
            if let Some(found) = object.and_then(|object| find(&object.data)) {
                return Ok(found);
            }
            ensure!(began.elapsed() < PATIENCE, "waited {} s for {what}", PATIENCE.as_secs());
            tokio::time::sleep(ASK).await;
        }
    }

    /// How often statuses of a kind have been written so far, as the API server counts it; refused writes too.
    pub(super) fn status_writes(&self, plural: &str) -> anyhow::Result<u64> {
        let text = self.kubectl(&["get", "--raw", "/metrics"])?;
        let of_kind = format!("resource=\"{plural}\"");
        let is_write = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && line.contains(&of_kind)
                && line.contains("subresource=\"status\"")
                && (line.contains("verb=\"PUT\"") || line.contains("verb=\"PATCH\""))
        };
        let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
        let sum: f64 = text.lines().filter(is_write).filter_map(count).sum();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        Ok(sum as u64)
    }

    /// Runs kubectl inside, and gives what it prints.
    pub(super) fn kubectl(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = enter::command(&self.place, "kubectl".into()).args(words).output().context("starting kubectl")?;
        if !output.status.success() {
            bail!("kubectl {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A Gateway in a namespace of its own, whose proxies are ready; gives its address.
    pub(super) async fn gateway(&self) -> anyhow::Result<String> {
        self.make(NAMESPACES, NAMESPACE, json!({})).await?;
        let listener = json!({ "name": "http", "protocol": "HTTP", "port": 80 });
        let spec = json!({ "gatewayClassName": "chancery", "listeners": [listener] });
        self.make(GATEWAYS, GATEWAY, json!({ "spec": spec })).await?;
        self.until("the Gateway", (GATEWAYS, GATEWAY), |gateway| {
            let conditions = gateway.pointer("/status/conditions")?.as_array()?;
            let programmed = conditions.iter().any(|one| one["type"] == "Programmed" && one["status"] == "True");
            gateway.pointer("/status/addresses/0/value")?.as_str().filter(|_| programmed).map(str::to_owned)
        })
        .await
    }

    /// A Pod that answers requests; gives its address.
    pub(super) async fn backend(&self, name: &str) -> anyhow::Result<String> {
        let container = json!({
            "name": "main",
            "image": "registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0",
            "env": [{ "name": "POD_NAME", "value": name }],
            "readinessProbe": { "tcpSocket": { "port": 3000 }, "periodSeconds": 1 },
        });
        self.make(POD, name, json!({ "spec": { "containers": [container] } })).await?;
        self.until("a backend", (POD, name), |pod| {
            let conditions = pod.pointer("/status/conditions")?.as_array()?;
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            pod.pointer("/status/podIP")?.as_str().filter(|_| ready).map(str::to_owned)
        })
        .await
    }
}

/// Adds fields to an object.
fn merge(object: &mut Value, fields: Value) {
    if let (Value::Object(object), Value::Object(fields)) = (object, fields) {
        object.extend(fields);
    }
}

/// Routes that share a host, as in the other benchmarks.
const ROUTES_PER_HOST: usize = 10;

/// What a route is for.
pub(super) struct At {
    pub(super) host: String,
    pub(super) path: String,
}

impl At {
    /// Of route number so and so.
    pub(super) fn number(number: usize) -> Self {
        Self { host: format!("host-{}.example", number / ROUTES_PER_HOST), path: format!("/route-{number}") }
    }
}

/// A route of the Gateway, to a service, which sets a header of the answer.
pub(super) fn route(At { host, path }: &At, service: &str, version: &str) -> Value {
    let header = json!({ "set": [{ "name": "x-version", "value": version }] });
    let filter = json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": header });
    let matches = json!([{ "path": { "type": "PathPrefix", "value": path } }]);
    let rule = json!({ "matches": matches, "filters": [filter], "backendRefs": [{ "name": service, "port": 80 }] });
    json!({ "spec": { "parentRefs": [{ "name": GATEWAY }], "hostnames": [host], "rules": [rule] } })
}

/// A Service without a selector, of which kube-proxy knows nothing, and its endpoints.
pub(super) fn service() -> Value {
    json!({ "spec": { "clusterIP": "None", "ports": [{ "name": "http", "port": 80 }] } })
}

/// An endpoint at this address.
pub(super) fn slice(service: &str, address: &str) -> Value {
    json!({
        "metadata": { "name": service, "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 3000 }],
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
    })
}
