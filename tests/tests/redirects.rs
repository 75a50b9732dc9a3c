//! Where redirects lead to, as real clients read it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use tests::objects::{documents, gateway, ruled};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

/// What an answer says in `location`; none without.
fn location(port: u16, host: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes()).ok()?;
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    lines.find_map(|line| Some(line.strip_prefix("location: ")?.to_owned()))
}

/// Gateway API, `HTTPRequestRedirectFilter.port`: no port is added that the scheme has anyway.
#[test]
fn a_port_that_the_scheme_has_anyway_is_printed_only_in_place_of_another() {
    let [port] = free_ports().unwrap();
    let rule = |path: &str, redirect: &str| {
        format!(
            "  - matches: [{{path: {{value: {path}}}}}]\n    filters: [{{type: RequestRedirect, requestRedirect: {redirect}}}]\n"
        )
    };
    let rules = [
        rule("/https", "{scheme: https}"),
        rule("/http", "{scheme: http}"),
        rule("/port", "{scheme: https, port: 443}"),
        rule("/other", "{scheme: https, port: 8443}"),
        rule("/own", "{path: {type: ReplaceFullPath, replaceFullPath: /b}}"),
        rule("/host", "{scheme: https, hostname: b.example}"),
    ];
    let mut running = Running::prepare().unwrap();
    let route = ruled("r", &format!("  rules:\n{}", rules.concat()));
    running.write("all.yaml", &documents([&*gateway(port), &route])).unwrap();
    running.start().unwrap();
    wait::until("a redirect", || location(port, "a.example", "/https")).unwrap();
    let own = format!("http://a.example:{port}/b");
    for (host, path, wanted) in [
        ("a.example", "/https", "https://a.example/https"),
        ("a.example:8080", "/https", "https://a.example:443/https"),
        ("a.example:80", "/http", "http://a.example:80/http"),
        ("a.example", "/http/x?y=1", "http://a.example/http/x?y=1"),
        ("[::1]", "/https", "https://[::1]/https"),
        ("[::1]:8080", "/https", "https://[::1]:443/https"),
        ("a.example", "/port", "https://a.example/port"),
        ("a.example", "/other", "https://a.example:8443/other"),
        ("a.example", "/own", &own),
        ("a.example:8080", "/host", "https://b.example/host"),
    ] {
        assert_eq!(location(port, host, path).as_deref(), Some(wanted), "{host} {path}");
    }
}
