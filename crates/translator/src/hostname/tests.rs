//! Host names: the tables of the Gateway API.

use super::Hostname;

fn name(text: &str) -> Hostname {
    if text.is_empty() { Hostname::ANY } else { Hostname::parse(text).expect("a host name") }
}

#[test]
fn a_listener_and_a_route_have_in_common_what_the_api_says() {
    let table = [
        ("", "a.example.com", Some("a.example.com")),
        ("", "", Some("")),
        ("a.example.com", "", Some("a.example.com")),
        ("a.example.com", "a.example.com", Some("a.example.com")),
        ("a.example.com", "*.example.com", Some("a.example.com")),
        ("*.example.com", "a.example.com", Some("a.example.com")),
        ("*.example.com", "a.b.example.com", Some("a.b.example.com")),
        ("*.example.com", "*.example.com", Some("*.example.com")),
        ("*.example.com", "*.a.example.com", Some("*.a.example.com")),
        ("*.a.example.com", "*.example.com", Some("*.a.example.com")),
        ("*.a.example.com", "*.com", Some("*.a.example.com")),
        ("*.example.com", "example.com", None),
        ("a.example.com", "b.example.com", None),
        ("*.example.com", "badexample.com", None),
        ("A.Example.com", "a.example.COM", Some("a.example.com")),
    ];
    for (listener, route, both) in table {
        assert_eq!(name(listener).intersect(&name(route)), both.map(name), "{listener:?} and {route:?}");
        assert_eq!(name(route).intersect(&name(listener)), both.map(name), "{route:?} and {listener:?}");
    }
}

#[test]
fn broader_names_come_from_the_most_specific_to_any() {
    let broader = |text: &str| name(text).broader().map(|host| host.domain().to_string()).collect::<Vec<_>>();
    assert_eq!(broader("a.b.com"), ["*.b.com", "*.com", "*"]);
    assert_eq!(broader("*.b.com"), ["*.com", "*"]);
    assert_eq!(broader("localhost"), ["*"]);
    assert_eq!(broader(""), [""; 0]);
}

#[test]
fn a_broader_name_covers_the_narrower_one() {
    for text in ["a.b.com", "*.b.com", "localhost", "x.y.z.example"] {
        for broad in name(text).broader() {
            assert!(broad.covers(&name(text)), "{broad:?} covers {text}");
            assert!(!name(text).covers(&broad), "{text} does not cover {broad:?}");
        }
    }
}

#[test]
fn odd_texts_are_no_host_names() {
    for text in [
        "", "*", "*.", ".com", "a..b", "a b", "a_b", "-a.com", "a-.com", "a.*.com", "*a.com", "a\n", "ä.de",
        "a.com:80", "10.0.0.1",
    ] {
        assert_eq!(Hostname::parse(text), None, "{text:?}");
    }
    assert_eq!(Hostname::parse(&format!("{}.com", "a".repeat(64))), None);
    assert_eq!(Hostname::parse(&"a.".repeat(140)), None);
}
