//! Spellings of hosts.

use proptest::prelude::*;

use super::*;

fn check(host: &[&str], uri: Option<&str>, origin: &[&str]) -> Result<(), HostRefusal> {
    let answered = AllowedHosts(vec!["Admin.Example.com".parse().unwrap(), "10.0.0.7".parse().unwrap()]);
    answered.check(host.iter().map(|text| text.as_bytes()), uri, origin.iter().map(|text| text.as_bytes()))
}

#[test]
fn loopback_and_configured_hosts_are_answered() {
    let hosts = [
        "localhost",
        "LocalHost:8082",
        "localhost.",
        "127.0.0.1",
        "127.255.3.4:1",
        "[::1]",
        "[::1]:8082",
        "[0:0::1]:65535",
        "admin.example.com",
        "ADMIN.example.com.:80",
        "10.0.0.7:8082",
    ];
    for host in hosts {
        assert_eq!(check(&[host], None, &[]), Ok(()), "{host}");
        assert_eq!(check(&[host], Some(host), &[]), Ok(()), "{host}");
    }
}

#[test]
fn other_and_malformed_hosts_are_refused() {
    let hosts = [
        "",
        ":8082",
        "evil.example",
        "localhost.evil.example",
        "evil.localhost",
        "127.0.0.1.evil.example",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "127.0.0.1:+1",
        "localhost:80:80",
        "user@localhost",
        "localhost@evil.example",
        "[::1",
        "::1",
        "[::1]x",
        "[::ffff:127.0.0.1]",
        "[::1%lo]",
        "localhost/",
        "localhost ",
        " localhost",
        "localhost,evil.example",
        "localhost..",
        "10.0.0.8",
        "0.0.0.0",
        "[::]",
        "löcalhost",
    ];
    for host in hosts {
        assert_eq!(check(&[host], None, &[]), Err(HostRefusal::Host), "{host}");
        assert_eq!(check(&["localhost"], Some(host), &[]), Err(HostRefusal::Host), "{host}");
    }
    assert_eq!(check(&[], None, &[]), Err(HostRefusal::Host));
    assert_eq!(check(&["localhost", "localhost"], None, &[]), Err(HostRefusal::Host));
    assert_eq!(check(&["evil.example"], Some("localhost"), &[]), Err(HostRefusal::Host));
    assert_eq!(check(&["127.0.0.1"], Some("localhost"), &[]), Err(HostRefusal::Host));
}

#[test]
fn an_origin_is_the_host_or_refused() {
    let fine = [
        ("localhost:8082", "http://localhost:8082"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://LOCALHOST"),
        ("[::1]:8082", "http://[::1]:8082"),
        ("admin.example.com", "https://admin.example.com"),
        ("admin.example.com:443", "https://admin.example.com"),
    ];
    for (host, origin) in fine {
        assert_eq!(check(&[host], None, &[origin]), Ok(()), "{host} {origin}");
    }
    let refused = [
        "null",
        "",
        "http://evil.example",
        "http://localhost",
        "http://localhost:8083",
        "http://127.0.0.1:8082",
        "https://localhost:443",
        "ftp://localhost:8082",
        "localhost:8082",
        "http://localhost:8082/",
        "http://localhost:8082@evil.example",
        "http://",
    ];
    for origin in refused {
        assert_eq!(check(&["localhost:8082"], None, &[origin]), Err(HostRefusal::Origin), "{origin}");
    }
    assert_eq!(check(&["localhost:8082"], None, &["http://localhost:8082"; 2]), Err(HostRefusal::Origin));
}

#[test]
fn hosts_of_the_command_line_have_no_port() {
    for text in ["admin.example.com", "10.0.0.7", "::1", "[::1]", "fd00::1"] {
        assert!(text.parse::<Host>().is_ok(), "{text}");
    }
    for text in ["", "*", "*.example.com", "admin.example.com:80", "http://admin.example.com", "[::1]:80", "a b"] {
        assert!(text.parse::<Host>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn an_answered_host_is_one_of_a_few_spellings(text in "[-_.:@\\[\\]%/ a-z0-9]{0,24}|127(\\.[0-9]{1,3}){0,3}(:[0-9]{0,6})?") {
        if AllowedHosts::default().check([text.as_bytes()], None, []).is_ok() {
            let host = text.rsplit_once(':').filter(|_| !text.ends_with(']')).map_or(&*text, |(host, _)| host);
            let is_address = host.parse::<Ipv4Addr>().is_ok_and(|address| address.octets()[0] == 127);
            prop_assert!(is_address || host.trim_end_matches('.') == "localhost" || host.starts_with('['), "{text}");
        }
    }
}
