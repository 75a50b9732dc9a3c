//! The lab's network and API server, from a thread of a test.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nix::sched::{CloneFlags, setns};

/// This thread, and those that it starts, are in the lab's network from now on.
pub(crate) fn enter(state: &Path) {
    let processes = std::fs::read_to_string(state.join("processes")).unwrap();
    let first = processes.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    let network = File::open(format!("/proc/{first}/ns/net")).unwrap();
    setns(network, CloneFlags::CLONE_NEWNET).unwrap();
}

/// A client with this kubeconfig, perhaps with the rights of another user.
pub(crate) async fn client(config: &str, user: Option<String>) -> Client {
    let file = Kubeconfig::from_yaml(config).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info.impersonate = user;
    config.connect_timeout = Some(Duration::from_secs(1));
    config.read_timeout = None;
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
