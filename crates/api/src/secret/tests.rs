//! Tests of Secrets.

use super::SecretSpec;

#[test]
fn a_secret_is_never_printed() {
    let secret = SecretSpec::new(None, [("tls.key".into(), (*b"very private").into())]);
    let shown = format!("{secret:?} {secret:#?}");
    assert!(!shown.contains("private"), "{shown}");
    assert!(!shown.contains(&format!("{:?}", b"very private")), "{shown}");
    assert!(shown.contains("12 bytes"), "{shown}");
}

#[test]
fn the_first_of_equal_keys_counts() {
    let secret = SecretSpec::new(None, [("a".into(), (*b"1").into()), ("a".into(), (*b"2").into())]);
    assert_eq!(secret.get("a"), Some(&b"1"[..]));
    assert_eq!(secret.keys().len(), 1);
}
