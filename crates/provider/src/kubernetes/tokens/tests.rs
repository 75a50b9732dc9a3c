//! What an API server says of tokens.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::connect;

/// A server with one good token; `down` is answered with an error.
async fn server() -> TokenReviewer {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/apis/authentication.k8s.io/v1/tokenreviews", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let client = connect::client(kube::Config::new(address.parse().unwrap())).unwrap();
    TokenReviewer::new(client, "us".into())
}

async fn answer(body: Bytes) -> axum::response::Response {
    let mut review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(review["spec"]["audiences"], json!(["us"]), "a token is asked for with its audience");
    let token = review["spec"]["token"].as_str().unwrap().to_owned();
    let user = json!({ "username": "system:serviceaccount:shop:web" });
    let extra = json!({ POD: ["web-1"], POD_UID: ["1234"] });
    let bound = json!({ "username": "system:serviceaccount:shop:web", "uid": "5678", "extra": extra });
    review["status"] = match &*token {
        "down" => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "bad" => json!({ "authenticated": false, "error": "it has expired" }),
        "other" => json!({ "authenticated": true, "user": user, "audiences": ["them"] }),
        "any" => json!({ "authenticated": true, "user": user }),
        "bound" => json!({ "authenticated": true, "user": bound, "audiences": ["us"] }),
        "nobody" => json!({ "authenticated": true, "audiences": ["us"] }),
        _ => json!({ "authenticated": true, "user": user, "audiences": ["us"] }),
    };
    Json(review).into_response()
}

/// A token that ends at this time.
fn token(exp: i64) -> String {
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.signature", part(json!({ "alg": "RS256" })), part(json!({ "exp": exp, "aud": ["us"] })))
}

#[tokio::test]
async fn a_good_token_says_who_and_until_when() {
    let reviewer = server().await;
    let user: Arc<str> = "system:serviceaccount:shop:web".into();
    let found = reviewer.review(&token(1_800_000_000)).await;
    assert_eq!(
        found,
        Ok(Bearer { user: Arc::clone(&user), uid: "".into(), pod: None, expires: Some(Timestamp(1_800_000_000)) })
    );
    let bound = Bearer {
        user: Arc::clone(&user),
        uid: "5678".into(),
        pod: Some(BoundPod { name: "web-1".into(), uid: Some("1234".into()) }),
        expires: None,
    };
    assert_eq!(reviewer.review("bound").await, Ok(bound));
    assert_eq!(reviewer.review("opaque").await, Ok(Bearer { user, uid: "".into(), pod: None, expires: None }));
}

#[tokio::test]
async fn a_token_that_is_not_good_or_not_for_us_is_refused() {
    let reviewer = server().await;
    for (token, words) in [
        ("bad", "it has expired"),
        ("other", "it is for another audience"),
        ("any", "it is for another audience"),
        ("nobody", "it names nobody"),
    ] {
        assert_eq!(reviewer.review(token).await, Err(ReviewError::Refused(words.to_owned())), "{token}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_refuses_nothing() {
    let found = server().await.review("down").await;
    assert!(matches!(found, Err(ReviewError::Unavailable(_))), "{found:?}");
}
