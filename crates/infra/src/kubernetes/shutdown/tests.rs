//! A real Envoy that ends.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Outcome, Shutdown, shutdown};
use crate::host::admin;
use crate::host::tests::stage::{Asked, DEADLINE, Stage, free_port, gateway, request};

const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn new_connections_are_taken_while_others_learn_that_it_is_not_ready() {
    let mut stage = Stage::new();
    let (edge, port, _) = stage.serve_edge().await;
    let socket = stage.paths(&edge).admin_socket.clone();
    let ends = shutdown(&socket, Shutdown { min_drain: LONG, drain_timeout: LONG });
    let others = async {
        while admin::ready(&socket).await.unwrap() {}
        assert!(request(port).await.unwrap().ends_with("default/edge"));
    };
    tokio::select! {
        outcome = ends => panic!("it ended: {outcome:?}"),
        found = timeout(DEADLINE, others) => found.expect("it says that it is not ready"),
    }
}

#[tokio::test]
async fn what_runs_is_answered_and_nothing_new_is_taken() {
    let (server, mut stage) = Stage::with_server().await;
    let port = free_port();
    let edge = gateway("edge", &[port]);
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.ready).await;
    let asked = Asked::at(&server, port).await;
    let socket = stage.paths(&edge).admin_socket.clone();
    let ends = shutdown(&socket, Shutdown { min_drain: Duration::ZERO, drain_timeout: LONG });
    tokio::pin!(ends);
    let refused = async { while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {} };
    tokio::select! {
        outcome = &mut ends => panic!("it ended with an open request: {outcome:?}"),
        found = timeout(DEADLINE, refused) => found.expect("new connections are refused"),
    }
    let (outcome, ()) = timeout(DEADLINE, async { tokio::join!(ends, asked.answer()) }).await.expect("it ends");
    assert_eq!(outcome.unwrap(), Outcome::Idle);
}

#[tokio::test]
async fn what_does_not_end_in_time_is_told() {
    let (server, mut stage) = Stage::with_server().await;
    let port = free_port();
    let edge = gateway("edge", &[port]);
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.ready).await;
    let _asked = Asked::at(&server, port).await;
    let socket = stage.paths(&edge).admin_socket.clone();
    let how = Shutdown { min_drain: LONG, drain_timeout: Duration::from_millis(10) };
    assert_eq!(shutdown(&socket, how).await.unwrap(), Outcome::Busy(1));
}

#[tokio::test]
async fn an_envoy_that_just_starts_is_waited_for() {
    let stage = Stage::new();
    let edge = gateway("edge", &[free_port()]);
    let socket = stage.paths(&edge).admin_socket.clone();
    let ends = shutdown(&socket, Shutdown { min_drain: Duration::ZERO, drain_timeout: LONG });
    tokio::pin!(ends);
    assert!(timeout(Duration::ZERO, &mut ends).await.is_err(), "nobody is asked yet");
    stage.want_only(&edge);
    assert_eq!(timeout(DEADLINE, ends).await.expect("it ends").unwrap(), Outcome::Idle);
}

#[tokio::test(start_paused = true)]
async fn an_envoy_that_never_answers_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let how = Shutdown { min_drain: LONG, drain_timeout: LONG };
    let began = tokio::time::Instant::now();
    assert!(shutdown(&folder.path().join("admin.sock"), how).await.is_err());
    assert!(began.elapsed() < LONG);
}
