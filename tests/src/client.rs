//! Requests over fresh connections, in cleartext and over TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SignatureScheme, StreamOwned};

use crate::certificate::Pair;

/// A status and a body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, as text.
    pub body: String,
}

/// How long one request may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A GET over a fresh connection to a loopback port.
///
/// # Errors
/// If there is no complete answer.
pub fn get(port: u16, host: &str, path: &str) -> anyhow::Result<Answer> {
    exchange(connect(port)?, host, path, &[])
}

/// The same with these headers more.
///
/// # Errors
/// If there is no complete answer.
pub fn get_with(port: u16, host: &str, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
    exchange(connect(port)?, host, path, headers)
}

/// A GET over TLS: the server name is sent, and the server's certificate must be one of these (PEM). Gives which one it was.
///
/// # Errors
/// If the handshake fails or there is no complete answer.
pub fn get_tls(port: u16, host: &str, path: &str, certificates: &[&str]) -> anyhow::Result<(Answer, usize)> {
    let (stream, which) = connect_tls(port, host, certificates)?;
    Ok((exchange(stream, host, path, &[])?, which))
}

/// A client over TLS with certificates of its own, or none. As browsers do, it takes up sessions again that it had.
pub struct Caller {
    config: Arc<ClientConfig>,
    host: String,
}

impl Caller {
    /// One that believes this server, which has the host's name, and shows the first of its own certificates that the server's authorities have
    /// issued; the first of all where it has none of them.
    ///
    /// # Errors
    /// If a certificate or a key is none.
    pub fn new(host: &str, server: &Pair, own: &[&Pair]) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(server.certificate.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let own = own.iter().map(|pair| {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
            let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes())?.into_owned();
            Ok(Arc::new(CertifiedKey::new(vec![certificate], provider.key_provider.load_private_key(key)?)))
        });
        let own = own.collect::<anyhow::Result<_>>()?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(ByIssuer(own)));
        Ok(Self { config: Arc::new(config), host: host.to_owned() })
    }

    /// A GET over a fresh connection, with these headers more.
    ///
    /// # Errors
    /// If the connection is refused or there is no complete answer.
    pub fn get(&self, port: u16, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
        exchange(self.open(port)?, &self.host, path, headers)
    }

    /// A connection that is kept. One that the server refuses may be known as such only when it is asked.
    ///
    /// # Errors
    /// If the handshake fails.
    pub fn keep(&self, port: u16) -> anyhow::Result<Kept> {
        Ok(Kept { stream: BufReader::new(self.open(port)?) })
    }

    fn open(&self, port: u16) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
        handshake(Arc::clone(&self.config), port, &self.host)
    }
}

/// Certificates, in the order in which they are liked.
#[derive(Debug)]
struct ByIssuer(Vec<Arc<CertifiedKey>>);

impl ResolvesClientCert for ByIssuer {
    fn resolve(&self, authorities: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let names = |key: &CertifiedKey, name: &[u8]| {
            key.cert.first().is_some_and(|shown| shown.windows(name.len()).any(|part| part == name))
        };
        let wanted = self.0.iter().find(|key| authorities.iter().any(|name| names(key, name)));
        wanted.or(self.0.first()).cloned()
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}

/// A TLS connection that is kept for several requests.
pub type Kept = KeptOn<StreamOwned<ClientConnection, TcpStream>>;

/// A connection in cleartext that is kept for several requests.
pub type KeptPlain = KeptOn<TcpStream>;

/// A connection that is kept for several requests.
pub struct KeptOn<S> {
    stream: BufReader<S>,
}

impl Kept {
    /// Connects as [`get_tls`] does.
    ///
    /// # Errors
    /// If the handshake fails.
    pub fn connect(port: u16, host: &str, certificates: &[&str]) -> anyhow::Result<Self> {
        Ok(Self { stream: BufReader::new(connect_tls(port, host, certificates)?.0) })
    }
}

impl KeptPlain {
    /// Connects to a loopback port.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn connect(port: u16) -> anyhow::Result<Self> {
        Ok(Self { stream: BufReader::new(connect(port)?) })
    }
}

impl<S: Read + Write> KeptOn<S> {
    /// Asks.
    ///
    /// # Errors
    /// If there is no complete answer with a `content-length`.
    pub fn get(&mut self, host: &str, path: &str) -> anyhow::Result<Answer> {
        Ok(self.get_and_tell(host, path)?.0)
    }

    /// Asks, and tells whether the server means to close the connection.
    ///
    /// # Errors
    /// If there is no complete answer with a `content-length`.
    pub fn get_and_tell(&mut self, host: &str, path: &str) -> anyhow::Result<(Answer, bool)> {
        write!(self.stream.get_mut(), "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            anyhow::ensure!(self.stream.read_line(&mut head)? > 0, "the connection ended");
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.context("an answer without a length")?.parse()?];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok((Answer { status: status(&head)?, body }, head.contains("connection: close")))
    }
}

fn connect_tls(
    port: u16,
    host: &str,
    certificates: &[&str],
) -> anyhow::Result<(StreamOwned<ClientConnection, TcpStream>, usize)> {
    let known: Vec<CertificateDer<'_>> =
        certificates.iter().map(|pem| CertificateDer::from_pem_slice(pem.as_bytes())).collect::<Result<_, _>>()?;
    let mut roots = RootCertStore::empty();
    for certificate in &known {
        roots.add(certificate.clone())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = handshake(Arc::new(config), port, host)?;
    let shown = stream.conn.peer_certificates().and_then(<[_]>::first).context("no certificate was shown")?;
    let which = known.iter().position(|one| one == shown).context("another certificate was shown")?;
    Ok((stream, which))
}

fn handshake(
    config: Arc<ClientConfig>,
    port: u16,
    host: &str,
) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut connection = ClientConnection::new(config, ServerName::try_from(host.to_owned())?)?;
    let mut socket = connect(port)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

fn connect(port: u16) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn exchange(mut stream: impl Read + Write, host: &str, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n")?;
    let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
    // where the length is said nobody waits for the end of the connection, which a proxy may put off
    while !is_whole(&bytes) {
        match stream.read(&mut room) {
            Ok(0) => break,
            Ok(length) => bytes.extend(room.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof && !bytes.is_empty() => break,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    Ok(Answer { status: status(head)?, body: body.to_owned() })
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    length.is_some_and(|length: usize| bytes.len() >= head.len() + 4 + length)
}

fn status(head: &str) -> anyhow::Result<u16> {
    head.split(' ').nth(1).and_then(|word| word.parse().ok()).context("an answer without a status")
}
