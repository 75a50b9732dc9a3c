//! Statuses that several write.

use api::Kind;
use api::status::OwnStatus;
use serde_json::{Value, json};

use super::{is_behind, is_written_by, lack_of_room, merged, takes_back};

const US: &str = "example.com/us";
const NOW: &str = "2026-01-02T00:00:00Z";
const THEN: &str = "2026-01-01T00:00:00Z";

fn condition(kind: &str, status: &str, since: Option<&str>) -> Value {
    let mut condition =
        json!({ "type": kind, "status": status, "reason": "R", "message": "", "observedGeneration": 1 });
    if let Some(since) = since {
        condition["lastTransitionTime"] = since.into();
    }
    condition
}

fn parent(controller: &str, name: &str, condition: Value) -> Value {
    json!({ "controllerName": controller, "parentRef": { "name": name }, "conditions": [condition] })
}

fn check(kind: Kind, current: Value, ours: Option<Value>, wanted: Option<Value>) {
    assert_eq!(merged(kind, Some(&current), ours, (US, NOW)), wanted, "{current}");
}

#[test]
fn entries_of_others_stay_first_and_as_they_are() {
    let theirs = parent("them", "gw", condition("Accepted", "False", Some("yesterday")));
    check(
        Kind::HttpRoute,
        json!({ "parents": [parent(US, "old", condition("Accepted", "True", Some(THEN))), theirs] }),
        Some(json!({ "parents": [parent(US, "gw", condition("Accepted", "True", None))] })),
        Some(json!({ "parents": [theirs, parent(US, "gw", condition("Accepted", "True", Some(NOW)))] })),
    );
}

#[test]
fn a_list_that_others_fill_takes_no_more_of_ours_than_have_room_and_says_so() {
    let entry = |controller: &str, name: String| json!({ "controllerName": controller, "ancestorRef": { "name": name }, "conditions": [condition("Accepted", "True", Some(NOW))] });
    let merged_with = |kind, list: &str, of_others: usize, ours: usize| {
        let all = |who: &str, many: usize| (0..many).map(|at| entry(who, format!("{who}{at}"))).collect::<Vec<_>>();
        let current = json!({ list: all("them", of_others) });
        let wanted = merged(kind, Some(&current), Some(json!({ list: all(US, ours) })), (US, NOW)).unwrap_or(current);
        let entries = wanted[list].as_array().expect("a list").clone();
        let last = entries.last().expect("an entry");
        (entries.len(), last["controllerName"] == US, last["conditions"][1]["type"].clone(), wanted)
    };
    let aggregated = Value::from("Aggregated");
    for (kind, list, most) in
        [(Kind::BackendTlsPolicy, "ancestors", 16), (Kind::XBackend, "ancestors", 32), (Kind::HttpRoute, "parents", 32)]
    {
        for (of_others, ours, own_last, told) in [
            (1, most - 1, true, Value::Null),
            (1, most, true, aggregated.clone()),
            (most - 1, 3, true, aggregated.clone()),
            (most, 3, false, Value::Null),
        ] {
            let (many, own, word, wanted) = merged_with(kind, list, of_others, ours);
            assert_eq!((many, own, word), (most, own_last, told), "{kind:?} {of_others} {ours}");
            let again = json!({ list: (0..ours).map(|at| entry(US, format!("{US}{at}"))).collect::<Vec<_>>() });
            assert_eq!(merged(kind, Some(&wanted), Some(again), (US, THEN)), None, "what is there is written once");
        }
    }
}

#[test]
fn a_condition_that_says_the_same_keeps_its_time_and_another_does_not() {
    let had = |status: &str| json!({ "parents": [parent(US, "gw", condition("Accepted", status, Some(THEN)))] });
    let ours = || Some(json!({ "parents": [parent(US, "gw", condition("Accepted", "True", None))] }));
    check(Kind::HttpRoute, had("True"), ours(), None);
    let since_now = json!({ "parents": [parent(US, "gw", condition("Accepted", "True", Some(NOW)))] });
    check(Kind::HttpRoute, had("False"), ours(), Some(since_now));
    let mut newer = had("True");
    newer["parents"][0]["conditions"][0]["observedGeneration"] = 2.into();
    check(Kind::HttpRoute, newer, ours(), Some(had("True")));
}

#[test]
fn a_listener_set_without_a_gateway_waits_for_one() {
    let said = json!({ "conditions": [condition("Accepted", "True", Some(THEN)), condition("theirs", "True", Some(THEN))], "listeners": [{ "name": "a" }] });
    let waits = merged(Kind::ListenerSet, Some(&said), None, (US, NOW)).expect("another status");
    assert_eq!(waits.get("listeners"), None);
    let words = |at: usize| ["type", "status", "reason"].map(|field| waits["conditions"][at][field].clone());
    assert_eq!(words(0), ["Accepted", "Unknown", "Pending"]);
    assert_eq!(waits["conditions"][1], said["conditions"][1]);
    assert_eq!(words(2), ["Programmed", "Unknown", "Pending"]);
    check(Kind::ListenerSet, waits, None, None);
    check(Kind::ListenerSet, json!({}), None, None);
}

#[test]
fn who_has_written_a_status_is_noted_by_the_api_server() {
    let entry = |manager: &str, subresource: &str| json!({ "manager": manager, "subresource": subresource });
    let written = |entries: Value| is_written_by(&json!({ "metadata": { "managedFields": entries } }), US);
    assert!(written(json!([entry("kubectl", ""), entry(US, "status")])));
    assert!(!written(json!([entry(US, "status"), entry("them", "status")])));
    assert!(!written(json!([entry(US, "")])));
    assert!(!is_written_by(&json!({}), US));
}

#[test]
fn nothing_of_ours_takes_only_ours_away() {
    let theirs = parent("them", "gw", condition("Accepted", "True", Some(THEN)));
    let ours = parent(US, "gw", condition("Accepted", "True", Some(THEN)));
    check(Kind::HttpRoute, json!({ "parents": [ours, theirs] }), None, Some(json!({ "parents": [theirs] })));
    check(Kind::HttpRoute, json!({ "parents": [theirs] }), None, None);
    check(Kind::Gateway, json!({ "conditions": [condition("Accepted", "True", Some(THEN))] }), None, None);
}

#[test]
fn conditions_of_other_types_stay_on_what_is_ours_alone() {
    let theirs = condition("example.com/Reviewed", "True", Some(THEN));
    check(
        Kind::Gateway,
        json!({ "conditions": [theirs, condition("Accepted", "Unknown", Some(THEN))], "addresses": [{ "value": "10.0.0.1" }] }),
        Some(json!({ "conditions": [condition("Accepted", "True", None)], "listeners": [] })),
        Some(json!({ "conditions": [theirs, condition("Accepted", "True", Some(NOW))], "listeners": [] })),
    );
}

#[test]
fn conditions_of_other_types_stay_on_listeners_and_those_of_ours_go_when_they_are_over() {
    let theirs = condition("example.com/Reviewed", "True", Some(THEN));
    let over = condition("Conflicted", "True", Some(THEN));
    let own = |since| condition("Accepted", "True", Some(since));
    let listener = |conditions: &[Value]| json!({ "listeners": [{ "name": "a", "conditions": conditions }] });
    check(
        Kind::Gateway,
        listener(&[own(THEN), over, theirs.clone()]),
        Some(listener(&[own(THEN)])),
        Some(listener(&[own(THEN), theirs])),
    );
}

#[test]
fn listeners_keep_the_times_of_their_own_conditions() {
    let listener = |name: &str, since: Option<&str>| json!({ "name": name, "attachedRoutes": 0, "conditions": [condition("Accepted", "True", since)] });
    check(
        Kind::Gateway,
        json!({ "conditions": [], "listeners": [listener("a", Some(THEN))] }),
        Some(json!({ "conditions": [], "listeners": [listener("b", None), listener("a", None)] })),
        Some(json!({ "conditions": [], "listeners": [listener("b", Some(NOW)), listener("a", Some(THEN))] })),
    );
}

#[test]
fn an_object_without_a_status_gets_one_and_kinds_without_get_none() {
    let ours = json!({ "parents": [parent(US, "gw", condition("Accepted", "True", None))] });
    let wanted = json!({ "parents": [parent(US, "gw", condition("Accepted", "True", Some(NOW)))] });
    assert_eq!(merged(Kind::HttpRoute, None, Some(ours), (US, NOW)), Some(wanted));
    assert_eq!(merged(Kind::Service, None, Some(json!({})), (US, NOW)), None);
}

#[test]
fn what_was_confirmed_is_taken_back_for_a_reason_only() {
    let status = |word: &str, reason: &str, generation: u32| json!({ "type": "Programmed", "status": word, "reason": reason, "observedGeneration": generation });
    let gateway = |condition: Value| json!({ "conditions": [condition] });
    let listener = |condition: Value| json!({ "listeners": [{ "name": "a", "conditions": [condition] }] });
    let confirmed = || status("True", "Programmed", 1);
    for (new, taken_back) in [
        (status("False", "Pending", 1), true),
        (status("False", "AddressNotAssigned", 1), true),
        (status("False", "Pending", 2), false),
        (status("False", "Invalid", 1), false),
        (confirmed(), false),
    ] {
        assert_eq!(takes_back(&gateway(confirmed()), &gateway(new.clone())), taken_back, "{new}");
        assert_eq!(takes_back(&listener(confirmed()), &listener(new.clone())), taken_back, "{new}");
    }
    assert!(!takes_back(&gateway(status("False", "Pending", 1)), &gateway(status("False", "Pending", 1))));
    assert!(!takes_back(&json!({}), &gateway(status("False", "Pending", 1))));
}

#[test]
fn whatever_others_have_written_stays_on_every_kind() {
    let theirs = condition("example.com/Reviewed", "True", Some(THEN));
    // what we say at times, what at nearly all times, and what Envoy Gateway has left
    let over = ["Warning", "ResolvedRefs", "BackendsAvailable"].map(|kind| condition(kind, "True", Some(THEN)));
    let own = || condition("Accepted", "True", Some(THEN));
    let with = |entry: &mut Value, more: &[&Value]| {
        let conditions = entry["conditions"].as_array_mut().expect("a list");
        conditions.splice(0..0, more.iter().map(|condition| (*condition).clone()));
    };
    // its entries are signed by nobody
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::EnvoyProxy) {
        let (ours, place) = match kind.own_status() {
            None => continue,
            Some(OwnStatus::Whole) => (json!({ "conditions": [own()] }), String::new()),
            Some(OwnStatus::Entries(list, _)) => (json!({ list: [parent(US, "gw", own())] }), format!("/{list}/0")),
        };
        let (mut current, mut wanted) = (ours.clone(), ours.clone());
        with(current.pointer_mut(&place).expect("our part"), &[&over[0], &theirs, &over[1], &over[2]]);
        with(wanted.pointer_mut(&place).expect("our part"), &[&theirs]);
        if let Some(OwnStatus::Entries(list, _)) = kind.own_status() {
            let others = parent("them", "gw", condition("Accepted", "False", Some(THEN)));
            for status in [&mut current, &mut wanted] {
                status[list].as_array_mut().expect("a list").insert(0, others.clone());
            }
        }
        assert_eq!(merged(*kind, Some(&current), Some(ours.clone()), (US, NOW)), Some(wanted.clone()), "{kind:?}");
        assert_eq!(merged(*kind, Some(&wanted), Some(ours), (US, NOW)), None, "{kind:?}: what is there is not written");
    }
}

#[test]
fn conditions_of_others_have_room_before_those_of_ours_that_come_and_go() {
    let all = |types: &[&str]| types.iter().map(|kind| condition(kind, "True", Some(THEN))).collect::<Vec<_>>();
    let ours = || all(&["Accepted", "Programmed", "ResolvedRefs", "OverlappingTLSConfig", "Warning"]);
    let theirs = all(&["a/A", "b/B", "c/C", "d/D"]);
    let types = |of_others: &[Value]| {
        let current = json!({ "conditions": of_others });
        let wanted = merged(Kind::Gateway, Some(&current), Some(json!({ "conditions": ours() })), (US, NOW));
        let conditions = wanted.expect("another status")["conditions"].as_array().expect("a list").clone();
        conditions.iter().map(|one| one["type"].as_str().expect("a word").to_owned()).collect::<Vec<_>>()
    };
    let standing = ["Accepted", "Programmed", "ResolvedRefs", "OverlappingTLSConfig"];
    assert_eq!(types(&theirs[..3]), [&["a/A", "b/B", "c/C"], &standing[..], &["Warning"]].concat());
    assert_eq!(types(&theirs), [&["a/A", "b/B", "c/C", "d/D"], &standing[..]].concat());
}

#[test]
fn a_list_that_is_full_with_entries_of_others_is_told() {
    let entries =
        |who: &str, many: usize| (0..many).map(|at| parent(who, &format!("{who}{at}"), json!({}))).collect::<Vec<_>>();
    let lacks = |kind, list: &str, of_others: usize, ours: usize| {
        lack_of_room(kind, &json!({ list: entries("them", of_others) }), &json!({ list: entries(US, ours) }), US)
    };
    let told = lacks(Kind::BackendTlsPolicy, "ancestors", 16, 1).expect("words");
    assert!(told.starts_with("other controllers have filled status.ancestors (16), there is no room"), "{told}");
    assert!(lacks(Kind::GrpcRoute, "parents", 32, 2).is_some());
    assert_eq!(lacks(Kind::GrpcRoute, "parents", 31, 2), None);
    assert_eq!(lacks(Kind::BackendTlsPolicy, "ancestors", 16, 0), None);
    assert_eq!(
        lack_of_room(Kind::Gateway, &json!({}), &json!({ "conditions": [condition("Accepted", "True", None)] }), US),
        None
    );
}

#[test]
fn a_status_is_behind_one_of_ours_of_a_later_generation_that_the_object_has_had() {
    let of = |generation: u32| {
        let mut condition = condition("Accepted", "True", Some(THEN));
        condition["observedGeneration"] = generation.into();
        condition
    };
    let object = |generation: u32, status: Value| json!({ "metadata": { "generation": generation }, "status": status });
    let route = |who: &str, generation| json!({ "parents": [parent(who, "gw", of(generation))] });
    let gateway = |generation| json!({ "conditions": [of(generation)] });
    for (kind, object, ours, behind) in [
        (Kind::HttpRoute, object(3, route(US, 3)), route(US, 2), true),
        (Kind::HttpRoute, object(3, route(US, 2)), route(US, 2), false),
        (Kind::HttpRoute, object(3, route("them", 3)), route(US, 2), false),
        // nobody has seen that one
        (Kind::HttpRoute, object(2, route(US, 3)), route(US, 2), false),
        (Kind::Gateway, object(3, gateway(3)), gateway(2), true),
        (Kind::Gateway, object(3, gateway(2)), gateway(3), false),
        (Kind::Gateway, json!({}), gateway(2), false),
    ] {
        assert_eq!(is_behind(kind, &object, &ours, US), behind, "{object} {ours}");
    }
}
