//! Virtual hosts and route configurations.

use std::borrow::Cow;
use std::sync::Arc;

use ir::route::{Action, Filters, Hosts, PathMatch, Respond, RouteMatch};
use ir::{Route, RouteConfiguration, RoutePiece, VirtualHost};
use prost::Message;

use super::{inline_host, message, route_configuration, virtual_host};
use crate::resource::{Encoded, EncodedHost, EncodedPiece};
use crate::route::route_piece;
use crate::testing::{expect, joined, json};

fn piece(paths: &[&str]) -> Arc<RoutePiece> {
    let route = |path: &&str| {
        let matches = RouteMatch {
            path: PathMatch::Exact(Arc::from(*path)),
            method: None,
            headers: Vec::new(),
            query: Vec::new(),
            grpc: false,
        };
        let action = Action::Respond(Respond { status: 404, reason: "r".into() });
        Arc::new(Route { name: "r".into(), matches, action, filters: Filters::default().into() })
    };
    Arc::new(RoutePiece { routes: paths.iter().map(route).collect() })
}

fn host(name: &str, pieces: Vec<Arc<RoutePiece>>) -> VirtualHost {
    VirtualHost { name: name.into(), domains: vec![name.into()], pieces, external_auth: Vec::new() }
}

fn encode(host: &VirtualHost) -> Encoded {
    let pieces: Vec<EncodedPiece> = host.pieces.iter().map(|piece| route_piece(piece, None)).collect();
    virtual_host(host, &pieces.iter().collect::<Vec<_>>())
}

fn inline(host: &VirtualHost) -> EncodedHost {
    let pieces: Vec<EncodedPiece> = host.pieces.iter().map(|piece| route_piece(piece, None)).collect();
    inline_host(host, &pieces.iter().collect::<Vec<_>>())
}

#[test]
fn a_host_without_routes_is_a_name_with_domains() {
    expect(&json(&encode(&host("a.example", Vec::new()))), "{name: a.example, domains: [a.example, a.example.]}");
}

#[test]
fn a_name_has_both_spellings_and_others_have_one() {
    let domains = ["*", "*..", "*.w.example", "b.example"].map(Into::into).to_vec();
    let host = VirtualHost { domains, ..host("h", Vec::new()) };
    let expected = "{name: h, domains: ['*', '*..', '*.w.example', '*.w.example.', b.example, b.example.]}";
    expect(&json(&encode(&host)), expected);
    assert_eq!(joined(&encode(&host).body), super::host_message(&host).encode_to_vec());
}

#[test]
fn an_inline_configuration_holds_its_hosts_and_forgets_ports() {
    let one = inline(&host("a.example", Vec::new()));
    let two = inline(&host("b.example", vec![piece(&["/a"]), piece(&["/b"])]));
    let configuration = RouteConfiguration { name: "ns/gw/80".into(), hosts: Hosts::Inline(Vec::new()) };
    let route = |path| {
        format!(
            "{{name: r, match: {{path: {path}}}, directResponse: {{status: 404}}, metadata: {{filterMetadata: {{chancery: {{reason: r}}}}}}}}"
        )
    };
    expect(
        &json(&route_configuration(&configuration, vec![Cow::Borrowed(&one), Cow::Owned(two)])),
        &format!(
            "
name: ns/gw/80
virtualHosts:
- {{name: a.example, domains: [a.example, a.example.]}}
- {{name: b.example, domains: [b.example, b.example.], routes: [{}, {}]}}
mostSpecificHeaderMutationsWins: true
validateClusters: false
ignorePortInHostMatching: true
",
            route("/a"),
            route("/b")
        ),
    );
}

#[test]
fn a_configuration_with_separate_hosts_asks_for_them() {
    let configuration = RouteConfiguration { name: "ns/gw/80".into(), hosts: Hosts::Separate };
    let ignored = inline(&host("a.example", Vec::new()));
    let mut encoded = route_configuration(&configuration, vec![Cow::Owned(ignored)]);
    expect(
        &json(&encoded),
        "
name: ns/gw/80
vhds: {configSource: {ads: {}, resourceApiVersion: V3}}
mostSpecificHeaderMutationsWins: true
validateClusters: false
ignorePortInHostMatching: true
",
    );
    let asks = encoded.body.pop().into_iter().collect();
    expect(
        &json(&Encoded { body: asks, ..encoded.clone() }),
        "vhds: {configSource: {ads: {}, resourceApiVersion: V3}}",
    );
    encoded.body.extend(inline(&host("a.example", Vec::new())).body);
    let inside = route_configuration(
        &RouteConfiguration { hosts: Hosts::Inline(Vec::new()), ..configuration },
        vec![Cow::Owned(inline(&host("a.example", Vec::new())))],
    );
    assert_eq!(json(&encoded), json(&inside), "the hosts in its place");
}

#[test]
fn composed_bytes_are_those_of_the_whole_message_and_pieces_are_shared() {
    let host = Arc::new(host("a.example", vec![piece(&["/a", "/b"]), piece(&["/c"])]));
    let encoded_piece = route_piece(&host.pieces[0], None);
    let last = route_piece(&host.pieces[1], None);
    let encoded = inline_host(&host, &[&encoded_piece, &last]);
    assert_eq!(encoded.version, virtual_host(&host, &[&encoded_piece, &last]).version);
    let configuration = RouteConfiguration {
        name: "ns/gw/80".into(),
        hosts: Hosts::Inline(vec![Arc::clone(&host), Arc::clone(&host)]),
    };
    let whole = route_configuration(&configuration, vec![Cow::Borrowed(&encoded), Cow::Borrowed(&encoded)]);
    assert!(whole.body.iter().filter(|part| part.as_ptr() == encoded_piece.bytes.as_ptr()).count() == 2);
    assert_eq!(joined(&whole.body), message(&configuration, [&*host, &*host]).encode_to_vec());
}

#[test]
fn versions_follow_the_content_and_the_order_of_pieces() {
    let version = |pieces| encode(&host("a.example", pieces)).version;
    let (one, two) = (piece(&["/a"]), piece(&["/b"]));
    assert_eq!(version(vec![one.clone(), two.clone()]), version(vec![piece(&["/a"]), piece(&["/b"])]));
    assert_ne!(version(vec![one.clone(), two.clone()]), version(vec![two.clone(), one.clone()]));
    assert_ne!(version(vec![one.clone()]), version(vec![one, two]));
}
