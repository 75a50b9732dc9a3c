//! Spellings of places that are Chancery's.

use super::*;

fn places(listeners: &[&str]) -> OwnPlaces {
    OwnPlaces {
        folders: vec!["/state".into(), "/var/state".into()],
        addresses: ClosedAddresses {
            listeners: listeners.iter().map(|text| text.parse().expect("an address")).collect(),
            machine: [[10, 0, 0, 7].into()].into(),
            services: [("chancery".into(), "chancery-system".into())].into(),
            ..ClosedAddresses::default()
        },
        ..OwnPlaces::default()
    }
}

#[test]
fn an_address_of_chancery_is_known_in_each_spelling() {
    let check = |listener: &str, address: &str, port: u16, expected: bool| {
        let own = places(&[listener]).is_own(address.parse().expect("an address"), port);
        assert_eq!(own, expected, "{address} port {port} against {listener}");
    };
    for address in ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "0.0.0.0", "::", "::ffff:0.0.0.0"] {
        check("127.0.0.1:18000", address, 18000, true);
        check("127.0.0.1:18000", address, 18001, false);
    }
    check("127.0.0.1:18000", "127.0.0.2", 18000, false);
    check("[::1]:18000", "::1", 18000, true);
    check("[::1]:18000", "::", 18000, true);
    for listener in ["0.0.0.0:18000", "[::]:18000"] {
        for address in ["127.0.0.1", "127.3.2.1", "::1", "10.0.0.7", "::ffff:10.0.0.7", "0.0.0.0"] {
            check(listener, address, 18000, true);
        }
        check(listener, "10.0.0.8", 18000, false);
    }
}

#[test]
fn name_of_the_loopback_address_is_refused_where_chancery_listens() {
    let places = places(&["127.0.0.1:18000"]);
    for host in ["localhost", "LocalHost", "a.localhost"] {
        assert!(places.refuses_host(host, 18000, true).is_some(), "{host}");
        assert!(places.refuses_host(host, 18001, true).is_none(), "{host}");
        assert!(places.refuses_host(host, 18001, false).is_some(), "{host} in a cluster");
    }
    for host in ["127.1", "2130706433", "0x7f.0x1", "0177.0.0.1", "127.0.0.1", "a.0x", ""] {
        assert!(places.refuses_host(host, 80, true).is_some(), "{host}");
    }
    for host in ["localhost.example", "mylocalhost", "1.example", "0xg.example", "a-1"] {
        assert!(places.refuses_host(host, 18000, true).is_none(), "{host}");
    }
    assert!(places.refuses_host("x.example", CONFIG_PORT, false).is_some());
    assert!(places.refuses_host("x.example", CONFIG_PORT, true).is_none());
}

#[test]
fn a_path_to_a_socket_of_chancery_is_refused_in_each_spelling() {
    let places = places(&[]);
    let here = |path: &str, resolved: &str| places.refuses_socket(path, true, Ok(resolved));
    let hidden = [
        "state/xds.sock",
        "./state/xds.sock",
        "/x/../state/xds.sock",
        "/x/./a.sock",
        "/proc/self/root/state/xds.sock",
        "//proc/self/fd/3",
        "/dev/fd/../root/state/a",
        "/sys/a",
        "/state/a",
        "//state//a",
        "/var/state/a",
        "@abstract",
        "",
        "a\0b",
        "/a\0b",
    ];
    for path in hidden {
        assert!(here(path, path).is_some(), "{path:?}");
    }
    assert!(here(&format!("/{}", "a".repeat(107)), "/a").is_some());
    for resolved in ["/state/gateways/1/xds.sock", "/proc/1/root/a", "/dev/log"] {
        assert!(here("/run/app.sock", resolved).is_some(), "a link to {resolved}");
    }
    assert_eq!(here("/run/app.sock", "/run/app.sock"), None);
    assert_eq!(here("/stately/app.sock", "/stately/app.sock"), None);
    assert!(places.refuses_socket("/run/app.sock", true, Err("is not known")).is_some(), "it has not been looked up");
    assert!(places.refuses_socket("/run/app.sock", false, Err("is not known")).is_some(), "in a cluster");
}

#[test]
fn socket_has_to_be_below_a_folder_that_the_operator_allows() {
    let none = places(&[]);
    let refused = |here: bool| none.refuses_socket("/run/apps/a.sock", here, Ok("/run/apps/a.sock")).is_some();
    assert!(refused(false) && !refused(true), "in a cluster there is none without the operator's flag");
    let places = OwnPlaces { socket_roots: vec!["/run/apps".into()], ..places(&[]) };
    for here in [true, false] {
        assert_eq!(places.refuses_socket("/run/apps/a.sock", here, Ok("/run/apps/a.sock")), None);
        assert!(places.refuses_socket("/run/apps2/a.sock", here, Ok("/run/apps2/a.sock")).is_some());
        assert!(places.refuses_socket("/run/docker.sock", here, Ok("/run/docker.sock")).is_some());
    }
    assert!(places.refuses_socket("/run/apps/a.sock", true, Ok("/run/docker.sock")).is_some(), "a link");
}

#[test]
fn own_folder_below_an_allowed_one_stays_closed() {
    let places = OwnPlaces {
        folders: vec!["/run/chancery".into(), "/var/run/chancery".into()],
        socket_roots: vec!["/run".into(), "/var/run".into(), "/".into()],
        ..OwnPlaces::default()
    };
    let hidden = [
        "/run/chancery/admin.sock",
        "/var/run/chancery/admin.sock",
        "/run//chancery/admin.sock",
        "//run/chancery/admin.sock",
        "/run/csi//agent.sock",
        "/run/csi/",
        "/run/./chancery/admin.sock",
        "/",
    ];
    for path in hidden {
        assert!(places.refuses_socket(path, false, Ok(path)).is_some(), "{path}");
    }
    assert_eq!(places.refuses_socket("/run/csi/agent.sock", false, Ok("/run/csi/agent.sock")), None);
}

#[test]
fn name_of_chancerys_service_is_refused_in_each_form() {
    let places = places(&[]);
    for host in [
        "chancery",
        "Chancery.chancery-system",
        "chancery.chancery-system.svc",
        "chancery.chancery-system.svc.cluster.local",
        "chancery.chancery-system.svc.other.domain",
        "10-244-1-23.chancery.chancery-system.svc.cluster.local",
        "10-244-1-23.chancery-system.pod.cluster.local",
    ] {
        assert!(places.refuses_host(host, 8081, false).is_some(), "{host}");
    }
    for host in [
        "chancery.example",
        "chancery.chancery-system.example",
        "chancery.shop.svc.cluster.local",
        "app.chancery-system.svc.cluster.local",
        "chancery-system",
    ] {
        assert_eq!(places.refuses_host(host, 8081, false), None, "{host}");
    }
}

#[test]
fn pod_name_is_refused_for_the_address_it_names() {
    let mut places = places(&[]);
    places.addresses.listeners.insert("10.244.1.23:8081".parse().unwrap());
    let of = |host: &str, port| places.refuses_host(host, port, false).map(|refused| refused.reason);
    assert_eq!(of("10-244-1-23.ta.pod.cluster.local", 8081), Some(Some(RefusalKind::OwnAddress)));
    assert_eq!(of("10-244-1-23.ta.pod.cluster.local", 80), None);
    assert_eq!(of("10-244-1-24.ta.pod.cluster.local", 8081), None);
    assert_eq!(of("127-0-0-1.ta.pod.cluster.local", 80), Some(Some(RefusalKind::OwnAddress)));
    assert_eq!(of("0-0-0-0.ta.pod.cluster.local", 80), Some(Some(RefusalKind::OwnAddress)));
    assert_eq!(of("169-254-169-254.ta.pod", 80), Some(Some(RefusalKind::LinkLocal)));
}
