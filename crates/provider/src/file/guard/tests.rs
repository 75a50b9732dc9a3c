//! Tests of the look at a text for what guards.

use super::*;

#[test]
fn texts_that_name_any_kind_of_policy_guard() {
    let scan = Scan::new();
    let is_policy = |kind: &&Kind| kind.is_attached() || kind.name().ends_with("Policy");
    let policies: Vec<&Kind> = Kind::ALL.iter().filter(is_policy).collect();
    assert!(policies.contains(&&Kind::SecurityPolicy) && policies.contains(&&Kind::XTelemetryPolicy), "{policies:?}");
    for kind in Kind::ALL {
        let text = format!("kind: {kind}\n");
        assert_eq!(scan.names_guard(text.as_bytes()), policies.contains(&kind), "{kind}");
    }
    for filter in ["type: ExternalAuth", "{kind: HTTPRouteFilter}"] {
        assert!(scan.names_guard(filter.as_bytes()), "{filter}");
    }
}

#[test]
fn names_at_the_borders_of_chunks_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    let access = Access::new(crate::file::Links::Everywhere, []);
    let mut scan = Scan::new();
    for before in CHUNK - 25..CHUNK + 25 {
        std::fs::write(&path, "x".repeat(before) + "EnvoyExtensionPolicy").unwrap();
        assert!(scan.may_guard(&path, &access), "{before}");
    }
    std::fs::write(&path, "x".repeat(2 * CHUNK) + "Policy").unwrap();
    assert!(!scan.may_guard(&path, &access));
}
