//! Clients that make calls and read no answers, and those that do later.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::client::DEADLINE;
use crate::{RefusalReason, Server};

/// Requests, as many as a connection may have streams: their answers are several times what a socket takes.
const REQUESTS: u32 = 16_000;

/// The preface, SETTINGS, and requests for a method that is not there.
fn requests() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..).step_by(2).take(REQUESTS as usize) {
        // POST, http, path, authority, and the content type of gRPC
        let block = [&b"\x83\x86\x04\x02/x\x41\x01a\x0f\x10\x10"[..], b"application/grpc"].concat();
        bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 5]);
        bytes.extend(u32::to_be_bytes(stream));
        bytes.extend(block);
    }
    bytes
}

/// Answers that are complete among these bytes.
fn answers(mut bytes: &[u8]) -> u32 {
    let mut ends = 0;
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let Some((_, rest)) = rest.split_at_checked(length) else { break };
        ends += u32::from(head[3] == 1 && head[4] & 1 != 0);
        bytes = rest;
    }
    ends
}

#[tokio::test]
async fn a_client_that_reads_no_answers_is_read_no_further_until_it_does() {
    let (events, _events) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    server.listen_unix(&path, "one".into(), None).unwrap();
    let (mut read, mut write) = UnixStream::connect(&path).await.unwrap().into_split();
    let writer = tokio::spawn(async move {
        write.write_all(&requests()).await.unwrap();
        write
    });
    let held = || server.refusals().iter().any(|(reason, count)| *reason == RefusalReason::Buffer && *count > 0);
    let waiting = async {
        while !held() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, waiting).await.expect("a client that reads nothing is read all the same");
    let mut said = Vec::new();
    let reading = async {
        while answers(&said) < REQUESTS {
            let mut part = vec![0; 256 << 10];
            let length = read.read(&mut part).await.unwrap();
            assert!(length > 0, "the connection is ended");
            said.extend_from_slice(&part[..length]);
        }
    };
    timeout(4 * DEADLINE, reading).await.expect("answers are missing");
    drop(writer.await.unwrap());
    server.stop(Duration::from_secs(5)).await;
}
