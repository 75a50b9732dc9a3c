//! Two namespaces, three applications, ten Pods. What all Envoys of a namespace have comes from one kustomization with an overlay for each namespace; what
//! an application has of its own is applied by kubectl.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tempfile::TempDir;
use tests::wait;

use crate::asking;
use crate::cluster::{SYSTEM, served};
use crate::harness::Namespace;

/// Applications with their namespaces and how many Pods each has.
pub(crate) const APPLICATIONS: [(&str, &str, usize); 3] =
    [("shop", "cart", 4), ("shop", "catalog", 3), ("blog", "wiki", 3)];

/// Requests come to Envoy, which hands them to the application in its Pod.
const APPLICATION: &str = "
apiVersion: v1
kind: Service
metadata: {name: APP}
spec: {selector: {app: APP}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: APP}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: APP}}
  template:
    metadata: {labels: {app: APP}}
    spec:
      containers:
      - name: APP
        image: registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      - name: envoy
        image: envoyproxy/envoy:v1.40.0
        args: [--config-path, /etc/chancery/bootstrap.json, --service-node, $(POD_NAME).$(POD_NAMESPACE), --concurrency, '1']
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        readinessProbe: {httpGet: {path: /ready, port: 19003}, periodSeconds: 1}
        volumeMounts:
        - {name: chancery, mountPath: /etc/chancery}
        - {name: token, mountPath: /var/run/secrets/chancery}
      volumes:
      - {name: chancery, configMap: {name: chancery-sidecar}}
      - {name: token, projected: {sources: [{serviceAccountToken: {path: token, audience: chancery, expirationSeconds: 3600}}]}}
";

/// For every Envoy of a namespace.
const BASE: &str = r#"
apiVersion: bootes.io/v1
kind: Listener
metadata: {name: web}
spec:
  config:
    name: web
    address: {socket_address: {address: 0.0.0.0, port_value: 8080}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          rds: {route_config_name: web, config_source: {ads: {}, resource_api_version: V3}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
---
apiVersion: bootes.io/v1
kind: Cluster
metadata: {name: local}
spec:
  config:
    name: local
    connect_timeout: 1s
    load_assignment:
      cluster_name: local
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 3000}}}}]}]
"#;

const OVERLAY: &str = r#"
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: NAMESPACE
resources: [../base]
patches:
- patch: '[{"op": "replace", "path": "/spec/config/connect_timeout", "value": "TIMEOUT"}]'
  target: {kind: Cluster}
"#;

/// What an application has of its own: a route whose virtual host has its name.
const ROUTE: &str = r#"
apiVersion: bootes.io/v1
kind: Route
metadata: {name: NAME}
spec:
  workloadSelector: {labels: {app: NAME}}
  config:
    name: web
    virtual_hosts:
    - name: NAME
      domains: ["*"]
      routes: [{match: {prefix: /}, route: {cluster: local, timeout: TIMEOUT}}]
"#;

/// Names of what an Envoy has: listeners, clusters, virtual hosts.
pub(crate) type Has = BTreeMap<&'static str, BTreeSet<String>>;

/// The turn of one test.
pub(crate) struct Town {
    pub(crate) shop: Namespace,
    pub(crate) blog: Namespace,
    pub(crate) system: Namespace,
    _turn: MutexGuard<'static, ()>,
}

impl Town {
    /// Waits for its turn, and until everything is as it shall be.
    pub(crate) fn open() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = served();
        let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
        let (shop, blog) = (Namespace::make_in(Arc::clone(&lab), "shop"), Namespace::make_in(lab, "blog"));
        let town = Self { shop, blog, system, _turn: turn };
        let folder = kustomization();
        for namespace in ["shop", "blog"] {
            let overlay = folder.path().join(namespace);
            town.namespace(namespace).run(&["apply", "--kustomize", overlay.to_str().unwrap()]);
        }
        for (namespace, name, replicas) in APPLICATIONS {
            let namespace = town.namespace(namespace);
            namespace.apply(&APPLICATION.replace("APP", name).replace("REPLICAS", &replicas.to_string()));
            namespace.apply(&route(name, "15s"));
        }
        for (namespace, name, _) in APPLICATIONS {
            town.namespace(namespace).run(&["rollout", "status", &format!("deployment/{name}"), "--timeout=300s"]);
            let url = format!("http://{}/", town.address(namespace, name));
            let ask = || town.system.lab.exec(&["curl", "--silent", "--fail", "--max-time", "5", &url]);
            wait::until(&format!("an answer of {name}"), ask).unwrap();
        }
        town
    }

    pub(crate) fn namespace(&self, name: &str) -> &Namespace {
        if name == "shop" { &self.shop } else { &self.blog }
    }

    /// Names of an application's Pods.
    pub(crate) fn pods(&self, namespace: &str, selector: &str) -> Vec<String> {
        let text = self.namespace(namespace).run(&["get", "pods", "--selector", selector, "--output=json"]);
        let list: Value = serde_json::from_str(&text).unwrap();
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    /// What the Envoy of a Pod has.
    pub(crate) fn has(&self, namespace: &str, pod: &str) -> Option<Has> {
        let dump = self.namespace(namespace).enter(pod, &["curl", "--silent", "http://127.0.0.1:19000/config_dump"])?;
        let dump: Value = serde_json::from_str(&dump).ok()?;
        let configs = || dump["configs"].as_array().into_iter().flatten();
        let list = |field: &'static str| configs().filter_map(move |config| config[field].as_array()).flatten();
        let texts =
            |values: Vec<&Value>| values.into_iter().filter_map(|value| Some(value.as_str()?.to_owned())).collect();
        let listeners =
            list("dynamic_listeners").filter(|one| one.get("active_state").is_some()).map(|one| &one["name"]);
        let clusters = list("dynamic_active_clusters").map(|one| &one["cluster"]["name"]);
        let routes = list("dynamic_route_configs").filter_map(|one| one["route_config"]["virtual_hosts"].as_array());
        let hosts = routes.flatten().map(|host| &host["name"]);
        Some(Has::from([
            ("listeners", texts(listeners.collect())),
            ("clusters", texts(clusters.collect())),
            ("hosts", texts(hosts.collect())),
        ]))
    }

    /// Waits until the Envoy of a Pod has exactly this.
    pub(crate) fn until_has(&self, namespace: &str, pod: &str, wanted: &Has) {
        let mut last = None;
        let found = wait::until("what it shall have", || {
            last = self.has(namespace, pod);
            (last.as_ref()? == wanted).then_some(())
        });
        found.unwrap_or_else(|error| panic!("{error}: {namespace}/{pod} has {last:?}, wanted {wanted:?}"));
    }

    /// Waits until a condition says this, with these words.
    pub(crate) fn until_said(&self, namespace: &str, object: &str, (kind, reason): (&str, &str), words: &str) {
        self.namespace(namespace).until(&format!("{kind}/{reason} with {words}"), object, |object| {
            let conditions = object.pointer("/status/conditions")?.as_array()?;
            let found = conditions.iter().find(|one| one["type"] == kind)?;
            let current = found["observedGeneration"] == object["metadata"]["generation"];
            let right = found["reason"] == reason && found["message"].as_str()?.contains(words);
            (right && current).then_some(())
        });
    }

    /// Does something while clients ask every application. No answer may be wrong.
    pub(crate) fn under_load(&self, deed: impl FnOnce()) {
        let state = self.system.lab.state();
        let [cart, catalog, wiki] = APPLICATIONS.map(|(namespace, name, _)| self.address(namespace, name));
        under(&state, cart, "cart", || under(&state, catalog, "catalog", || under(&state, wiki, "wiki", deed)));
    }

    fn address(&self, namespace: &str, name: &str) -> SocketAddr {
        let service = self.namespace(namespace).get(&format!("service/{name}")).unwrap();
        format!("{}:80", service["spec"]["clusterIP"].as_str().unwrap()).parse().unwrap()
    }
}

fn under(state: &Path, address: SocketAddr, name: &str, deed: impl FnOnce()) {
    asking::under(state, address, &[("/", &[name])], deed);
}

/// A base, and an overlay for each namespace.
fn kustomization() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("base/web.yaml", BASE);
    let base = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [web.yaml]\n";
    write("base/kustomization.yaml", base);
    for (namespace, timeout) in [("shop", "1s"), ("blog", "2s")] {
        let overlay = OVERLAY.replace("NAMESPACE", namespace).replace("TIMEOUT", timeout);
        write(&format!("{namespace}/kustomization.yaml"), &overlay);
    }
    folder
}

/// What an application has of its own.
pub(crate) fn route(name: &str, timeout: &str) -> String {
    ROUTE.replace("NAME", name).replace("TIMEOUT", timeout)
}

/// What an Envoy has with this virtual host, and with more clusters than it needs.
pub(crate) fn has(host: &str, more: &[&str]) -> Has {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let clusters = [&["local"], more].concat();
    Has::from([("listeners", set(&["web"])), ("clusters", set(&clusters)), ("hosts", set(&[host]))])
}
