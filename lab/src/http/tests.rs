//! Requests against servers of the test.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Get, get};

/// Asks a server that answers with these words, and gives what it was asked.
async fn ask(tls: bool, answer: &'static str) -> (anyhow::Result<(u16, String)>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 1000];
        let length = if tls {
            let own = rcgen::generate_simple_self_signed(vec!["elsewhere".to_owned()]).unwrap();
            let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
            let config =
                config.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key.into()).unwrap();
            let mut stream = tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(tcp).await.unwrap();
            let length = stream.read(&mut asked).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            length
        } else {
            let length = tcp.read(&mut asked).await.unwrap();
            tcp.write_all(answer.as_bytes()).await.unwrap();
            length
        };
        String::from_utf8(asked[..length].to_vec()).unwrap()
    });
    let headers = vec![("X-Probe".to_owned(), "1".to_owned())];
    let request = Get { tls, address, path: "/ready?a=b".to_owned(), host: Some("web".to_owned()), headers };
    (get(&request).await, server.await.unwrap())
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell";

#[tokio::test]
async fn a_request_has_what_the_probe_says() {
    let (answer, asked) = ask(false, OK).await;
    assert_eq!(answer.unwrap(), (200, "well".to_owned()));
    assert!(asked.starts_with("GET /ready?a=b HTTP/1.1\r\n"), "{asked}");
    for line in ["host: web", "x-probe: 1", "user-agent: kube-probe/"] {
        assert!(asked.to_ascii_lowercase().contains(line), "{asked}");
    }
}

#[tokio::test]
async fn certificates_are_not_looked_at() {
    assert_eq!(ask(true, OK).await.0.unwrap(), (200, "well".to_owned()));
}

#[tokio::test]
async fn codes_are_given_and_redirects_not_followed() {
    assert_eq!(ask(false, "HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").await.0.unwrap().0, 503);
    let away = "HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(ask(false, away).await.0.unwrap().0, 302);
    assert!(ask(false, "nonsense").await.0.is_err());
}
