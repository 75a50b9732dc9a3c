//! Spellings of addresses.

use proptest::prelude::*;

use super::*;

#[test]
fn every_spelling_of_a_metadata_address_is_refused() {
    for text in [
        "169.254.169.254",
        "169.254.0.1",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "fe80::1",
        "febf:ffff::1",
        "fd00:ec2::254",
        "fd00:0ec2:0::0254",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        // The same with prefixes of 32, 40, 48, 56 and 64 bits.
        "64:ff9b:a9fe:a9fe::",
        "64:ff9b:1a9:fea9:fe::",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:0:a9:fea9:fe00:0",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::1",
        "2001:0:808:808::5601:5601",
        "2001:db8::5efe:169.254.169.254",
        "2001:db8::200:5efe:6464:64c8",
    ] {
        assert!(refusal(text.parse().unwrap()).is_some(), "{text}");
    }
}

#[test]
fn other_addresses_are_not() {
    for text in [
        "169.253.255.255",
        "169.255.0.1",
        "10.0.0.1",
        "100.100.100.201",
        "127.0.0.1",
        "::1",
        "::",
        "fd00::254",
        "2001:db8::1",
        "64:ff9b::a00:1",
        "64:ff9b:1:a00:0:100::",
        "fec0::1",
    ] {
        assert_eq!(refusal(text.parse().unwrap()), None, "{text}");
    }
}

#[test]
fn a_text_is_read_as_resolvers_read_it() {
    for (text, wanted) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.01.", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0xA9FEA9FE", "169.254.169.254"),
        ("169.254.43518", "169.254.169.254"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]", "fe80::1"),
        (" 10.0.0.1 ", "10.0.0.1"),
    ] {
        assert_eq!(literal(text), [text_address(wanted)], "{text}");
    }
    for name in ["localhost", "LocalHost.", "x.localhost"] {
        assert_eq!(literal(name).len(), 2, "{name}");
    }
    for name in ["", "a.example", "1.example", "256.1.1.1", "1.2.3.4.5", "4294967296", "0x", "08", "1..2", "+1"] {
        assert_eq!(literal(name), Vec::<IpAddr>::new(), "{name}");
    }
}

fn text_address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn names_of_metadata_services_are_refused_in_any_case() {
    for name in ["metadata.google.internal", "Metadata.Google.INTERNAL.", "metadata", "instance-data"] {
        assert!(refusal_of_name(name).is_some(), "{name}");
    }
    for name in ["metadata.example", "x.metadata.google.internal", "google.internal"] {
        assert_eq!(refusal_of_name(name), None, "{name}");
    }
}

proptest! {
    #[test]
    fn an_address_of_ipv6_is_refused_for_each_of_ipv4_that_it_holds(c in any::<u8>(), d in any::<u8>(), rest in any::<u16>()) {
        let v4 = Ipv4Addr::new(169, 254, c, d);
        let [high, low] = [u16::from_be_bytes([169, 254]), u16::from_be_bytes([c, d])];
        for address in [
            v4.to_ipv6_mapped(),
            v4.to_ipv6_compatible(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, rest, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, rest, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, 0x808, 0x808, rest, rest, !high, !low),
            Ipv6Addr::new(0x2001, 0xdb8, rest, rest, 0, 0x5efe, high, low),
        ] {
            prop_assert!(refusal(IpAddr::V6(address)).is_some(), "{}", address);
        }
    }

    #[test]
    fn whatever_is_written_as_a_name_is_looked_at(name in "[a-zA-Z.\\-]{0,40}") {
        let is_known = METADATA_NAMES.contains(&&*name.trim_end_matches('.').to_ascii_lowercase());
        prop_assert_eq!(refusal_of_name(&name).is_some(), is_known);
    }
}

#[test]
fn link_local_addresses_may_be_those_of_this_machine() {
    let closed = ClosedAddresses {
        listeners: ["[::]:18000".parse().unwrap()].into(),
        link_local: true,
        ..ClosedAddresses::default()
    };
    assert!(closed.is_own("fe80::1".parse().unwrap(), 18_000));
    assert!(!closed.is_own("fe80::1".parse().unwrap(), 80));
    assert!(!closed.is_own("fd00::1".parse().unwrap(), 18_000));
}

/// Addresses of IPv6 that stand for one of IPv4: mapped, compatible, SIIT, NAT64, 6to4.
fn spellings(of: Ipv4Addr) -> [Ipv6Addr; 5] {
    let [a, b, c, d] = of.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    [
        of.to_ipv6_mapped(),
        of.to_ipv6_compatible(),
        Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
    ]
}

#[test]
fn own_address_is_own_in_each_spelling() {
    let closed =
        ClosedAddresses { listeners: ["10.244.1.1:8081".parse().unwrap()].into(), ..ClosedAddresses::default() };
    for address in spellings(Ipv4Addr::new(10, 244, 1, 1)) {
        assert!(closed.is_own(address.into(), 8081), "{address}");
        assert!(!closed.is_own(address.into(), 80), "{address}");
    }
    for address in spellings(Ipv4Addr::new(10, 244, 1, 2)) {
        assert!(!closed.is_own(address.into(), 8081), "{address}");
    }
    assert!(spellings(Ipv4Addr::LOCALHOST).into_iter().all(|address| is_loopback(address.into())));
    assert!(is_loopback("::1".parse().unwrap()) && !is_loopback("::ffff:10.0.0.1".parse().unwrap()));
}

#[test]
fn pod_name_stands_for_its_address_in_any_namespace() {
    for (name, address) in [
        ("10-244-1-1.ta.pod.cluster.local", "10.244.1.1"),
        ("10-244-1-1.TB.POD", "10.244.1.1"),
        ("x.10-244-1-1.a.pod.my.domain.", "10.244.1.1"),
        ("fd00--1.ta.pod.cluster.local", "fd00::1"),
        ("--1.ta.pod.cluster.local", "::1"),
        ("169-254-169-254.ta.pod.cluster.local", "169.254.169.254"),
    ] {
        assert_eq!(of_pod_name(name), [text_address(address)], "{name}");
    }
    for name in ["10-244-1-1.ta.svc.cluster.local", "web-1.ta.pod.cluster.local", "10-244-1-1.pod", "", "pod", "..pod"]
    {
        assert_eq!(of_pod_name(name), Vec::<IpAddr>::new(), "{name}");
    }
}
