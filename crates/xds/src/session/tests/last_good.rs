//! A process that ended with -9 and one that begins with what was saved, before any source has answered.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::rig::{Rig, answer, changes, kind, request, show};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::saved::SavedFleet;
use crate::session::{Session, Wants};
use crate::wire::{Request, Response, Variant, WholeRequest};

const SHOP: &str = "cds a; eds a; lds l -> r; rds r -> a";

/// What is saved of a fleet by now.
fn saved(rig: &mut Rig) -> Bytes {
    rig.fleet.take_unsaved(&"ns/gw".into()).expect("something to save").parts().flatten().collect()
}

/// A process with a client that has everything.
fn started(resources: &str, secrets: bool) -> Rig {
    let mut rig = Rig::new("");
    rig.fleet.keep(secrets);
    rig.publish(resources);
    rig.start(0);
    rig
}

/// The next process, without the sources, and a client that connects.
fn restarted(saved: &Bytes) -> Rig {
    let mut rig = Rig::new("");
    rig.clients.clear();
    rig.fleet = Fleet::new("ns/gw".into());
    rig.fleet.keep(false);
    rig.fleet.restore(SavedFleet::read(saved).expect("what was saved"));
    rig.connect("envoy");
    rig.fleet.take_events();
    rig
}

/// What the client says that comes again with all of [`SHOP`].
fn resume(rig: &mut Rig) -> String {
    let told = [
        rig.resume("cds", &[], &["a@1"]),
        rig.resume("eds", &["a"], &["a@1"]),
        rig.resume("lds", &[], &["l@1"]),
        rig.resume("rds", &["r"], &["r@1"]),
    ];
    told.concat()
}

#[test]
fn a_new_client_is_given_the_last_good_in_order() {
    let mut rig = restarted(&saved(&mut started(SHOP, false)));
    assert_eq!(rig.subscribe("cds", &[]), "CDS a@1");
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@1");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.subscribe("lds", &[]), "LDS l@1");
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@1");
    assert_eq!((rig.ack_all(0), rig.events()), (String::new(), String::new()));
    assert_eq!(rig.publish(SHOP), "", "it has all of it");
    assert_eq!(rig.events(), "warm a, accepted lds l@1, accepted rds r@1, live");
}

#[test]
fn a_client_that_comes_again_is_sent_nothing_and_what_it_uses_is_told_once_it_is_published() {
    let mut rig = restarted(&saved(&mut started(SHOP, false)));
    assert_eq!((resume(&mut rig), rig.pass(10_000), rig.events()), Default::default());
    assert_eq!(rig.publish(SHOP), "");
    assert_eq!(rig.events(), "warm a, accepted lds l@1, accepted rds r@1, live");
}

#[test]
fn nothing_is_denied_replaced_or_taken_away_before_something_is_published() {
    let mut rig = restarted(&saved(&mut started(SHOP, false)));
    // it has more, and newer, than was saved
    assert_eq!(rig.resume("cds", &[], &["a@2", "b@1"]), "");
    assert_eq!(rig.resume("eds", &["a", "b", "c"], &["a@2", "b@1"]), "");
    assert_eq!(rig.resume("lds", &[], &["l@1", "m@1"]), "");
    assert_eq!(rig.resume("rds", &["r", "s", "t"], &["r@2", "s@1"]), "");
    assert_eq!((rig.pass(120_000), rig.events()), Default::default());
    assert_eq!(rig.publish("cds a@2; eds a@3; lds l -> r; rds r@2 -> a"), "EDS a@3 c@none | RDS -t");
    let told = rig.ack_all(0);
    assert!(told.starts_with("LDS -m"), "{told}");
}

#[test]
fn cluster_that_comes_back_before_it_was_taken_away_is_saved_again() {
    let mut rig = started(SHOP, false);
    let mut file = saved(&mut rig).to_vec();
    // A canary, rolled back while the client has all of it still.
    for step in ["cds b; eds b; rds r@2 -> b; -cds a; -eds a", "cds a; eds a; rds r@3 -> a; -cds b; -eds b"] {
        rig.publish(step);
        rig.ack_all(0);
        rig.subscribe("eds", &["b"]);
        rig.ack_all(0);
        file.extend(saved(&mut rig));
    }
    let mut rig = restarted(&Bytes::from(file));
    assert_eq!(rig.subscribe("cds", &[]), "CDS a@1");
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@1");
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "LDS l@1");
    assert_eq!(rig.subscribe("rds", &["r"]), "RDS r@3");
}

#[test]
fn whatever_is_not_published_goes_in_the_order_of_removals() {
    let mut rig = restarted(&saved(&mut started("cds a; eds a; cds b; eds b; lds l -> r; rds r -> a, b", false)));
    rig.start(0);
    assert_eq!(rig.publish("cds a; eds a; lds l -> r; rds r@2 -> a"), "RDS r@2");
    let told = rig.ack_all(0) + &rig.pass(10_000) + &rig.ack_all(0);
    assert!(told.starts_with("CDS -b"), "{told}");
    let first = rig.events();
    assert!(first.contains("accepted rds r@2") && first.contains("warm a") && !first.contains(" b"), "{first}");
    assert!(SavedFleet::read(&saved(&mut rig)).is_err(), "it is added to the file");
}

#[test]
fn what_needs_a_secret_that_is_not_saved_waits_for_it() {
    let with_key = "cds a; eds a; lds l -> r, sds:key; lds m -> r; rds r -> a; sds key";
    let mut rig = restarted(&saved(&mut started(with_key, false)));
    rig.subscribe("cds", &[]);
    rig.subscribe("eds", &["a"]);
    rig.ack_all(0);
    assert_eq!(rig.subscribe("lds", &[]), "LDS m@1");
    rig.subscribe("rds", &["r"]);
    assert_eq!((rig.ack_all(0), rig.pass(20_000)), Default::default());
    assert_eq!(rig.publish(with_key), "LDS l@1", "its secret is asked for");
    assert_eq!(rig.subscribe("sds", &["key"]), "SDS key@1");
    let mut with_secrets = restarted(&saved(&mut started(with_key, true)));
    with_secrets.start(0);
    assert_eq!(with_secrets.publish(with_key), "");
}

#[test]
fn a_client_that_has_a_listener_whose_secret_is_not_saved_loses_nothing() {
    let with_key = "cds a; eds a; lds l -> r, sds:key; rds r -> a; sds key";
    let mut rig = restarted(&saved(&mut started(with_key, false)));
    assert_eq!(resume(&mut rig), "");
    assert_eq!(rig.resume("sds", &["key"], &["key@1"]), "");
    assert_eq!((rig.pass(60_000), rig.events()), Default::default());
    assert_eq!(rig.publish(with_key), "");
    assert!(rig.events().contains("accepted lds l@1"));
}

#[test]
fn a_refusal_of_the_last_good_is_told_when_the_same_is_published() {
    let mut rig = restarted(&saved(&mut started(SHOP, false)));
    rig.subscribe("cds", &[]);
    assert_eq!(
        (rig.nack("cds", "Error adding/updating cluster(s) a: no"), rig.events()),
        ("CDS -a".into(), String::new())
    );
    rig.ack_all(0);
    assert_eq!((rig.pass(10_000), rig.events()), Default::default());
    assert_eq!(rig.publish(SHOP), "CDS a@1");
    rig.nack("cds", "Error adding/updating cluster(s) a: no");
    assert_eq!(rig.events(), "refused cds a@1: Error adding/updating cluster(s) a: no");
}

#[test]
fn a_new_version_that_is_refused_after_the_restart_falls_back_to_the_last_good() {
    let mut rig = restarted(&saved(&mut started(SHOP, false)));
    resume(&mut rig);
    assert_eq!(rig.publish("cds a; eds a; lds l@2 -> r; rds r -> a"), "LDS l@2");
    rig.nack("lds", "no");
    let other = rig.connect("other");
    assert_eq!(rig.say(other, request("cds", &[], &[])), "CDS a@1");
}

#[test]
fn a_cluster_that_may_be_a_ghost_is_cured_by_the_next_process() {
    let mut rig = started(SHOP, false);
    let mut file = saved(&mut rig).to_vec();
    rig.publish("cds a@2; cds b@1; eds b");
    rig.nack("cds", "cannot be told apart");
    file.extend(saved(&mut rig));
    // killed before the cure was acknowledged
    let mut rig = restarted(&file.into());
    assert_eq!(rig.resume("cds", &[], &["a@1"]), "CDS a@1 | EDS a@1", "the last good with its endpoints");
    assert_eq!(rig.publish(SHOP), "CDS -b", "new, and not to be");
    rig.ack_all(0);
    let ends = saved(&mut rig);
    assert!(!ends.is_empty(), "that is over is saved too");
    assert!(rig.fleet.take_unsaved(&"ns/gw".into()).is_none());
}

#[test]
fn a_fleet_that_is_no_more_is_not_answered_from_what_was_saved() {
    let mut rig = restarted(&saved(&mut started(SHOP, false)));
    rig.fleet.withdraw();
    assert_eq!(rig.subscribe("cds", &[]), "");
    assert!(rig.fleet.snapshot().is_empty());
}

/// A SotW client of a process.
struct Sotw {
    session: Session,
    wants: BTreeMap<String, Wants>,
    /// The version that it accepted last of each kind.
    versions: BTreeMap<String, String>,
}

impl Sotw {
    fn connect(rig: &mut Rig, versions: BTreeMap<String, String>) -> Self {
        let node = Node { id: "envoy".into(), user_agent: "envoy".into(), ..Node::default() };
        let session = Session::new(&mut rig.fleet, node.into(), Variant::Sotw, true);
        Self { session, wants: BTreeMap::new(), versions }
    }

    /// Asks for something and acknowledges whatever comes; what came.
    fn say(&mut self, rig: &mut Rig, short: &str, names: &[&str]) -> String {
        self.request(rig, short, names, "");
        self.take(rig, names)
    }

    fn request(&mut self, rig: &mut Rig, short: &str, names: &[&str], nonce: &str) {
        let version = self.versions.get(short).cloned().unwrap_or_default().into();
        let names = names.iter().map(|&name| name.into()).collect();
        let (type_url, nonce) = (kind(short).as_str().into(), nonce.into());
        let request = WholeRequest { stream: 0, type_url, names, version, nonce, error: None };
        let wants = self.wants.entry(short.to_owned()).or_default();
        self.session.receive_whole(&mut rig.fleet, wants, request, rig.now).expect("within the bounds");
    }

    fn take(&mut self, rig: &mut Rig, names: &[&str]) -> String {
        let mut told = Vec::new();
        loop {
            let responses = self.session.advance(&mut rig.fleet, rig.now);
            let Some(last) = responses.last() else { return told.join(" | ") };
            assert!(last.whole.is_some());
            for response in &responses {
                told.push(show(response));
                self.acknowledge(rig, response, names);
            }
        }
    }

    fn acknowledge(&mut self, rig: &mut Rig, response: &Response, names: &[&str]) {
        let Request { nonce, .. } = answer(response, None);
        let short = show(response).split(' ').next().map(str::to_lowercase).expect("a kind");
        let version = response.whole.as_ref().map(|whole| whole.version.to_string()).expect("a version");
        self.versions.insert(short.clone(), version);
        self.wants.entry(short.clone()).or_default().latest = Some(response.nonce);
        let names = if matches!(&*short, "cds" | "lds") { &[] } else { names };
        self.request(rig, &short, names, &nonce);
    }

    fn ask_for_shop(&mut self, rig: &mut Rig) -> String {
        let told = [("cds", &[][..]), ("eds", &["a"]), ("lds", &[]), ("rds", &["r"])];
        told.map(|(short, names)| self.say(rig, short, names)).concat()
    }
}

#[test]
fn a_client_of_the_other_variant_that_comes_again_with_the_same_version_is_sent_nothing() {
    let mut rig = started(SHOP, false);
    let mut first = Sotw::connect(&mut rig, BTreeMap::new());
    assert_eq!(first.ask_for_shop(&mut rig), "CDS a@1EDS a@1LDS l@1RDS r@1");
    let mut rig = restarted(&saved(&mut rig));
    let mut again = Sotw::connect(&mut rig, first.versions.clone());
    assert_eq!(again.say(&mut rig, "cds", &[]) + &again.say(&mut rig, "lds", &[]), "");
    rig.publish(SHOP);
    assert_eq!(again.take(&mut rig, &[]), "");
}

#[test]
fn a_client_of_the_other_variant_with_another_version_waits_so_that_nothing_is_taken_from_it() {
    let mut rig = started(SHOP, false);
    let before = saved(&mut rig);
    rig.publish("cds b; eds b");
    rig.ack_all(0);
    let mut first = Sotw::connect(&mut rig, BTreeMap::new());
    assert_eq!(first.say(&mut rig, "cds", &[]), "CDS a@1 b@1");
    let mut rig = restarted(&before);
    let mut again = Sotw::connect(&mut rig, first.versions.clone());
    assert_eq!(again.say(&mut rig, "cds", &[]), "");
    rig.publish(&format!("{SHOP}; cds b; eds b"));
    assert_eq!(again.take(&mut rig, &[]), "", "it turns out to have just that");
    let mut stranger = Sotw::connect(&mut restarted(&before), BTreeMap::from([("cds".into(), "5".into())]));
    let mut rig = restarted(&before);
    stranger.session = Session::new(
        &mut rig.fleet,
        Node { user_agent: "envoy".into(), ..Node::default() }.into(),
        Variant::Sotw,
        true,
    );
    assert_eq!(stranger.say(&mut rig, "cds", &[]), "");
    rig.fleet.publish(changes(SHOP));
    assert_eq!(stranger.take(&mut rig, &[]), "CDS a@1 | EDS a@1");
}

#[test]
fn clusters_that_turn_out_to_be_what_the_client_has_are_not_taken_for_new_and_hold_up_no_routes() {
    let mut rig = started(SHOP, false);
    let before = saved(&mut rig);
    rig.publish("cds b; eds b");
    rig.ack_all(0);
    let mut first = Sotw::connect(&mut rig, BTreeMap::new());
    assert_eq!(first.say(&mut rig, "cds", &[]), "CDS a@1 b@1");
    first.say(&mut rig, "eds", &["a", "b"]);
    first.say(&mut rig, "lds", &[]);
    first.say(&mut rig, "rds", &["r"]);
    let mut rig = restarted(&before);
    let mut again = Sotw::connect(&mut rig, first.versions.clone());
    let told = [("cds", &[][..]), ("eds", &["a", "b"]), ("lds", &[]), ("rds", &["r"])];
    assert_eq!(told.map(|(short, names)| again.say(&mut rig, short, names)).concat(), "");
    rig.publish("cds a; eds a; lds l -> r; rds r@2 -> a; cds b; eds b");
    let responses = again.session.advance(&mut rig.fleet, rig.now);
    let told: Vec<String> = responses.iter().map(show).collect();
    assert_eq!(told, ["EDS a@1 b@1", "RDS r@2"]);
}
