//! Shares of datagrams as weights of endpoints.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn endpoint(number: u32) -> Endpoint {
    Endpoint::new(Address::Ip(Ipv4Addr::from(0x0A00_0000 + number).into(), 53))
}

fn weight(endpoint: &Endpoint) -> u64 {
    endpoint.weight.map_or(1, |weight| weight.get().into())
}

/// `number:weight` of each endpoint, `~` behind what drains; below 0 it drains.
fn shown(shares: &[(u32, &[i32])]) -> String {
    let given = |number: &i32| {
        let health = if *number < 0 { Health::Draining } else { Health::Healthy };
        Endpoint { health, ..endpoint(number.unsigned_abs()) }
    };
    let shares = shares.iter().map(|(weight, numbers)| (*weight, numbers.iter().map(given).collect()));
    let show = |endpoint: &Endpoint| {
        let number = match endpoint.address {
            Address::Ip(IpAddr::V4(ip), _) if !ip.is_loopback() => u32::from(ip) - 0x0A00_0000,
            _ => 0,
        };
        let drains = if endpoint.health == Health::Draining { "~" } else { "" };
        format!("{number}:{}{drains}", weight(endpoint))
    };
    share_out(shares.collect()).iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn endpoints_have_equal_parts_of_their_share() {
    assert_eq!(shown(&[]), "");
    assert_eq!(shown(&[(7, &[1, 2])]), "1:1 2:1", "with one share there is nothing to weigh");
    assert_eq!(shown(&[(1, &[1, 2]), (1, &[3])]), "1:1 2:1 3:2");
    assert_eq!(shown(&[(7, &[1, 2]), (3, &[3])]), "1:7 2:7 3:6");
    assert_eq!(shown(&[(7, &[1]), (3, &[])]), "1:7 0:3", "nobody takes the share of nobody");
    assert_eq!(shown(&[(3, &[1]), (1, &[1, 2])]), "1:7 2:1", "one of two shares has a part of each");
}

#[test]
fn what_drains_has_no_part() {
    assert_eq!(shown(&[(1, &[1, -3]), (1, &[2])]), "1:1 2:1 3:1~");
    assert_eq!(shown(&[(1, &[-1, 2]), (1, &[1])]), "1:1 2:1", "it drains in one share only");
}

proptest! {
    /// Within a thousandth, as long as there are no very many endpoints behind a very small share.
    #[test]
    fn shares_are_kept_and_within_what_a_proxy_takes(
        shares in prop::collection::vec((1_u32..=1_000_000, 1_usize..40), 1..16)
    ) {
        let mut next = 0;
        let mut given = Vec::new();
        let mut of = BTreeMap::new();
        for (index, (weight, count)) in shares.iter().enumerate() {
            let endpoints: Vec<Endpoint> = (next..).take(*count).map(endpoint).collect();
            of.extend(endpoints.iter().map(|endpoint| (endpoint.address.clone(), index)));
            next += 40;
            given.push((*weight, endpoints));
        }
        let out = share_out(given);
        let total: u64 = out.iter().map(weight).sum();
        prop_assert!(total <= u32::MAX.into());
        let wanted: u64 = shares.iter().map(|(weight, _)| u64::from(*weight)).sum();
        for (index, (share, count)) in shares.iter().enumerate() {
            let found: u64 = out.iter().filter(|one| of[&one.address] == index).map(weight).sum();
            let off = (found * wanted).abs_diff(u64::from(*share) * total);
            prop_assert!(off <= total * wanted / 1000 + *count as u64 * wanted, "{index}: {found} of {total}");
        }
    }
}
