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

const USER: &str = "system:serviceaccount:shop:web";

const NEVER: (Option<Timestamp>, Timestamp) = (None, Timestamp(0));

#[tokio::test]
async fn token_that_is_withdrawn_says_so_and_others_do_not() {
    let server = Server::default();
    let (rechecks, stop) = (TokenRechecks::default(), CancellationToken::new());
    tokio::spawn(rechecks.clone().follow(server.start().await, Presence::default(), TIMING, stop.clone()));
    let [bad, good] = ["bad", "good"].map(|token| rechecks.keep(token, token, None, NEVER).unwrap());
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
    let [unknown, ended, dropped] = ["2", "3", "4"].map(|uid| PodId { uid: uid.into(), ..pod.clone() });
    let ends = (Some(Timestamp(100)), Timestamp(100));
    let kept = [
        rechecks.keep("known", USER, Some(&pod), NEVER),
        rechecks.keep("unknown", USER, Some(&unknown), NEVER),
        rechecks.keep("ended", USER, Some(&ended), ends),
    ];
    let dropped = rechecks.keep("dropped", USER, Some(&dropped), NEVER);
    drop(dropped);
    assert!(kept.iter().all(Option::is_some));
    let same = rechecks.keep("known", USER, Some(&pod), NEVER).unwrap();
    assert!(Arc::ptr_eq(kept[0].as_ref().unwrap(), &same), "the same Pod has the same handle");
    let again = rechecks.keep("known", "made again", Some(&pod), NEVER).unwrap();
    assert!(!Arc::ptr_eq(&again, &same), "an account that is made again says nothing of the one before");
    drop(again);
    assert_eq!(due(&rechecks, &presence), ["unknown"]);
    assert_eq!(rechecks.kept().bearers.len(), 2);
}

/// The tokens that are to be reviewed, if the end of no Pod is noticed otherwise.
fn due(rechecks: &TokenRechecks, presence: &Presence) -> Vec<String> {
    let timing = RecheckTiming { uncertain: Duration::ZERO, ..TIMING };
    rechecks.due(presence, timing).iter().map(|(_, token)| token.to_string()).collect()
}

#[tokio::test]
async fn thousands_of_tokens_of_one_pod_cost_one_review() {
    let rechecks = TokenRechecks::default();
    let pod = |uid: &str| PodId { namespace: "bank".into(), name: "a".into(), uid: uid.into() };
    let until = |end: i64| (Some(Timestamp(end)), Timestamp(0));
    let attacker = pod("1");
    let minted: Vec<Withdrawn> = (0..=MOST)
        .map(|number| rechecks.keep(&format!("minted{number}"), USER, Some(&attacker), until(3_600)).unwrap())
        .collect();
    let unbound: Vec<Withdrawn> =
        (0..100).map(|number| rechecks.keep(&format!("unbound{number}"), USER, None, NEVER).unwrap()).collect();
    let other = rechecks.keep("other", USER, Some(&pod("2")), NEVER);
    assert!(other.is_some(), "one Pod takes no room from another");
    // A token that expires sooner is not the one to review: the others would be forgotten with it.
    let _short = rechecks.keep("short", USER, Some(&attacker), until(60));
    let mut reviewed = due(&rechecks, &Presence::default());
    reviewed.sort_unstable();
    assert_eq!(reviewed, [format!("minted{MOST}").as_str(), "other", "unbound99"]);
    assert!(minted.iter().all(|handle| Arc::ptr_eq(handle, &minted[0])), "they are withdrawn together");
    assert!(unbound.iter().all(|handle| Arc::ptr_eq(handle, &unbound[0])));
}

#[tokio::test]
async fn pods_of_one_namespace_leave_the_last_quarter_to_others() {
    let rechecks = TokenRechecks::default();
    let keep = |namespace: &str, uid: usize| {
        let pod = PodId { namespace: namespace.into(), name: "a".into(), uid: format!("{namespace}/{uid}").into() };
        rechecks.keep("token", USER, Some(&pod), NEVER)
    };
    let many: Vec<Withdrawn> = (0..MOST - MOST / 4).map(|uid| keep("bank", uid).unwrap()).collect();
    assert!(keep("bank", MOST).is_none());
    let _others: Vec<Withdrawn> = (0..SHARE).map(|uid| keep("shop", uid).unwrap()).collect();
    assert!(keep("shop", MOST).is_none());
    assert!(keep("third", 0).is_some());
    drop(many);
    rechecks.kept().forget(Instant::now());
    let _again = keep("bank", MOST).expect("Pods that are over leave their room");
    rechecks.kept().forget(Instant::now());
    let kept = rechecks.kept();
    assert_eq!((kept.bearers.len(), kept.counts.len(), kept.counts["shop"]), (SHARE + 1, 2, SHARE));
}

#[tokio::test]
async fn tokens_are_kept_up_to_a_bound() {
    let rechecks = TokenRechecks::default();
    let mut kept: Vec<Withdrawn> =
        (0..MOST).map(|user| rechecks.keep("token", &user.to_string(), None, NEVER).unwrap()).collect();
    assert!(rechecks.keep("token", "further", None, NEVER).is_none());
    kept.pop();
    assert!(rechecks.keep("token", "further", None, NEVER).is_some());
    assert_eq!(due(&rechecks, &Presence::default()).len(), IN_A_ROUND);
}

#[tokio::test]
async fn namespaces_take_turns_in_a_round() {
    let rechecks = TokenRechecks::default();
    let keep = |namespace: &str, uid: usize| {
        let pod = PodId { namespace: namespace.into(), name: "a".into(), uid: format!("{namespace}/{uid}").into() };
        rechecks.keep(namespace, USER, Some(&pod), NEVER).unwrap()
    };
    let _many: Vec<Withdrawn> = (0..4_000).map(|uid| keep("bank", uid)).collect();
    let _few = [keep("shop", 1), keep("shop", 2)];
    let due = due(&rechecks, &Presence::default());
    assert_eq!(due.len(), IN_A_ROUND);
    assert_eq!(due.iter().filter(|token| *token == "shop").count(), 2, "those of another namespace do not wait");
}
