//! What passes connections on.

use ir::TcpProxy;
use ir::route::Backend;
use ir::tcp::TcpDestination;

use super::tcp_proxy;
use crate::listener::Options;
use crate::testing::{expect, json};

fn proxy(destinations: &[(Backend, u32)]) -> TcpProxy {
    let destinations =
        destinations.iter().map(|(backend, weight)| TcpDestination { backend: backend.clone(), weight: *weight });
    TcpProxy { name: "ns/gw/9000".into(), route: "TCPRoute/ns/a".into(), destinations: destinations.collect() }
}

fn to(cluster: &str) -> Backend {
    Backend::Cluster(cluster.into())
}

#[test]
fn one_backend_is_the_cluster_of_every_connection() {
    let encoded = tcp_proxy(&proxy(&[(to("a"), 3), (to("b"), 0)]), &Options::default());
    expect(
        &json(&encoded),
        "
name: ns/gw/9000
typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, statPrefix: tcp, cluster: a, maxConnectAttempts: 3}
",
    );
}

#[test]
fn several_share_by_weight_and_the_broken_one_is_a_cluster_that_there_is_not() {
    let encoded = tcp_proxy(&proxy(&[(to("a"), 3), (Backend::Broken("no".into()), 1)]), &Options::default());
    expect(
        &json(&encoded)["typedConfig"]["weightedClusters"],
        "clusters: [{name: a, weight: 3}, {name: chancery.invalid, weight: 1}]",
    );
    let needs: Vec<_> = encoded.needs.iter().map(|need| need.name.to_string()).collect();
    assert_eq!(needs, ["a"], "nobody waits for what there never is");
}
