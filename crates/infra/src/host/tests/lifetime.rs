//! Start, death, adoption, drain and end of a proxy.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use ir::Infra;
use rustix::process::Signal;
use tokio::net::TcpStream;

use super::stage::{Asked, DEADLINE, Stage, free_port, gateway, greeting, is_alive, kill, request, signal};
use crate::host::handover::{Handover, Lineage};
use crate::host::launch::Launch;
use crate::host::retired::Retired;
use crate::host::{Ending, HostOptions, ProxyPaths, admin, process::Process};

#[tokio::test]
async fn a_gateway_gets_an_envoy_that_serves_and_the_facts_say_so() {
    let mut stage = Stage::new();
    let port = free_port();
    let edge = gateway("edge", &[port]);
    stage.want_only(&edge);
    let facts = stage.facts_of(&edge, |facts| facts.ready).await;
    assert!(facts.problem.is_none() && facts.refused_ports.is_empty(), "{facts:?}");
    assert_eq!(facts.addresses, [(Ipv4Addr::LOCALHOST, port).into()]);
    assert!(request(port).await.unwrap().ends_with("default/edge"));

    let pid = facts.pid.unwrap();
    let group = rustix::process::getpgid(rustix::process::Pid::from_raw(i32::try_from(pid).unwrap())).unwrap();
    assert_eq!(group.as_raw_pid(), i32::try_from(pid).unwrap(), "a terminal's Ctrl-C must not reach it");
    stage.end(Ending::Drain).await;
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn an_envoy_that_was_killed_is_started_again() {
    let mut stage = Stage::new();
    let (edge, port, first) = stage.serve_edge().await;
    kill(first);
    let down = stage.facts_of(&edge, |facts| facts.pid.is_none()).await;
    assert!(down.problem.unwrap().contains("signal: 9"));
    let second = stage.facts_of(&edge, |facts| facts.ready).await.pid.unwrap();
    assert_ne!(first, second);
    assert!(request(port).await.unwrap().ends_with("default/edge"));
}

#[tokio::test]
async fn an_envoy_outlives_its_supervisor_and_is_adopted_by_the_next() {
    let mut stage = Stage::new();
    let port = free_port();
    let edge = gateway("edge", &[port]);
    stage.want_only(&edge);
    let first = stage.facts_of(&edge, |facts| facts.ready).await.pid;
    let mut stage = stage.crash_and_start(|_| {}).await;
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    stage.want_only(&edge);
    let facts = stage.facts_of(&edge, |facts| facts.ready).await;
    assert_eq!(facts.pid, first);
    stage.end(Ending::Drain).await;
    assert!(!is_alive(first.unwrap()));
}

#[tokio::test]
async fn an_envoy_whose_admin_socket_has_its_first_name_still_is_adopted() {
    let mut stage = Stage::new();
    let (edge, _, first) = stage.serve_edge().await;
    let paths = stage.paths(&edge);
    let rename = |_: &mut HostOptions| std::fs::rename(&paths.admin_socket, &paths.bound_admin_socket).unwrap();
    let mut stage = stage.crash_and_start(rename).await;
    stage.want_only(&edge);
    assert_eq!(stage.facts_of(&edge, |facts| facts.ready).await.pid, Some(first));
}

#[tokio::test]
async fn an_envoy_whose_record_could_not_be_written_is_adopted_by_what_it_is() {
    let mut stage = Stage::new();
    let (edge, port, first) = stage.serve_edge().await;
    let record = stage.paths(&edge).record;
    let mut stage = stage.crash_and_start(|_| std::fs::remove_file(&record).unwrap()).await;
    stage.want_only(&edge);
    assert_eq!(stage.facts_of(&edge, |facts| facts.ready).await.pid, Some(first));
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    // Otherwise started it is replaced.
    let mut stage = stage.crash_and_start(|_| drop(std::fs::remove_file(&record))).await;
    let mut other = edge.clone();
    other.options.concurrency = Some(2);
    stage.want_only(&other);
    stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(first)).await;
}

#[tokio::test]
async fn an_envoy_in_the_folder_of_an_earlier_version_is_replaced() {
    let mut stage = Stage::new();
    let port = free_port();
    let edge = gateway("edge", &[port]);
    // As the version before wrote it: a folder by the hash of the name, without a token.
    let [gateways, _] = stage.options.layout.folders();
    let hash = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(edge.fleet.as_str().as_bytes()));
    let folder = gateways.join(hash);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("gateway"), edge.fleet.as_str()).unwrap();
    let earlier = stage.options.layout.earlier_paths(&edge.fleet).unwrap();
    let envoy = stage.options.envoy.find().await.unwrap();
    let mut launch = Launch::new(&edge, &envoy, greeting(&edge, &earlier), &stage.options);
    launch.args[1] = earlier.bootstrap.display().to_string();
    std::fs::write(&earlier.bootstrap, &launch.bootstrap).unwrap();
    let first = Process::start(&launch, None, &earlier).await.unwrap().pid;
    stage.want_only(&edge);
    let second = stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(first)).await.pid;
    assert_ne!(second, Some(first));
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    stage.end(Ending::Drain).await;
    assert!(!is_alive(first) && !folder.exists());
}

#[tokio::test]
async fn a_served_envoy_that_is_dead_or_dies_is_started_before_it_is_known_who_is_wanted() {
    let mut stage = Stage::new();
    let (edge, port, first) = stage.serve_edge().await;
    let mut stage = stage
        .crash_and_start(|options| {
            options.served.insert(edge.fleet.clone());
            kill(first);
        })
        .await;
    let second = stage.facts_of(&edge, |facts| facts.ready).await.pid.unwrap();
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    kill(second);
    let third = stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(second)).await.pid;
    // it is what is wanted, and stays
    let mut wanted = edge.clone();
    wanted.addresses = vec![Ipv4Addr::UNSPECIFIED.into()];
    stage.want_only(&wanted);
    let facts = stage.facts_of(&edge, |facts| facts.addresses.len() >= 2).await;
    assert_eq!((facts.pid, facts.ready), (third, true));
    let paths = stage.paths(&edge);
    assert_eq!(paths.last_wanted(), Some(wanted));
    stage.want(&[]);
    stage.gone(&edge).await;
    assert!(!paths.dir.exists());
}

#[tokio::test]
async fn a_served_envoy_that_runs_is_left_as_it_is_until_it_is_known_that_it_shall_be_otherwise() {
    let mut stage = Stage::new();
    let (edge, port, first) = stage.serve_edge().await;
    let mut stage = stage
        .crash_and_start(|options| {
            options.served.insert(edge.fleet.clone());
            options.bootstrap =
                Arc::new(|infra: &Infra, paths| greeting(infra, paths).replace("default/edge\"}}", "another\"}}"));
        })
        .await;
    let facts = stage.facts_of(&edge, |facts| facts.ready).await;
    assert_eq!(facts.pid, Some(first));
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(first)).await;
    assert!(request(port).await.unwrap().ends_with("another"));
}

#[tokio::test]
async fn an_end_before_it_is_known_who_is_wanted_ends_the_served_and_keeps_what_they_were() {
    let mut stage = Stage::new();
    let (edge, _, first) = stage.serve_edge().await;
    let mut stage = stage.crash_and_start(|options| options.served.extend([edge.fleet.clone()])).await;
    stage.facts_of(&edge, |facts| facts.ready).await;
    stage.end(Ending::Drain).await;
    assert!(!is_alive(first));
    assert_eq!(stage.paths(&edge).last_wanted(), Some(edge));
}

#[tokio::test]
async fn an_envoy_that_was_started_otherwise_is_replaced_not_adopted() {
    let mut stage = Stage::new();
    let (edge, port, first) = stage.serve_edge().await;
    let mut stage = stage
        .crash_and_start(|options| {
            options.bootstrap =
                Arc::new(|infra: &Infra, paths| greeting(infra, paths).replace("default/edge\"}}", "another\"}}"));
        })
        .await;
    stage.want_only(&edge);
    let facts = stage.facts_of(&edge, |facts| facts.ready).await;
    assert_ne!(facts.pid, Some(first));
    assert!(!is_alive(first));
    assert!(request(port).await.unwrap().ends_with("another"));
}

#[tokio::test]
async fn a_log_level_reaches_a_running_envoy_and_a_thread_count_replaces_it() {
    let mut stage = Stage::new();
    let mut edge = gateway("edge", &[free_port()]);
    stage.want_only(&edge);
    let first = stage.facts_of(&edge, |facts| facts.ready).await.pid;

    edge.options.log_level = Some("trace".into());
    edge.ports.push(free_port());
    edge.ports.sort_unstable();
    stage.options.bootstrap = Arc::new(greeting);
    stage.want_only(&edge);
    // The listeners of this test stand in the bootstrap, so a new port needs a new Envoy.
    let second = stage.facts_of(&edge, |facts| facts.ready && facts.pid != first).await.pid;

    edge.options.log_level = Some("debug".into());
    edge.addresses = vec![Ipv4Addr::UNSPECIFIED.into()];
    stage.want_only(&edge);
    let third = stage.facts_of(&edge, |facts| facts.addresses.len() >= 2).await;
    assert_eq!(third.pid, second, "levels and addresses change nothing that Envoy was started with");
    let log = std::fs::read_to_string(stage.paths(&edge).log).unwrap();
    assert!(log.contains("[trace]"));

    edge.options.concurrency = Some(2);
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.ready && facts.pid != second).await;
}

#[tokio::test]
async fn a_gateway_that_goes_has_its_request_answered_and_its_envoy_ended() {
    let (server, mut stage) = Stage::with_server().await;
    let port = free_port();
    let (edge, other) = (gateway("edge", &[port]), gateway("other", &[free_port()]));
    stage.want(&[edge.clone(), other.clone()]);
    let pid = stage.facts_of(&edge, |facts| facts.ready).await.pid.unwrap();

    let asked = Asked::at(&server, port).await;
    stage.want_only(&other);
    stage.draining(&edge).await;
    let refused = async { while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {} };
    tokio::time::timeout(DEADLINE, refused).await.expect("new connections are refused");
    // A hundred answers later it would be long gone if it did not wait for the open request.
    let [leaving] = &Retired::earlier(&stage.paths(&edge))[..] else { panic!("it is not recorded") };
    for _ in 0..100 {
        let busy = admin::busy(&leaving.admin_socket).await.expect("it is still there");
        assert_eq!(busy.requests, 1);
    }

    asked.answer().await;
    stage.gone(&edge).await;
    assert!(!is_alive(pid));
    assert!(!stage.paths(&edge).dir.exists());
    assert!(stage.paths(&other).dir.exists());
}

#[tokio::test]
async fn the_successor_serves_while_a_replaced_envoy_answers_what_it_has() {
    let (server, mut stage) = Stage::with_server().await;
    let (mut edge, port, first) = stage.serve_edge().await;
    let early = Asked::at(&server, port).await;

    edge.options.concurrency = Some(2);
    stage.want_only(&edge);
    let second = stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(first)).await.pid.unwrap();
    let late = Asked::at(&server, port).await;
    assert!(is_alive(first), "it has a request to answer");
    early.answer().await;
    stage.left(&edge, first).await;
    late.answer().await;
    assert!(admin::ready(&stage.paths(&edge).admin_socket).await.unwrap());
    let found = Process::adopt(&stage.paths(&edge), &BTreeSet::new()).unwrap().unwrap();
    assert_eq!(found.pid, second);
}

#[tokio::test]
async fn no_request_fails_while_envoys_are_replaced() {
    let mut stage = Stage::new();
    let (mut edge, port, mut pid) = stage.serve_edge().await;
    let asking = tokio::spawn(async move {
        let mut asked = 0_u32;
        loop {
            request(port).await.map_err(|error| format!("request {asked}: {error}"))?;
            asked += 1;
            tokio::task::yield_now().await;
        }
        #[expect(unreachable_code, reason = "it names the type of the task")]
        Ok::<(), String>(())
    });
    for concurrency in [2, 1, 2, 3] {
        edge.options.concurrency = Some(concurrency);
        stage.want_only(&edge);
        let next = stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(pid)).await.pid.unwrap();
        stage.left(&edge, pid).await;
        pid = next;
        assert!(!asking.is_finished(), "{:?}", asking.await);
    }
    asking.abort();
}

#[tokio::test]
async fn a_successor_that_was_taking_over_when_chancery_was_killed_is_ended() {
    let mut stage = Stage::new();
    let (edge, port, first) = stage.serve_edge().await;
    let (paths, from) = (stage.paths(&edge), Lineage::of(first).unwrap());
    let envoy = stage.options.envoy.find().await.unwrap();
    let launch = Launch::new(&edge, &envoy, greeting(&edge, &paths), &stage.options);
    for record in [paths.next_record.clone(), paths.dir.join("lost")] {
        // Nothing answers it, as the process that stood in between is gone.
        let _unanswered = Handover::open(&paths, from, from.next().unwrap()).unwrap();
        let next = ProxyPaths { record: record.clone(), ..paths.clone() };
        let mut successor = Process::start(&launch, from.next(), &next).await.unwrap();
        if record != paths.next_record {
            std::fs::remove_file(record).unwrap();
        }
        stage = stage.crash_and_start(|_| {}).await;
        stage.want_only(&edge);
        stage.facts_of(&edge, |facts| facts.ready && facts.pid == Some(first)).await;
        tokio::time::timeout(DEADLINE, successor.ended()).await.unwrap();
        assert!(request(port).await.unwrap().ends_with("default/edge"));
    }
}

#[tokio::test]
async fn an_envoy_whose_successor_does_not_start_serves_on() {
    let mut stage = Stage::new();
    let (mut edge, port, pid) = stage.serve_edge().await;
    edge.options.extra_args = vec!["--no-such-option".into()];
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.problem.is_some() && facts.pid == Some(pid)).await;
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    edge.options.extra_args.clear();
    edge.options.concurrency = Some(2);
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(pid)).await;
    assert!(request(port).await.unwrap().ends_with("default/edge"));
}

/// The author of a Gateway says how long its Envoys drain, and holds each of them with one open request.
#[tokio::test]
async fn edits_of_a_gateway_leave_one_envoy_that_drains() {
    let (server, mut stage) = Stage::with_server().await;
    let (mut edge, port, first) = stage.serve_edge().await;
    edge.options.drain_timeout = Some(Duration::from_hours(24));
    stage.want_only(&edge);
    let (mut pids, mut open) = (vec![first], Vec::new());
    for edit in 2..=5 {
        open.push(Asked::at(&server, port).await);
        edge.options.concurrency = Some(edit);
        stage.want_only(&edge);
        let latest = pids.last().copied();
        pids.push(stage.facts_of(&edge, |facts| facts.ready && facts.pid != latest).await.pid.unwrap());
        let alive: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        assert_eq!(alive, pids[pids.len() - 2..], "the one that serves, and the one before it");
    }
    // The latest of those that drain still answers what it has.
    open.pop().unwrap().answer().await;
    stage.left(&edge, pids[3]).await;
    stage.end(Ending::AtOnce).await;
}

/// The same author removes the Gateway and adds it again; a restart of Chancery in between changes nothing.
#[tokio::test]
async fn a_gateway_that_is_removed_and_added_again_leaves_one_envoy_that_drains() {
    let (server, mut stage) = Stage::with_server().await;
    let (edge, port, first) = stage.serve_edge().await;
    let (mut pids, mut open) = (vec![first], Vec::new());
    for round in 0..3 {
        open.push(Asked::at(&server, port).await);
        stage.want(&[]);
        stage.draining(&edge).await;
        if round == 1 {
            stage = stage.crash_and_start(|_| {}).await;
        }
        stage.want_only(&edge);
        let latest = pids.last().copied();
        pids.push(stage.facts_of(&edge, |facts| facts.ready && facts.pid != latest).await.pid.unwrap());
        let alive: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        assert_eq!(alive, pids[pids.len() - 2..], "the one that serves, and the one before it");
    }
    stage.end(Ending::AtOnce).await;
}

#[tokio::test]
async fn an_envoy_that_drained_when_chancery_was_killed_is_not_adopted_and_another_serves_beside_it() {
    let (server, mut stage) = Stage::with_server().await;
    let (edge, port, first) = stage.serve_edge().await;
    let early = Asked::at(&server, port).await;
    stage.ending.send_replace(Ending::Drain);
    let refused = async { while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {} };
    tokio::time::timeout(DEADLINE, refused).await.expect("new connections are refused");

    // It was started in the very way in which it would be started now.
    let mut stage = stage.crash_and_start(|_| {}).await;
    stage.want_only(&edge);
    let facts = stage.facts_of(&edge, |facts| facts.ready).await;
    assert!(facts.pid != Some(first), "{facts:?}");
    let late = Asked::at(&server, port).await;
    assert!(is_alive(first), "it has a request to answer");

    // And once more, with two of them there: the one that serves is adopted.
    let mut stage = stage.crash_and_start(|_| {}).await;
    stage.want_only(&edge);
    let again = stage.facts_of(&edge, |facts| facts.ready).await;
    assert!(again.pid == facts.pid, "{again:?}");
    early.answer().await;
    stage.left(&edge, first).await;
    late.answer().await;
    stage.end(Ending::Drain).await;
    assert!(!is_alive(facts.pid.unwrap()));
}

#[tokio::test]
async fn an_envoy_that_drained_when_chancery_was_killed_gets_no_more_than_its_time() {
    let (server, mut stage) = Stage::with_server().await;
    let (edge, port, first) = stage.serve_edge().await;
    let early = Asked::at(&server, port).await;
    stage.want(&[]);
    stage.draining(&edge).await;
    let mut stage = stage.crash_and_start(|options| options.drain = Duration::from_millis(100)).await;
    stage.want(&[]);
    stage.gone(&edge).await;
    assert!(!is_alive(first) && !stage.paths(&edge).dir.exists());
    let _cut = early.asking.await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_comes_back_while_its_envoy_drains_is_served_at_once() {
    let (server, mut stage) = Stage::with_server().await;
    let (edge, port, first) = stage.serve_edge().await;
    let early = Asked::at(&server, port).await;
    stage.want(&[]);
    stage.draining(&edge).await;
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(first)).await;
    Asked::at(&server, port).await.answer().await;
    assert!(is_alive(first), "it has a request to answer");
    early.answer().await;
    stage.left(&edge, first).await;
}

#[tokio::test]
async fn a_state_folder_that_was_deleted_is_made_again_for_the_next_start() {
    let mut stage = Stage::new();
    let (edge, port, first) = stage.serve_edge().await;
    let memory = Lineage::of(first).unwrap().memory();
    let [gateways, _] = stage.options.layout.folders();
    std::fs::remove_dir_all(gateways.parent().unwrap()).unwrap();
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    kill(first);
    stage.facts_of(&edge, |facts| facts.ready && facts.pid != Some(first)).await;
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    assert!(Process::adopt(&stage.paths(&edge), &BTreeSet::new()).unwrap().unwrap().identity.is_some());
    // Its number went with the folder.
    std::fs::remove_file(memory).unwrap();
}

#[tokio::test]
async fn a_gateway_that_goes_while_its_next_envoy_has_to_wait_gets_none() {
    let mut stage = Stage::new();
    let (mut edge, _, first) = stage.serve_edge().await;
    // It does not close its listeners until it goes on.
    signal(first, Signal::STOP);
    edge.options.concurrency = Some(2);
    stage.want_only(&edge);
    stage.draining(&edge).await;
    stage.want(&[]);
    signal(first, Signal::CONT);
    let told = stage.gone(&edge).await;
    assert!(told.iter().all(|facts| facts.pid.is_none_or(|pid| pid == first)), "another was started: {told:#?}");
}

#[tokio::test]
async fn a_second_request_to_end_does_not_wait_for_open_requests() {
    let (server, mut stage) = Stage::with_server().await;
    let (edge, port, pid) = stage.serve_edge().await;
    let asked = Asked::at(&server, port).await;
    stage.ending.send_replace(Ending::Drain);
    stage.draining(&edge).await;
    assert!(is_alive(pid));
    stage.end(Ending::AtOnce).await;
    assert!(!is_alive(pid));
    let _cut = asked.asking.await.unwrap();
}

#[tokio::test]
async fn an_earlier_envoy_whose_gateway_is_gone_is_left_alone_until_that_is_known_and_then_ended() {
    let mut stage = Stage::new();
    let (edge, port, pid) = stage.serve_edge().await;
    let mut stage = stage.crash_and_start(|_| {}).await;
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    stage.want(&[]);
    stage.gone(&edge).await;
    assert!(!is_alive(pid));
}
