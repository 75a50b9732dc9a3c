//! Tables of texts that others write.

use super::columns;

#[test]
fn texts_of_others_make_no_line_and_no_colour() {
    let table = columns(&["NAME"], [vec!["a\u{1b}[31m\nFORGED".to_owned()], vec!["b\u{9b}2J".to_owned()]]);
    assert_eq!(table, "NAME\na\u{241b}[31m\u{240a}FORGED\nb\u{fffd}2J\n");
}
