//! The certificates that the twins name, made when the test runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rcgen::{CertificateParams, DnType, Issuer, KeyPair, SanType};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use tests::certificate::{Pair, authority, self_signed};

/// Names of what listeners show.
const FRONT: [&str; 7] = [
    "https.example",
    "first.example",
    "second.example",
    "unknown.example",
    "port-and-scheme.example",
    "*.wild.example",
    "*.tls.example",
];

/// Names of what backends show, beside [`IDENTITY`].
const BACK: [&str; 3] = ["back.example", "abc.back.example", "other.back.example"];

/// Who a backend says it is.
const IDENTITY: &str = "spiffe://back.example/identity";

/// Pairs by name.
///
/// | name | is |
/// |---|---|
/// | `front`, `back` | what listeners and backends show, each its own authority |
/// | `stranger` | one that nobody shows |
/// | `a`, `b` | authorities |
/// | `of-a`, `of-b` | what clients of theirs show |
pub(crate) struct Certificates(BTreeMap<&'static str, Pair>);

impl Certificates {
    /// Makes them.
    pub(crate) fn make() -> Self {
        let back = || {
            let mut params = CertificateParams::new(BACK.map(str::to_owned)).unwrap();
            params.subject_alt_names.push(SanType::URI(IDENTITY.try_into().unwrap()));
            let key = KeyPair::generate().unwrap();
            Pair { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
        };
        let (a, b) = (authority("a.example").unwrap(), authority("b.example").unwrap());
        let clients = [("of-a", issued(&a)), ("of-b", issued(&b))];
        let own = [("front", self_signed(&FRONT, false).unwrap()), ("back", back())];
        let others = [("stranger", self_signed(&["back.example"], false).unwrap()), ("a", a), ("b", b)];
        Self(own.into_iter().chain(others).chain(clients).collect())
    }

    /// One of them.
    pub(crate) fn pair(&self, name: &str) -> &Pair {
        self.0.get(name).unwrap_or_else(|| panic!("there is no certificate {name}"))
    }

    /// The name of the one that somebody showed.
    pub(crate) fn name(&self, shown: &CertificateDer<'_>) -> &'static str {
        self.0.keys().copied().find(|name| self.chain(name).first() == Some(shown)).unwrap_or("unknown")
    }

    fn chain(&self, name: &str) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.pair(name).certificate.as_bytes()).unwrap()]
    }

    fn key(&self, name: &str) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.pair(name).key.as_bytes()).unwrap()
    }

    fn roots(&self, names: &[&str]) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        names.iter().for_each(|name| roots.add(self.chain(name).remove(0)).unwrap());
        roots
    }

    /// For a client that trusts what listeners and backends show, with what it shows itself if it is asked, and whether it was.
    pub(crate) fn client(&self, own: Option<&str>, alpn: &[u8]) -> (ClientConfig, Arc<Shown>) {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let own = own.map(|name| CertifiedKey::from_der(self.chain(name), self.key(name), &provider).unwrap());
        let shown = Arc::new(Shown { own: own.map(Arc::new), is_asked: AtomicBool::default() });
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(self.roots(&["front", "back"]));
        let mut config = builder.with_client_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesClientCert>);
        config.alpn_protocols = vec![alpn.to_vec()];
        (config, shown)
    }

    /// For a backend; it asks clients for a certificate of this authority.
    pub(crate) fn server(&self, clients: Option<&str>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            Some(name) => {
                let roots = Arc::new(self.roots(&[name]));
                builder.with_client_cert_verifier(
                    WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap(),
                )
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(self.chain("back"), self.key("back")).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

/// What a client shows if it is asked.
#[derive(Debug)]
pub(crate) struct Shown {
    own: Option<Arc<CertifiedKey>>,
    is_asked: AtomicBool,
}

impl Shown {
    /// Whether it was.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.is_asked.store(true, Ordering::Release);
        self.own.clone()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// What an authority gives to a client of its own.
fn issued(authority: &Pair) -> Pair {
    let key = KeyPair::from_pem(&authority.key).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, key).unwrap();
    let mut params = CertificateParams::new(["client.example".to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    // Without a name of its own it would have its authority's, and look as if it had signed itself.
    params.distinguished_name.push(DnType::CommonName, "client");
    let own = KeyPair::generate().unwrap();
    Pair { certificate: params.signed_by(&own, &issuer).unwrap().pem(), key: own.serialize_pem() }
}
