//! How long the first object of each kind takes (its schema is loaded then): `cargo run --release -p api --example cold`.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use api::yaml;

/// The kinds whose schemas are largest.
const TEXT: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec: {parentRefs: [{name: g}], hostnames: [a.b], rules: [{backendRefs: [{name: s, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: a}
spec: {gatewayClassName: c, listeners: [{name: a, port: 80, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {ports: [{port: 80}]}
";

fn main() -> std::io::Result<()> {
    let file: Arc<str> = "a.yaml".into();
    for round in ["first", "second", "third"] {
        for document in yaml::documents(TEXT) {
            let began = Instant::now();
            let decoded = api::read(&document, &file);
            let took = began.elapsed();
            let key = decoded.object().map(|object| object.key().to_string()).unwrap_or_default();
            writeln!(std::io::stdout(), "{round}: {key} {took:?}, {} problems", decoded.problems.len())?;
        }
    }
    Ok(())
}
