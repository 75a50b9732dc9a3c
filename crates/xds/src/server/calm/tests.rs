//! Frames found in any cut, and a client that is asked to calm down.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::*;
use crate::{Gate, Server};

const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PONG: &[u8] = &[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[test]
fn pings_are_found_however_the_bytes_are_cut_and_answers_are_none() {
    let bytes = [HELLO, SETTINGS, PING, PONG, SETTINGS, PING, PING].concat();
    for size in 1..=bytes.len() {
        let mut frames = Frames::new();
        assert_eq!(bytes.chunks(size).map(|piece| frames.pings(piece)).sum::<usize>(), 3, "pieces of {size}");
    }
}

#[test]
fn pings_cost_nothing_while_something_is_sent() {
    let mut calm = Calm::new(());
    for _ in 0..1000 {
        calm.written = SAID + 1;
        calm.count(1);
    }
    assert_eq!(calm.goaway, None);
    calm.count(60);
    assert_eq!(calm.goaway, None);
    calm.count(10);
    assert_eq!(calm.goaway, Some(0));
}

#[tokio::test]
async fn a_client_that_pings_too_often_is_told_to_calm_down_and_dropped() {
    let (events, _) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(&[HELLO, SETTINGS].concat()).await.unwrap();
    let mut answers = Vec::new();
    let flood = async {
        let (mut read, mut write) = client.split();
        let send = async {
            // until the connection is gone
            while write.write_all(PING).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(send, read.read_to_end(&mut answers))
    };
    let (_, _reset) = tokio::time::timeout(Duration::from_secs(20), flood).await.unwrap();
    let found = answers.windows(GOAWAY.len()).position(|window| window == GOAWAY);
    assert!(found.is_some(), "{} bytes without GOAWAY", answers.len());
    server.stop(Duration::from_secs(5)).await;
}
