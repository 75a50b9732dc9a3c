//! What is disturbed: a Gateway with two proxies, and two services with rules each. The tests take turns with it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tests::prober::Allowed;
use tests::wait;

use crate::cluster::{self, SYSTEM};
use crate::conditions::Conditions;
use crate::harness::{Namespace, condition};
use crate::{load, scale};

/// Each path with the one service that may answer.
const RULES: [Allowed<'static>; 2] = [("/cart", &["cart"]), ("/", &["catalog"])];

/// How long a rollout may take: of two proxies, each drained for ten seconds, and of a hundred backends on two cores.
const ROLLOUT: &str = "--timeout=300s";

/// The proxies' settings; a number that changes what their Pods are.
const PROXIES: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: edge}
spec:
  concurrency: 1
  provider:
    type: Kubernetes
    kubernetes:
      envoyDeployment: {replicas: 2, pod: {annotations: {example.com/version: 'VERSION'}}}
";

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: chancery
  infrastructure: {parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: edge}}
  listeners:
  - {name: http, protocol: HTTP, port: 80}
";

/// Whoever ends waits until nobody sends it anything any more, as services in any cluster have to.
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: SERVICE}
spec: {selector: {app: SERVICE}, ports: [{port: 80, targetPort: 3000}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: SERVICE}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: SERVICE}}
  template:
    metadata: {labels: {app: SERVICE}}
    spec:
      containers:
      - name: SERVICE
        image: registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {tcpSocket: {port: 3000}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 5}}}
";

const FOLLOWED: &str = "
apiVersion: v1
kind: Service
metadata: {name: followed}
spec: {selector: {app: cart}, ports: [{port: 80, targetPort: 3000}]}
";

/// The turn of one test.
pub(crate) struct Shop {
    pub(crate) namespace: Namespace,
    pub(crate) system: Namespace,
    address: SocketAddr,
    _turn: MutexGuard<'static, ()>,
}

impl Shop {
    /// Waits for its turn, and until everything is as it shall be.
    pub(crate) fn open() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let lab = cluster::served();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let system = Namespace { lab: Arc::clone(&lab), name: SYSTEM };
        system.run(&["scale", "deployment/chancery", scale::CONTROL_PLANES]);
        let namespace = Namespace::make_in(lab, "shop");
        namespace.apply(&[proxies("1", 2).as_str(), GATEWAY].join("---"));
        for name in ["cart", "catalog"] {
            namespace.apply(&SERVICE.replace("SERVICE", name).replace("REPLICAS", "2"));
        }
        namespace.apply(&route("shop", &[("/cart", "cart"), ("/", "catalog")]));
        let address = namespace.until("an address", "gateway/edge", |gateway| {
            let address: IpAddr = gateway.pointer("/status/addresses/0/value")?.as_str()?.parse().ok()?;
            Some(SocketAddr::new(address, 80))
        });
        let shop = Self { namespace, system, address, _turn: turn };
        shop.until_proxies("1", 2);
        shop.until_well();
        for (path, service) in RULES {
            shop.until_answered(path, service[0]);
        }
        shop.until_counted();
        shop
    }

    /// Does something under load. No answer may be wrong, what is changed at the end has to arrive, and no status may become worse.
    pub(crate) fn under_load(&self, deed: impl FnOnce()) {
        let state = self.namespace.lab.state();
        let kubeconfig = self.namespace.lab.exec(&["kubectl", "config", "view", "--flatten", "--raw"]).unwrap();
        let conditions = Conditions::follow(&state, kubeconfig, "shop");
        load::under(&state, self.address, &RULES, || {
            deed();
            self.until_changes_arrive();
            self.until_well();
        });
        let version = |object: &str| {
            let found = self.namespace.get(object).unwrap();
            let word = |part: &str| found.pointer(part).and_then(Value::as_str).unwrap().to_owned();
            (
                format!("{} {}", word("/kind"), word("/metadata/name")),
                word("/metadata/resourceVersion").parse().unwrap(),
            )
        };
        let worse = conditions.worse(&["gateway/edge", "httproute/shop", "httproute/news"].map(version).into());
        drop(conditions);
        self.namespace.run(&["delete", "httproute", "news"]);
        self.until_counted();
        assert_eq!(worse, Vec::<String>::new());
    }

    /// The Gateway counts the routes that there are, and none that is gone.
    pub(crate) fn until_counted(&self) {
        self.namespace.until("the count of its routes", "gateway/edge", |gateway| {
            let routes = self.namespace.run(&["get", "httproutes", "--output=name"]).lines().count();
            let counted = gateway.pointer("/status/listeners/0/attachedRoutes")?.as_u64()?;
            (usize::try_from(counted) == Ok(routes)).then_some(())
        });
    }

    /// Rollouts are over, and the Gateway and its route say so.
    pub(crate) fn until_well(&self) {
        self.system.run(&["rollout", "status", "deployment/chancery", ROLLOUT]);
        for service in ["cart", "catalog"] {
            self.namespace.run(&["rollout", "status", &format!("deployment/{service}"), ROLLOUT]);
        }
        self.namespace.until("Programmed", "gateway/edge", |gateway| {
            let current = gateway["status"]["conditions"][0]["observedGeneration"] == gateway["metadata"]["generation"];
            (current && condition(gateway, "Programmed")? == "True").then_some(())
        });
        self.namespace.run(&["rollout", "status", &self.proxies(), ROLLOUT]);
        // who is replaced still answers for a while
        for namespace in [&self.namespace, &self.system] {
            let mut leaving = Vec::new();
            let end = wait::until("the end of those that were replaced", || {
                let pods = namespace.get("pods")?;
                leaving = pods["items"].as_array()?.iter().filter(|pod| !stays(pod)).cloned().collect();
                leaving.is_empty().then_some(())
            });
            end.unwrap_or_else(|error| panic!("{error}: {leaving:#?}"));
        }
    }

    /// The cluster itself follows the API server again. Controllers and kube-proxy, which leads clients away from proxies that end, wait for up
    /// to a minute before they ask one again that was away.
    pub(crate) fn until_followed(&self) {
        self.namespace.apply(FOLLOWED);
        let service = self.namespace.get("service/followed").unwrap();
        let url = format!("http://{}/", service["spec"]["clusterIP"].as_str().unwrap());
        let asked = || self.namespace.lab.exec(&["curl", "--silent", "--fail", "--max-time", "1", &url]);
        wait::until("kube-proxy", asked).unwrap();
        self.namespace.run(&["delete", "service", "followed"]);
    }

    /// Gives proxies so long to learn of a new authority.
    pub(crate) fn overlap(&self, time: &str) {
        let word = format!("--ca-overlap={time}");
        let deployment = self.system.get("deployment/chancery").unwrap();
        let arguments = deployment.pointer("/spec/template/spec/containers/0/args").unwrap().as_array().unwrap();
        if !arguments.contains(&word.as_str().into()) {
            let patch = json!([{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": word}]);
            self.system.run(&["patch", "deployment/chancery", "--type=json", "--patch", &patch.to_string()]);
            self.until_well();
        }
    }

    /// The Deployment of the proxies.
    pub(crate) fn proxies(&self) -> String {
        let selector = "--selector=gateway.networking.k8s.io/gateway-name=edge";
        wait::until("the Deployment of the proxies", || {
            let names = self.namespace.try_run(&["get", "deployment", selector, "--output=name"])?;
            names.lines().next().map(str::to_owned)
        })
        .unwrap()
    }

    /// Their Deployment is what these settings say.
    pub(crate) fn until_proxies(&self, version: &str, replicas: u32) {
        self.namespace.until("the settings of the proxies", &self.proxies(), |deployment| {
            let annotations = deployment.pointer("/spec/template/metadata/annotations")?;
            let current = annotations["example.com/version"] == version && deployment["spec"]["replicas"] == replicas;
            current.then_some(())
        });
    }

    /// Names of the proxies' Pods that run and are not about to end.
    pub(crate) fn proxy_pods(&self) -> Vec<String> {
        pods(&self.namespace, "gateway.networking.k8s.io/gateway-name=edge")
    }

    /// What is written now is served.
    fn until_changes_arrive(&self) {
        wait::until("the API server", || self.namespace.try_run(&["get", "namespace"])).unwrap();
        self.namespace.apply(&route("news", &[("/news", "cart")]));
        self.until_answered("/news", "cart");
        // by whoever leads now
        self.namespace.until("a status", "httproute/news", |route| {
            let conditions = route.pointer("/status/parents/0/conditions")?.as_array()?;
            conditions.iter().any(|one| one["type"] == "Accepted" && one["status"] == "True").then_some(())
        });
    }

    /// What answers at a path is a Pod of this service.
    pub(crate) fn until_answered(&self, path: &str, service: &str) {
        let of_it = format!("\"pod\": \"{service}-");
        let asked = || self.body(path).is_some_and(|body| body.contains(&of_it));
        // of either proxy
        wait::until(&format!("{service} at {path}"), || (0..8).all(|_| asked()).then_some(())).unwrap();
    }

    /// The answer at a path.
    pub(crate) fn body(&self, path: &str) -> Option<String> {
        let url = format!("http://{}{path}", self.address);
        self.namespace.lab.exec(&["curl", "--silent", "--max-time", "5", &url])
    }
}

/// Names of Pods with a label that are not about to end.
pub(crate) fn pods(namespace: &Namespace, selector: &str) -> Vec<String> {
    let text = namespace.run(&["get", "pods", "--selector", selector, "--output=json"]);
    let list: Value = serde_json::from_str(&text).unwrap();
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().filter(|pod| stays(pod)).map(name).collect()
}

fn stays(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_none()
}

/// The settings of so many proxies, whose Pods are of this version.
pub(crate) fn proxies(version: &str, replicas: u32) -> String {
    PROXIES.replace("VERSION", version).replace("replicas: 2", &format!("replicas: {replicas}"))
}

/// The Gateway with further listeners, one line of YAML each.
pub(crate) fn gateway(listeners: &[String]) -> String {
    let more = listeners.iter().map(|listener| format!("  - {listener}\n"));
    more.fold(GATEWAY.to_owned(), |text, line| text + &line)
}

/// A route of the Gateway with these rules: prefix and service.
pub(crate) fn route(name: &str, rules: &[(&str, &str)]) -> String {
    let rules: Vec<String> = rules
        .iter()
        .map(|(prefix, service)| {
            format!("{{matches: [{{path: {{type: PathPrefix, value: {prefix}}}}}], backendRefs: [{{name: {service}, port: 80}}]}}")
        })
        .collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\nspec: {{parentRefs: [{{name: edge}}], rules: [{}]}}\n",
        rules.join(", ")
    )
}
