//! Which names are equal, and which are in which collection.

use super::{canonical, collection_of, is_collection};

#[test]
fn names_are_equal_whatever_the_order_of_their_context_parameters() {
    let check = |name: &str, expect: &str| assert_eq!(canonical(name), expect);
    check("xdstp://a/t/x?b=2&a=1", "xdstp://a/t/x?a=1&b=2");
    check("xdstp://a/t/x?a=1&b=2", "xdstp://a/t/x?a=1&b=2");
    check("xdstp://a/t/*?b=2&a=1", "xdstp://a/t/*?a=1&b=2");
    check("xdstp:///t/x?b&a", "xdstp:///t/x?a&b");
    check("plain?b=2&a=1", "plain?b=2&a=1");
    check("xdstp://a/t/x#entry=b&a?z&y", "xdstp://a/t/x#entry=b&a?z&y");
}

#[test]
fn a_collection_holds_what_is_one_step_below_its_path_and_has_its_context_parameters() {
    let check = |name: &str, expect: Option<&str>| assert_eq!(collection_of(name).as_deref(), expect, "{name}");
    check("xdstp://a/t/p/x", Some("xdstp://a/t/p/*"));
    check("xdstp://a/t/p/x?k=/v", Some("xdstp://a/t/p/*?k=/v"));
    check("xdstp://a/x", Some("xdstp://a/*"));
    check("xdstp://a", None);
    check("xdstp://a/t/*", None);
    check("a/t/x", None);
    check("xdstp://a/t/x#alt=y", None);
}

#[test]
fn a_collection_is_told_from_a_resource() {
    for (name, expect) in
        [("xdstp://a/t/*", true), ("xdstp://a/t/*?k=v", true), ("xdstp://a/t/x", false), ("t/*", false), ("*", false)]
    {
        assert_eq!(is_collection(name), expect, "{name}");
    }
}
