//! Certificates and keys of every kind that Envoy takes, and of kinds that it does not.

use api::{Kind, Object, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ir::secret::{Hidden, SecretContent};
use num_bigint::BigUint;
use serde_json::json;

use super::read_secret;
use crate::backend::SecretPart;
use crate::testing::object;

fn verdict(certificate: &str, key: &str) -> Result<(), String> {
    let spec = json!({"stringData": {"tls.crt": certificate, "tls.key": key}});
    let Object::Secret(secret) = object(Kind::Secret, "s", spec) else { panic!("a secret") };
    let secret: &Secret = &secret;
    let parts = read_secret(secret, || None);
    let (_, parsed) = parts.iter().find(|(part, _)| *part == SecretPart::Certificate).expect("the certificate");
    parsed.verdict().map(drop).map_err(|text| text.to_string())
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

/// An RSA key of 4,484 bits, of two Mersenne primes (PKCS#1): the search for a larger one would take many seconds.
fn large_rsa_key() -> String {
    let [p, q] = [2203_u64, 2281].map(|exponent| (BigUint::from(1_u8) << exponent) - 1_u8);
    let e = BigUint::from(65_537_u32);
    let d = e.modinv(&((&p - 1_u8) * (&q - 1_u8))).expect("an inverse");
    let numbers = [BigUint::ZERO, &p * &q, e, d.clone(), p.clone(), q.clone()];
    let more = [&d % (&p - 1_u8), &d % (&q - 1_u8), q.modinv(&p).expect("an inverse")];
    let integer = |number: &BigUint| tagged(2, &[vec![0], number.to_bytes_be()].concat());
    let body: Vec<u8> = numbers.iter().chain(&more).flat_map(integer).collect();
    let text = STANDARD.encode(tagged(0x30, &body));
    format!("-----BEGIN RSA PRIVATE KEY-----\n{text}\n-----END RSA PRIVATE KEY-----\n")
}

/// DER of some content.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    // Numbers are written without a zero that they do not need.
    let content = match content {
        [0, rest @ ..] if tag == 2 && rest.first().is_some_and(|first| *first < 0x80) => rest,
        all => all,
    };
    let length = u16::try_from(content.len()).expect("short").to_be_bytes();
    let head = if content.len() < 128 { vec![tag, length[1]] } else { vec![tag, 0x82, length[0], length[1]] };
    [&head, content].concat()
}

#[test]
fn rsa_keys_of_more_than_4096_bits_are_refused() {
    let (certificate, _) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
    let text = verdict(&certificate, &large_rsa_key()).expect_err("4,484 bits");
    assert_eq!(
        text,
        "tls.key: the RSA key has more than 4096 bits, which costs the proxy too much for each connection: use RSA of 2048 to 4096 bits, or ECDSA"
    );
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_4096).expect("a key");
    let parameters = rcgen::CertificateParams::new(["example.org".to_owned()]).expect("parameters");
    let certificate = parameters.self_signed(&key).expect("a certificate").pem();
    assert_eq!(verdict(&certificate, &key.serialize_pem()), Ok(()));
}

#[test]
fn chains_of_more_than_16_certificates_are_refused() {
    let (one, key) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
    assert_eq!(verdict(&one.repeat(16), &key), Ok(()));
    let text = verdict(&one.repeat(17), &key).expect_err("17");
    assert!(text.starts_with("tls.crt: the chain has 17 certificates, and at most 16 can be used: "), "{text}");
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

/// A certificate of an authority and the key of the certificate.
fn issued(name: &str, days: i64) -> (String, String, String) {
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let mut of_authority = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = of_authority.self_signed(&authority_key).expect("a certificate");
    let issuer = rcgen::Issuer::from_params(&of_authority, &authority_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut parameters = rcgen::CertificateParams::new([name.to_owned()]).expect("parameters");
    parameters.not_after =
        parameters.not_before + std::time::Duration::from_secs(86_400 * u64::try_from(days).expect("days"));
    let leaf = parameters.signed_by(&key, &issuer).expect("a certificate");
    (leaf.pem(), authority.pem(), key.serialize_pem())
}

fn contents(data: &[(&str, String)], part: SecretPart) -> Result<(String, String), String> {
    let entries: serde_json::Map<_, _> = data.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    let Object::Secret(secret) = object(Kind::Secret, "s", json!({"stringData": entries})) else { panic!("a secret") };
    let parts = read_secret(&secret, || None);
    let (_, parsed) = parts.into_iter().find(|(found, _)| *found == part).expect("the part");
    let text = |Hidden(bytes): Hidden| String::from_utf8(bytes.to_vec()).expect("ASCII");
    parsed.content.map_err(|text| text.to_string()).map(|content| match content {
        SecretContent::Certificate { chain, key } => (text(chain), text(key)),
        SecretContent::Bundle(bundle) => (text(bundle), String::new()),
    })
}

fn pair(chain: &str, key: &str) -> Result<(String, String), String> {
    contents(&[("tls.crt", chain.to_owned()), ("tls.key", key.to_owned())], SecretPart::Certificate)
}

/// Lines as a proxy gets them: rcgen writes the same form.
fn unix(text: &str) -> String {
    text.replace('\r', "")
}

#[test]
fn a_proxy_gets_canonical_pem_whatever_the_form() {
    let (leaf, authority, key) = issued("example.org", 10);
    let chain = unix(&format!("{leaf}{authority}"));
    let wanted = Ok((chain.clone(), unix(&key)));
    for (form, chain, key) in [
        ("as it is", chain.clone(), key.clone()),
        ("joined", chain.replace("-----\n-----", "----------"), key.clone()),
        ("CR", chain.replace('\n', "\r"), unix(&key).replace('\n', "\r")),
        (
            "key and parameters first",
            format!("{key}{chain}"),
            format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{key}"),
        ),
        ("old label", chain.replace(" CERTIFICATE", " X509 CERTIFICATE"), key.clone()),
        (
            "parameters of DH",
            format!("{chain}-----BEGIN DH PARAMETERS-----\nMAYCAQUCAQI=\n-----END DH PARAMETERS-----\n"),
            key.clone(),
        ),
    ] {
        assert_eq!(pair(&chain, &key), wanted, "{form}");
    }
}

#[test]
fn what_cannot_be_used_is_said_without_the_content() {
    let (leaf, authority, key) = issued("example.org", 10);
    for (chain, key, words) in [
        (format!("{authority}{leaf}"), key.clone(), "number 2: put that one first"),
        (leaf.replace(" CERTIFICATE", " TRUSTED CERTIFICATE"), key.clone(), "TRUSTED CERTIFICATE"),
        (leaf.clone(), key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), "the key is encrypted"),
        (
            leaf.clone(),
            key.replace("KEY-----\r\n", "KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n\r\n")
                .replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\n\n"),
            "the key is encrypted",
        ),
        (leaf.replace('E', "\0E"), key.clone(), "tls.crt"),
        (STANDARD.encode(&leaf), key.clone(), "base64 of PEM"),
        (leaf.clone(), STANDARD.encode(&key), "base64 of PEM"),
        ("\n".to_owned(), key.clone(), "no certificate in PEM"),
    ] {
        let text = pair(&chain, &key).expect_err(words);
        assert!(text.contains(words), "{text}");
        assert!(key.lines().filter(|line| line.len() > 20).all(|line| !text.contains(line)), "{text}");
    }
}

#[test]
fn a_key_whose_certificate_names_another_algorithm_does_not_belong() {
    // The curve's name, P-256, becomes that of secp256k1's neighbour: as long, and not the key's.
    let (certificate, key) = made(&rcgen::PKCS_ECDSA_P256_SHA256);
    let mut der = STANDARD
        .decode(certificate.lines().filter(|line| !line.starts_with("--")).collect::<String>())
        .expect("base64");
    let curve = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let at = der.windows(8).position(|window| window == curve).expect("the curve");
    der[at + 7] = 0x01;
    let mut text = Vec::new();
    super::pem::write(&mut text, "CERTIFICATE", &der);
    let text = String::from_utf8(text).expect("ASCII");
    assert!(verdict(&text, &key).is_err_and(|text| text.contains("does not belong")));
}

#[test]
fn revocation_lists_of_a_bundle_stay_and_keys_do_not() {
    let (_, authority, key) = issued("example.org", 10);
    let bundle = |text: String| contents(&[("ca.crt", text)], SecretPart::Bundle).map(|(text, _)| text);
    assert_eq!(bundle(format!("{key}{authority}")), Ok(unix(&authority)));
    let broken = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    assert!(bundle(format!("{authority}{broken}")).is_err_and(|text| text.contains("no revocation list")));
    let list = revocation_list();
    assert_eq!(bundle(format!("{authority}{list}")), Ok(unix(&format!("{authority}{list}"))));
}

fn revocation_list() -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut of_authority = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    of_authority.key_usages = vec![rcgen::KeyUsagePurpose::CrlSign];
    let issuer = rcgen::Issuer::from_params(&of_authority, &key);
    let list = rcgen::CertificateRevocationListParams {
        this_update: of_authority.not_before,
        next_update: of_authority.not_after,
        crl_number: rcgen::SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    list.signed_by(&issuer).expect("a list").pem().expect("PEM")
}

#[test]
fn a_leaf_that_envoy_refuses_for_its_extensions_is_said() {
    let verdict_of = |change: &dyn Fn(&mut rcgen::CertificateParams)| {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(["example.org".to_owned()]).expect("parameters");
        change(&mut parameters);
        verdict(&parameters.self_signed(&key).expect("a certificate").pem(), &key.serialize_pem())
    };
    let staple = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], vec![0x30, 3, 2, 1, 5]);
    let stapled = verdict_of(&|parameters| parameters.custom_extensions.push(staple.clone()));
    assert!(stapled.is_err_and(|text| text.contains("must-staple")));
    let usage = |usage| verdict_of(&move |parameters| parameters.key_usages = vec![usage]);
    assert!(usage(rcgen::KeyUsagePurpose::KeyCertSign).is_err_and(|text| text.contains("digitalSignature")));
    assert_eq!(usage(rcgen::KeyUsagePurpose::DigitalSignature), Ok(()));
}
