//! The README's commands for a cluster do what it says.

use crate::cluster::{commands, run, served};

#[test]
fn requests_go_through_envoy_when_the_commands_of_the_readme_are_done() {
    let lab = served();
    let (_, tries) = commands();
    assert!(tries.len() >= 3, "{tries:?}");
    let said: Vec<String> = tries.iter().map(|command| run(&lab, command)).collect();
    let answer = said.last().unwrap();
    assert!(answer.contains("\"pod\": \"cart-"), "{answer}");
    run(&lab, "kubectl delete -f deploy/kubernetes/quickstart.yaml --wait=false");
}
