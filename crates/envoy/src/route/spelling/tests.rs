//! Spellings, path by path.

#[test]
fn every_spelling_of_a_path_is_taken() {
    let check = |path: &str, wanted: Option<&str>| assert_eq!(super::expression(path).as_deref(), wanted, "{path}");
    check("/admin", None);
    check("/a.b/-_~", None);
    check("/a%20b", None);
    check("/a%", None);
    check("/a%2", None);
    check("/items:delete", Some("/items(?:\\:|%3[aA])delete".replace('/', "\\/").as_str()));
    check("/a%3ab", Some("\\/a(?:\\:|%3[aA])b"));
    check("/a%2Bb", Some("\\/a(?:\\+|%2[bB])b"));
    check("/a!", Some("\\/a(?:\\!|%21)"));
    check("/caf%C3%a9", Some("\\/caf%[cC]3%[aA]9"));
    check("/café", Some("\\/caf%[cC]3%[aA]9"));
    check("/{x}", Some("\\/%7[bB]x%7[dD]"));
    check("/a^", Some("\\/a%5[eE]"));
    check("/a%zz:", Some("\\/a\\%zz(?:\\:|%3[aA])"));
}

#[test]
fn an_expression_stays_below_the_limit_of_the_proxies() {
    let path = format!("/{}", ":".repeat(1023));
    let expression = super::expression(&path).unwrap_or_default();
    assert_eq!(expression.matches("%3[aA]").count(), super::MAX_RESERVED);
    assert!(expression.ends_with("\\:\\:"));
}
