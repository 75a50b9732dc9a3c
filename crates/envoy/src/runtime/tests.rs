//! Runtime values by Envoy's keys.

use ir::Runtime;

use super::runtime;
use crate::testing::{expect, json};

#[test]
fn limits_of_clusters() {
    let values = Runtime { max_connections: [("default/edge/53/udp".into(), 100), ("a/b/1/udp".into(), 2)].into() };
    let encoded = runtime(&values);
    assert_eq!((&*encoded.name, encoded.needs.len()), ("chancery.limits", 0));
    let message = json(&encoded);
    expect(
        &message,
        "
name: chancery.limits
layer:
  circuit_breakers.a/b/1/udp.default.max_connections: 2
  circuit_breakers.default/edge/53/udp.default.max_connections: 100
",
    );
}
