//! Addresses for statuses.

use super::*;

#[test]
fn addresses_that_were_asked_for_are_told_as_they_are() {
    let asked = ["127.0.0.1".parse().unwrap(), "127.1.2.3".parse().unwrap()];
    let told: Vec<String> = client_addresses(&asked, &[80, 443]).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["127.0.0.1:80", "127.0.0.1:443", "127.1.2.3:80", "127.1.2.3:443"]);
    assert!(missing_addresses(&asked).is_empty());
}

#[test]
fn an_address_that_this_machine_does_not_have_is_missing() {
    // Of a documentation network (RFC 5737).
    let asked: [IpAddr; 2] = ["127.0.0.1".parse().unwrap(), "192.0.2.7".parse().unwrap()];
    assert_eq!(missing_addresses(&asked), asked[1..]);
    let told: Vec<String> = client_addresses(&asked, &[80]).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["127.0.0.1:80"]);
    assert!(client_addresses(&asked[1..], &[80]).is_empty(), "all that was asked for, and not every interface instead");
}

#[test]
fn every_interface_means_loopback_and_at_most_one_more() {
    for asked in [vec![], vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]] {
        let told = client_addresses(&asked, &[8080]);
        assert!(told.contains(&(Ipv4Addr::LOCALHOST, 8080).into()));
        assert!(told.len() <= 2 && told.iter().all(|address| !address.ip().is_unspecified()), "{told:?}");
    }
}
