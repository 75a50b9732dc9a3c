//! Tables of texts that others write.

use unicode_width::UnicodeWidthStr as _;

use super::{Screen, columns, columns_on};

#[test]
fn texts_of_others_make_no_line_and_no_colour() {
    let table = columns(&["NAME"], [vec!["a\u{1b}[31m\nFORGED".to_owned()], vec!["b\u{9b}2J".to_owned()]]);
    assert_eq!(table, "NAME\na\u{241b}[31m\u{240a}FORGED\nb\u{fffd}2J\n");
}

#[test]
fn tables_fit_their_screen() {
    let row = || vec!["default/".to_owned() + &"n".repeat(40), "not Accepted: Because".to_owned(), "日本".repeat(40)];
    for width in [40, 60, 80, 121] {
        let table = columns_on(Screen { width: Some(width), colours: false }, &["NAME", "STATE", "DETAIL"], [row()]);
        assert!(table.lines().all(|line| line.width() <= width), "{width}:\n{table}");
        assert!(table.contains('…'), "{table}");
    }
    assert!(!columns(&["NAME", "STATE", "DETAIL"], [row()]).contains('…'));
    // No screen is too narrow for an answer.
    assert!(columns_on(Screen { width: Some(1), colours: false }, &["NAME"], [row()]).contains("default/nnn…"));
}

#[test]
fn only_states_have_colours() {
    let rows = ["ok", "not Accepted: Because", "Warning", "earlier version: ok", "-"];
    let rows = || rows.map(|state| vec!["ok".to_owned(), state.to_owned()]);
    let table = columns_on(Screen { width: None, colours: true }, &["NAME", "STATE"], rows());
    assert_eq!(
        table,
        "NAME  STATE\n\
         ok    \x1b[32mok\x1b[0m\n\
         ok    \x1b[31mnot Accepted: Because\x1b[0m\n\
         ok    \x1b[33mWarning\x1b[0m\n\
         ok    \x1b[33mearlier version: ok\x1b[0m\n\
         ok    -\n"
    );
    assert!(!columns(&["NAME", "STATE"], rows()).contains('\x1b'));
}
