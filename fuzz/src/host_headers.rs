//! Any bytes as `Host`, request URI and `Origin`: what is answered is loopback or configured, however it is spelled.

use std::net::{Ipv4Addr, Ipv6Addr};

use chancery::host_header::{AllowedHosts, Host};

/// Runs an input.
pub fn run(data: &[u8]) {
    // A byte that no header has parts the values.
    let mut parts = data.split(|byte| *byte == 0);
    let (host, uri, origin) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let uri = uri.and_then(|uri| std::str::from_utf8(uri).ok()).filter(|uri| !uri.is_empty());
    let configured = AllowedHosts("admin.example.com".parse().into_iter().collect());
    for answered in [&AllowedHosts::default(), &configured] {
        if answered.check([host], uri, origin).is_ok() {
            let text = std::str::from_utf8(host).unwrap();
            let (name, _) = Host::with_port(text).unwrap();
            assert!(is_loopback(text) || answered.0.contains(&name), "{text:?} is answered");
            assert!(
                uri.is_none_or(|uri| Host::with_port(uri).is_some_and(|(other, _)| other == name)),
                "{uri:?} is not {text:?}"
            );
            assert!(origin.is_none_or(|origin| origin.starts_with(b"http")), "{origin:?} is no site");
        }
    }
}

/// The same judgement, written otherwise.
fn is_loopback(text: &str) -> bool {
    let host = match text.strip_prefix('[') {
        Some(rest) => return rest.split(']').next().and_then(|host| host.parse().ok()) == Some(Ipv6Addr::LOCALHOST),
        None => text.split(':').next().unwrap_or_default(),
    };
    host.parse().is_ok_and(|address: Ipv4Addr| address.octets().first() == Some(&127))
        || host.to_ascii_lowercase().trim_end_matches('.') == "localhost"
}
