//! What of the proxies' words reaches the core, and files for others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use xds::{Event, TypeUrl, Version};

use super::{Outlet, Room, proxies};
use crate::core::Input;

fn accepted(type_url: TypeUrl, was_refused: bool) -> Event {
    let (fleet, name) = ("default/edge".into(), "a".into());
    Event::Accepted { fleet, type_url, name, version: Version(1), was_refused }
}

fn refused(type_url: TypeUrl) -> Event {
    let text = Arc::from("bad");
    Event::Refused {
        fleet: "default/edge".into(),
        type_url,
        name: "a".into(),
        version: Version(1),
        text,
        has_previous: false,
    }
}

/// Checks which of the events, each sent by itself, the core gets.
async fn check(events: Vec<Event>, expected: &[usize]) {
    let (sender, receiver) = mpsc::channel(events.len());
    let (inputs, mut core) = mpsc::channel(events.len());
    for event in events.clone() {
        sender.try_send(vec![event]).expect("there is room for all");
    }
    drop(sender);
    proxies(receiver, inputs).await.expect("it ends with its sender");
    let mut seen = Vec::new();
    while let Some(input) = core.recv().await {
        if let Input::Xds(batch) = input {
            seen.extend(batch);
        }
    }
    let expected: Vec<&Event> = expected.iter().filter_map(|index| events.get(*index)).collect();
    assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn that_a_route_is_in_use_is_told_only_after_it_was_refused() {
    let host = || TypeUrl::VirtualHost;
    let events = vec![accepted(host(), false), refused(host()), accepted(host(), true), accepted(host(), false)];
    check(events, &[1, 2]).await;
}

#[tokio::test]
async fn a_listener_in_use_and_a_warm_cluster_are_always_told() {
    let warm = Event::ClusterWarm { fleet: "default/edge".into(), name: "a".into() };
    check(vec![accepted(TypeUrl::Listener, false), accepted(TypeUrl::Listener, false), warm], &[0, 1, 2]).await;
}

#[test]
fn a_file_that_cannot_be_written_is_written_when_it_can() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("later");
    let file = folder.join("status.json");
    let mut outlet = Outlet::new("--status-file", file.clone());
    assert!(!outlet.write(b"1") && !outlet.write(b"2"));
    assert!(outlet.failure.is_some());
    std::fs::create_dir(&folder).expect("a folder");
    assert!(outlet.write(b"3"));
    assert_eq!(std::fs::read(file).expect("the file"), b"3");
}

#[test]
fn no_more_than_so_many_problems_are_logged_in_a_minute() {
    let start = Instant::now();
    let mut room = Room::new(start);
    let taken = |room: &mut Room, at| (0..5_000).filter(|_| room.take(at)).count();
    assert_eq!(taken(&mut room, start), 1_000);
    assert_eq!(taken(&mut room, start + Duration::from_secs(59)), 0);
    assert_eq!(taken(&mut room, start + Duration::from_secs(60)), 1_000);
}
