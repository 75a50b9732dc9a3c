//! Certificates for the time of a test, and a client that shows one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::time::ASN1Time;

use super::client::DEADLINE;
use super::proxy::exchange;
use crate::Pem;
use crate::server::accept::Io;

/// An authority and its certificate in PEM.
pub(super) struct Authority {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key in PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Pair {
    /// Whether this certificate is its own.
    pub(super) fn is(&self, shown: &CertificateDer<'_>) -> bool {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap() == *shown
    }
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a DNS name or, if it has a scheme, a URI.
    pub(super) fn issue(&self, name: &str) -> Pair {
        self.issue_for(name, Duration::from_secs(3600))
    }

    /// One that ends so long from now, in whole seconds.
    pub(super) fn issue_for(&self, name: &str, left: Duration) -> Pair {
        let mut params = CertificateParams::default();
        params.subject_alt_names = match name {
            "" => Vec::new(),
            uri if uri.contains("://") => vec![SanType::URI(uri.try_into().unwrap())],
            dns => vec![SanType::DnsName(dns.try_into().unwrap())],
        };
        let end = UnixTime::now().as_secs() + left.as_secs();
        params.not_after = ASN1Time::from_timestamp(i64::try_from(end).unwrap()).unwrap().to_datetime();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    /// What a server with a certificate of this authority needs, whose clients have theirs of `clients`.
    pub(super) fn server(&self, clients: &[&Self]) -> Pem {
        let Pair { certificate, key } = self.issue("server");
        let client_ca = clients.iter().flat_map(|authority| authority.pem.bytes()).collect();
        Pem { certificate: certificate.into(), key: key.into(), client_ca, anonymous: false }
    }

    /// One HTTP request over TLS to a server of this authority, over a connection of its own: the answer, and the certificate that was shown.
    pub(super) fn get(&self, at: SocketAddr, host: &str) -> std::io::Result<(String, CertificateDer<'static>)> {
        let config = self.client().with_no_client_auth();
        let connection = ClientConnection::new(Arc::new(config), "server".try_into().unwrap()).unwrap();
        let stream = std::net::TcpStream::connect(at)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut stream = StreamOwned::new(connection, stream);
        let answer = exchange(&mut stream, host)?;
        let shown = stream.conn.peer_certificates().and_then(<[_]>::first).unwrap();
        Ok((answer, shown.clone()))
    }

    fn client(&self) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
    }

    /// Connects to a server of this authority.
    pub(super) async fn connect(&self, to: SocketAddr, with: Option<&Pair>) -> std::io::Result<Box<dyn Io>> {
        let mut stream = self.shake(to, with).await?;
        // in TLS 1.3 a refusal of the client's certificate comes only now
        refused_at_once(&mut stream).await?;
        Ok(Box::new(stream))
    }

    /// A connection whose client has done its part of the handshake.
    pub(super) async fn shake(&self, to: SocketAddr, with: Option<&Pair>) -> std::io::Result<TlsStream<TcpStream>> {
        let config = self.client();
        let mut config = match with {
            None => config.with_no_client_auth(),
            Some(Pair { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(to).await?;
        TlsConnector::from(Arc::new(config)).connect("server".try_into().unwrap(), stream).await
    }
}

/// A TLS server that shows this certificate to everybody.
pub(super) fn server_config(Pair { certificate, key }: &Pair) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    Arc::new(config.with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap())
}

/// Waits for the server's first bytes of HTTP/2 without taking them; fails with what comes in their place.
async fn refused_at_once(stream: &mut TlsStream<TcpStream>) -> std::io::Result<()> {
    use tokio::io::AsyncBufReadExt;
    match stream.fill_buf().await? {
        [] => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
