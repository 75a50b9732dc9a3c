//! HTTP requests as kubelet makes them for probes and hooks: one connection each, certificates are not looked at, redirects not followed.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A GET request.
#[derive(Debug, Clone)]
pub(crate) struct Get {
    pub(crate) tls: bool,
    pub(crate) address: SocketAddr,
    /// With its query; begins with a slash.
    pub(crate) path: String,
    /// Of the `Host` header; the address unless given.
    pub(crate) host: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
}

/// What is read of an answer: probes show a little of it.
const MAX_BODY: usize = 10 << 10;

/// Sends it, and gives the code and the beginning of the body. Whoever calls limits the time.
pub(crate) async fn get(get: &Get) -> anyhow::Result<(u16, String)> {
    let stream = TcpStream::connect(get.address).await.with_context(|| format!("connecting to {}", get.address))?;
    if !get.tls {
        return exchange(get, stream).await;
    }
    let connector = tokio_rustls::TlsConnector::from(Arc::new(trusting()?));
    let name = get.host.as_deref().and_then(|host| ServerName::try_from(host.to_owned()).ok());
    let name = name.unwrap_or_else(|| ServerName::IpAddress(get.address.ip().into()));
    exchange(get, connector.connect(name, stream).await.context("TLS")?).await
}

async fn exchange(
    get: &Get,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> anyhow::Result<(u16, String)> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let host = get.host.clone().unwrap_or_else(|| get.address.to_string());
    let mut request = hyper::Request::get(&get.path).header("host", host).header("connection", "close");
    let named = |name: &str| get.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
    if !named("user-agent") {
        request = request.header("user-agent", "kube-probe/1.36");
    }
    if !named("accept") {
        request = request.header("accept", "*/*");
    }
    for (name, value) in &get.headers {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        anyhow::Ok((code, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::pin!(answer);
    let mut connection = std::pin::pin!(connection);
    let mut open = true;
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            _ended = &mut connection, if open => open = false,
        }
    }
}

/// A client that takes any certificate.
fn trusting() -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))).with_no_client_auth())
}

/// Verifies nothing, as kubelet does for probes.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
