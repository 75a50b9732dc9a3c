//! TLS with client certificates. Certificate, key and trust bundle can be replaced at any time: connections that are open stay as
//! they are, new ones use what is there now.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::gate::Peer;
use super::locked;
use super::records::Records;

mod certificate;
mod chain;
mod refusal;
#[cfg(test)]
mod tests;

pub(super) use refusal::words;

/// What a listener needs, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The server's certificate, with those between it and its authority behind it.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// The authorities of clients' certificates.
    pub client_ca: Vec<u8>,
    /// Clients without a certificate may connect too: a gate with tokens says who they are.
    pub anonymous: bool,
}

/// It holds a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pem")
    }
}

/// Which part of a [`Pem`] cannot be used, and why. No words of it come from the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// [`Pem::certificate`].
    #[error("no certificate in PEM that can be read")]
    Certificate,
    /// [`Pem::key`].
    #[error("no private key in PEM that can be used (PKCS #8, PKCS #1 or SEC 1, without password)")]
    Key,
    /// [`Pem::key`] is not that of [`Pem::certificate`].
    #[error("the private key is not that of the certificate")]
    Mismatch,
    /// [`Pem::client_ca`].
    #[error("no certificate authority in PEM that can be used")]
    ClientCa,
}

/// The TLS of a listener. Clones are the same.
#[derive(Clone)]
pub struct Tls(Arc<Mutex<Arc<ServerConfig>>>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// TLS with these.
    ///
    /// # Errors
    /// Some part cannot be used.
    pub fn new(pem: &Pem) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Mutex::new(Arc::new(config(pem)?)))))
    }

    /// New connections use these from now on.
    ///
    /// # Errors
    /// Some part cannot be used: what was there before stays.
    pub fn replace(&self, pem: &Pem) -> Result<(), TlsError> {
        let new = Arc::new(config(pem)?);
        *locked(&self.0) = new;
        Ok(())
    }

    /// Shakes hands.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        from: IpAddr,
    ) -> std::io::Result<(Box<TlsStream<Records<TcpStream>>>, Peer)> {
        let config = Arc::clone(&locked(&self.0));
        let now = config.time_provider.current_time();
        let mut stream = TlsAcceptor::from(config).accept(Records::new(stream)).await?;
        let (records, session) = stream.get_mut();
        records.begin(session.process_new_packets().map_or(0, |state| state.plaintext_bytes_to_read()));
        // Without one only where that may be: else there was no handshake.
        let peer = match stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
            Some(certificate) => now.and_then(|now| certificate::peer(certificate, now)),
            None => Some(Peer::Anonymous(from)),
        };
        let peer = peer.ok_or_else(|| std::io::Error::other("the client certificate cannot be read"))?;
        Ok((Box::new(stream), peer))
    }
}

/// What a certificate proves whose bytes an authority of ours has signed.
#[cfg(any(test, fuzzing))]
pub(super) fn peer(certificate: &CertificateDer<'_>, now: rustls_pki_types::UnixTime) -> Option<Peer> {
    certificate::peer(certificate, now)
}

fn config(pem: &Pem) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&pem.certificate).ok_or(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|_| TlsError::Key)?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(&pem.client_ca).ok_or(TlsError::ClientCa)? {
        roots.add(authority).map_err(|_| TlsError::ClientCa)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = if pem.anonymous { verifier.allow_unauthenticated() } else { verifier };
    let verifier = verifier.build().map_err(|_| TlsError::ClientCa)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|_| TlsError::Certificate)?
        .with_client_cert_verifier(Arc::new(chain::ShortChains(verifier)))
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
            rustls::Error::InvalidCertificate(_) => TlsError::Certificate,
            _ => TlsError::Key,
        })?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A resumed session would skip the check of the client's certificate. After a restart of ours there are none to resume anyway.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// All certificates of a text; none if there is none, or one that cannot be read.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    if all.is_empty() { None } else { Some(all) }
}
