//! Any bytes, and any records, as a fleet's journal: no panic, bounded memory, and what can be read is written again as it was and served
//! to clients that answer nothing, to whom nothing is denied.

use std::collections::BTreeSet;
use std::time::Duration;

use arbitrary::Unstructured;
use bytes::Bytes;
use prost::Message;
use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest};
use xds::TypeUrl;
use xds::fuzzing::{Way, World, journal, transaction};
use xds::saved::SavedFleet;

/// Records of a journal at most.
const RECORDS: usize = 16;

const NAMES: [&str; 4] = ["a", "b", "a/b", "xdstp://a/b/c"];

/// Kinds that are asked for.
const KINDS: [TypeUrl; 7] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoints,
    TypeUrl::Listener,
    TypeUrl::Secret,
    TypeUrl::Route,
    TypeUrl::VirtualHost,
    TypeUrl::Runtime,
];

/// One input.
pub fn run(data: &[u8]) {
    assert!(SavedFleet::read(&journal("f", &[])).is_ok(), "what this makes is no journal");
    check(Bytes::copy_from_slice(data));
    let (first, second) = data.split_at(data.len() / 2);
    check(journal("f", &[first.to_vec(), second.to_vec()]));
    let mut source = Unstructured::new(data);
    let mut records = Vec::new();
    while !source.is_empty() && records.len() < RECORDS {
        let mut choose = |most| source.int_in_range(0..=most).unwrap_or(0);
        records.push(transaction(&mut choose, &NAMES));
    }
    check(journal("f", &records));
}

fn check(bytes: Bytes) {
    let Ok(mut saved) = SavedFleet::read(&bytes) else { return };
    assert!(saved.intact() <= bytes.len());
    let before = saved.len();
    let secrets = saved.drop_secrets();
    let left = saved.len();
    assert_eq!(secrets, left < before);
    let (events, _seen) = tokio::sync::mpsc::channel(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let server = xds::Server::start(runtime.handle(), events);
    server.keep(true);
    let fleet = saved.fleet().clone();
    server.restore(saved);
    // what is written of it is read as the same
    server.save_again(&fleet);
    for unsaved in server.take_unsaved() {
        let written: Bytes = unsaved.parts().flatten().collect();
        let again = SavedFleet::read(&written).expect("what was written");
        assert_eq!((again.len(), again.intact()), (left, written.len()));
        for delta in [true, false] {
            serve(SavedFleet::read(&written).expect("what was written"), delta);
        }
    }
}

/// A client comes that has nothing, asks for everything, and answers nothing; nor does it when the fleet is known again.
fn serve(saved: SavedFleet, delta: bool) {
    let (mut world, mut now) = (World::default(), Duration::from_secs(1));
    world.restore(saved);
    let mut client = world.connect(Way { delta, aggregated: true, envoy: true }, "none of the names");
    let stream = client.open(None);
    for kind in KINDS {
        let (type_url, names) = (kind.as_str().to_owned(), ["*"].iter().chain(&NAMES).map(|name| (*name).to_owned()));
        let request = if delta {
            let resource_names_subscribe = names.collect();
            DeltaDiscoveryRequest { type_url, resource_names_subscribe, ..Default::default() }.encode_to_vec()
        } else {
            DiscoveryRequest { type_url, resource_names: names.collect(), ..Default::default() }.encode_to_vec()
        };
        assert!(client.receive(&mut world, stream, request, now));
    }
    let mut routes = BTreeSet::new();
    for turn in 0..8 {
        if turn == 4 {
            world.publish(Vec::new());
        }
        client.advance(&mut world, now);
        now += Duration::from_secs(6);
        while let Some(response) = client.next(stream) {
            // later that goes which it was sent and says nothing about
            if let (0, true, Ok(response)) = (turn, delta, DeltaDiscoveryResponse::decode(response)) {
                let type_url = TypeUrl::from(&*response.type_url);
                let mut denied = response.removed_resources;
                if type_url == TypeUrl::VirtualHost {
                    // a route configuration that asks for hosts and has none is answered with a host that there is not
                    denied.retain(|name| !name.strip_suffix("/none").is_some_and(|of| routes.contains(of)));
                }
                assert!(denied.is_empty(), "{type_url}: {denied:?}");
                if type_url == TypeUrl::Route {
                    routes.extend(response.resources.into_iter().map(|resource| resource.name));
                }
            }
        }
    }
    client.leave(&mut world);
}
