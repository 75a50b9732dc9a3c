//! Any bytes as the path of a socket with where it leads, and as an address with a port: nothing that leads to Chancery is taken.

use std::net::{IpAddr, Ipv6Addr};

use translator::fuzzing::takes_socket;
use translator::{ClosedAddresses, OwnPlaces};

/// Runs an input: a path, its target behind a zero, and an address in the last 18 bytes.
pub fn run(data: &[u8]) {
    let places = OwnPlaces {
        folders: vec!["/state".into()],
        addresses: ClosedAddresses {
            listeners: ["0.0.0.0:18000", "[::1]:18001"].into_iter().filter_map(|text| text.parse().ok()).collect(),
            machine: [IpAddr::from([10, 0, 0, 7])].into(),
            ..ClosedAddresses::default()
        },
        ..OwnPlaces::default()
    };
    let mut parts = data.splitn(2, |byte| *byte == 0).map(String::from_utf8_lossy);
    let (path, leads) = (parts.next().unwrap_or_default(), parts.next());
    if takes_socket(&places, &path, leads.as_deref()) {
        let leads = leads.unwrap_or_else(|| panic!("{path:?} is taken without a target"));
        for path in [&path, &leads] {
            assert!(path.starts_with('/') && path.len() <= 107 && !path.contains('\0'), "{path:?}");
            let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            assert!(!parts.iter().any(|part| [".", ".."].contains(part)), "{path:?}");
            let first = parts.first().copied().unwrap_or_default();
            assert!(!["proc", "sys", "dev", "state"].contains(&first), "{path:?}");
        }
    }
    let Some((address, port)) = data.last_chunk::<18>().and_then(|bytes| bytes.split_first_chunk::<16>()) else {
        return;
    };
    let address = IpAddr::from(Ipv6Addr::from(*address));
    let port = port.iter().fold(0, |port, byte| port << 8 | u16::from(*byte));
    let canonical = address.to_canonical();
    let is_here = canonical.is_loopback() || canonical.is_unspecified() || canonical == IpAddr::from([10, 0, 0, 7]);
    assert_eq!(places.is_own(address, 18_000), is_here, "{address}");
    assert!(!places.is_own(address, port) || [18_000, 18_001].contains(&port), "{address} port {port}");
}
