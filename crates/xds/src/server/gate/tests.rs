//! Which fleet an identity and a node have together.

use super::*;

async fn fleet(fleets: &Fleets, cluster: &str) -> Result<Arc<str>, Broken> {
    let fleets = fleets.clone();
    let gate = Gate::new(Arc::new(move |_| fleets.clone()), Limits::default());
    gate.admit(&Peer::Loopback, &HeaderMap::new()).await?.fleet(&Node { cluster: cluster.into(), ..Node::default() })
}

#[tokio::test]
async fn a_node_narrows_what_the_identity_may_have_and_never_widens_it() {
    let (one, two) = (Fleets::These(vec!["a/b".into()]), Fleets::These(vec!["a/b".into(), "a/c".into()]));
    for (fleets, cluster, expected) in [
        (&one, "", Some("a/b")),
        (&one, "a/b", Some("a/b")),
        (&one, "a/c", None),
        (&one, "a/b/", None),
        (&two, "a/c", Some("a/c")),
        (&two, "", None),
        (&two, "a/d", None),
        (&Fleets::These(Vec::new()), "", None),
        (&Fleets::These(Vec::new()), "a/b", None),
        (&Fleets::Nobody("no reason".into()), "a/b", None),
        (&Fleets::Any, "a/d", Some("a/d")),
        (&Fleets::Any, "", None),
        (&Fleets::Only("a/b".into()), "a/c", Some("a/b")),
    ] {
        let got = fleet(fleets, cluster).await;
        assert_eq!(got.as_deref().ok(), expected, "{fleets:?} {cluster:?}");
        assert!(got.is_ok() || matches!(got, Err(Broken(Code::PermissionDenied, _))));
    }
}

#[test]
fn connections_end_within_a_tenth_of_their_age_and_not_together() {
    fastrand::seed(7);
    let limits = Limits { age: Some(Duration::from_secs(1_000)), ..Limits::default() };
    let gate = Gate::new(Arc::new(|_| Fleets::Any), limits);
    let mut ended = [0; 10];
    for _ in 0..1_000 {
        let age = gate.age().expect("an age").as_secs_f64();
        assert!((900.0..1_100.0).contains(&age), "{age}");
        ended[(age as usize - 900) / 20] += 1;
    }
    assert!(ended.iter().all(|ended| (60..=140).contains(ended)), "{ended:?}");
    let for_ever = Gate::new(Arc::new(|_| Fleets::Any), Limits { age: None, ..Limits::default() });
    assert_eq!(for_ever.age(), None);
}

/// The headers of a call with this token.
fn bearing(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !token.is_empty() {
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().expect("a header"));
    }
    headers
}

async fn fleet_of(gate: &Gate, peer: &Peer, token: &str) -> Result<(Arc<str>, bool), Code> {
    let claim = Node { cluster: "a/claimed".into(), ..Node::default() };
    let caller = gate.admit(peer, &bearing(token)).await.map_err(|Broken(code, _)| code)?;
    Ok((caller.fleet(&claim).map_err(|Broken(code, _)| code)?, caller.has_secrets()))
}

#[tokio::test]
async fn unix_stream_without_its_token_gets_nothing() {
    let gate = Gate::of("a/b".into(), Some("0123".into()), Limits::default());
    for token in ["", "0124", "012", "01230"] {
        assert_eq!(fleet_of(&gate, &Peer::Unix, token).await, Err(Code::Unauthenticated), "{token:?}");
    }
    assert_eq!(fleet_of(&gate, &Peer::Unix, "0123").await, Ok(("a/b".into(), true)));
}

#[tokio::test]
async fn cleartext_client_gets_what_its_token_or_a_flag_grants() {
    let known = KnownTokens::default();
    known.insert("0123", "a/b".into());
    for clients in [false, true] {
        for secrets in [false, true] {
            let gate = Gate::cleartext(known.clone(), Cleartext { clients, secrets }, Limits::default());
            assert_eq!(fleet_of(&gate, &Peer::Loopback, "0123").await, Ok(("a/b".into(), secrets)));
            assert_eq!(fleet_of(&gate, &Peer::Loopback, "0124").await, Err(Code::Unauthenticated));
            let anonymous = fleet_of(&gate, &Peer::Loopback, "").await;
            let expected = if clients { Ok(("a/claimed".into(), secrets)) } else { Err(Code::Unauthenticated) };
            assert_eq!(anonymous, expected);
        }
    }
}
