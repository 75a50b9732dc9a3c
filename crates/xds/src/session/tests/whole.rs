//! State of the world, message by message. A response is shown with all that stands in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::rig::{changes, kind, short, show, show_event};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::resource::{Change, Need, Resource, TypeUrl, Version};
use crate::session::sotw::named_in;
use crate::session::{Session, Wants};
use crate::snapshot::{Item, Look};
use crate::wire::{Response, Variant, WholeRequest};

/// A fleet and a client that names all it wants.
pub(super) struct Whole {
    pub(super) fleet: Fleet,
    pub(super) session: Session,
    wants: BTreeMap<String, Wants>,
    /// What it asked for last, by kind.
    names: BTreeMap<String, Vec<String>>,
    pub(super) open: VecDeque<Response>,
    now: Duration,
}

impl Whole {
    pub(super) fn new(resources: &str) -> Self {
        let mut fleet = Fleet::new("ns/gw".into());
        fleet.publish(changes(resources));
        let session = Self::session(&mut fleet, "envoy");
        let (wants, names, open) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self { fleet, session, wants, names, open, now: Duration::from_secs(1) }
    }

    fn session(fleet: &mut Fleet, id: &str) -> Session {
        let node = Node { id: id.into(), user_agent: "envoy".into(), ..Node::default() };
        Session::new(fleet, Arc::new(node), Variant::Sotw, true)
    }

    /// The stream breaks, and the client comes again.
    fn reconnect(&mut self) {
        let old = std::mem::replace(&mut self.session, Self::session(&mut self.fleet, "envoy"));
        old.leave(&mut self.fleet);
        (self.wants, self.names, self.open) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
    }

    /// The client asks for these; what it is told.
    pub(super) fn ask(&mut self, short: &str, names: &[&str]) -> String {
        self.ask_with(short, names, "")
    }

    /// The same with a version.
    fn ask_with(&mut self, short: &str, names: &[&str], version: &str) -> String {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        self.names.insert(kind(short).as_str().to_owned(), names);
        self.say(short, version, String::new(), None)
    }

    /// The client answers its oldest open response of this kind; what it is told then.
    fn answer(&mut self, short: &str, error: Option<&str>) -> String {
        let index = self.open.iter().position(|response| response.type_url == kind(short));
        let response = index.and_then(|index| self.open.remove(index));
        let response = response.unwrap_or_else(|| panic!("no open response of {short}"));
        self.say(short, "", response.nonce.to_string(), error)
    }

    pub(super) fn ack(&mut self, short: &str) -> String {
        self.answer(short, None)
    }

    pub(super) fn nack(&mut self, short: &str, text: &str) -> String {
        self.answer(short, Some(text))
    }

    fn say(&mut self, short: &str, version: &str, nonce: String, error: Option<&str>) -> String {
        let type_url = kind(short).as_str().to_owned();
        let names = self.names.get(&type_url).into_iter().flatten().map(|name| name.as_str().into()).collect();
        let wants = self.wants.entry(type_url.clone()).or_default();
        let (type_url, version, nonce) = (type_url.into(), version.into(), nonce.into());
        let request = WholeRequest { stream: 0, type_url, names, version, nonce, error: error.map(str::to_owned) };
        self.session.receive_whole(&mut self.fleet, wants, request, self.now).expect("within the bounds");
        self.advance()
    }

    pub(super) fn publish(&mut self, text: &str) -> String {
        self.fleet.publish(changes(text));
        self.advance()
    }

    pub(super) fn pass(&mut self, millis: u64) -> String {
        self.now += Duration::from_millis(millis);
        self.advance()
    }

    fn advance(&mut self) -> String {
        let responses = self.session.advance(&mut self.fleet, self.now);
        let mut shown = Vec::new();
        for response in &responses {
            self.wants.entry(response.type_url.as_str().to_owned()).or_default().latest = Some(response.nonce);
            let resources = response.resources().to_vec();
            shown.push(show(&Response { puts: resources.into(), removed: Vec::new(), ..response.clone() }));
        }
        self.open.extend(responses);
        shown.join(" | ")
    }

    /// Acknowledges everything, also what comes then; all that comes.
    pub(super) fn ack_all(&mut self) -> String {
        let mut told = Vec::new();
        while let Some(response) = self.open.pop_front() {
            let short = ["cds", "eds", "lds", "sds", "rds", "vhds", "rtds"];
            let short = short.into_iter().find(|short| kind(short) == response.type_url).expect("a kind");
            told.push(self.say(short, "", response.nonce.to_string(), None));
        }
        told.retain(|text| !text.is_empty());
        told.join(" | ")
    }

    pub(super) fn events(&mut self) -> String {
        self.fleet.take_events().iter().map(show_event).collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn a_listener_that_the_client_let_go_of_is_not_repeated_to_it() {
    let mut rig = Whole::new("lds l@1; lds m@1");
    rig.ask("cds", &[]);
    rig.ack_all();
    assert_eq!(rig.ask("lds", &["*"]), "LDS l@1 m@1");
    rig.ack_all();
    assert_eq!(rig.ask("lds", &[]), "");
    assert_eq!(rig.publish("-lds m"), "");
    assert_eq!(rig.ask("lds", &["*"]), "LDS l@1");
}

#[test]
fn what_came_with_something_refused_whole_has_its_endpoints_behind_the_response_that_brings_it() {
    let mut rig = Whole::new("cds a@1; eds a@1; cds b@1; eds b@1");
    rig.ask("cds", &[]);
    rig.ask("eds", &["a", "b"]);
    rig.ack_all();
    assert_eq!(rig.publish("cds b@80"), "CDS a@1 b@80 | EDS b@1");
    // it repeats what is refused, and nothing of it is taken
    assert_eq!(rig.publish("cds a@2"), "CDS a@2 b@80 | EDS a@1");
    assert_eq!(rig.nack("cds", "Proto constraint validation failed"), "CDS a@2 b@1 | EDS a@1 b@1");
}

#[test]
fn endpoints_that_outlived_their_cluster_are_sent_as_they_are_now() {
    let mut rig = Whole::new("cds a@1; eds a@1; cds b@1; eds b@1");
    rig.ask("cds", &[]);
    rig.ask("eds", &["a", "b"]);
    rig.ack_all();
    rig.reconnect();
    rig.fleet.publish(changes("-cds a"));
    rig.fleet.publish(changes("eds a@2"));
    assert_eq!(rig.ask_with("cds", &[], "7"), "CDS a@1 b@1 | EDS a@2 b@1");
}

/// Clusters `a` and `b`, and a route configuration whose two hosts travel by themselves.
const HOSTS: &str = "cds a@1; eds a@1; cds b@1; eds b@1; lds l@1 -> v; rds v@1; vhds v/x@1 -> a; vhds v/y@1 -> b; lds m@1 -> r; rds r@1 -> a";

/// The version of what is made of several is not shown: it is no short number.
fn hosts_in(rig: &Whole, at: usize) -> String {
    let parts = rig.open[at].puts[0].parts.iter().map(|part| (Arc::clone(part.name()), part.version().0));
    let parts: BTreeMap<Arc<str>, u128> = parts.collect();
    parts.iter().map(|(name, version)| format!("{name}@{version}")).collect::<Vec<_>>().join(" ")
}

fn with_hosts() -> Whole {
    let mut rig = Whole::new(HOSTS);
    rig.ask("cds", &[]);
    rig.ask("eds", &["a", "b"]);
    rig.ack_all();
    rig.ask("lds", &[]);
    rig.ack_all();
    rig.ask("rds", &["r", "v"]);
    rig
}

#[test]
fn hosts_that_travel_one_by_one_come_inside_their_route_configuration() {
    let mut rig = with_hosts();
    assert_eq!(rig.open.len(), 1);
    assert_eq!(rig.open[0].type_url, kind("rds"));
    let made = rig.open[0].puts.iter().find(|item| &**item.name() == "v").expect("it comes");
    let parts: Vec<&str> = made.parts.iter().map(|part| &**part.name()).collect();
    assert_eq!(parts, ["v", "v/y", "v/x"], "the route configuration, then what came last first");
    rig.ack_all();
    let events = rig.events();
    for accepted in ["accepted rds v@1", "accepted vhds v/x@1", "accepted vhds v/y@1", "accepted rds r@1"] {
        assert!(events.contains(accepted), "{accepted} in {events}");
    }
}

#[test]
fn a_change_of_one_host_sends_the_configuration_with_all_of_them_and_no_other() {
    let mut rig = with_hosts();
    rig.ack_all();
    rig.events();
    let said = rig.publish("vhds v/x@2 -> a");
    assert!(said.starts_with("RDS v@") && !said.contains('|') && !said.contains(" r@"), "{said}");
    assert_eq!(hosts_in(&rig, 0), "v@1 v/x@2 v/y@1");
    rig.ack_all();
    assert_eq!(rig.events(), "accepted vhds v/x@2");
    rig.publish("-vhds v/y");
    assert_eq!(hosts_in(&rig, 0), "v@1 v/x@2");
    assert_eq!(rig.ack_all(), "");
}

/// What of the first open configuration is looked at when a client acknowledges it that has the one before.
fn looked_at(rig: &Whole, before: u64) -> Vec<String> {
    let item = &rig.open[0].puts[0];
    let since = rig.fleet.snapshot().made_since(item, before);
    item.parts_since(since).map(|part| part.name().to_string()).collect()
}

/// What is put together for clients of the state of the world.
fn made(rig: &Whole) -> Option<Arc<Item>> {
    let made = rig.fleet.snapshot().view(Variant::Sotw).target(&TypeUrl::Route, "v").cloned();
    made.filter(|made| !made.parts.is_empty())
}

fn whole(rig: &Whole) -> u64 {
    made(rig).expect("put together").seq
}

#[test]
fn of_a_changed_configuration_only_the_changed_hosts_are_looked_at() {
    let mut rig = with_hosts();
    let many: String = (0..100).map(|host| format!("vhds v/{host}@1 -> a;")).collect();
    rig.publish(&many);
    rig.ack_all();
    rig.ack_all();
    let before = whole(&rig);
    rig.publish("vhds v/7@2 -> a; vhds v/50@2 -> b");
    assert_eq!(looked_at(&rig, before), ["v", "v/7", "v/50"]);
    assert_eq!(looked_at(&rig, 0).len(), 103);
    rig.events();
    rig.ack_all();
    assert_eq!(rig.events(), "accepted vhds v/7@2, accepted vhds v/50@2");
}

#[test]
fn hosts_that_were_there_before_their_configuration_asked_for_them_are_taken_with_it() {
    let mut rig = Whole::new("cds a@1; eds a@1; lds l@1 -> v; vhds v/x@1 -> a");
    rig.ask("cds", &[]);
    rig.ask("eds", &["a"]);
    rig.ack_all();
    rig.ask("lds", &[]);
    rig.ack_all();
    let plain = Resource::new(TypeUrl::Route, "v", Version(8), [Bytes::from_static(b"\x0a\x01v")]);
    rig.fleet.publish(vec![Change::Put(Arc::new(plain))]);
    rig.ask("rds", &["v"]);
    rig.ack_all();
    rig.events();
    let before = rig.fleet.snapshot().seq();
    rig.publish("rds v@9");
    assert_eq!(looked_at(&rig, before), ["v", "v/x"]);
    rig.ack_all();
    assert_eq!(rig.events(), "accepted rds v@9, accepted vhds v/x@1");
}

#[test]
fn the_configuration_waits_for_the_clusters_of_its_hosts() {
    let mut rig = with_hosts();
    rig.ack_all();
    assert_eq!(rig.publish("cds c@1; eds c@1; vhds v/x@2 -> c"), "CDS a@1 b@1 c@1 | EDS c@1");
    rig.ask("eds", &["a", "b", "c"]);
    let said = rig.ack("eds");
    assert!(said.contains("RDS v@"), "{said}");
}

#[test]
fn a_refused_host_stays_as_it_was_and_is_reported_and_the_others_of_its_configuration_go_on() {
    let mut rig = with_hosts();
    rig.ack_all();
    rig.events();
    rig.publish("vhds v/x@2 -> a");
    assert_eq!(rig.nack("rds", "missing ]: ["), "", "the version before is in force");
    assert_eq!(rig.events(), "refused vhds v/x@2: missing ]: [");
    assert_eq!(rig.publish("rds r@2 -> b"), "RDS r@2");
    rig.ack_all();
    assert_eq!(rig.events(), "accepted rds r@2");
    rig.publish("vhds v/y@2 -> a; vhds v/z@1 -> b");
    assert_eq!(hosts_in(&rig, 0), "v@1 v/x@1 v/y@2 v/z@1");
    rig.ack_all();
    assert_eq!(rig.events(), "accepted vhds v/z@1, accepted vhds v/y@2");
    // mended
    rig.publish("vhds v/x@3 -> a");
    assert_eq!(hosts_in(&rig, 0), "v@1 v/x@3 v/y@2 v/z@1");
    rig.ack_all();
    assert_eq!(rig.events(), "accepted vhds v/x@3");
}

/// Answers everything, also what comes then, and refuses what holds one of these. How many responses of route configurations that were,
/// and how many parts the last of them had.
fn answer_by(rig: &mut Whole, bad: &[&str]) -> (usize, usize) {
    let (mut count, mut last) = (0, 0);
    while let Some(response) = rig.open.front() {
        let short = short(&response.type_url);
        let mut refused = false;
        if short == "rds" {
            count += 1;
            let parts = response.puts.iter().flat_map(|item| &item.parts);
            let parts: Vec<String> = parts.map(|part| format!("{}@{}", part.name(), part.version().0)).collect();
            refused = parts.iter().any(|part| bad.contains(&part.as_str()));
            last = parts.len();
        }
        rig.answer(short, refused.then_some("missing ]: ["));
    }
    (count, last)
}

#[test]
fn of_several_new_hosts_the_one_that_is_refused_is_found_and_the_others_are_taken() {
    let cases = [
        ("v/x@2", "v@2 v/x@3 v/y@2 v/z@1"),
        ("v/y@2", "v@2 v/x@3 v/y@1 v/z@1"),
        ("v/z@1", "v@2 v/x@3 v/y@2"),
        ("v@2", "v@1 v/x@3 v/y@2 v/z@1"),
    ];
    for (bad, then) in cases {
        let mut rig = with_hosts();
        rig.ack_all();
        rig.events();
        rig.publish("vhds v/x@2 -> a; vhds v/y@2 -> b; vhds v/z@1 -> a; rds v@2");
        let (count, _) = answer_by(&mut rig, &[bad]);
        assert!(count <= 8, "{count} responses");
        let events = rig.events();
        let short = if bad.contains('/') { "vhds" } else { "rds" };
        assert!(events.contains(&format!("refused {short} {bad}: missing ]: [")), "{events}");
        assert_eq!(events.matches("refused").count(), 1, "{events}");
        for good in ["vhds v/x@2", "vhds v/y@2", "vhds v/z@1", "rds v@2"].into_iter().filter(|one| !one.ends_with(bad))
        {
            assert_eq!(events.matches(&format!("accepted {good}")).count(), 1, "{good} in {events}");
        }
        rig.publish("vhds v/x@3 -> a");
        assert_eq!(hosts_in(&rig, 0), then, "{bad}");
    }
}

#[test]
fn bad_hosts_of_a_first_start_are_left_out_however_many_good_ones_there_are() {
    let mut rig = with_hosts();
    let many: String = (0..1000).map(|host| format!("vhds v/{host}@1 -> a;")).collect();
    rig.publish(&many);
    let (count, last) = answer_by(&mut rig, &["v/x@1", "v/500@1", "v/77@1"]);
    assert!(count < 90, "{count} responses");
    assert_eq!(last, 1000, "the configuration and 999 of 1,002 hosts");
    let events = rig.events();
    assert_eq!(events.matches("refused").count(), 3, "{events}");
    assert_eq!(events.matches("accepted vhds v/").count(), 999);
}

#[test]
fn hosts_that_move_into_their_configuration_and_out_of_it_again_are_never_missing() {
    let mut rig = with_hosts();
    rig.ack_all();
    // `r` begins to ask for its hosts under another name, as all configurations with many hosts
    let said = rig.publish("rds vr@1; vhds vr/x@1 -> a; lds m@2 -> vr; -rds r");
    assert_eq!(said, "LDS l@1 m@2", "what it names is asked for");
    rig.ask("rds", &["r", "v", "vr"]);
    let index = rig.open.iter().position(|response| response.type_url == kind("rds")).expect("it comes");
    assert_eq!(hosts_in(&rig, index), "vr@1 vr/x@1");
    rig.ack_all();
    // and back
    let said = rig.publish("rds r@3 -> a; lds m@3 -> r; -rds vr; -vhds vr/x");
    assert!(said.contains("RDS r@3") || said.contains("LDS l@1 m@3"), "{said}");
    rig.ack_all();
    rig.pass(1);
    rig.ack_all();
    // under one name
    assert_eq!(rig.publish("rds r@4 -> a, b"), "RDS r@4");
    rig.ack_all();
}

#[test]
fn delta_and_whole_clients_of_a_fleet_both_have_to_take_a_host() {
    let mut rig = with_hosts();
    rig.ack_all();
    let mut other =
        super::rig::Rig { fleet: std::mem::take(&mut rig.fleet), clients: Vec::new(), now: Duration::from_secs(1) };
    other.connect("delta");
    other.start(0);
    other.events();
    assert_eq!(other.publish("vhds v/x@2 -> a"), "VHDS v/x@2");
    other.ack_all(0);
    assert_eq!(other.events(), "", "one of two");
    rig.fleet = other.fleet;
    rig.pass(1);
    assert_eq!(hosts_in(&rig, 0), "v@1 v/x@2 v/y@1");
    rig.ack_all();
    assert_eq!(rig.events(), "accepted vhds v/x@2");
}

#[test]
fn nothing_is_put_together_for_delta_clients_alone() {
    let mut rig = with_hosts();
    let before = made(&rig).expect("put together");
    let (node, variant) = (Arc::new(Node::default()), Variant::Delta);
    std::mem::replace(&mut rig.session, Session::new(&mut rig.fleet, node, variant, true)).leave(&mut rig.fleet);
    rig.reconnect();
    assert!(Arc::ptr_eq(&before, &made(&rig).expect("kept")), "one that comes and goes has nothing put together anew");
    let delta = Session::new(&mut rig.fleet, Arc::new(Node::default()), Variant::Delta, true);
    std::mem::replace(&mut rig.session, delta).leave(&mut rig.fleet);
    rig.publish("vhds v/x@2 -> a");
    assert!(made(&rig).is_none());
    rig.reconnect();
    let parts: BTreeSet<u128> = made(&rig).expect("put together").parts.iter().map(|part| part.version().0).collect();
    assert_eq!(parts, BTreeSet::from([1, 2]));
}

#[test]
fn what_is_gone_is_left_out_for_a_client_that_comes_again_even_if_what_is_new_is_refused_and_then_blocked() {
    let mut rig = Whole::new("cds a@1; lds l@1");
    rig.ask("cds", &[]);
    rig.ask("lds", &[]);
    rig.ack_all();
    rig.fleet.publish(changes("-lds l; lds m@80"));
    rig.reconnect();
    assert_eq!(rig.ask_with("lds", &[], "7"), "LDS m@80");
    rig.fleet.publish(changes("lds m@2 -> r"));
    assert_eq!(rig.nack("lds", "Proto constraint validation failed"), "LDS", "an empty one: nothing else can go yet");
}

#[test]
fn of_a_cluster_that_went_twice_a_client_that_comes_again_may_have_either_version() {
    let mut rig = Whole::new("cds a@1; eds a@1");
    rig.ask("cds", &[]);
    rig.ask("eds", &["a"]);
    rig.ack_all();
    for text in ["-cds a; -eds a", "cds a@2; eds a@1", "-cds a; -eds a"] {
        rig.publish(text);
        rig.ack_all();
    }
    rig.reconnect();
    rig.ask_with("cds", &[], "7");
    let said = rig.publish("cds a@1; eds a@1");
    assert!(said.contains("CDS a@1"), "{said}");
}

#[test]
fn of_answers_that_were_withheld_the_last_tells_of_all_and_the_culprit_is_tried_without_waiting() {
    let mut rig = Whole::new("cds a@1; eds a@1");
    rig.ask("cds", &[]);
    rig.ask("eds", &["a"]);
    rig.ack_all();
    assert_eq!(rig.publish("cds b@90; eds b@1"), "CDS a@1 b@90");
    assert_eq!(rig.publish("cds a@2"), "CDS a@2 b@90 | EDS a@1");
    rig.open
        .retain(|response| response.puts.iter().all(|item| &**item.name() != "b") || response.type_url != kind("cds"));
    rig.ack("eds");
    let said = rig.nack("cds", "Error adding/updating cluster(s) b: no");
    assert!(said.starts_with("CDS a@2"), "{said}");
    let said = rig.ack_all();
    assert!(said.contains("CDS a@2 b@90"), "the culprit by itself, at the same moment: {said}");
}

#[test]
fn a_listener_that_has_to_wait_is_not_left_out_of_the_first_response_to_a_client_that_may_have_it() {
    let routes = "rds r@1 -> a; rds t@1 -> b";
    let mut rig = Whole::new(&format!("cds a@1; eds a@1; cds b@1; eds b@1; lds l@1 -> r; lds m@1 -> t; {routes}"));
    rig.ask_with("cds", &[], "7");
    assert_eq!(rig.ask_with("lds", &[], "8"), "", "the routes of one wait for a cluster");
    rig.ask("eds", &["a", "b"]);
    assert!(rig.ack_all().contains("LDS l@1 m@1"));
}

#[test]
fn a_listener_whose_secret_is_not_there_is_not_left_out_of_the_first_response_to_a_client_that_may_have_it() {
    let resources = "cds a@1; eds a@1; lds l@1 -> r; lds m@1 -> r, sds:k; rds r@1 -> a";
    let comes_again = || {
        let mut rig = Whole::new(resources);
        rig.ask_with("cds", &[], "7");
        rig.ask("eds", &["a"]);
        rig.ack_all();
        assert_eq!(rig.ask_with("lds", &[], "8"), "");
        rig
    };
    assert_eq!(comes_again().publish("sds k@1"), "LDS l@1 m@1 | SDS k@1");
    // the others do not wait for ever, and the port that it may have stays open
    let mut rig = comes_again();
    assert_eq!(rig.pass(4_999), "");
    assert_eq!(rig.pass(1), "LDS l@1 m@1");
    rig.ask_with("rds", &["r"], "9");
    rig.ask_with("sds", &["k"], "9");
    rig.ack_all();
    assert_eq!(rig.pass(60_000), "", "it is not taken back: what there was before is not known");
    assert_eq!(rig.publish("lds l@2 -> r"), "LDS l@2 m@1");
}

#[test]
fn what_a_client_that_comes_again_is_to_be_rid_of_takes_nothing_else_along() {
    let mut rig = Whole::new("cds a@1; eds a@1");
    rig.reconnect();
    // refused by it, and then the process ended
    rig.fleet.doubt(&"envoy".into(), [Need::new(TypeUrl::Cluster, "ghost")].into());
    assert_eq!(rig.ask_with("cds", &[], "7"), "CDS a@1 | EDS a@1");
}

#[test]
fn an_acknowledgement_that_is_the_only_one_of_several_speaks_for_all() {
    let mut rig = Whole::new("cds a@1; eds a@1");
    rig.ask("cds", &[]);
    rig.ask("eds", &["a"]);
    rig.ack_all();
    assert_eq!(rig.publish("cds a@2"), "CDS a@2 | EDS a@1");
    assert_eq!(rig.publish("cds b@1; eds b@1"), "CDS a@2 b@1");
    rig.open.retain(|response| response.type_url == kind("cds"));
    rig.open.pop_front();
    rig.ack("cds");
    assert_eq!(rig.publish("cds a@3"), "CDS a@3 b@1 | EDS a@1");
}

#[test]
fn culprits_are_found_by_their_names_however_many_there_are() {
    let item = |name: &str| Item::new(Resource::new(TypeUrl::Cluster, name, Version(1), []).into(), 1);
    let items: Vec<_> = ["a", "b: c", "c", "d", "e", "no", "x: y: z: u"].map(item).into();
    let text = "Error adding/updating cluster(s) a: no, d; b: c: no: c, b: c: bad, x: y: z: u: e, e";
    let named = |text: &str| named_in(text, &items).iter().map(|item| item.name().to_string()).collect::<Vec<_>>();
    assert_eq!(named(text), ["a", "b: c", "x: y: z: u"]);
    assert_eq!(named("a: no"), [""; 0]);
    let many: Vec<_> = (0..50_000).map(|n| item(&n.to_string())).collect();
    let text = (0..50_000).map(|n| format!("{n}: no, ")).collect::<String>();
    assert_eq!(named_in(&format!("Error adding/updating cluster(s) {text}"), &many).len(), 50_000);
}
