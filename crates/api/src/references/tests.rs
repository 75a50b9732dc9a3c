//! References of single objects. That nothing is missing is shown over the golden corpus.

use std::sync::Arc;

fn references(text: &str) -> Vec<String> {
    let file: Arc<str> = "f.yaml".into();
    let document = crate::yaml::documents(text).next().unwrap();
    let decoded = crate::read(&document, &file);
    decoded.object().unwrap().references().iter().map(ToString::to_string).collect()
}

#[test]
fn a_gateway_names_its_class_certificates_and_bundles() {
    let text = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: edge}
spec:
  gatewayClassName: main
  listeners:
  - {name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: own}, {name: far, namespace: certs}, {name: own}]}}
  - {name: b, port: 444, protocol: HTTPS, tls: {certificateRefs: [{group: x.y, kind: Vault, name: foreign}]}}
  tls:
    backend: {clientCertificateRef: {name: client}}
    frontend:
      default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}
      perPort:
      - {port: 444, tls: {validation: {caCertificateRefs: [{group: '', kind: Secret, name: ca}]}}}
";
    assert_eq!(
        references(text),
        [
            "GatewayClass main",
            "Secret certs/far",
            "ConfigMap edge/ca",
            "Secret edge/ca",
            "Secret edge/client",
            "Secret edge/own",
        ]
    );
}

#[test]
fn a_backend_names_its_bundle_and_its_client_certificate() {
    let text = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: pay, namespace: shop}
spec:
  endpoints: [{fqdn: {hostname: pay.example, port: 443}}]
  tls:
    caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]
    clientCertificateRef: {name: client}
";
    assert_eq!(references(text), ["ConfigMap shop/ca", "Secret shop/client"]);
}

#[test]
fn an_object_without_references_names_nothing() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
    assert_eq!(references(text), <[&str; 0]>::default());
}

#[test]
fn what_is_for_workloads_names_all_pods_of_its_namespace() {
    let text = "
apiVersion: chancery.io/v1alpha1
kind: EnvoySecret
metadata: {name: web, namespace: edge}
spec: {config: {name: t}, secretRef: {name: far, namespace: certs}}
";
    assert_eq!(references(text), ["Secret certs/far", "Pod edge/"]);
    let grant = "
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: web, namespace: edge}
spec:
  from: [{group: chancery.io, kind: EnvoyCluster, namespace: shop}]
  to: [{group: '', kind: KIND}]
";
    assert_eq!(references(&grant.replace("KIND", "Pod")), ["Pod edge/"]);
    assert_eq!(references(&grant.replace("KIND", "Secret")), [""; 0]);
}
