//! Services, load balancers and names are those of a real cluster.

use crate::harness::{Namespace, shell};
use tests::wait;

const ECHO: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      containers:
      - name: echo
        image: registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {type: LoadBalancer, selector: {app: echo}, ports: [{port: 80, targetPort: 3000}]}
";

#[test]
fn echo_pods_answer_through_their_service_their_balancer_and_its_name() {
    let namespace = Namespace::make("echo");
    namespace.apply(ECHO);
    let balancer = namespace.until("an address", "service/echo", |service| {
        Some(service.pointer("/status/loadBalancer/ingress/0/ip")?.as_str()?.to_owned())
    });
    assert!(balancer.starts_with("198.18.0."), "{balancer}");
    let service = namespace.get("service/echo").unwrap()["spec"]["clusterIP"].as_str().unwrap().to_owned();
    for address in [balancer, service] {
        let url = format!("http://{address}/where");
        let pods = || {
            let answers = (0..10).filter_map(|_| namespace.lab.exec(&["curl", "-sS", "--max-time", "2", &url]));
            let mut pods: Vec<String> = answers.filter_map(|answer| pod_of(&answer)).collect();
            pods.sort();
            pods.dedup();
            (pods.len() == 2).then_some(())
        };
        wait::until(&format!("both pods at {address}"), pods).unwrap();
    }
    let script = "exec curl -sS --max-time 5 --retry 5 --retry-all-errors http://echo.echo.svc.cluster.local/";
    namespace.shell("caller", script, "restartPolicy: Never", "");
    namespace.until_phase("caller", "Succeeded");
    assert!(pod_of(&namespace.logs("caller", &[])).is_some());
}

/// Which pod answered.
fn pod_of(answer: &str) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_str(answer).ok()?;
    Some(answer["pod"].as_str()?.to_owned())
}

#[test]
fn only_ready_pods_are_endpoints() {
    let namespace = Namespace::make("endpoints");
    let probe = "readinessProbe: {periodSeconds: 1, exec: {command: [test, -e, /tmp/ready]}}";
    namespace.apply(&shell("web", "exec sleep 1000", "", probe));
    namespace.apply(
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}",
    );
    let ready = |wanted: bool| {
        let selector = "--selector=kubernetes.io/service-name=web";
        let path = "--output=jsonpath={.items[*].endpoints[*].conditions.ready}";
        let said =
            || (namespace.try_run(&["get", "endpointslices", selector, path])? == wanted.to_string()).then_some(());
        wait::until(&format!("an endpoint whose readiness is {wanted}"), said).unwrap();
    };
    ready(false);
    namespace.until_event("web", "Unhealthy", "Readiness probe failed");
    namespace.enter("web", &["touch", "/tmp/ready"]).unwrap();
    ready(true);
    namespace.enter("web", &["rm", "/tmp/ready"]).unwrap();
    ready(false);
}

#[test]
fn balancers_get_the_address_that_they_ask_for_or_none() {
    let namespace = Namespace::make("balancers");
    let balancer = |name: &str, rest: &str| {
        let spec = format!("{{type: LoadBalancer, ports: [{{port: 80}}], {rest}}}");
        namespace.apply(&format!("{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {spec}}}"));
    };
    let address = |name: &str| {
        let service = namespace.get(&format!("service/{name}")).unwrap();
        service.pointer("/status/loadBalancer/ingress/0/ip").map(|ip| ip.as_str().unwrap().to_owned())
    };
    balancer("outside", "loadBalancerIP: 192.0.2.1");
    balancer("class", "loadBalancerClass: example.com/other");
    balancer("asks", "loadBalancerIP: 198.18.0.200");
    wait::until("the address", || (address("asks")? == "198.18.0.200").then_some(())).unwrap();
    assert_eq!((address("outside"), address("class")), (None, None));
    // released with the Service that had it
    balancer("waits", "loadBalancerIP: 198.18.0.200");
    namespace.run(&["delete", "service", "asks"]);
    wait::until("the address of another", || (address("waits")? == "198.18.0.200").then_some(())).unwrap();
}

#[test]
fn envoy_runs_as_a_pod_of_its_image() {
    let namespace = Namespace::make("envoy");
    namespace.apply(ENVOY);
    namespace.until_ready("envoy");
    let answer = namespace.enter("envoy", &["curl", "-sS", "http://127.0.0.1:10080/"]);
    assert_eq!(answer.as_deref(), Some("hello"));
    // its access log is /dev/stdout, opened by a user that is not root
    wait::until("the access log", || namespace.logs("envoy", &[]).contains("GET / 200").then_some(())).unwrap();
}

const ENVOY: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: envoy}
data:
  envoy.yaml: |
    admin: {address: {socket_address: {address: 0.0.0.0, port_value: 19000}}}
    static_resources:
      listeners:
      - address: {socket_address: {address: 0.0.0.0, port_value: 10080}}
        filter_chains:
        - filters:
          - name: http
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
              stat_prefix: http
              access_log:
              - name: file
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
                  path: /dev/stdout
                  log_format: {text_format_source: {inline_string: "%REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE%\n"}}
              http_filters:
              - name: router
                typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
              route_config:
                virtual_hosts:
                - {name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: hello}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: envoy}
spec:
  securityContext: {runAsNonRoot: true}
  containers:
  - name: envoy
    image: docker.io/envoyproxy/envoy:distroless-v1.40.0
    args: [-c, /conf/envoy.yaml, --concurrency, "1", --base-id, "0"]
    readinessProbe: {periodSeconds: 1, httpGet: {path: /ready, port: 19000}}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
    volumeMounts: [{name: conf, mountPath: /conf}]
  volumes: [{name: conf, configMap: {name: envoy}}]
"#;
