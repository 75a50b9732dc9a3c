//! Tests of the CEL interpreter.

use super::{Program, Scope};
use crate::schema::Schema;

/// The answer of a rule about a value, "error" where there is none.
#[track_caller]
fn check(rule: &str, value: &'static str, expect: &str) {
    let tree = crate::yaml::parse(value).expect("the value parses");
    let program = Program::compile(rule).expect("the rule compiles");
    let answer = program.holds(Scope { cursor: tree.root(), schema: Schema::any(), doubts: None });
    let answer = answer.map_or("error".to_owned(), |answer| answer.to_string());
    assert_eq!(answer, expect, "{rule} on {value}");
}

#[test]
fn operators_bind_as_in_the_language() {
    check("1 + 2 * 3 == 7 && !(2 - 3 - 1 != -2)", "{}", "true");
    check("false && false || true", "{}", "true");
    check("true ? false : true ? true : true", "{}", "false");
    check("'a' in ['b', \"a\"] && !('c' in self) && 'x' in self", "{x: 1}", "true");
    check("'b' + 'c' == 'bc' && 'a' < 'b'", "{}", "true");
}

#[test]
fn logic_answers_where_one_side_decides() {
    check("self.missing == 1 || true", "{}", "true");
    check("true || self.missing == 1", "{}", "true");
    check("self.missing == 1 && false", "{}", "false");
    check("self.missing == 1 || false", "{}", "error");
    check("self.missing == 1 && true", "{}", "error");
    check("self.all(x, x.y == 1 || x.z)", "[{y: 2, z: false}, {y: 3}]", "false");
    check("self.exists(x, x.y == 1)", "[{}, {y: 1}]", "true");
}

#[test]
fn macros_nest_and_see_the_right_variables() {
    check("self.all(a, self.exists_one(b, a.n == b.n))", "[{n: 1}, {n: 2}]", "true");
    check("self.all(a, self.exists_one(b, a.n == b.n))", "[{n: 1}, {n: 1}]", "false");
    check("self.filter(x, x > 1).map(y, y * 2) == [4, 6]", "[1, 2, 3]", "true");
    check("self.all(x, self.all(x, x > 0) && x > 1)", "[1, 2]", "false");
    check("self.all(key, key.startsWith('a'))", "{ab: 1, ac: 2}", "true");
}

#[test]
fn functions_do_what_kubernetes_says() {
    check("size('äö') == 2 && 'äö'.size() == 2 && size(self) == 1", "[1]", "true");
    check("'a.b'.split('.')[1] == 'b' && 'ab'.contains('b') && 'ab'.endsWith('b')", "{}", "true");
    check("'äbc'.substring(1) == 'bc' && 'a'.substring(1) == '' && ''.substring(0) == ''", "{}", "true");
    check("'a'.substring(2) == ''", "{}", "error");
    check("'a'.substring(-1) == ''", "{}", "error");
    check("duration('1h') > duration('59m') && duration('60s') == duration('1m')", "{}", "true");
    check("duration('soon') > duration('1s')", "{}", "error");
    check("'a-1'.matches('^[a-z]-[0-9]$') && !'x'.matches(r'^\\d$')", "{}", "true");
    check("!format.dns1123Subdomain().validate('a.b').hasValue()", "{}", "true");
    check("format.dns1123Subdomain().validate('A').hasValue()", "{}", "true");
    check("isIP('::1') && !isIP('localhost')", "{}", "true");
    check("has(self.__namespace__) && self.__namespace__ == 'x'", "{namespace: x}", "true");
    check("self['a'] == self.b[0]", "{a: 1, b: [1]}", "true");
    check("self.b[1] == 1", "{b: [1]}", "error");
}

#[test]
fn a_rule_that_would_take_too_long_stops() {
    let text = format!("[{}1]", "1, ".repeat(5_000));
    let tree = crate::yaml::parse(&text).expect("parses");
    let program = Program::compile("self.all(a, self.all(b, a == b))").expect("compiles");
    assert!(program.holds(Scope { cursor: tree.root(), schema: Schema::any(), doubts: None }).is_err());
}

#[test]
fn null_is_as_good_as_absent() {
    check("has(self.a)", "{a: null}", "false");
    check("self == null", "~", "true");
}

#[test]
fn what_is_not_understood_does_not_compile() {
    for rule in [
        "",
        "self.",
        "self.a.b(",
        "unknown",
        "self.all(x)",
        "'open",
        "1 +",
        "self.nope(1)",
        "a ? b",
        "self @ 1",
        "format.nope()",
    ] {
        assert!(Program::compile(rule).is_err(), "{rule}");
    }
    assert!(Program::compile(&"(".repeat(10_000)).is_err());
}
