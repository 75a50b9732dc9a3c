//! Tokens and the files that hold them.

use super::Token;

#[test]
fn tokens_differ_and_are_not_shown() {
    let [one, other] = [Token::new(), Token::new()];
    assert_ne!(one, other);
    assert_eq!(one.as_str().len(), 32);
    assert!(!format!("{one:?}").contains(one.as_str()));
}

#[test]
fn damaged_token_file_is_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let token = Token::new();
    for (text, good) in [(token.as_str(), true), ("", false), ("abc", false), (&"g".repeat(32), false)] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(Token::read(&file).is_some(), good, "{text:?}");
    }
    assert_eq!(Token::read(&folder.path().join("none")), None);
}
