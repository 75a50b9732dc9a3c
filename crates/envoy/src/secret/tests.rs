//! Secrets.

use std::sync::Arc;

use ir::Secret;
use ir::secret::{Hidden, SecretContent};

use super::secret;
use crate::testing::{expect, json};

fn hidden(text: &str) -> Hidden {
    Hidden(Arc::from(text.as_bytes()))
}

fn check(content: SecretContent, wanted: &str) {
    expect(&json(&secret(&Secret { name: "secret/ns/a".into(), content })), wanted);
}

#[test]
fn a_certificate_carries_chain_and_key_inline() {
    check(
        SecretContent::Certificate { chain: hidden("chain"), key: hidden("key") },
        "
name: secret/ns/a
tlsCertificate: {certificateChain: {inlineBytes: Y2hhaW4=}, privateKey: {inlineBytes: a2V5}}
",
    );
}

#[test]
fn a_bundle_is_what_is_believed() {
    check(
        SecretContent::Bundle(hidden("ca")),
        "
name: secret/ns/a
validationContext: {trustedCa: {inlineBytes: Y2E=}}
",
    );
}

#[test]
fn an_encoded_secret_does_not_print_its_content() {
    let content = SecretContent::Certificate { chain: hidden("chain"), key: hidden("private") };
    let shown = format!("{:?}", secret(&Secret { name: "secret/ns/a".into(), content }));
    assert!(!shown.contains("private") && !shown.contains("112, 114, 105"), "{shown}");
}
