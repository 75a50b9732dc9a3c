//! Any route encodes to what Envoy's API allows, the same each time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ir::route::*;
use ir::{Route, RoutePiece, VirtualHost};
use proptest::prelude::*;
use prost::Message as _;
use proto::envoy::config::core::v3::{grpc_service::TargetSpecifier, http_uri::HttpUpstreamType};
use proto::envoy::config::route::v3 as envoy;
use proto::envoy::extensions::filters::http::composite::v3::{CompositePerRoute, ExecuteFilterAction};
use proto::envoy::extensions::filters::http::ext_authz::v3::{ExtAuthz, ext_authz::Services};
use proto::xds::r#type::matcher::v3::matcher;

use crate::resource::type_url;
use crate::route::{external_auth, messages, route_piece};
use crate::testing::joined;
use crate::virtual_host::virtual_host;

fn text(pattern: &'static str) -> impl Strategy<Value = Arc<str>> {
    pattern.prop_map(Arc::from)
}

fn name() -> impl Strategy<Value = Arc<str>> {
    text("[a-z][a-z0-9-]{0,12}")
}

fn path() -> impl Strategy<Value = Arc<str>> {
    text("(/[a-zA-Z0-9._~!$&'()*+,;=:@%-]{1,8}){1,4}")
}

fn path_match() -> impl Strategy<Value = PathMatch> {
    prop_oneof![
        path().prop_map(PathMatch::Exact),
        path().prop_map(PathMatch::Prefix),
        Just(PathMatch::Prefix("/".into())),
        text("(/[a-z]+)?").prop_map(PathMatch::Regex),
    ]
}

fn named() -> impl Strategy<Value = NamedMatch> {
    let value =
        prop_oneof![text("[ -~]{0,16}").prop_map(ValueMatch::Exact), text("[a-z]*").prop_map(ValueMatch::Regex)];
    (name(), value).prop_map(|(name, value)| NamedMatch { name, value })
}

fn matches() -> impl Strategy<Value = RouteMatch> {
    let list = || prop::collection::vec(named(), 0..3);
    (path_match(), prop::option::of(text("GET|POST|PUT")), list(), list(), any::<bool>())
        .prop_map(|(path, method, headers, query, grpc)| RouteMatch { path, method, headers, query, grpc })
}

fn changes() -> impl Strategy<Value = HeaderChanges> {
    let header = || prop_oneof![name(), Just("host".into()), Just("x".into())];
    let pairs = || prop::collection::vec((header(), text("[ -~]{0,16}")), 0..3);
    (prop::collection::vec(header(), 0..3), pairs(), pairs()).prop_map(|(remove, set, add)| HeaderChanges {
        remove,
        set,
        add,
    })
}

fn path_change() -> impl Strategy<Value = PathChange> {
    let replacement = || prop_oneof![path(), Just("".into()), Just("/".into())];
    prop_oneof![
        replacement().prop_map(PathChange::Full),
        (replacement(), replacement()).prop_map(|(matched, replacement)| PathChange::Prefix { matched, replacement }),
    ]
}

fn redirect() -> impl Strategy<Value = Redirect> {
    let status = prop::sample::select(vec![301u16, 302, 303, 307, 308]);
    let scheme = prop::option::of(text("https?"));
    let port = (prop::option::of(1u16..), any::<bool>());
    (status, scheme, prop::option::of(name()), port, prop::option::of(path_change())).prop_map(
        |(status, scheme, host, (port, is_default_port), path)| Redirect {
            status,
            scheme,
            host,
            port,
            is_default_port,
            path,
        },
    )
}

fn cors() -> impl Strategy<Value = Cors> {
    let origin = text(r"\*|https?://(\*\.)?[a-z]{1,5}\.example(:[0-9]{1,4})?");
    let list = || prop::collection::vec(prop_oneof![name(), Just("*".into())], 0..3);
    (prop::collection::vec(origin, 0..3), list(), list(), list(), 0u32..86400, any::<bool>()).prop_map(
        |(allow_origins, allow_methods, allow_headers, expose_headers, max_age, allow_credentials)| Cors {
            allow_origins,
            allow_methods,
            allow_headers,
            expose_headers,
            max_age,
            allow_credentials,
        },
    )
}

fn external_auth() -> impl Strategy<Value = ExternalAuth> {
    let list = || prop::collection::vec(name(), 0..3);
    let protocol = prop_oneof![
        (text("(/[a-z]{1,5})?"), list())
            .prop_map(|(path_prefix, response_headers)| AuthProtocol::Http { path_prefix, response_headers }),
        name().prop_map(|authority| AuthProtocol::Grpc { authority }),
    ];
    (name(), protocol, list(), any::<u32>()).prop_map(|(cluster, protocol, request_headers, body)| ExternalAuth {
        cluster: cluster.into(),
        protocol,
        request_headers,
        max_body: NonZeroU32::new(body),
    })
}

fn filters() -> impl Strategy<Value = Filters> {
    let rewrite = (prop::option::of(name()), prop::option::of(path_change()))
        .prop_map(|(host, path)| Box::new(Rewrite { host, path }));
    let mirror = (name(), 0u32..=1_000_000).prop_map(|(cluster, share)| Mirror { cluster: cluster.into(), share });
    let redirect = prop::option::weighted(0.3, redirect().prop_map(Box::new));
    (
        changes(),
        changes(),
        prop::option::weighted(0.3, rewrite),
        prop::collection::vec(mirror, 0..2),
        prop::option::weighted(0.3, cors().prop_map(Arc::new)),
        prop::collection::vec(external_auth().prop_map(Arc::new), 0..2),
        redirect,
        (prop::option::weighted(0.3, session().prop_map(Arc::new)), any::<bool>()),
    )
        .prop_map(
            |(request_headers, response_headers, rewrite, mirrors, cors, external_auth, redirect, backend)| Filters {
                request_headers: request_headers.into(),
                response_headers: response_headers.into(),
                rewrite,
                mirrors,
                cors,
                external_auth,
                redirect,
                session: backend.0,
                retry_budget: backend.1,
            },
        )
}

fn session() -> impl Strategy<Value = Session> {
    let lifetime = prop::option::of((1u64..100_000).prop_map(Duration::from_secs));
    prop_oneof![
        name().prop_map(|name| Session::Header { name }),
        (name(), lifetime, prop::option::of(name())).prop_map(|(name, lifetime, backend)| Session::Cookie {
            name,
            path: "/".into(),
            lifetime,
            backend,
        }),
    ]
}

fn destination() -> impl Strategy<Value = Destination> {
    let backend = prop_oneof![
        4 => name().prop_map(|name| Backend::Cluster(name.into())),
        1 => text("[ -~]{1,20}").prop_map(Backend::Broken),
    ];
    let own = prop_oneof![3 => Just(Filters::default()), 1 => filters()];
    (backend, 0u32..=1_000_000, own).prop_map(|(backend, weight, filters)| Destination {
        backend,
        weight,
        filters: filters.into(),
    })
}

fn forward() -> impl Strategy<Value = Forward> {
    let time = || prop::option::of((1u64..1_000_000_000).prop_map(Duration::from_micros));
    let retry = (0u32..5, prop::collection::vec(400u16..=599, 0..3), time())
        .prop_map(|(attempts, codes, backoff)| Box::new(Retry { attempts, codes, backoff }));
    (prop::collection::vec(destination(), 1..5), time(), time(), prop::option::of(retry))
        .prop_map(|(destinations, timeout, try_timeout, retry)| Forward { destinations, timeout, try_timeout, retry })
}

fn route() -> impl Strategy<Value = Route> {
    let action = prop_oneof![
        4 => forward().prop_map(|forward| Action::Forward(Box::new(forward))),
        1 => redirect().prop_map(|redirect| Action::Redirect(redirect.into())),
        1 => (200u16..=599, text("[ -~]*")).prop_map(|(status, reason)| Action::Respond(Respond { status, reason })),
    ];
    (name(), matches(), action, filters()).prop_map(|(name, matches, action, filters)| Route {
        name,
        matches,
        action,
        filters: filters.into(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_route_keeps_the_rules_of_envoys_api_and_encodes_the_same_each_time(routes in prop::collection::vec(route(), 1..4)) {
        let piece = Arc::new(RoutePiece { routes: routes.into_iter().map(Arc::new).collect() });
        let encoded = route_piece(&piece, None);
        prop_assert_eq!(&encoded, &route_piece(&piece.as_ref().clone(), None));
        let host = VirtualHost { name: "h".into(), domains: vec!["*".into()], pieces: vec![Arc::clone(&piece)], external_auth: Vec::new() };
        let bytes = joined(&virtual_host(&host, &[&encoded]).body);
        let decoded = envoy::VirtualHost::decode(bytes.clone()).unwrap();
        prop_assert_eq!(&decoded.routes, &messages(&piece));
        prop_assert!(decoded.routes.len() >= piece.routes.len());
        let violations = protojson::check(type_url::VIRTUAL_HOST, &bytes);
        prop_assert!(violations.is_empty(), "{:?}", violations);
        prop_assert!(encoded.clusters.is_sorted());
        prop_assert!(encoded.clusters.iter().all(|cluster| cluster.as_str() != ir::ClusterName::INVALID));
        let named: std::collections::BTreeSet<String> = decoded.routes.iter().flat_map(clusters).collect();
        let noted: std::collections::BTreeSet<String> = encoded.clusters.iter().map(ToString::to_string).collect();
        prop_assert_eq!(named, noted);
    }

    #[test]
    fn a_later_version_of_a_piece_is_what_it_would_be_without_the_earlier_one(
        routes in prop::collection::vec(route(), 1..6),
        old in prop::collection::vec(0_usize..6, 0..8),
        new in prop::collection::vec(0_usize..6, 0..8),
    ) {
        let routes: Vec<Arc<Route>> = routes.into_iter().map(Arc::new).collect();
        let piece = |picks: Vec<usize>| {
            RoutePiece { routes: picks.into_iter().map(|at| Arc::clone(&routes[at % routes.len()])).collect() }
        };
        let (old, new) = (piece(old), piece(new));
        let before = route_piece(&old, None);
        prop_assert_eq!(route_piece(&new, Some((&old, &before))), route_piece(&new, None));
    }

    #[test]
    fn thresholds_of_one_route_rise_and_end_without_one(route in route()) {
        // Those of sessions, and of hosts with a port, come before and ask for more.
        let own = route.matches.headers.len() + usize::from(route.matches.method.is_some()) + usize::from(route.matches.grpc);
        let piece = RoutePiece { routes: vec![Arc::new(route)] };
        let messages = messages(&piece);
        let plain = messages.iter().filter(|message| message.r#match.as_ref().is_some_and(|it| it.headers.len() == own));
        let limits: Vec<Option<u32>> = plain.map(limit).collect();
        prop_assert_eq!(limits.last(), Some(&None));
        let given: Vec<u32> = limits.iter().flatten().copied().collect();
        prop_assert!(given.len() + 1 == limits.len() && given.is_sorted() && given.iter().all(|limit| *limit <= 1_000_000));
    }
}

/// The threshold of an Envoy route, in millionths.
fn limit(route: &envoy::Route) -> Option<u32> {
    let fraction = route.r#match.as_ref()?.runtime_fraction.as_ref()?;
    Some(fraction.default_value.as_ref()?.numerator)
}

/// The clusters of those that an Envoy route asks.
fn asked(route: &envoy::Route) -> Vec<String> {
    let cluster = |filter: ExtAuthz| match filter.services.unwrap() {
        Services::HttpService(http) => match http.server_uri.unwrap().http_upstream_type.unwrap() {
            HttpUpstreamType::Cluster(cluster) => cluster,
        },
        Services::GrpcService(grpc) => match grpc.target_specifier.unwrap() {
            TargetSpecifier::EnvoyGrpc(grpc) => grpc.cluster_name,
            TargetSpecifier::GoogleGrpc(_) => panic!("not by Envoy"),
        },
    };
    let configs = external_auth::FILTERS.iter().filter_map(|name| route.typed_per_filter_config.get(*name));
    let asked = configs.map(|config| {
        let always = CompositePerRoute::decode(&*config.value).unwrap().matcher.unwrap().on_no_match.unwrap();
        let Some(matcher::on_match::OnMatch::Action(action)) = always.on_match else { panic!("an action") };
        let action = ExecuteFilterAction::decode(&*action.typed_config.unwrap().value).unwrap();
        let filter = action.typed_config.unwrap().typed_config.unwrap();
        cluster(ExtAuthz::decode(&*filter.value).unwrap())
    });
    asked.collect()
}

/// The clusters that an Envoy route names, but for the one that never exists.
fn clusters(route: &envoy::Route) -> Vec<String> {
    let mut names = asked(route);
    let Some(envoy::route::Action::Route(action)) = &route.action else { return names };
    names.extend(action.request_mirror_policies.iter().map(|mirror| mirror.cluster.clone()));
    match &action.cluster_specifier {
        Some(envoy::route_action::ClusterSpecifier::Cluster(name)) => names.push(name.clone()),
        Some(envoy::route_action::ClusterSpecifier::WeightedClusters(weighted)) => {
            names.extend(weighted.clusters.iter().map(|cluster| cluster.name.clone()));
        }
        _ => {}
    }
    names.retain(|name| name != ir::ClusterName::INVALID);
    names
}
