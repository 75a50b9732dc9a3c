//! What fits into an object. That replicas hear each other is shown with a cluster, in the lab.

use super::*;

#[test]
fn what_does_not_fit_is_left_out_and_the_rest_is_told() {
    let large = "x".repeat(MOST / 2 - 10);
    let said: Said = [("a", &*large), ("b", &*large), ("c", &*large), ("d", "small")]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect();
    let told = bounded(&said);
    assert_eq!(told.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(bounded(&told), told);
}
