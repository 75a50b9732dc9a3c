//! Names and versions on the wire.

use super::*;

#[test]
fn every_known_type_is_its_type_url() {
    for (kind, url) in TYPE_URLS {
        assert_eq!(TypeUrl::from(url), kind);
        assert_eq!(kind.as_str(), url);
    }
    assert_eq!(TypeUrl::from("type.googleapis.com/a.B").as_str(), "type.googleapis.com/a.B");
}

#[test]
fn a_version_survives_the_wire_and_foreign_ones_are_none() {
    assert_eq!(Version::parse(&Version(7).to_string()), Some(Version(7)));
    for foreign in ["", "7", "v1", "+0000000000000000000000000000007", "0000000000000000000000000000000g"] {
        assert_eq!(Version::parse(foreign), None, "{foreign}");
    }
}

#[test]
fn a_virtual_host_belongs_to_what_stands_before_its_last_slash() {
    assert_eq!(route_configuration_of("ns/gw/80/a.com"), Some("ns/gw/80"));
    assert_eq!(route_configuration_of("a.com"), None);
}
