//! What a client does: one request, call, connection or datagram, from a port of its own, and what comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio_rustls::TlsConnector;

use super::certificates::Certificates;

/// How long an answer may take before there is none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a datagram and its answer may be on their way.
const DATAGRAM: Duration = Duration::from_secs(1);

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    Http,
    Http2,
    Grpc,
    WebSocket,
    Datagram,
}

/// What is asked of a port of loopback.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) speech: Speech,
    pub(crate) method: String,
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Over TLS, with this server name.
    pub(crate) server_name: Option<String>,
    /// With this certificate of the client's.
    pub(crate) certificate: Option<String>,
}

/// What came back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// The HTTP status, or that of gRPC.
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    /// What the backend says.
    pub(crate) told: Value,
    /// Whether the client was asked for a certificate.
    pub(crate) is_asked: bool,
}

/// Why nothing came back.
#[derive(Debug, Clone)]
pub(crate) enum Nothing {
    /// Nobody listens.
    Refused,
    /// Somebody answered with another certificate than that of the name.
    Distrusted,
    /// The connection was made, and ended.
    Ended(String),
    /// A datagram without an answer.
    Silent,
}

impl Ask {
    /// Asks once.
    pub(crate) async fn once(&self, certificates: &Certificates) -> Result<Answer, Nothing> {
        if self.speech == Speech::Datagram {
            return self.datagram().await.map_err(|_| Nothing::Silent);
        }
        let address = (self.address.as_str(), self.port);
        let Ok(stream) = TcpStream::connect(address).await else { return Err(Nothing::Refused) };
        let answer = async {
            let Some(name) = &self.server_name else { return self.over(stream).await };
            let alpn: &[u8] = if self.is_second() { b"h2" } else { b"http/1.1" };
            let (config, shown) = certificates.client(self.certificate.as_deref(), alpn);
            let name = ServerName::try_from(name.clone())?;
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
            Ok(Answer { is_asked: shown.is_asked(), ..self.over(stream).await? })
        };
        let answer = tokio::time::timeout(TIMEOUT, answer).await;
        let answer = answer.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in time")));
        answer.map_err(
            |error| {
                if is_distrust(&error) { Nothing::Distrusted } else { Nothing::Ended(format!("{error:#}")) }
            },
        )
    }

    fn is_second(&self) -> bool {
        matches!(self.speech, Speech::Http2 | Speech::Grpc)
    }

    async fn datagram(&self) -> anyhow::Result<Answer> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect((self.address.as_str(), self.port)).await?;
        socket.send(b"who").await?;
        let mut room = [0; 64];
        let length = tokio::time::timeout(DATAGRAM, socket.recv(&mut room)).await??;
        let name = String::from_utf8_lossy(room.get(..length).unwrap_or_default()).into_owned();
        Ok(Answer { status: 200, told: serde_json::json!({ "backend": name }), ..Answer::default() })
    }

    async fn over(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> anyhow::Result<Answer> {
        if self.speech == Speech::WebSocket {
            return self.web_socket(stream).await;
        }
        let io = TokioIo::new(stream);
        if self.is_second() {
            let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            let connection = tokio::spawn(connection);
            let answer = read(self.speech, sender.send_request(self.request()?).await?).await;
            connection.abort();
            answer
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
            let connection = tokio::spawn(connection);
            let answer = read(self.speech, sender.send_request(self.request()?).await?).await;
            connection.abort();
            answer
        }
    }

    fn request(&self) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(self.method.as_str());
        request = if self.is_second() {
            let scheme = if self.server_name.is_some() { "https" } else { "http" };
            request.uri(format!("{scheme}://{}{}", self.host, self.path))
        } else {
            request.uri(&self.path).header("host", &self.host).header("connection", "close")
        };
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if self.speech != Speech::Grpc {
            return Ok(request.body(Full::default())?);
        }
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        Ok(request.body(Full::from(vec![0; 5]))?)
    }

    /// Upgrades, sends a text and some bytes (RFC 6455 section 5.2, masked by zeros) and reads them back.
    async fn web_socket(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> anyhow::Result<Answer> {
        let text = format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dHdpbnMgYXJlIGFsaWtlIQ==\r\n\r\n",
            self.path, self.host
        );
        stream.write_all(text.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let name = head.lines().find_map(|line| line.strip_prefix("backend: ")).unwrap_or_default();
        if status == 101 {
            let frames = [&[0x81, 0x84, 0, 0, 0, 0], &b"text"[..], &[0x82, 0x82, 0, 0, 0, 0], &[0, 255]].concat();
            stream.write_all(&frames).await?;
            let mut back = vec![0; frames.len()];
            stream.read_exact(&mut back).await?;
            anyhow::ensure!(back == frames, "other frames came back");
        }
        Ok(Answer { status, told: serde_json::json!({ "backend": name }), ..Answer::default() })
    }
}

/// Whether it was the client who ended it, as it did not like what it was shown.
fn is_distrust(error: &anyhow::Error) -> bool {
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let inner = inner.and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

async fn read(speech: Speech, response: Response<Incoming>) -> anyhow::Result<Answer> {
    let (head, body) = response.into_parts();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &head.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.entry(name.as_str().to_owned()).and_modify(|so_far| *so_far += &format!(",{value}")).or_insert(value);
    }
    let body = body.collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let bytes = body.to_bytes();
    if speech != Speech::Grpc {
        let told = serde_json::from_slice(&bytes).unwrap_or_default();
        return Ok(Answer { status: head.status.as_u16(), headers, told, is_asked: false });
    }
    let code = trailers.get("grpc-status").or(head.headers.get("grpc-status")).context("no gRPC status")?;
    let told = serde_json::from_slice(bytes.get(5..).unwrap_or_default()).unwrap_or_default();
    Ok(Answer { status: code.to_str()?.parse()?, headers, told, is_asked: false })
}
