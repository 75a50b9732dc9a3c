//! What a token gives, and when its verifier is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;

use super::*;

/// Knows `good` for an hour, `brief` until just now, and cannot say about `later`.
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
        Box::pin(async move { until.map(|until| Identity { name: "someone".into(), expires: Some(until) }) })
    }
}

async fn ask(tokens: &Tokens, header: &str) -> Result<Arc<str>, Code> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
    tokens.identity(&headers).await.map(|identity| identity.name).map_err(|Broken(code, _)| code)
}

#[tokio::test]
async fn each_token_is_verified_once_until_it_expires() {
    let double = Arc::new(Double::default());
    let verifier: Arc<dyn VerifyToken> = double.clone();
    let tokens = Tokens::new(verifier);
    for (header, expected, asked) in [
        ("Bearer good", Ok("someone"), 1),
        ("bearer good", Ok("someone"), 0),
        ("Bearer brief", Ok("someone"), 1),
        ("Bearer brief", Ok("someone"), 1),
        ("Bearer bad", Err(Code::Unauthenticated), 1),
        ("Bearer later", Err(Code::Unavailable), 1),
        ("Basic good", Err(Code::Unauthenticated), 0),
        ("Bearer ", Err(Code::Unauthenticated), 0),
        ("good", Err(Code::Unauthenticated), 0),
    ] {
        let before = double.0.load(Ordering::SeqCst);
        assert_eq!(ask(&tokens, header).await.as_deref(), expected.as_deref(), "{header}");
        assert_eq!(double.0.load(Ordering::SeqCst) - before, asked, "{header}");
    }
    assert_eq!(tokens.identity(&HeaderMap::new()).await.err().unwrap().0, Code::Unauthenticated);
    let long = format!("Bearer {}", "t".repeat(LONGEST + 1));
    assert_eq!(ask(&tokens, &long).await, Err(Code::Unauthenticated));
    let known = format!("{:?}", locked(&tokens.known));
    assert!(!known.contains("good"), "{known}");
}

#[test]
fn what_is_remembered_is_bounded_and_the_expired_make_room() {
    let tokens = Tokens::new(Arc::new(Double::default()));
    let (now, hour) = (Instant::now(), Duration::from_secs(3600));
    let identity = |expires| Identity { name: "someone".into(), expires: Some(expires) };
    for n in 0..REMEMBERED + 10 {
        tokens.remember(hash(&n.to_string()), &identity(now + Duration::from_secs(1)), now);
    }
    assert_eq!(locked(&tokens.known).len(), REMEMBERED);
    let later = now + Duration::from_secs(2);
    tokens.remember(hash("new"), &identity(later + hour), later);
    let known = locked(&tokens.known);
    assert_eq!(known.len(), 1);
    assert_eq!(known.values().next().unwrap().1, later + ASKED_AGAIN);
}
