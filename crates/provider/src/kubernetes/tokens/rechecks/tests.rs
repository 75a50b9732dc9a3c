//! Tokens that are withdrawn before they end.

use std::collections::BTreeSet;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::connect;

const TIMING: RecheckTiming = RecheckTiming {
    round: Duration::from_millis(10),
    known: Duration::from_secs(3_600),
    uncertain: Duration::from_millis(20),
};

/// Longest time for a fact to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server that refuses some tokens, and does not know of others.
#[derive(Clone, Default)]
struct Server {
    refused: Arc<Mutex<BTreeSet<String>>>,
    asked: Arc<Mutex<Vec<String>>>,
    is_down: Arc<Mutex<bool>>,
}

impl Server {
    async fn start(&self) -> TokenReviewer {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = self.clone();
        let answer = move |body: Bytes| {
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let token = review["spec"]["token"].as_str().unwrap().to_owned();
            let is_good = !server.refused.lock().unwrap().contains(&token);
            server.asked.lock().unwrap().push(token);
            let is_down = *server.is_down.lock().unwrap();
            async move {
                if is_down {
                    return StatusCode::INTERNAL_SERVER_ERROR.into_response();
                }
                let user = json!({ "username": "system:serviceaccount:shop:web" });
                review["status"] = json!({ "authenticated": is_good, "user": user, "audiences": ["us"] });
                Json(review).into_response()
            }
        };
        let app = Router::new().route("/apis/authentication.k8s.io/v1/tokenreviews", post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let client = connect::client(kube::Config::new(address.parse().unwrap())).unwrap();
        TokenReviewer::new(client, "us".into())
    }

    async fn until_asked(&self, token: &str) {
        let asked = async {
            while !self.asked.lock().unwrap().iter().any(|asked| asked == token) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(DEADLINE, asked).await.expect("it is asked for");
    }

    fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }
}

const NEVER: (Option<Timestamp>, Timestamp) = (None, Timestamp(0));

#[tokio::test]
async fn token_that_is_withdrawn_says_so_and_others_do_not() {
    let server = Server::default();
    let (rechecks, stop) = (TokenRechecks::default(), CancellationToken::new());
    tokio::spawn(rechecks.clone().follow(server.start().await, Presence::default(), TIMING, stop.clone()));
    let [bad, good] = ["bad", "good"].map(|token| rechecks.keep(token, None, NEVER).unwrap());
    server.until_asked("bad").await;
    assert!(!*bad.borrow());
    // Without an answer both stay as they are.
    *server.is_down.lock().unwrap() = true;
    server.forget();
    server.until_asked("bad").await;
    assert!(!*bad.borrow());
    server.refused.lock().unwrap().insert("bad".to_owned());
    *server.is_down.lock().unwrap() = false;
    timeout(DEADLINE, bad.subscribe().wait_for(|bad| *bad)).await.expect("it is withdrawn").unwrap();
    server.forget();
    server.until_asked("good").await;
    assert!(!*good.borrow());
    stop.cancel();
}

#[tokio::test]
async fn tokens_of_watched_pods_are_reviewed_seldom_and_ended_ones_not_at_all() {
    let (rechecks, presence) = (TokenRechecks::default(), Presence::default());
    let pod = PodId { namespace: "shop".into(), name: "a".into(), uid: "1".into() };
    let _tracked = presence.track(&pod);
    let unknown = PodId { uid: "2".into(), ..pod.clone() };
    let ends = (Some(Timestamp(100)), Timestamp(100));
    let kept = [
        rechecks.keep("known", Some(&pod), NEVER),
        rechecks.keep("unknown", Some(&unknown), NEVER),
        rechecks.keep("ended", Some(&unknown), ends),
    ];
    let dropped = rechecks.keep("dropped", Some(&unknown), NEVER);
    drop(dropped);
    assert!(kept.iter().all(Option::is_some));
    let same = rechecks.keep("known", Some(&pod), NEVER).unwrap();
    assert!(Arc::ptr_eq(kept[0].as_ref().unwrap(), &same), "the same token has the same handle");
    let timing = RecheckTiming { uncertain: Duration::ZERO, ..TIMING };
    let due: Vec<String> = rechecks.due(&presence, timing).iter().map(ToString::to_string).collect();
    assert_eq!(due, ["unknown"]);
    assert_eq!(rechecks.kept().tokens.len(), 2);
}

#[tokio::test]
async fn tokens_are_kept_up_to_a_bound() {
    let rechecks = TokenRechecks::default();
    let mut kept: Vec<Withdrawn> =
        (0..MOST).map(|token| rechecks.keep(&token.to_string(), None, NEVER).unwrap()).collect();
    assert!(rechecks.keep("further", None, NEVER).is_none());
    kept.pop();
    assert!(rechecks.keep("further", None, NEVER).is_some());
    let timing = RecheckTiming { uncertain: Duration::ZERO, ..TIMING };
    assert_eq!(rechecks.due(&Presence::default(), timing).len(), IN_A_ROUND);
}
