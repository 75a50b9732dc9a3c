//! A port with clients that hold their connections.

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// A port that answers `/` with a word and `/large` with more than the kernel's buffers hold.
async fn port(keep_alive: bool) -> (SocketAddr, Refusals) {
    let refusals = Refusals::default();
    let routes =
        Router::new().route("/", get(|| async { "fine\n" })).route("/large", get(|| async { vec![b'x'; 64 << 20] }));
    let port = MonitorPort {
        port: Port::Health,
        option: "--health-listen",
        routes,
        keep_alive,
        hosts: None,
        refusals: refusals.clone(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(tokio::spawn(port.accept(listener)));
    (address, refusals)
}

async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn count(refusals: &Refusals, reason: &str) -> String {
    let mut text = String::new();
    refusals.add_to(&mut text);
    let line = format!("chancery_monitor_refusals_total{{port=\"health\",reason=\"{reason}\"}} ");
    text.lines().find_map(|one| one.strip_prefix(&line)).unwrap().to_owned()
}

#[tokio::test]
async fn a_probe_gets_one_answer_and_its_connection_ends() {
    let (address, _) = port(false).await;
    let answer = ask(address, &"GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(3)).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("fine\n"), "{answer}");
}

#[tokio::test]
async fn heads_that_are_too_large_or_none_are_refused() {
    let (address, refusals) = port(false).await;
    let large = ask(address, &format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", "a".repeat(MAX_HEAD))).await;
    assert!(large.starts_with("HTTP/1.1 431"), "{large}");
    let many = ask(address, &format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1_000))).await;
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
    let none = ask(address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!none.contains("200"), "{none}");
    assert_eq!((&*count(&refusals, "head_too_large"), &*count(&refusals, "malformed")), ("2", "1"));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_byte_by_byte_ends_in_time() {
    let (address, refusals) = port(true).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let dribble = async {
        while writer.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut answer = Vec::new();
    tokio::select! {
        _ended = reader.read_to_end(&mut answer) => {}
        () = dribble => {}
    }
    assert_eq!(count(&refusals, "idle"), "1");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_ends_in_time() {
    let (address, refusals) = port(true).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    while count(&refusals, "untaken") == "0" {
        sleep(Duration::from_millis(100)).await;
    }
}
