//! State of the world, message by message. A response is shown with all that stands in it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::rig::{changes, kind, show, show_event};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::session::{Session, Wants};
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
        let names = self.names.get(&type_url).cloned().unwrap_or_default();
        let wants = self.wants.entry(type_url.clone()).or_default();
        let request = WholeRequest { type_url, names, version: version.into(), nonce, error: error.map(str::to_owned) };
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
            self.wants.entry(response.type_url.as_str().to_owned()).or_default().latest = response.nonce;
            let resources = response.resources().to_vec();
            shown.push(show(&Response { puts: resources, removed: Vec::new(), ..response.clone() }));
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
