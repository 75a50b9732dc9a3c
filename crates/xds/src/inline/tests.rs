//! What becomes of the bytes.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use proto::envoy::config::route::v3::{RouteConfiguration, Vhds, VirtualHost};

use super::inlined;
use crate::resource::{Need, Resource, TypeUrl, Version};
use crate::snapshot::Item;

/// All but what asks for hosts.
fn plain() -> RouteConfiguration {
    RouteConfiguration { name: "rc".into(), internal_only_headers: vec!["x".into()], ..Default::default() }
}

/// A resource with this message, cut into pieces of so many bytes.
fn resource(type_url: TypeUrl, name: &str, message: &[u8], cut: usize) -> Resource {
    let body: Vec<Bytes> = message.chunks(cut).map(Bytes::copy_from_slice).collect();
    let needs = Box::new([[Need::new(TypeUrl::Cluster, name)].into()]);
    Resource { needs, ..Resource::new(type_url, name, Version(1), body) }
}

fn route(cut: usize) -> Resource {
    let route = resource(TypeUrl::Route, "rc", &plain().encode_to_vec(), cut);
    let vhds = RouteConfiguration { vhds: Some(Vhds::default()), ..Default::default() }.encode_to_vec();
    let body = route.body.iter().cloned().chain([vhds.into()]).collect();
    Resource { body, vhds: true, ..route }
}

fn host(name: &str, version: u128) -> Arc<Item> {
    let message = VirtualHost { name: format!("rc/{name}"), domains: vec![name.into()], ..Default::default() };
    let mut resource = resource(TypeUrl::VirtualHost, name, &message.encode_to_vec(), 5);
    resource.version = Version(version);
    Item::new(resource.into(), 1)
}

#[test]
fn the_hosts_stand_inside_and_nothing_asks_for_them_however_the_bytes_are_cut() {
    let hosts = [host("a.example", 1), host("b.example", 1)];
    let expect = RouteConfiguration {
        virtual_hosts: ["a.example", "b.example"]
            .map(|name| VirtualHost { name: format!("rc/{name}"), domains: vec![name.into()], ..Default::default() })
            .into(),
        ..plain()
    };
    for cut in 1..40 {
        let whole = inlined(&route(cut), &hosts).expect("it asks");
        assert!(!whole.vhds);
        let bytes = whole.body.concat();
        assert_eq!(RouteConfiguration::decode(&*bytes).expect("a message"), expect, "pieces of {cut} bytes");
        let needs: Vec<&str> = whole.needs().map(|need| &*need.name).collect();
        assert_eq!(needs, ["rc", "a.example", "b.example"]);
    }
}

#[test]
fn the_bytes_of_the_hosts_are_shared() {
    let host = host("a.example", 1);
    let whole = inlined(&route(99), std::slice::from_ref(&host));
    let last = whole.expect("it asks").body.last().expect("a piece").clone();
    assert_eq!(last.as_ptr(), host.resource.body.last().expect("a piece").as_ptr());
}

#[test]
fn a_host_that_changes_or_goes_gives_another_version() {
    let route = route(99);
    let version = |hosts: &[Arc<Item>]| inlined(&route, hosts).expect("it asks").version;
    let (one, changed) = ([host("a", 1), host("b", 1)], [host("a", 1), host("b", 2)]);
    assert_eq!(version(&one), version(&[host("a", 1), host("b", 1)]));
    assert_ne!(version(&one), version(&changed));
    assert_ne!(version(&one), version(&one[..1]));
    assert_ne!(version(&one), route.version);
}

#[test]
fn what_asks_for_no_hosts_stays_as_it_is() {
    assert!(inlined(&resource(TypeUrl::Route, "rc", &plain().encode_to_vec(), 7), &[host("a", 1)]).is_none());
    assert!(inlined(&Resource { body: Box::default(), ..route(7) }, &[host("a", 1)]).is_none(), "nothing to leave out");
}
