//! Tests of base64.

use super::decode;

#[test]
fn every_length_is_decoded() {
    for (text, bytes) in [
        ("", &b""[..]),
        ("Zg==", b"f"),
        ("Zm8=", b"fo"),
        ("Zm9v", b"foo"),
        ("Zm9v\nYmE=\n", b"fooba"),
        ("+/+/", b"\xfb\xff\xbf"),
    ] {
        assert_eq!(decode(text).as_deref(), Some(bytes), "{text:?}");
    }
}

#[test]
fn what_is_not_base64_is_none() {
    for text in ["Z", "Zg", "Zg=", "Zg===", "Zm9v=", "Zm=v", "Zm9-", "Zm 9v", "="] {
        assert_eq!(decode(text), None, "{text:?}");
    }
}
