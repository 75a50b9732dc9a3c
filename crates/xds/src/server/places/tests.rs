//! Places given, refused and taken back.

use std::net::Ipv4Addr;

use super::*;

fn places(most: usize, share: usize) -> Places {
    Places::new(&Limits { places: most, share, ..Limits::default() }, Arc::default())
}

fn from(last: u8) -> Option<IpAddr> {
    Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
}

/// A place whose connection has proven that it is this identity's.
fn proven(places: &Places, address: u8, identity: &str) -> Result<ListenerPlace, PlaceDenied> {
    let place = places.arrive(from(address))?;
    place.identify(&identity.into())?;
    place.prove();
    Ok(place)
}

/// Starts a task that goes on until it is ended.
fn begin(places: &Places, place: ListenerPlace) -> tokio::task::JoinHandle<()> {
    let number = place.number();
    let task = tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(place);
    });
    places.begin(number, task.abort_handle());
    task
}

#[test]
fn one_address_that_proves_nothing_leaves_places_to_others() {
    let places = places(16, 2);
    let silent: Vec<_> = (0..16).map_while(|_| places.arrive(from(1)).ok()).collect();
    assert_eq!(silent.len(), 12, "all but the last quarter");
    assert_eq!(places.arrive(from(1)).err(), Some(PlaceDenied::Share));
    let others: Vec<_> = (0..2).map(|_| proven(&places, 2, "a").ok().unwrap()).collect();
    assert_eq!(proven(&places, 2, "a").err(), Some(PlaceDenied::Share), "it has its share");
    assert!(proven(&places, 2, "b").is_ok());
    drop(others);
    drop(silent);
    assert_eq!(places.taken(), 0);
    assert!(locked(&places.0.inner).owners.is_empty());
}

#[test]
fn two_identities_do_not_take_all_places() {
    let places = places(64, 8);
    let of = |identity: &'static str| (0..64).map_while(|_| proven(&places, 1, identity).ok()).collect::<Vec<_>>();
    let (first, second) = (of("a"), of("b"));
    assert_eq!([first.len(), second.len()], [48, 8]);
    assert!(proven(&places, 1, "c").is_ok());
    let counts: Vec<_> = places.0.refusals.all().into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counts, [(RefusalReason::Share, 2)]);
}

#[tokio::test]
async fn when_all_places_are_taken_the_oldest_silent_connection_goes_first() {
    let places = places(4, 4);
    let idle = places.arrive(from(1)).unwrap();
    idle.identify(&"a".into()).unwrap();
    let idle = begin(&places, idle);
    let first = begin(&places, places.arrive(from(2)).unwrap());
    let second = begin(&places, places.arrive(from(3)).unwrap());
    let _held = proven(&places, 4, "b").unwrap();
    for (task, newcomer) in [(first, 5), (second, 6), (idle, 7)] {
        let _kept = std::mem::ManuallyDrop::new(proven(&places, newcomer, "c").unwrap());
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!(places.taken(), 4);
    assert_eq!(places.arrive(from(8)).err(), Some(PlaceDenied::Places), "each has proven who it is");
}

#[test]
fn an_ipv6_network_is_one_source_and_a_mapped_address_is_its_own() {
    let source = |text: &str| SourceNetwork::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
    assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
    assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    assert_eq!(source("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
}

#[test]
fn connections_from_this_machine_leave_the_last_places_to_others() {
    let places = places(16, 2);
    let arrive = || {
        let place = places.arrive(None)?;
        place.identify(&"unix".into())?;
        place.prove();
        Ok(place)
    };
    let all: Vec<_> = std::iter::repeat_with(arrive).map_while(Result::ok).collect();
    assert_eq!(all.len(), 12);
    assert_eq!(arrive().err(), Some(PlaceDenied::Share));
    assert!(proven(&places, 1, "a").is_ok());
}

#[tokio::test]
async fn flood_from_the_network_leaves_places_to_this_machine() {
    let places = places(16, 2);
    places.keep_for_machine();
    let own = begin(&places, places.arrive(None).unwrap());
    let networked: Vec<_> = (1..=16).map_while(|source| proven(&places, source, &source.to_string()).ok()).collect();
    assert_eq!(networked.len(), 14, "all but an eighth");
    assert_eq!(places.arrive(from(17)).err(), Some(PlaceDenied::Places));
    assert!(!own.is_finished(), "a silent connection of this machine makes no room for others");
    let second = begin(&places, places.arrive(None).unwrap());
    assert_eq!(places.taken(), 16);
    let third = places.arrive(None).unwrap();
    assert!(own.await.unwrap_err().is_cancelled(), "it makes room for others of this machine");
    third.identify(&"unix".into()).unwrap();
    drop((networked, second, third));
}

#[tokio::test]
async fn silent_flood_from_this_machine_makes_room_for_the_network() {
    let places = places(16, 2);
    places.keep_for_machine();
    let local: Vec<_> = (0..16).map(|_| begin(&places, places.arrive(None).unwrap())).collect();
    let networked: Vec<_> = (1..=16).map_while(|source| proven(&places, source, &source.to_string()).ok()).collect();
    assert_eq!(networked.len(), 14, "all but an eighth");
    while places.taken() > 16 {
        tokio::task::yield_now().await;
    }
    let staying = local.iter().filter(|task| !task.is_finished()).count();
    assert_eq!(staying, 2, "the kept eighth stays");
}
