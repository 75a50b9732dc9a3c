//! What a token gives, and when its verifier is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;

use super::*;
use crate::server::limits::{Accounts, Limits, Rate};

/// Knows `good` for an hour, `brief` until just now, cannot say about `later`, and never answers about `stuck`.
#[derive(Default)]
struct Double(AtomicUsize);

impl VerifyToken for Double {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let until = match token {
            "good" => Ok(Instant::now() + Duration::from_secs(3600)),
            "brief" => Ok(Instant::now()),
            "later" => Err(TokenError::Unavailable),
            _ => Err(TokenError::Refused),
        };
        Box::pin(async move {
            if token == "stuck" {
                std::future::pending::<()>().await;
            }
            until.map(|until| Identity { name: "someone".into(), expires: Some(until), revoked: None })
        })
    }
}

/// An account in which nothing is made good for a while.
fn account(name: &str) -> Arc<Account> {
    let limits = Limits { all: Rate { per_second: 1, burst: 200_000 }, ..Limits::default() };
    Accounts::new(limits).of(&name.into())
}

async fn ask(tokens: &Tokens, peer: &Arc<Account>, header: &str) -> Result<Arc<str>, Code> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
    tokens.identity(&headers, peer).await.map(|identity| identity.name).map_err(|Broken(code, _)| code)
}

#[tokio::test]
async fn each_token_is_verified_once_until_it_expires() {
    let double = Arc::new(Double::default());
    let verifier: Arc<dyn VerifyToken> = double.clone();
    let (tokens, peer) = (Tokens::new(verifier), account("peer"));
    for (header, expected, asked) in [
        ("Bearer good", Ok("someone"), 1),
        ("bearer good", Ok("someone"), 0),
        ("Bearer brief", Ok("someone"), 1),
        ("Bearer brief", Ok("someone"), 1),
        ("Bearer bad", Err(Code::Unauthenticated), 1),
        ("Bearer bad", Err(Code::Unauthenticated), 0),
        ("Bearer later", Err(Code::Unavailable), 1),
        ("Basic good", Err(Code::Unauthenticated), 0),
        ("Bearer ", Err(Code::Unauthenticated), 0),
        ("good", Err(Code::Unauthenticated), 0),
    ] {
        let before = double.0.load(Ordering::SeqCst);
        assert_eq!(ask(&tokens, &peer, header).await.as_deref(), expected.as_deref(), "{header}");
        assert_eq!(double.0.load(Ordering::SeqCst) - before, asked, "{header}");
    }
    assert_eq!(tokens.identity(&HeaderMap::new(), &peer).await.err().unwrap().0, Code::Unauthenticated);
    let long = format!("Bearer {}", "t".repeat(LONGEST + 1));
    assert_eq!(ask(&tokens, &peer, &long).await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn while_nobody_can_be_asked_what_was_verified_holds_as_long_as_its_token() {
    let (tokens, peer) = (Tokens::new(Arc::new(Double::default())), account("peer"));
    let now = Instant::now();
    let someone = |expires| Identity { name: "someone".into(), expires, revoked: None };
    for (expires, expected) in [
        (Some(now + Duration::from_secs(60)), Ok("someone")),
        (Some(now), Err(Code::Unavailable)),
        (None, Err(Code::Unavailable)),
    ] {
        // to be asked for again
        let accepted = now.checked_sub(ASKED_AGAIN).unwrap();
        let _identity = locked(&tokens.accepted).insert(hash("later"), someone(expires), "someone", accepted);
        assert_eq!(ask(&tokens, &peer, "Bearer later").await.as_deref(), expected.as_deref());
    }
}

#[tokio::test]
async fn a_token_that_is_not_good_costs_its_peer_many_requests_and_a_good_one_one() {
    let (tokens, peer) = (Tokens::new(Arc::new(Double::default())), account("peer"));
    for _ in 0..10 {
        assert!(ask(&tokens, &peer, "Bearer good").await.is_ok());
    }
    assert!(peer.until_full()[0] <= Duration::from_secs(1));
    assert_eq!(ask(&tokens, &peer, "Bearer bad").await, Err(Code::Unauthenticated));
    assert!(peer.until_full()[0] > Duration::from_secs(100), "{:?}", peer.until_full()[0]);
}

#[tokio::test]
async fn no_peer_takes_every_place_with_the_verifier() {
    let (tokens, one, other) = (Tokens::new(Arc::new(Double::default())), account("one"), account("other"));
    let stuck = futures::future::join_all((0..2 * UNDER_WAY).map(|_| ask(&tokens, &one, "Bearer stuck")));
    tokio::select! {
        biased;
        _ = stuck => panic!("the other peer waited as long"),
        name = ask(&tokens, &other, "Bearer good") => assert_eq!(name.as_deref(), Ok("someone")),
    }
}

#[test]
fn refused_tokens_that_are_remembered_are_bounded() {
    let (tokens, now) = (Tokens::new(Arc::new(Double::default())), Instant::now());
    (0..MOST_REFUSED + 10).for_each(|at| tokens.refuse(hash(&at.to_string()), now));
    assert_eq!(locked(&tokens.refused).len(), MOST_REFUSED);
    tokens.refuse(hash("bad"), now + REFUSED_AGAIN);
    assert_eq!(locked(&tokens.refused).len(), 1);
}
