//! Which Gateway a certificate names, and files that change.

use super::*;

#[test]
fn a_certificate_names_its_gateway() {
    for (identity, expected) in [
        ("spiffe://cluster.local/default/edge", Some("default/edge")),
        ("spiffe://example.org/shop/edge.v2", Some("shop/edge.v2")),
        ("edge.default", Some("default/edge")),
        ("edge.v2.shop", Some("shop/edge.v2")),
        ("spiffe://cluster.local/ns/default/sa/edge", None),
        ("spiffe://cluster.local/edge", None),
        ("spiffe://cluster.local/default/", None),
        ("spiffe://cluster.local//edge", None),
        ("spiffe://cluster.local", None),
        ("edge", None),
        (".default", None),
        ("edge.", None),
    ] {
        assert_eq!(gateway(identity, None).as_deref(), expected, "{identity}");
    }
}

#[test]
fn in_a_trust_domain_only_its_uris_name_a_gateway() {
    for (identity, expected) in [
        ("spiffe://example.org/default/edge", Some("default/edge")),
        ("spiffe://example.org/default", None),
        ("spiffe://other.org/default/edge", None),
        ("spiffe://example.org.evil/default/edge", None),
        ("edge.default", None),
    ] {
        assert_eq!(gateway(identity, Some("example.org")).as_deref(), expected, "{identity}");
    }
}

#[test]
fn a_failure_is_told_once_and_not_when_it_passes_at_once() {
    let mut failure = Failure::default();
    for (words, told, is_told) in [
        ("a", None, false),
        ("b", None, false),
        ("b", Some("b"), true),
        ("b", None, true),
        ("a", None, true),
        ("a", Some("a"), true),
    ] {
        assert_eq!(failure.seen(words.to_owned()), told);
        assert_eq!(failure.is_told, is_told);
    }
}

#[test]
fn nobody_waits_for_a_pipe_and_a_file_without_end_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.pem");
    std::fs::write(&path, "text").unwrap();
    assert_eq!(read_file(&path).unwrap(), b"text");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(read_file(&path).unwrap_err().to_string().contains("larger than 1 MiB"));
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(read_file(&path).unwrap_err().to_string().contains("not a regular file"));
}
