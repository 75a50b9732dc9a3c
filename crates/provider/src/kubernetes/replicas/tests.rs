//! What fits into an object, and how often it is written. That replicas hear each other is shown with a cluster, in the lab.

use std::sync::Mutex;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::Method;
use axum::{Json, Router};

use super::*;

/// Longest time for what a test waits for; reached only by one that fails.
const DEADLINE: Duration = Duration::from_secs(20);

fn all(pairs: &[(&str, &str)]) -> Said {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn large_text_takes_no_room_of_others() {
    let (huge, large) = ("x".repeat(MOST), "x".repeat(MOST / 2 - 2 * AROUND));
    let said = all(&[("a", &huge), ("b", &large), ("c", &large), ("d", &large), ("e", "small")]);
    let (kept, size) = bounded(&said);
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["b", "c", "e"], "the smallest first");
    assert!(size <= MOST);
    assert_eq!(bounded(&kept).0, kept);
}

#[test]
fn what_small_texts_leave_is_shared_by_large_ones() {
    let large = "x".repeat(MOST);
    let said = all(&[("a", &large), ("b", &large), ("c", "small"), ("d", "small")]);
    let share = share(said.iter().map(|(name, text)| (&**name, &**text)));
    let small = 2 * (AROUND + 6);
    assert_eq!(share, (MOST - small) / 2 - AROUND);
    let said = all(&[("a", "small"), ("b", "small")]);
    assert_eq!(super::share(said.iter().map(|(name, text)| (&**name, &**text))), MOST, "all fit");
    assert_eq!(super::share(std::iter::empty()), MOST);
}

#[test]
fn writes_are_bounded_in_number_and_in_bytes() {
    let start = Instant::now();
    let mut budget = WriteBudget::new(WriteLimits::default(), start);
    let (mut now, mut written, mut writes) = (start, 0, 0);
    while now < start + Duration::from_secs(600) {
        now += budget.wait(765_000, now);
        budget.take(765_000, now);
        (written, writes) = (written + 765_000, writes + 1);
    }
    assert!(written <= 61_000_000, "{written} bytes in ten minutes");
    assert!(writes >= 60, "{writes} writes: one in 10 s at least, as others take a silent replica for gone after 30");
    let mut small = WriteBudget::new(WriteLimits::default(), now);
    let rest = |budget: &mut WriteBudget, now| {
        let wait = budget.wait(0, now);
        budget.take(0, now + wait);
        wait
    };
    assert!((0..10).all(|_| rest(&mut small, now) == Duration::ZERO), "a burst of small ones");
    assert_eq!(rest(&mut small, now), Duration::from_secs(1));
}

/// Notes the size of each object that is written.
async fn note(State(written): State<Arc<Mutex<Vec<usize>>>>, method: Method, body: Bytes) -> Json<serde_json::Value> {
    if method == Method::PATCH {
        written.lock().unwrap().push(body.len());
    }
    Json(serde_json::json!({ "metadata": { "name": "a-says" } }))
}

#[tokio::test]
async fn change_after_change_is_written_within_the_bound() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(note).with_state(Arc::clone(&written));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let client = Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
    // Three writes at once, and a fourth in an hour.
    let writes = WriteLimits { rate: 10, burst: 120_000, overhead: 10_000 };
    let tempo = Tempo { gather: Duration::from_millis(1), renew: Duration::from_millis(1), writes, ..Tempo::default() };
    let exchange =
        Exchange { client, namespace: "system".into(), lease: "l".into(), replica: "a".into(), pod: None, tempo };
    let (said, (_leads, leading), stop) = (watch::Sender::default(), watch::channel(false), CancellationToken::new());
    let telling = tokio::spawn(tell(exchange, said.subscribe(), leading, stop.clone()));
    let mut changes = 0;
    let of_burst = timeout(DEADLINE, async {
        while written.lock().unwrap().len() < 3 {
            changes += 1;
            said.send_replace(Arc::new(all(&[("ta/g", &format!("{changes:030000}"))])));
            sleep(Duration::from_millis(2)).await;
        }
    });
    of_burst.await.expect("writes");
    for _ in 0..50 {
        changes += 1;
        said.send_replace(Arc::new(all(&[("ta/g", &format!("{changes:030000}"))])));
        sleep(Duration::from_millis(2)).await;
    }
    let count = written.lock().unwrap().len();
    assert!(count <= 4, "{count} writes for {changes} changes");
    stop.cancel();
    timeout(DEADLINE, telling).await.expect("it ends while a write waits").unwrap();
}

#[test]
fn names_that_no_key_has_room_for_are_told_too() {
    let long = format!("{}/{}", "n".repeat(63), "g".repeat(253));
    let words = all(&[(long.as_str(), "one\ntwo"), ("a/b_c", ""), ("a_b/c", "{}")]);
    let object = data(&words);
    assert!(object.keys().all(|key| key.len() <= 253 && key.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    assert_eq!(said(object), words);
}
