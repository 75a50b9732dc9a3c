//! What is left of Envoy's words.

use super::*;

fn check(type_url: TypeUrl, text: &str, expect: &str) {
    assert_eq!(&*refusal(&type_url, text), expect);
}

#[test]
fn words_about_a_secret_are_replaced_by_ours() {
    let text =
        "Failed to load private key from <inline>, Cause: error:0b000074:X.509:OPENSSL_internal:KEY_VALUES_MISMATCH";
    check(TypeUrl::Secret, text, "the private key does not belong to the certificate");
    check(TypeUrl::Secret, "-----BEGIN PRIVATE KEY-----", WITHHELD);
    check(TypeUrl::Secret, "something new with MIIEvQIBADANBg", WITHHELD);
}

#[test]
fn a_repeated_message_is_cut_out_and_the_broken_rule_stays() {
    let text = "Error adding/updating listener(s) bad: goo.gle/debugstr  name: \"bad\" secret: \"s3cret\" \
                Proto constraint validation failed (X.StatPrefix: value length must be at least 1 characters)";
    let expect = "Error adding/updating listener(s) bad: \
                  Proto constraint validation failed (X.StatPrefix: value length must be at least 1 characters)";
    check(TypeUrl::Listener, text, expect);
}

#[test]
fn key_material_in_any_text_withholds_it() {
    check(TypeUrl::Listener, "no such thing: tls { private_key { } }", WITHHELD);
}

#[test]
fn control_characters_and_length_are_bounded() {
    check(TypeUrl::Route, "missing ]: [\r\n\u{1b}", "missing ]: [");
    check(TypeUrl::Route, " ", "refused without a reason");
    assert_eq!(refusal(&TypeUrl::Route, &"é".repeat(5000)).chars().count(), LONGEST);
}

#[test]
fn what_a_client_calls_itself_is_shown_on_one_line_of_bounded_length() {
    assert_eq!(&*super::node("edge\n\u{1b}[31mred"), "edge  [31mred");
    assert_eq!(super::node(&"x".repeat(5_000)).len(), 253);
}

#[test]
fn what_a_client_says_of_itself_is_one_line_that_reads_as_it_is() {
    for (said, shown) in [
        ("edge-7.default", "edge-7.default"),
        ("größe 端", "größe 端"),
        ("x\n2026-01-01 WARN all is lost", "x 2026-01-01 WARN all is lost"),
        ("x\r\u{1b}[2K\u{7f}\u{9b}31m", "x  [2K  31m"),
        ("x\u{2028}y\u{2029}\u{85}", "x y  "),
        ("a\u{202e}b\u{2066}c\u{200f}d\u{61c}", "a b c d "),
        ("a\u{200b}\u{feff}\u{e0041}b", "a   b"),
    ] {
        assert_eq!(&*super::line(said.to_owned()), shown);
        assert_eq!(&*super::node(said), shown);
    }
}
