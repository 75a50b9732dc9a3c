//! First starts of a real Envoy 1.40 with whatever part is missing: it serves nothing before all that it asks for is answered (R6).

use std::cell::RefCell;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::envoy::config::route::v3::RouteConfiguration;

use super::authority::Authority;
use super::proxy::{free_address, get, wait_for};
use super::real_warming::{answer_names, resolved_by};
use super::resources::tls::{certificate, tls_listener};
use super::resources::{altered, cluster, endpoints, host, listener, listener_of, routes, routes_of, routes_of_hosts};
use super::stage::{SOON, Stage, over, socket};
use crate::session::GRACE;
use crate::{Change, Event, Need, Resource, TypeUrl};

over!(ads: [
    a_first_start_with_nothing_is_ready_and_serves_when_there_is_something,
    a_first_start_without_endpoints_is_ready_and_they_are_used_when_they_come,
    a_first_start_without_routes_is_ready_and_they_are_used_when_they_come,
    a_first_start_without_routes_that_nobody_spoke_of_is_ready_and_they_are_used_when_they_come,
    a_first_start_without_a_secret_is_ready_and_it_is_used_when_it_comes,
    a_first_start_without_any_host_of_routes_that_have_them_apart_is_ready_and_hosts_are_used_when_they_come,
    a_first_start_with_a_name_that_is_not_resolved_serves_all_other_routes,
    a_first_start_with_names_alone_serves_them_from_the_first_request,
]);

over!(delta_for_each_kind: Variant::Delta, false, [
    a_first_start_with_names_alone_serves_them_from_the_first_request,
]);

/// Starts with some of it, and waits well below 15 s until Envoy is ready.
fn started_with(some: impl FnOnce(&Stage) -> Vec<Change>) -> Stage {
    let stage = Stage::bare(socket);
    stage.publish(some(&stage));
    wait_for("Envoy to be ready", SOON, || stage.envoy.admin("/ready").contains("LIVE"));
    stage
}

fn small_with(more: Change) -> impl FnOnce(&Stage) -> Vec<Change> {
    |stage| [stage.small(1), vec![more]].concat()
}

/// The rest comes, and requests are answered.
fn and_then(stage: Stage, rest: Vec<Change>) {
    stage.publish(rest);
    stage.wait_for_answer("any", "200 a");
    stage.end();
}

fn a_first_start_with_nothing_is_ready_and_serves_when_there_is_something() {
    let stage = started_with(|_| Vec::new());
    let all = small_with(routes(1, "a"))(&stage);
    and_then(stage, all);
}

fn a_first_start_without_endpoints_is_ready_and_they_are_used_when_they_come() {
    let stage = started_with(|stage| vec![cluster("a", 1), listener(stage.at), routes(1, "a")]);
    wait_for("nobody to answer", SOON, || get(stage.at, "any").starts_with("503"));
    let rest = vec![endpoints("a", 1, stage.a.address)];
    and_then(stage, rest);
}

fn a_first_start_without_routes_is_ready_and_they_are_used_when_they_come() {
    and_then(started_with(|stage| stage.small(1)), vec![routes(1, "a")]);
}

/// The listener does not say that it needs them, so that Envoy is sent it and asks for them.
fn a_first_start_without_routes_that_nobody_spoke_of_is_ready_and_they_are_used_when_they_come() {
    let silent = |stage: &Stage| {
        altered(listener(stage.at), |resource: &mut Resource, _: &mut proto::envoy::config::listener::v3::Listener| {
            resource.needs = [].into();
        })
    };
    let stage = started_with(|stage| vec![cluster("a", 1), endpoints("a", 1, stage.a.address), silent(stage)]);
    wait_for("no route", SOON, || get(stage.at, "any").starts_with("404"));
    and_then(stage, vec![routes(1, "a")]);
}

fn a_first_start_without_a_secret_is_ready_and_it_is_used_when_it_comes() {
    let (authority, tls) = (Authority::new("one"), free_address());
    let stage =
        started_with(|stage| [stage.small(1), vec![routes(1, "a"), tls_listener("t", 1, "cert", tls)]].concat());
    stage.wait_for_answer("any", "200 a");
    assert!(authority.get(tls, "any").is_err());
    stage.publish(vec![certificate("cert", 1, &authority.issue("server"))]);
    wait_for("the listener over TLS", SOON, || authority.get(tls, "any").is_ok());
    stage.end();
}

/// Envoy waits for an answer about hosts, and an empty one is none.
fn a_first_start_without_any_host_of_routes_that_have_them_apart_is_ready_and_hosts_are_used_when_they_come() {
    let stage = started_with(small_with(routes_of_hosts(1)));
    wait_for("no host", SOON, || get(stage.at, "any").starts_with("404"));
    and_then(stage, vec![host("any", 1, "a")]);
}

/// A resolver that gives no answer.
fn silent() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// Envoy gives up on the name after more than 80 s, and waits so long for what it has before it asks for listeners.
fn a_first_start_with_a_name_that_is_not_resolved_serves_all_other_routes() {
    let (resolver, other) = (silent(), free_address());
    let both = altered(routes(1, "a"), |resource: &mut Resource, _: &mut RouteConfiguration| {
        resource.needs = [["a", "dns"].map(|name| Need::new(TypeUrl::Cluster, name)).into()].into();
    });
    let stage = started_with(|stage| {
        let more = vec![
            resolved_by("dns", resolver.local_addr().unwrap(), stage.b.address),
            listener_of("other", 1, "s", other),
            routes_of("s", 1, "dns"),
            both,
        ];
        [stage.small(1), more].concat()
    });
    stage.wait_for_answer("any", "200 a");
    // that it is late is reported at once, and not when it is given up: so long no route is held back
    stage.wait("it to be late", |event| matches!(event, Event::Stalled { name, .. } if &**name == "dns"));
    wait_for("no answer of a backend", SOON, || get(other, "any").starts_with("503"));
    wait_for("the name to be resolved", SOON, || {
        answer_names(&resolver);
        get(other, "any") == "200 b"
    });
    stage.end();
}

/// Starts that are tried on a machine that is too busy to resolve a name in time.
const TRIES: usize = 10;

/// All clusters have names, so that Envoy gets none before it asks for listeners.
fn a_first_start_with_names_alone_serves_them_from_the_first_request() {
    assert!((0..TRIES).any(|_| serves_names_from_the_first_request()), "the name is late each time");
}

/// Returns false where the name took longer than the first listeners wait for it: its routes answer 503 then.
fn serves_names_from_the_first_request() -> bool {
    let resolver = silent();
    let answering = resolver.try_clone().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let answers = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            answer_names(&answering);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let stage = Stage::bare(socket);
    let dns = resolved_by("dns", resolver.local_addr().unwrap(), stage.a.address);
    let published = Instant::now();
    stage.publish(vec![dns, listener(stage.at), routes(1, "dns")]);
    let first = RefCell::new(String::new());
    wait_for("the first answer", SOON, || {
        *first.borrow_mut() = get(stage.at, "any");
        first.borrow().starts_with(|digit: char| digit.is_ascii_digit())
    });
    over.store(true, Ordering::Relaxed);
    answers.join().unwrap();
    let served = *first.borrow() == "200 a";
    assert!(served || published.elapsed() >= GRACE, "{first:?} before the name had its time");
    stage.end();
    served
}
