//! What of the proxies' words reaches the core, and files for others.

use std::sync::Arc;

use tokio::sync::mpsc;
use xds::{Event, TypeUrl, Version};

use super::{Outlet, proxies};
use crate::core::Input;

fn accepted(type_url: TypeUrl, name: &str) -> Event {
    Event::Accepted { fleet: "default/edge".into(), type_url, name: name.into(), version: Version(1) }
}

fn refused(type_url: TypeUrl, name: &str) -> Event {
    let text = Arc::from("bad");
    Event::Refused { fleet: "default/edge".into(), type_url, name: name.into(), version: Version(1), text }
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
    let (route, other) = ("default/edge/80/a", "default/edge/80/b");
    let host = || TypeUrl::VirtualHost;
    let events = vec![
        accepted(host(), route),
        refused(host(), route),
        accepted(host(), other),
        accepted(TypeUrl::Route, route),
        accepted(host(), route),
        accepted(host(), route),
    ];
    check(events, &[1, 4]).await;
}

#[tokio::test]
async fn a_listener_in_use_and_a_warm_cluster_are_always_told() {
    let warm = Event::ClusterWarm { fleet: "default/edge".into(), name: "a".into() };
    check(vec![accepted(TypeUrl::Listener, "a"), accepted(TypeUrl::Listener, "a"), warm], &[0, 1, 2]).await;
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
