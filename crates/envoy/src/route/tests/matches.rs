//! Which requests.

use ir::Route;
use ir::route::{Filters, NamedMatch, PathMatch, ValueMatch};

use super::{respond, route, routes};
use crate::testing::expect;

fn check_match(edit: impl FnOnce(&mut ir::route::RouteMatch), wanted: &str) {
    let mut found: Route = route(respond(200), Filters::default());
    edit(&mut found.matches);
    expect(&routes(found)[0]["match"], wanted);
}

#[test]
fn paths_of_every_kind() {
    let path = |path: PathMatch, wanted: &str| check_match(|matches| matches.path = path, wanted);
    path(PathMatch::Exact("/a".into()), "{path: /a}");
    path(PathMatch::Exact("/a/".into()), "{path: /a/}");
    path(PathMatch::Prefix("/".into()), "{prefix: /}");
    path(PathMatch::Prefix("/a".into()), "{pathSeparatedPrefix: /a}");
    path(PathMatch::Prefix("/a/".into()), "{pathSeparatedPrefix: /a}");
    path(PathMatch::Regex("/[a-z]+".into()), "{safeRegex: {regex: '/[a-z]+'}}");
}

#[test]
fn method_headers_and_query_must_all_hold() {
    let named = |name: &str, value| NamedMatch { name: name.into(), value };
    check_match(
        |matches| {
            matches.method = Some("GET".into());
            matches.headers =
                vec![named("x-a", ValueMatch::Exact("1".into())), named("x-b", ValueMatch::Regex("b+".into()))];
            matches.query = vec![named("Q", ValueMatch::Exact("v".into())), named("e", ValueMatch::Regex("".into()))];
        },
        "
prefix: /
headers:
- {name: ':method', stringMatch: {exact: GET}}
- {name: x-a, stringMatch: {exact: '1'}}
- {name: x-b, stringMatch: {safeRegex: {regex: b+}}}
queryParameters:
- {name: Q, stringMatch: {exact: v}}
- {name: e, stringMatch: {safeRegex: {regex: ()}}}
",
    );
}
