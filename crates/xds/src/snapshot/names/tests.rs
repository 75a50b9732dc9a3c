//! What is found, and that nothing is left behind.

use super::*;

#[test]
fn a_collection_is_kept_as_long_as_it_has_members() {
    let mut names = Names::default();
    for (name, value) in [("xdstp://a/t/y", 2), ("xdstp://a/t/x", 1), ("xdstp://a/t/x", 3), ("plain", 4)] {
        names.insert(name.into(), value);
    }
    let members = |names: &Names<i32>| names.members("xdstp://a/t/*").copied().collect::<Vec<_>>();
    assert_eq!(members(&names), [3, 2]);
    assert_eq!(names.remove("xdstp://a/t/x"), Some(3));
    assert_eq!(members(&names), [2]);
    assert_eq!(names.members.get("xdstp://a/t/*").map(BTreeSet::len), Some(1));
    assert_eq!((names.remove("xdstp://a/t/y"), names.remove("plain")), (Some(2), Some(4)));
    assert!(names.members.is_empty() && names.order.is_empty() && names.by_name.is_empty());
}
