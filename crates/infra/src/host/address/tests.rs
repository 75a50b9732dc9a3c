//! Addresses for statuses.

use super::*;

#[test]
fn addresses_that_were_asked_for_are_told_as_they_are() {
    let asked = ["10.1.2.3".parse().unwrap(), "::1".parse().unwrap()];
    let told: Vec<String> = client_addresses(&asked, &[80, 443]).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["10.1.2.3:80", "10.1.2.3:443", "[::1]:80", "[::1]:443"]);
}

#[test]
fn every_interface_means_loopback_and_at_most_one_more() {
    for asked in [vec![], vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]] {
        let told = client_addresses(&asked, &[8080]);
        assert!(told.contains(&(Ipv4Addr::LOCALHOST, 8080).into()));
        assert!(told.len() <= 2 && told.iter().all(|address| !address.ip().is_unspecified()), "{told:?}");
    }
}
