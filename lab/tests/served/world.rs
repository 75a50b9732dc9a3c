//! A namespace with a service, for Gateways and routes; and a neighbour that nothing may disturb.

use std::sync::Arc;

use serde_json::Value;
use tests::wait;

use crate::cluster::served;
use crate::harness::{Lab, Namespace};

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: cart}
spec: {selector: {app: cart}, ports: [{port: 80, targetPort: 3000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cart, labels: {app: cart}}
spec:
  containers:
  - name: cart
    image: registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0
    env: [{name: POD_NAME, value: cart}]
    readinessProbe: {tcpSocket: {port: 3000}, periodSeconds: 1}
";

/// A listener as one line of YAML.
pub(crate) const HTTP: &str = "{name: http, protocol: HTTP, port: 80}";

/// What a condition says: its status, its reason, its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A namespace of a test.
pub(crate) struct World {
    pub(crate) namespace: Namespace,
}

impl World {
    /// Makes it, with a service `cart`.
    pub(crate) fn make(name: &'static str) -> Self {
        Self::made_in(served(), name)
    }

    /// The same in a lab.
    pub(crate) fn made_in(lab: Arc<Lab>, name: &'static str) -> Self {
        let namespace = Namespace::make_in(lab, name);
        namespace.apply(SERVICE);
        Self { namespace }
    }

    /// One in which a Gateway `edge` with a route answers.
    pub(crate) fn serving(name: &'static str) -> Self {
        let world = Self::make(name);
        world.gateway("edge", &[HTTP], "");
        world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
        world.until_answered("edge", "/");
        world.until_said("gateway/edge", "", ("Programmed", "True", "Programmed"), &[]);
        for kind in ["Accepted", "ResolvedRefs"] {
            world.until_said("httproute/edge", "/parents/0", (kind, "True", kind), &[]);
        }
        world
    }

    /// A Gateway with these listeners and more of its spec, as lines of YAML.
    pub(crate) fn gateway(&self, name: &str, listeners: &[&str], more: &str) {
        self.namespace.apply(&gateway(name, listeners, more));
    }

    /// A route of a Gateway.
    pub(crate) fn route(&self, name: &str, gateway: &str, rules: &str) {
        self.namespace.apply(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\nspec: {{parentRefs: [{{name: {gateway}}}], rules: {rules}}}\n"
        ));
    }

    /// Waits until a condition of an object (or of a part of its status, by JSON pointer) says this, with these words.
    pub(crate) fn until_said(
        &self,
        object: &str,
        part: &str,
        (kind, status, reason): (&str, &str, &str),
        words: &[&str],
    ) {
        self.namespace.until(&format!("{kind}: {status}/{reason} with {words:?}"), object, |object| {
            let said = said(object, part, kind)?;
            let right = said.status == status && said.reason == reason;
            (right && words.iter().all(|word| said.message.contains(word))).then_some(())
        });
    }

    /// What a Gateway answers on port 80.
    pub(crate) fn ask(&self, gateway: &str, path: &str) -> Option<String> {
        let gateway = self.namespace.get(&format!("gateway/{gateway}"))?;
        let address = gateway.pointer("/status/addresses/0/value")?.as_str()?.to_owned();
        let url = format!("http://{address}{path}");
        self.namespace.lab.exec(&["curl", "--silent", "--max-time", "15", "--write-out", "%{http_code}", &url])
    }

    pub(crate) fn until_answered(&self, gateway: &str, path: &str) {
        wait::until(&format!("an answer of {gateway} at {path}"), || {
            let answer = self.ask(gateway, path)?;
            (answer.ends_with("200") && answer.contains("\"pod\": \"cart\"")).then_some(())
        })
        .unwrap();
    }

    /// That the Gateway `edge` still answers, and that its statuses have not been written since `before`.
    pub(crate) fn assert_undisturbed(&self, before: &[Value]) {
        assert!(self.ask("edge", "/").unwrap().ends_with("200"));
        assert_eq!(self.statuses(), before);
    }

    /// Statuses of the Gateway `edge` and its route.
    pub(crate) fn statuses(&self) -> Vec<Value> {
        ["gateway/edge", "httproute/edge"].map(|object| self.namespace.get(object).unwrap()["status"].clone()).into()
    }
}

/// A Gateway with these listeners and more of its spec, as lines of YAML.
pub(crate) fn gateway(name: &str, listeners: &[&str], more: &str) -> String {
    let listeners: String = listeners.iter().map(|listener| format!("  - {listener}\n")).collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}}}\nspec:\n  gatewayClassName: chancery\n  listeners:\n{listeners}{more}"
    )
}

/// What a condition of an object says, or of a part of its status.
pub(crate) fn said(object: &Value, part: &str, kind: &str) -> Option<Said> {
    let conditions = object["status"].pointer(part)?["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    let word = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some(Said { status: word("status"), reason: word("reason"), message: word("message") })
}

/// The definition of the Multi-Cluster Services API, as far as it is needed here.
pub(crate) const SERVICE_IMPORTS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: serviceimports.multicluster.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {kind: ServiceImport, plural: serviceimports, singular: serviceimport}
  versions:
  - {name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";
