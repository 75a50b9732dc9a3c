//! Objects as YAML text, as short as a test wants them.

/// A Gateway `edge` with one HTTP listener.
pub fn gateway(port: u16) -> String {
    listeners(&format!("  - name: http\n    protocol: HTTP\n    port: {port}\n"))
}

/// A Gateway `edge` with these listeners (indented by two).
pub fn listeners(listeners: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: edge\nspec:\n  gatewayClassName: chancery\n  \
         listeners:\n{listeners}"
    )
}

/// A Service on port 80 with one endpoint on loopback.
pub fn service(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  ports:\n  - name: http\n    port: 80\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}-1\n  labels:\n    \
         kubernetes.io/service-name: {name}\naddressType: IPv4\nports:\n- name: http\n  port: {port}\nendpoints:\n\
         - addresses: [\"127.0.0.1\"]\n"
    )
}

/// An HTTPRoute on the Gateway `edge` with these rules (prefix, service), in order.
pub fn route(name: &str, rules: &[(&str, &str)]) -> String {
    let rules: String = rules
        .iter()
        .map(|(prefix, service)| {
            format!("  - matches:\n    - path:\n        value: {prefix}\n    backendRefs:\n    - name: {service}\n      port: 80\n")
        })
        .collect();
    ruled(name, &format!("  rules:\n{rules}"))
}

/// An HTTPRoute on the Gateway `edge` with this text (indented by two) behind its parents.
pub fn ruled(name: &str, rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: {name}\nspec:\n  parentRefs:\n  - name: \
         edge\n{rules}"
    )
}

/// The same route of a Gateway on this `ListenerSet` instead.
pub fn on_set(route: &str, set: &str) -> String {
    let parent = format!("- group: gateway.networking.k8s.io\n    kind: ListenerSet\n    name: {set}\n");
    route.replacen("- name: edge\n", &parent, 1)
}

/// A `ConfigMap` with certificates to trust; further entries of its `data` may follow.
pub fn ca_config_map(name: &str, certificates: &str) -> String {
    let lines: String = certificates.lines().map(|line| format!("    {line}\n")).collect();
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  ca.crt: |\n{lines}")
}

/// A `ClusterTrustBundle` with certificates to trust.
pub fn trust_bundle(name: &str, certificates: &str) -> String {
    let lines: String = certificates.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "apiVersion: certificates.k8s.io/v1\nkind: ClusterTrustBundle\nmetadata: {{name: \"{name}\"}}\nspec:\n  trustBundle: |\n{lines}"
    )
}

/// A TLS Secret of base64 text.
pub fn tls_secret(name: &str, certificate: &str, key: &str) -> String {
    let (certificate, key) =
        (crate::certificate::base64(certificate.as_bytes()), crate::certificate::base64(key.as_bytes()));
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\ntype: kubernetes.io/tls\ndata:\n  tls.crt: {certificate}\n  \
         tls.key: {key}\n"
    )
}

/// Several documents in one text.
pub fn documents<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    parts.into_iter().collect::<Vec<_>>().join("---\n")
}
