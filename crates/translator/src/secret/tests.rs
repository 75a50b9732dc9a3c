//! Certificates and keys of every kind that Envoy takes, and of kinds that it does not.

use api::{Kind, Object, Secret};
use serde_json::json;

use super::read_secret;
use crate::backend::SecretPart;
use crate::testing::object;

fn verdict(certificate: &str, key: &str) -> Result<(), String> {
    let spec = json!({"stringData": {"tls.crt": certificate, "tls.key": key}});
    let Object::Secret(secret) = object(Kind::Secret, "s", spec) else { panic!("a secret") };
    let secret: &Secret = &secret;
    let parts = read_secret(secret);
    let (_, parsed) = parts.iter().find(|(part, _)| *part == SecretPart::Certificate).expect("the certificate");
    parsed.verdict().map_err(|text| text.to_string())
}

fn made(algorithm: &'static rcgen::SignatureAlgorithm) -> (String, String) {
    let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
    let parameters = rcgen::CertificateParams::new(["example.org".to_owned()]).expect("parameters");
    (parameters.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

#[test]
fn keys_that_envoy_takes_are_good_and_others_are_said() {
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let (certificate, key) = made(algorithm);
        assert_eq!(verdict(&certificate, &key), Ok(()));
    }
    let (certificate, key) = made(&rcgen::PKCS_ED25519);
    assert!(verdict(&certificate, &key).is_err_and(|text| text.contains("cannot be used")));
}

#[test]
fn a_chain_is_read_whole_and_a_key_of_another_certificate_is_noticed() {
    let (one, key) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
    let (two, other) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
    assert_eq!(verdict(&format!("{one}{two}"), &key), Ok(()));
    assert!(verdict(&format!("{two}{one}"), &key).is_err_and(|text| text.contains("does not belong")));
    assert!(verdict(&one, &other).is_err_and(|text| text.contains("does not belong")));
    let torn = format!("{one}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert!(verdict(&torn, &key).is_err_and(|text| text.contains("certificate 2")));
}

#[test]
fn no_words_about_a_secret_quote_it() {
    let (_, key) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
    let text = verdict(&key, &key).expect_err("a key is no certificate");
    assert!(key.lines().all(|line| !text.contains(line)), "{text}");
}
