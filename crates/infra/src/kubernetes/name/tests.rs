//! Whose objects are.

use std::collections::BTreeMap;

use ir::infra::ObjectName;

use super::{CONTROLLER, Owner, Whose, selector, whose};

fn gateway(namespace: &str, name: &str) -> ObjectName {
    ObjectName { namespace: namespace.into(), name: name.into() }
}

fn labels(gateway: &ObjectName, controller: &str) -> BTreeMap<String, String> {
    let own = [(CONTROLLER.to_owned(), controller.to_owned())];
    selector(gateway).into_iter().map(|(label, value)| (label.to_string(), value.to_string())).chain(own).collect()
}

#[test]
fn an_object_is_a_gateways_only_by_all_of_its_labels() {
    let gateway = gateway("shop", &"long".repeat(60));
    let owner = Owner::of(&gateway);
    let all = labels(&gateway, "ours");
    assert_eq!(whose(&all, &owner, "ours"), Whose::Ours);
    for label in all.keys().filter(|label| **label != "app.kubernetes.io/name") {
        let mut fewer = all.clone();
        fewer.remove(label);
        let expected = if label == CONTROLLER { Whose::Elsewhere("".into()) } else { Whose::Foreign };
        assert_eq!(whose(&fewer, &owner, "ours"), expected, "without {label}");
    }
    assert_eq!(whose(&BTreeMap::new(), &owner, "ours"), Whose::Foreign);
}

#[test]
fn another_gateway_and_another_installation_are_told_by_name() {
    let owner = Owner::of(&gateway("shop", "one"));
    let other = gateway("shop", "two");
    assert_eq!(whose(&labels(&other, "ours"), &owner, "ours"), Whose::Other(Owner::of(&other)));
    assert_eq!(whose(&labels(&other, "theirs"), &owner, "ours"), Whose::Elsewhere("theirs".into()));
}
