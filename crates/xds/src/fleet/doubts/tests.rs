//! Doubts are bounded, and the oldest are forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fleet::Fleet;
use crate::resource::{Need, TypeUrl};

fn clusters(names: usize) -> BTreeSet<Need> {
    (0..names).map(|n| Need::new(TypeUrl::Cluster, format!("cluster-{n}"))).collect()
}

/// How many clusters are in doubt with this client.
fn taken(fleet: &mut Fleet, node: &str) -> usize {
    fleet.take_doubts(node, &TypeUrl::Cluster).len()
}

#[test]
fn names_in_doubt_are_bounded_together_and_the_oldest_clients_are_forgotten() {
    let mut fleet = Fleet::new("ns/gw".into());
    let nodes: Vec<Arc<str>> = (0..10).rev().map(|n| format!("node-{n}").into()).collect();
    for node in &nodes {
        fleet.doubt(node, clusters(50_000));
    }
    let left: Vec<usize> = nodes.iter().map(|node| taken(&mut fleet, node)).collect();
    assert_eq!(left, [0, 0, 0, 0, 0, 50_000, 50_000, 50_000, 50_000, 50_000]);
}

#[test]
fn clients_in_doubt_are_bounded_and_the_oldest_is_forgotten() {
    let mut fleet = Fleet::new("ns/gw".into());
    let nodes: Vec<Arc<str>> = (0..1_026).rev().map(|n| format!("node-{n:04}").into()).collect();
    for node in &nodes {
        fleet.doubt(node, clusters(1));
    }
    let left: Vec<usize> = nodes.iter().map(|node| taken(&mut fleet, node)).collect();
    assert_eq!((left.iter().sum::<usize>(), &left[..3]), (1_024, &[0, 0, 1][..]));
}

#[test]
fn a_client_that_goes_again_is_the_youngest() {
    let mut fleet = Fleet::new("ns/gw".into());
    for node in ["a", "b", "c", "d", "e", "a", "f"] {
        fleet.doubt(&node.into(), clusters(50_000));
    }
    assert_eq!((taken(&mut fleet, "b"), taken(&mut fleet, "a")), (0, 50_000));
}

#[test]
fn one_client_is_bounded_too() {
    let mut fleet = Fleet::new("ns/gw".into());
    fleet.doubt(&"a".into(), clusters(300_000));
    assert_eq!(taken(&mut fleet, "a"), 262_144);
}
