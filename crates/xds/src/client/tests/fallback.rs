//! Several servers, and the pauses between attempts.

use std::time::Duration;

use super::rig::{Rig, config};
use crate::client::{Action, BackoffRange, Client, Config, LinkId};
use crate::resource::TypeUrl;

fn two() -> Rig {
    let mut rig = Rig::new(Config { shared_versions: true, ..config(&["one", "two"]) });
    rig.subscribe("RDS r");
    rig
}

#[test]
fn a_server_that_cannot_be_reached_brings_in_the_next_and_is_tried_again() {
    let mut rig = two();
    assert_eq!(rig.does(), "connect 1 to 0");
    assert_eq!(rig.end(1), "connect 2 to 1");
    assert_eq!(rig.pass(100), "connect 3 to 0");
    assert_eq!(rig.events(), "lost 0: broken");
}

#[test]
fn a_server_that_does_not_answer_the_call_in_time_counts_as_unreachable() {
    let mut rig = two();
    rig.does();
    assert_eq!(rig.pass(9_999), "");
    assert_eq!(rig.pass(1), "close 1 | connect 2 to 1");
}

#[test]
fn a_stream_that_ends_without_a_word_brings_in_the_next() {
    let mut rig = two();
    rig.open(1);
    assert_eq!(rig.end(1), "connect 2 to 1");
    assert_eq!(rig.open(2), "node RDS +r");
    rig.tell(2, "RDS 1 r@1");
    assert_eq!(rig.has("RDS r"), "1 r@1");
}

#[test]
fn a_stream_that_ends_after_an_answer_is_opened_again_first() {
    let mut rig = two();
    rig.open(1);
    rig.tell(1, "RDS 1 r@1");
    assert_eq!(rig.end(1), "");
    assert_eq!(rig.pass(100), "connect 2 to 0");
    assert_eq!(rig.end(2), "connect 3 to 1");
    assert_eq!(rig.has("RDS r"), "1 r@1", "what is in force stays in force");
}

#[test]
fn a_better_server_that_answers_takes_over() {
    let mut rig = two();
    rig.does();
    rig.end(1);
    rig.pass(100);
    assert_eq!(rig.open(3), "node RDS +r");
    assert_eq!(rig.tell(3, "RDS 1 r@1"), "close 2 | RDS ack 1");
    assert_eq!(rig.events(), "lost 0: broken, in use 0, RDS r");
    assert_eq!(rig.tell(2, "RDS 1 r@2"), "", "the other counts no more");
    assert_eq!(rig.has("RDS r"), "1 r@1");
}

#[test]
fn a_better_server_that_was_told_of_old_versions_is_asked_anew_before_it_takes_over() {
    let mut rig = two();
    rig.does();
    rig.end(1);
    rig.open(2);
    rig.tell(2, "RDS 1 r@1");
    rig.pass(100);
    assert_eq!(rig.open(3), "node RDS +r =r@1");
    rig.tell(2, "RDS 2 r@2");
    assert_eq!(rig.tell(3, "RDS 1 r@3"), "close 2 | close 3 | connect 4 to 0");
    assert_eq!(rig.has("RDS r"), "2 r@2");
    assert_eq!(rig.open(4), "node RDS +r =r@2");
    assert_eq!(rig.tell(4, "RDS 1 r@3"), "RDS ack 1");
}

#[test]
fn a_silent_stream_counts_as_answered_once_it_has_proved_to_be_alive() {
    let mut rig = two();
    rig.open(1);
    rig.tell(1, "RDS 1 r@1");
    rig.end(1);
    rig.pass(100);
    rig.open(2);
    rig.pass(30_000);
    assert_eq!(rig.end(2), "", "it had nothing new to say");
}

#[test]
fn while_no_server_is_there_each_is_tried_at_its_pauses_and_no_faster() {
    let mut rig = two();
    let mut attempts = Vec::new();
    let end = Duration::from_secs(60);
    while rig.now < end {
        while let Some(action) = rig.client.next_action(rig.now) {
            if let Action::Connect { link, server } = action {
                attempts.push((rig.now, server));
                rig.client.ended(link, "refused", rig.now);
            }
        }
        let next = rig.client.next_deadline().expect("a next attempt");
        assert!(next > rig.now, "time goes on");
        rig.now = next;
        rig.client.pass_time(rig.now);
    }
    for server in 0..2 {
        let times: Vec<Duration> = attempts.iter().filter(|(_, of)| *of == server).map(|(at, _)| *at).collect();
        let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let range = |at: usize| Duration::from_millis(100 * (1 << at.min(4))).min(Duration::from_secs(1));
        for (at, pause) in pauses.iter().enumerate() {
            assert!(*pause >= range(at) / 2 && *pause <= range(at), "pause {at}: {pause:?}");
        }
        assert!(pauses.len() > 50, "{} attempts", pauses.len());
    }
}

#[test]
fn the_pauses_begin_anew_after_an_answer_and_differ_from_client_to_client() {
    let pause = |seed, answers: bool| {
        let mut client = Client::new(Config { seed, backoff: BackoffRange::default(), ..config(&["s"]) });
        client.subscribe(&TypeUrl::Cluster, ["*"]);
        let mut now = Duration::ZERO;
        for attempt in 1..=5 {
            while client.next_action(now).is_some() {}
            client.connected(LinkId(attempt), now);
            if answers && attempt == 5 {
                while client.next_action(now).is_some() {}
                client.received(LinkId(attempt), super::rig::delta("CDS 1 a@1").into(), now, &mut super::rig::judge);
            }
            client.ended(LinkId(attempt), "broken", now);
            let next = client.next_deadline().expect("a next attempt");
            if attempt == 5 {
                return next - now;
            }
            now = next;
            client.pass_time(now);
        }
        unreachable!()
    };
    assert!(pause(1, false) >= Duration::from_millis(500));
    assert!(pause(1, true) <= Duration::from_millis(100));
    assert_ne!(pause(1, true), pause(2, true));
    assert_eq!(pause(3, true), pause(3, true));
}
