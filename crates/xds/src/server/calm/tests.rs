//! Frames found in any cut, and a client that is asked to calm down.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::super::limits::{Accounts, Limits};
use super::*;
use crate::{Gate, Server};

const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PONG: &[u8] = &[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PLAIN: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const PLAIN_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[test]
fn frames_are_found_however_the_bytes_are_cut_and_answers_are_none() {
    let bytes = [HELLO, PLAIN, PING, PONG, PLAIN, PLAIN_ACK, PING, PING].concat();
    for size in 1..=bytes.len() {
        let mut frames = Frames::new();
        let seen: Vec<Seen> = bytes.chunks(size).map(|piece| frames.see(piece)).collect();
        let sum = |count: fn(&Seen) -> usize| seen.iter().map(count).sum::<usize>();
        assert_eq!([sum(|s| s.frames), sum(|s| s.pings), sum(|s| s.settings)], [7, 3, 2], "pieces of {size}");
    }
}

fn calm() -> Calm<()> {
    Calm::new((), Accounts::new(Limits::default()).of(&"a".into()))
}

#[test]
fn pings_cost_nothing_while_something_is_sent() {
    let mut calm = calm();
    let pings = |pings| Seen { pings, ..Seen::default() };
    for _ in 0..1000 {
        calm.written = SAID + 1;
        calm.count(pings(1));
    }
    assert_eq!(calm.end, End::Not);
    calm.count(pings(60));
    assert_eq!(calm.end, End::Not);
    calm.count(pings(10));
    assert_eq!(calm.end, End::Words(MANY_PINGS));
}

#[test]
fn settings_cost_whatever_is_sent() {
    let mut calm = calm();
    let settings = |settings| Seen { settings, ..Seen::default() };
    calm.count(settings(50));
    assert_eq!(calm.end, End::Not);
    calm.written = 1 << 20;
    calm.count(settings(20));
    assert_eq!(calm.end, End::Words(MANY_SETTINGS));
}

/// What a client reads that sends this without end, or once and is then silent.
async fn answers_to(sent: &[u8], again: bool) -> Vec<u8> {
    let (events, _) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(&[HELLO, PLAIN].concat()).await.unwrap();
    let mut answers = Vec::new();
    let talk = async {
        let (mut read, mut write) = client.split();
        let send = async {
            // until the connection is gone
            while write.write_all(sent).await.is_ok() && again {
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(send, read.read_to_end(&mut answers))
    };
    let (_, _reset) = tokio::time::timeout(Duration::from_secs(20), talk).await.unwrap();
    server.stop(Duration::from_secs(5)).await;
    answers
}

#[tokio::test]
async fn a_client_that_does_not_calm_down_is_told_and_dropped_even_if_it_falls_silent() {
    for (frame, goaway) in [(PING, MANY_PINGS), (PLAIN, MANY_SETTINGS)] {
        for (sent, again) in [(frame.to_vec(), true), (frame.repeat(100), false)] {
            let answers = answers_to(&sent, again).await;
            assert!(answers.ends_with(goaway) || again, "{answers:?}");
            let found = answers.windows(goaway.len()).position(|window| window == goaway);
            assert!(found.is_some(), "{} bytes without GOAWAY", answers.len());
        }
    }
}
