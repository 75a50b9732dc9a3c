//! Precedence of matches.

use std::sync::Arc;

use ir::route::{NamedMatch, PathMatch, RouteMatch, ValueMatch};

use super::{prefix, rank};

fn matched(path: PathMatch, method: bool, headers: usize, query: usize) -> RouteMatch {
    let named = |number: usize| NamedMatch { name: number.to_string().into(), value: ValueMatch::Exact("x".into()) };
    RouteMatch {
        path,
        method: method.then(|| Arc::from("GET")),
        headers: (0..headers).map(named).collect(),
        query: (0..query).map(named).collect(),
        grpc: false,
    }
}

#[test]
fn the_more_specific_match_comes_first_key_by_key() {
    let exact = || PathMatch::Exact("/a".into());
    let regex = |text: &str| PathMatch::Regex(text.into());
    let under = |text: &str| PathMatch::Prefix(prefix(text));
    let order = [
        matched(exact(), true, 0, 0),
        matched(exact(), false, 16, 16),
        matched(exact(), false, 1, 1),
        matched(exact(), false, 1, 0),
        matched(exact(), false, 0, 2),
        matched(regex("/abc.*"), false, 0, 0),
        matched(regex("/a.*"), true, 0, 0),
        matched(under("/match/prefix/one"), false, 0, 0),
        matched(under("/match/prefix/"), true, 2, 2),
        matched(under("/match"), true, 0, 0),
        matched(under("/match"), false, 3, 0),
        matched(under("/match"), false, 0, 3),
        matched(under("/"), true, 0, 0),
        matched(under("/"), false, 0, 0),
    ];
    for pair in order.windows(2) {
        assert!(rank(&pair[0]) < rank(&pair[1]), "{:?} before {:?}", pair[0], pair[1]);
    }
}

#[test]
fn a_trailing_slash_of_a_prefix_says_nothing() {
    assert_eq!(
        rank(&matched(PathMatch::Prefix(prefix("/a/")), false, 0, 0)),
        rank(&matched(PathMatch::Prefix(prefix("/a")), false, 0, 0))
    );
    assert_eq!(&*prefix("/"), "/");
    assert_eq!(&*prefix("/a//"), "/a");
    assert_eq!(&*prefix(""), "/");
}
