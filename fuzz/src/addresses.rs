//! Any address in any spelling: a raw resource with it is refused if and only if the address is closed, and no name of a `Backend` leads there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ir::ClosedAddresses;
use ir::raw::RawRules;
use serde_json::{Value as Json, json};
use translator::OwnPlaces;
use translator::fuzzing::takes_host;

/// One input: an address (16 bytes; the last four of it for one of IPv4), a port, and how it is spelled.
pub fn run(data: &[u8]) {
    let Some((address, rest)) = data.split_first_chunk::<16>() else { return };
    let Some((port, style)) = rest.split_first_chunk::<2>() else { return };
    let [high, low] = port.map(u16::from);
    let port = high << 8 | low;
    let long = Ipv6Addr::from(*address);
    let [.., a, b, c, d] = *address;
    let short = Ipv4Addr::new(a, b, c, d);
    let style = |at: usize| style.get(at).copied().unwrap_or_default();
    let (meant, text) = if style(0) & 1 == 0 {
        (IpAddr::from(long), spelled_long(long, style(1)))
    } else {
        (IpAddr::from(short), spelled_short(short, [style(1), style(2), style(3)]))
    };
    let closed = ClosedAddresses {
        listeners: ["0.0.0.0:18000", "[::1]:18001"].into_iter().filter_map(|text| text.parse().ok()).collect(),
        machine: [IpAddr::from([10, 0, 0, 7])].into(),
        link_local: false,
        ..ClosedAddresses::default()
    };
    let is_closed = closed.is_own(meant, port) || closed.refuses(meant).is_some();
    let link_local = short.is_link_local() && meant.is_ipv4();
    assert!(!link_local || is_closed, "{meant} is link-local");
    let rules = RawRules { closed: closed.clone().into(), here: true, ..RawRules::default() };
    for (message, config) in resources(&text, port) {
        let reading = envoy::read_raw(message, &config, true);
        let refused = reading.resource.as_ref().map(|resource| !rules.refuse(resource, || None).is_empty());
        // A resource that cannot be read at all is refused as well; the admin interface has a port of its own.
        let is_admin = [19_000, 19_004].contains(&port);
        assert!(
            refused.is_none_or(|refused| refused == is_closed || is_admin && refused),
            "{text:?} port {port}: {message}"
        );
    }
    let places = OwnPlaces { addresses: closed, ..OwnPlaces::default() };
    assert!(!takes_host(&places, &text, port), "{text:?} is an address and no name");
}

/// Resources that lead to an address.
fn resources(text: &str, port: u16) -> [(&'static str, Json); 3] {
    let address = json!({"socket_address": {"address": text, "port_value": port}});
    let endpoints = json!({"cluster_name": "c", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]});
    let host = if text.contains(':') && !text.starts_with('[') { format!("[{text}]") } else { text.to_owned() };
    let service = json!({"google_grpc": {"target_uri": format!("{host}:{port}"), "stat_prefix": "x"}});
    let log = json!({
        "@type": "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
        "common_config": {"log_name": "x", "grpc_service": service},
    });
    [
        ("envoy.config.endpoint.v3.ClusterLoadAssignment", endpoints.clone()),
        ("envoy.config.cluster.v3.Cluster", json!({"name": "c", "load_assignment": endpoints})),
        ("envoy.config.listener.v3.Listener", json!({"name": "l", "access_log": [{"name": "a", "typed_config": log}]})),
    ]
}

fn spelled_long(address: Ipv6Addr, style: u8) -> String {
    let groups = || address.segments().map(|group| format!("{group:04X}")).join(":");
    match style % 5 {
        0 => address.to_string(),
        1 => groups(),
        2 => format!("[{address}]"),
        3 => format!("{address}%eth0"),
        _ => format!("[{}]", groups()),
    }
}

/// One to four numbers, each in decimal, octal or hexadecimal digits.
fn spelled_short(address: Ipv4Addr, [count, bases, end]: [u8; 3]) -> String {
    let whole = u32::from(address);
    let count = u32::from(count % 4) + 1;
    let front = (1..count).map(|at| whole >> (32 - 8 * at) & 0xff);
    let last = if count == 1 { whole } else { whole & (u32::MAX >> (8 * (count - 1))) };
    let spelled = |(at, part): (usize, u32)| match bases >> (2 * at) & 3 {
        0 => format!("{part:#x}"),
        1 => format!("0{part:o}"),
        2 => format!("0X{part:08X}"),
        _ => part.to_string(),
    };
    let text = front.chain([last]).enumerate().map(spelled).collect::<Vec<_>>().join(".");
    if end & 1 == 0 { text } else { format!("{text}.") }
}
