//! Which certificates name whom, and which PEM is taken.

use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls_pki_types::UnixTime;

use super::*;

fn made(sans: Vec<SanType>) -> (Vec<u8>, String, String) {
    let mut params = CertificateParams::default();
    params.subject_alt_names = sans;
    params.not_after = rcgen::date_time_ymd(2040, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.der().to_vec(), certificate.pem(), key.serialize_pem())
}

fn uri(uri: &str) -> SanType {
    SanType::URI(uri.try_into().unwrap())
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

#[test]
fn a_certificate_is_its_one_spiffe_uri_else_its_first_dns_name() {
    let now = UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000));
    for (sans, expected) in [
        (vec![dns("edge.default"), uri("spiffe://td/default/edge")], Some("spiffe://td/default/edge")),
        (vec![uri("https://td/default/edge"), dns("edge.default"), dns("other")], Some("edge.default")),
        (vec![dns("*.default"), dns("edge.default")], Some("edge.default")),
        (vec![dns("spiffe://td/default/edge"), dns("edge.default")], Some("edge.default")),
        (vec![dns("edge default"), dns("edge/default"), dns("")], None),
        (vec![uri("spiffe://td/a/b"), uri("spiffe://td/a/c"), dns("edge.default")], None),
        (vec![uri("https://td/default/edge")], None),
        (vec![], None),
    ] {
        let (der, ..) = made(sans);
        let Some(Peer::Tls(name, Some(expires))) = certificate::peer(&der.into(), now) else { panic!("no peer") };
        assert_eq!(name.as_deref(), expected);
        let left = expires - Instant::now();
        // 2040-01-01 and one second, less 2033-05-18 03:33:20
        let expected = Duration::from_secs(2_208_988_801 - 2_000_000_000);
        assert!(left <= expected && left > expected - Duration::from_secs(60), "{left:?}");
    }
    let (der, ..) = made(vec![dns("edge.default")]);
    let late = UnixTime::since_unix_epoch(Duration::from_secs(2_208_988_802));
    let Some(Peer::Tls(_, Some(expires))) = certificate::peer(&der.into(), late) else { panic!("no peer") };
    assert!(expires <= Instant::now(), "expired");
    assert!(certificate::peer(&vec![0; 10].into(), late).is_none());
}

#[test]
fn pem_that_cannot_be_used_is_told_apart_and_leaves_what_was_there() {
    let (_, certificate, key) = made(vec![dns("server")]);
    let (_, other, _) = made(vec![dns("server")]);
    let pem = |certificate: &str, key: &str, ca: &str| Pem {
        certificate: certificate.into(),
        key: key.into(),
        client_ca: ca.into(),
        anonymous: false,
    };
    let tls = Tls::new(&pem(&certificate, &key, &other)).unwrap();
    let before = Arc::clone(&locked(&tls.0));
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (pem, error) in [
        (pem("", &key, &other), TlsError::Certificate),
        (pem(&key, &key, &other), TlsError::Certificate),
        (pem(garbage, &key, &other), TlsError::Certificate),
        (pem(&certificate, "", &other), TlsError::Key),
        (pem(&certificate, &certificate, &other), TlsError::Key),
        (pem(&other, &key, &other), TlsError::Mismatch),
        (pem(&certificate, &key, ""), TlsError::ClientCa),
        (pem(&certificate, &key, garbage), TlsError::ClientCa),
    ] {
        assert_eq!(tls.replace(&pem), Err(error));
    }
    assert!(Arc::ptr_eq(&before, &locked(&tls.0)));
    tls.replace(&pem(&format!("{certificate}{other}"), &key, &format!("{other}{certificate}"))).unwrap();
    assert!(!Arc::ptr_eq(&before, &locked(&tls.0)));
    assert!(!format!("{:?}", pem(&certificate, &key, &other)).contains("PRIVATE"));
}

#[test]
fn long_chains_of_clients_are_refused_unread() {
    use rustls::server::danger::ClientCertVerifier as _;
    let mut roots = RootCertStore::empty();
    roots.add(authority_named("authority")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let verifier = chain::ShortChains(verifier);
    // All of one name: each may have signed each.
    let between: Vec<CertificateDer<'_>> = (0..40).map(|_| authority_named("one")).collect();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000));
    let refused = |count: usize| verifier.verify_client_cert(&client_named("one"), &between[..count], now).unwrap_err();
    let unread = rustls::Error::from(rustls::CertificateError::UnknownIssuer);
    assert_eq!(refused(40), unread);
    assert_eq!(refused(chain::MOST_BETWEEN + 1), unread);
    // The search has other words for orders that are too many or too long.
    let searched = refused(chain::MOST_BETWEEN).to_string();
    assert!(!searched.contains("Maximum"), "{searched}");
    let eight = refused_by(&verifier.0, &between[..8], now);
    assert!(eight.contains("Maximum"), "{eight}");
}

fn refused_by(
    verifier: &Arc<dyn rustls::server::danger::ClientCertVerifier>,
    between: &[CertificateDer<'_>],
    now: UnixTime,
) -> String {
    verifier.verify_client_cert(&client_named("one"), between, now).unwrap_err().to_string()
}

/// A certificate that has signed itself.
fn named(name: &str, is_ca: rcgen::IsCa) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = is_ca;
    params.not_after = rcgen::date_time_ymd(2040, 1, 1);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec().into()
}

fn authority_named(name: &str) -> CertificateDer<'static> {
    named(name, rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained))
}

fn client_named(name: &str) -> CertificateDer<'static> {
    named(name, rcgen::IsCa::NoCa)
}
