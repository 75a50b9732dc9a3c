//! Regular expressions that are taken, and those that are not.

use super::check;

#[test]
fn expressions_of_daily_use_are_taken() {
    for text in ["/v[0-9]+/.*", "(?i)abc", "a{1,1000}", "^/x/(one|two)$", r"\d+\.\w*", "[[:alpha:]]", "a*?", r"/\x41"] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn broken_and_exploding_expressions_are_not() {
    for text in [
        "/a{1,1000}b{1,1000}c{1,1000}d{1,900}",
        r"\p{Foo}",
        r"\pX",
        r"\p{LC}",
        "",
        "(",
        "a{2,1}",
        "[z-a]",
        "a{1001}",
        ".{1000}",
        "((a{100}){100}){100}",
        "(?=x)",
        r"\1",
        "[a&&b]",
        "*",
    ] {
        assert!(check(text).is_err(), "{text}");
    }
}

#[test]
fn what_other_engines_know_and_re2_does_not_is_refused() {
    for text in [
        "(?x) a b",
        "(?u:a)",
        "a**",
        r"\<word\>",
        r"\b{start}a",
        r"\u0041",
        r"\u{41}",
        r"\x{10FFFF}",
        r"[\x{100}-\x{17f}]",
        "[a[bc]]",
        r"\p{sc=Greek}",
        "[a--b]",
    ] {
        assert!(check(text).is_err(), "{text}");
    }
    for text in ["(?s:.)", "(?-i:a)", r"\x{ff}", r"\p{Greek}\pL", r"[\d\-x]", r"\bword\b", "(?P<name>a)", r"[\[\]]"] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

/// Each of these was refused by Envoy 1.40 where its neighbour was not.
#[test]
fn counts_in_counts_are_multiplied_as_re2_does_it() {
    for text in ["(?:(?:a{10}){10}){11}", "(?:a{501}){2}", "(a{31}|){33}", "(?:a{2}){501,}", "((?:a?b{3}){3}){0,112}"] {
        let said = check(text).expect_err(text);
        assert!(said.contains("1000 times at most"), "{said}");
    }
    for text in ["(?:(?:a{10}){10}){10}", "(?:a{500}){2}", "(?:a{1000}){0}", "(?:a{1000}){1}", "(?:a{500}b{500}){2}"] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn names_of_groups_that_proxies_refuse_are_refused() {
    for text in ["(?P<a.b>x)", "(?P<é>x)", "(?<a[0]>x)", "(?P<aª>x)"] {
        assert!(check(text).is_err(), "{text}");
    }
    for text in ["(?P<a_1>x)", "(?<_>x)"] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn what_proxies_read_in_another_way_is_refused() {
    for text in [
        "[--&]",
        "[]-:]",
        r"[^--\d]",
        "[é-€-0]",
        r"[\xff-Ā]",
        r"[\xe9-ÿ]",
        "a{ 2}",
        "a{2, 3}",
        "a{,3}",
        "a{02}",
        "(?:c{ 2}){1000,}",
        "(?:(?:b*)*){600}",
        "(?:/+|-){600}",
    ] {
        assert!(check(text).is_err(), "{text}");
    }
    for text in ["[a-]", "[-a]", "[a-z-9]", "[é-€]", r"[\xe9-\xff]", "a{2}?", "a{0,3}", "a{2,}", r"[]\-:]"] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_and_does_no_harm() {
    let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(check(&deep).is_err());
}

#[test]
fn the_list_of_classes_is_sorted_for_the_search_in_it() {
    assert!(super::UNICODE_CLASSES.is_sorted());
}
