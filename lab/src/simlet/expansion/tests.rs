//! The rules of the API reference for `command`, `args` and `env`.

use super::expand;

fn check(text: &str, expect: &str) {
    let value = |name: &str| match name {
        "NAME" => Some("web"),
        "EMPTY" => Some(""),
        "OTHER" => Some("$(NAME)"),
        _ => None,
    };
    assert_eq!(expand(text, value), expect, "{text}");
}

#[test]
fn names_become_values_once() {
    check("$(NAME)-0", "web-0");
    check("<$(EMPTY)>$(NAME)$(NAME)", "<>webweb");
    check("$(OTHER)", "$(NAME)");
}

#[test]
fn what_has_no_value_stays() {
    check("$(UNKNOWN)/$(NAME)", "$(UNKNOWN)/web");
    check("$()", "$()");
}

#[test]
fn two_dollars_are_one_that_begins_nothing() {
    check("$$(NAME)", "$(NAME)");
    check("$$$(NAME)", "$web");
    check("$$$$(NAME)", "$$(NAME)");
}

#[test]
fn a_dollar_alone_stays() {
    check("5$", "5$");
    check("$NAME $(NAME", "$NAME $(NAME");
}
