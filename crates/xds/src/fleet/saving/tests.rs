//! What waits for a disk that is slow or does not take anything.

use super::*;

#[test]
fn of_how_many_clients_something_waits_to_be_saved_is_bounded_and_nothing_is_lost() {
    let (mut fleet, name) = (Fleet::new("ns/gw".into()), Arc::from("ns/gw"));
    fleet.keep(true);
    let doubt = || [Need::new(TypeUrl::Cluster, "a")].into();
    fleet.doubt(&"first".into(), doubt());
    assert!(fleet.take_unsaved(&name).is_some() && !fleet.has_unsaved());
    for n in 0..3 * MOST_NODES {
        fleet.doubt(&n.to_string().into(), doubt());
        assert!(fleet.memory.nodes.len() <= MOST_NODES && fleet.has_unsaved());
    }
    let unsaved = fleet.take_unsaved(&name).unwrap();
    let left: Vec<&str> =
        unsaved.doubts.iter().filter(|(_, doubt)| !doubt.needs.is_empty()).map(|(node, _)| &**node).collect();
    assert!(unsaved.whole && left.contains(&(3 * MOST_NODES - 1).to_string().as_str()), "{left:?}");
    assert!(!fleet.has_unsaved());
    fleet.doubt(&"later".into(), doubt());
    let unsaved = fleet.take_unsaved(&name).unwrap();
    assert!(!unsaved.whole && unsaved.doubts.iter().any(|(node, _)| &**node == "later"));
}
