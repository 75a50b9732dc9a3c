//! What fits into an object. That replicas hear each other is shown with a cluster, in the lab.

use super::*;

#[test]
fn what_does_not_fit_is_left_out_and_the_rest_is_told() {
    let large = "x".repeat(MOST / 2 - 2 * AROUND);
    let said: Said = [("a", &*large), ("b", &*large), ("c", &*large), ("d", "small")]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect();
    let told = bounded(&said);
    assert_eq!(told.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(bounded(&told), told);
}

#[test]
fn names_that_no_key_has_room_for_are_told_too() {
    let long = format!("{}/{}", "n".repeat(63), "g".repeat(253));
    let told: Said = [(long.as_str(), "one\ntwo"), ("a/b_c", ""), ("a_b/c", "{}")]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect();
    let object = data(&told);
    assert!(object.keys().all(|key| key.len() <= 253 && key.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    assert_eq!(said(object), told);
}
