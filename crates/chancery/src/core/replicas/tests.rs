//! What follows from what several replicas say.

use xds::{Node, Objection};

use super::*;

const FLEET: &str = "ns/gw";
const LISTENER: &str = "ns/gw/80";

fn accepted(version: u128) -> Event {
    let (fleet, name) = (FLEET.into(), LISTENER.into());
    Event::Accepted { fleet, type_url: TypeUrl::Listener, name, version: Version(version), was_refused: false }
}

fn refused(type_url: TypeUrl, name: &str, version: u128) -> Event {
    Event::Refused {
        fleet: FLEET.into(),
        type_url,
        name: name.into(),
        version: Version(version),
        text: "no".into(),
        has_previous: false,
    }
}

fn connected(count: usize) -> Event {
    Event::Connected { fleet: FLEET.into(), node: Arc::new(Node::default()), connected: count }
}

/// What a replica tells of these events.
fn said_of(events: &[Event]) -> Arc<Said> {
    let (sender, receiver) = watch::channel(Arc::default());
    let mut replica = Replicas::new(Some(sender));
    events.iter().for_each(|event| drop(replica.note(event)));
    replica.tell();
    let said = receiver.borrow();
    Arc::clone(&said)
}

/// One that leads and hears these, by replica.
fn leader(own: &[Event], others: &[(&str, &[Event])]) -> Replicas {
    let mut leader = Replicas::new(Some(watch::Sender::default()));
    own.iter().for_each(|event| drop(leader.note(event)));
    leader.hear(Arc::new(others.iter().map(|(name, events)| (Arc::from(*name), said_of(events))).collect()));
    leader
}

fn state(replicas: &Replicas, version: u128) -> (Option<ListenerState>, bool) {
    let (state, dispute) = replicas.listener(FLEET, LISTENER, Version(version));
    (state, dispute.is_some())
}

#[test]
fn what_a_proxy_of_another_replica_acknowledged_counts() {
    let leader = leader(&[], &[("b", &[connected(1), accepted(1)])]);
    assert_eq!(state(&leader, 1), (Some(ListenerState::Accepted), false));
    assert_eq!(state(&leader, 2), (None, false), "another version");
}

#[test]
fn a_version_is_in_use_when_no_replica_is_behind_that_has_proxies() {
    let behind = leader(&[connected(1), accepted(2)], &[("b", &[connected(2), accepted(1)])]);
    assert_eq!(state(&behind, 2), (None, false));
    let gone = leader(&[connected(1), accepted(2)], &[("b", &[connected(2), accepted(1), connected(0)])]);
    assert_eq!(state(&gone, 2), (Some(ListenerState::Accepted), false));
    let fresh = leader(&[connected(1), accepted(2)], &[("b", &[connected(1)])]);
    assert_eq!(state(&fresh, 2), (Some(ListenerState::Accepted), false), "one that has just come undoes nothing");
}

#[test]
fn proxies_that_have_moved_to_another_replica_are_not_behind_here() {
    let elsewhere: &[(&str, &[Event])] = &[("b", &[connected(1), accepted(2)])];
    let mut moved = leader(&[connected(1), accepted(1)], elsewhere);
    assert_eq!(state(&moved, 2), (None, false), "it is here as well, as far as is known");
    let gone = Event::Gone { fleet: FLEET.into(), node: Arc::new(Node::default()), connected: 0 };
    assert_eq!(moved.note(&gone), [(FLEET.into(), Arc::from("Listener ns/gw/80"))], "it is looked at again");
    assert_eq!(state(&moved, 2), (Some(ListenerState::Accepted), false));
    // what a proxy says last of a Gateway that is gone comes late, and holds up nothing of one that is made under its name
    let mut again = leader(&[connected(1), accepted(1)], elsewhere);
    again.forget_fleet(&FLEET.into());
    again.note(&accepted(3));
    again.hear(Arc::default());
    again.hear(Arc::new([(Arc::from("b"), said_of(&[connected(1), accepted(2)]))].into()));
    assert_eq!(state(&again, 2), (Some(ListenerState::Accepted), false));
}

#[test]
fn what_all_refuse_is_refused_and_what_some_refuse_is_disputed() {
    let no = refused(TypeUrl::Listener, LISTENER, 1);
    let all = leader(&[connected(1), no.clone()], &[("b", &[connected(1), no.clone()])]);
    assert_eq!(state(&all, 1), (Some(ListenerState::Refused("no; no".into())), false));
    let some = leader(&[connected(1), accepted(1)], &[("b", &[connected(1), no])]);
    assert_eq!(state(&some, 1), (Some(ListenerState::Accepted), true));
}

#[test]
fn other_resources_are_refused_where_no_proxy_takes_them() {
    let no = refused(TypeUrl::Cluster, "c", 1);
    let alone = leader(&[], &[("b", &[connected(1), no.clone()])]);
    assert_eq!(alone.refusal(FLEET, "Cluster c"), (Some("no".into()), false));
    let some = leader(&[connected(1)], &[("b", &[connected(1), no])]);
    assert_eq!(some.refusal(FLEET, "Cluster c"), (Some("no".into()), true));
}

#[test]
fn what_a_replica_said_that_is_gone_counts_until_others_say_more() {
    let mut leader = leader(&[], &[("b", &[connected(1), accepted(1)])]);
    let news = leader.hear(Arc::default());
    assert_eq!(news.len(), 1, "it is looked at again");
    assert_eq!(state(&leader, 1), (Some(ListenerState::Accepted), false));
    leader.note(&connected(1));
    leader.note(&accepted(2));
    assert_eq!(state(&leader, 2), (Some(ListenerState::Accepted), false), "who is gone holds up nothing");
    leader.forget_fleet(&FLEET.into());
    assert_eq!(state(&leader, 1), (None, false));
}

#[test]
fn of_a_gateway_that_is_made_again_nothing_is_known() {
    let mut leader = leader(&[connected(1), accepted(1)], &[("b", &[connected(1), accepted(1)])]);
    leader.forget_fleet(&FLEET.into());
    assert_eq!(state(&leader, 1), (None, false));
    // what was on its way about the one before comes late
    leader.note(&Event::Gone { fleet: FLEET.into(), node: Arc::new(Node::default()), connected: 0 });
    leader.hear(Arc::new([(Arc::from("b"), said_of(&[]))].into()));
    assert_eq!(state(&leader, 1), (None, false));
    assert!(leader.own.is_empty() && leader.departed.is_empty(), "nothing is kept of what is gone");
}

#[test]
fn only_what_changed_is_looked_at_again() {
    let mut leader = leader(&[], &[("b", &[connected(1), accepted(1)])]);
    let heard = |events: &[Event]| Arc::new([(Arc::from("b"), said_of(events))].into());
    assert!(leader.hear(heard(&[connected(1), accepted(1)])).is_empty());
    let by = vec![Objection { node: "n".into(), text: "mine".into() }];
    let disputed = Event::Disputed { fleet: FLEET.into(), type_url: TypeUrl::Secret, name: "s".into(), by };
    let news = leader.hear(heard(&[connected(1), accepted(1), disputed]));
    assert!(news.contains(&(FLEET.into(), "Secret s".into())));
    assert_eq!(leader.disputes(FLEET, "Secret s").as_deref(), Some("mine (proxy n)"));
}

#[test]
fn long_words_are_cut_and_a_fleet_without_proxies_says_nothing() {
    let long: Arc<str> = "ü".repeat(2_000).into();
    assert_eq!(short(&long).chars().count(), 201);
    assert!(said_of(&[connected(1), accepted(1), connected(0)]).is_empty());
}

/// Refusals of clusters with long names, in words of an author of a proxy.
fn many_refusals(fleet: &str, count: usize) -> Vec<Event> {
    let refusal = |at: usize| Event::Refused {
        fleet: fleet.into(),
        type_url: TypeUrl::Cluster,
        name: format!("{at:04}{}", "n".repeat(250)).into(),
        version: Version(1),
        text: "\u{1}😀\"".repeat(200).into(),
        has_previous: false,
    };
    let connected = Event::Connected { fleet: fleet.into(), node: Arc::new(Node::default()), connected: 1 };
    let listener = Event::Accepted {
        fleet: fleet.into(),
        type_url: TypeUrl::Listener,
        name: format!("{fleet}/80").into(),
        version: Version(1),
        was_refused: false,
    };
    [connected, listener].into_iter().chain((0..count).map(refusal)).collect()
}

#[test]
fn long_refusals_of_a_fleet_are_shortened_and_counted() {
    let all = said_of(&many_refusals(FLEET, 5_000));
    let text = &all[FLEET];
    assert!(text.len() <= SHARE, "{} bytes", text.len());
    let said: FleetSaid = serde_json::from_str(text).unwrap();
    assert!(said.listeners.contains_key("ns/gw/80"), "what statuses need comes first");
    assert!(said.refused.len() >= 40, "{} refusals", said.refused.len());
    assert_eq!(said.refused.len() + said.omitted, 5_000);
    let leader = leader(&[], &[("b", &many_refusals(FLEET, 5_000))]);
    let (words, taken) = leader.refusal(FLEET, "Cluster one that is not among them");
    assert_eq!((words, taken), (None, false), "it is not known to be taken");
}

#[test]
fn large_fleets_share_the_room_that_small_ones_leave() {
    let (sender, receiver) = watch::channel(Arc::default());
    let mut replica = Replicas::new(Some(sender));
    for at in 0..60 {
        many_refusals(&format!("evil/{at:02}"), 500).iter().for_each(|event| drop(replica.note(event)));
    }
    many_refusals("tb/v3", 1).iter().for_each(|event| drop(replica.note(event)));
    replica.tell();
    let said = Arc::clone(&receiver.borrow());
    assert_eq!(said.len(), 61, "each has its share");
    let size: usize = said.iter().map(|(name, text)| 33 + name.len() + text.len()).sum();
    assert!((600_000..=900_000).contains(&size), "{size} bytes");
    assert!(said.values().all(|text| text.contains("/80")), "each with its listener");
    let omitted = |text: &String| serde_json::from_str::<FleetSaid>(text).unwrap().omitted;
    assert_eq!(omitted(&said["tb/v3"]), 0, "a small one is whole");
    // Those that stay have more room once others are gone.
    let before = omitted(&said["evil/00"]);
    (1..60).for_each(|at| replica.forget_fleet(&format!("evil/{at:02}").into()));
    replica.tell();
    let said = Arc::clone(&receiver.borrow());
    assert!(omitted(&said["evil/00"]) < before && said.len() == 2);
}

#[test]
fn what_proxies_made_of_patches_is_told() {
    let (sender, receiver) = watch::channel(Arc::default());
    let mut replica = Replicas::new(Some(sender));
    replica.note(&connected(1));
    replica.note(&accepted(1));
    let key = FactKey::new(FLEET, LISTENER_NAMED);
    let refusals = Refusals { words: [(7, "no".into())].into(), accepted: [9].into(), without: false };
    replica.note_refusals(&key, Some(&refusals));
    replica.tell();
    let mut leader = leader(&[], &[]);
    assert!(!leader.is_live(FLEET));
    let news = leader.hear(Arc::new([(Arc::from("b"), Arc::clone(&receiver.borrow()))].into()));
    assert!(news.contains(&(FLEET.into(), LISTENER_NAMED.into())));
    let mut said = Refusals::default();
    leader.add_refusals(&key, &mut said);
    assert_eq!((said.words.get(&7).map(|words| &**words), said.accepted), (Some("no"), [9].into()));
    assert!(leader.is_live(FLEET));
    replica.note_refusals(&key, None);
    replica.tell();
    leader.hear(Arc::new([(Arc::from("b"), Arc::clone(&receiver.borrow()))].into()));
    let mut said = Refusals::default();
    leader.add_refusals(&key, &mut said);
    assert_eq!(said, Refusals::default());
}

const LISTENER_NAMED: &str = "Listener ns/gw/80";
