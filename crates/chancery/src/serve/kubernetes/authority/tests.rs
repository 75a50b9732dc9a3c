//! A Secret through the years.

use super::*;

const START: Timestamp = Timestamp(1_800_000_000);

const TERMS: Terms =
    Terms { authority: Duration::from_hours(30), overlap: Duration::from_mins(10), server: Duration::from_hours(1) };

fn after(duration: Duration) -> Timestamp {
    Timestamp(START.0 + seconds(duration))
}

/// What is there after a look, as it would be read again.
fn kept(found: Option<Kept>, now: Timestamp) -> (Authority, Kept) {
    Replica::default().looks(found, now)
}

/// One that looks again and again.
#[derive(Default)]
struct Replica(Announced);

impl Replica {
    fn look(&mut self, found: Option<Kept>, now: Timestamp) -> Result<(Authority, Option<Kept>), String> {
        look(found, now, TERMS, &mut self.0)
    }

    fn looks(&mut self, found: Option<Kept>, now: Timestamp) -> (Authority, Kept) {
        let before = found.clone();
        let (authority, written) = self.look(found, now).unwrap();
        (authority, written.or(before).unwrap())
    }

    /// Twice at about one time: what the first look writes, the second finds.
    fn learns(&mut self, found: Kept, now: Timestamp) -> (Authority, Kept) {
        let (_, written) = self.looks(Some(found), now);
        self.looks(Some(written), now)
    }
}

#[test]
fn the_first_look_makes_one_and_the_next_finds_it() {
    let (first, secret) = kept(None, START);
    assert_eq!(first.trusted, first.signer.certificate);
    assert_eq!(secret.secret_type, "kubernetes.io/tls");
    let (again, written) = Replica::default().look(Some(secret), after(Duration::from_hours(19))).unwrap();
    assert!(again == first && written.is_none(), "nothing has to change for two thirds of its time");
}

#[test]
fn the_next_one_is_trusted_before_it_signs_and_the_last_one_after() {
    let (first, secret) = kept(None, START);
    let due = Duration::from_hours(21);
    let mut replica = Replica::default();
    let (announced, secret) = replica.learns(secret, after(due));
    assert!(announced.signer == first.signer, "it does not sign yet");
    assert_eq!(certificates(&announced.trusted).len(), 2);
    let (waiting, written) = replica.look(Some(secret.clone()), after(due + Duration::from_mins(9))).unwrap();
    assert!(waiting == announced && written.is_none());
    let (second, secret) = replica.looks(Some(secret), after(due + Duration::from_mins(11)));
    assert!(second.signer != first.signer);
    let both: std::collections::BTreeSet<String> = certificates(&second.trusted).into_iter().collect();
    assert_eq!(both, certificates(&announced.trusted).into_iter().collect());
    let (alone, _) = kept(Some(secret), after(Duration::from_hours(31)));
    assert_eq!(alone.trusted, second.signer.certificate, "the first has ended");
}

#[test]
fn another_one_can_be_asked_for_at_any_time() {
    let (first, mut secret) = kept(None, START);
    announce_next(&mut secret, after(Duration::from_hours(1)), TERMS).unwrap();
    let mut replica = Replica::default();
    let (announced, secret) = replica.learns(secret, after(Duration::from_hours(1)));
    assert!(announced.signer == first.signer);
    assert_eq!(certificates(&announced.trusted).len(), 2);
    let (second, _) = replica.looks(Some(secret), after(Duration::from_mins(71)));
    assert!(second.signer != first.signer);
}

#[test]
fn one_that_was_announced_while_nobody_looked_is_told_to_proxies_before_it_signs() {
    let (first, mut secret) = kept(None, START);
    announce_next(&mut secret, START, TERMS).unwrap();
    // two hours later
    let mut replica = Replica::default();
    let late = |minutes| after(Duration::from_hours(2) + Duration::from_mins(minutes));
    let (announced, secret) = replica.learns(secret, late(0));
    assert!(announced.signer == first.signer);
    let (waiting, secret) = replica.looks(Some(secret), late(9));
    assert!(waiting == announced);
    let (again, secret) = Replica::default().learns(secret, late(11));
    assert!(again == announced, "who has just come does not know since when proxies do");
    assert!(replica.looks(Some(secret), late(11)).0.signer != first.signer);
}

#[test]
fn people_are_shown_who_signs_who_is_next_and_who_signed_before() {
    let roles = |secret: &Kept| list(secret).iter().map(|one| one.role).collect::<Vec<_>>();
    let (_, mut secret) = kept(None, START);
    assert_eq!(roles(&secret), [Role::Signs]);
    let first = list(&secret).remove(0);
    assert_eq!(first.subject, format!("CN=Chancery {START}"));
    assert_eq!((first.from, first.until), (Timestamp(START.0 - seconds(SKEW)), after(TERMS.authority)));
    announce_next(&mut secret, after(Duration::from_hours(1)), TERMS).unwrap();
    assert_eq!(roles(&secret), [Role::Signs, Role::Next], "no replica has looked yet");
    let mut replica = Replica::default();
    let (_, secret) = replica.learns(secret, after(Duration::from_hours(1)));
    assert_eq!(roles(&secret), [Role::Signs, Role::Next]);
    let (_, secret) = replica.looks(Some(secret), after(Duration::from_mins(71)));
    assert_eq!(roles(&secret), [Role::Signs, Role::Trusted]);
    assert_eq!(list(&secret)[1], Listed { role: Role::Trusted, ..first });
}

#[test]
fn one_that_is_damaged_or_over_is_replaced_by_the_announced_one_or_a_new_one() {
    let (first, secret) = kept(None, START);
    let (late, _) = kept(Some(secret.clone()), after(Duration::from_hours(40)));
    assert!(late.signer != first.signer);
    let mut damaged = secret.clone();
    damaged.data.insert("tls.key".to_owned(), b"no key".to_vec());
    let (mended, _) = kept(Some(damaged), after(Duration::from_hours(1)));
    assert!(mended.signer != first.signer);
    assert_eq!(certificates(&mended.trusted).len(), 2, "what proxies have may be signed by the first");
    let mut announced = secret;
    announce_next(&mut announced, START, TERMS).unwrap();
    let next = text(&announced, "next.crt").unwrap();
    announced.data.remove("tls.key");
    assert_eq!(kept(Some(announced), START).0.signer.certificate, next);
}

#[test]
fn one_from_elsewhere_is_used_and_never_written() {
    let (first, mut secret) = kept(None, START);
    secret.labels.clear();
    let (used, written) = Replica::default().look(Some(secret.clone()), after(Duration::from_hours(25))).unwrap();
    assert!(used == Authority { is_ours: false, ..first.clone() } && written.is_none());
    secret.data.remove("ca.crt");
    let (used, _) = Replica::default().look(Some(secret.clone()), START).unwrap();
    assert_eq!(used.trusted, first.signer.certificate);
    let other = kept(None, START).1;
    secret.data.insert("tls.key".to_owned(), other.data["tls.key"].clone());
    assert!(
        Replica::default().look(Some(secret.clone()), START).is_err_and(|words| words.contains("tls.key")),
        "another's key"
    );
    secret.data.remove("tls.key");
    assert!(Replica::default().look(Some(secret), START).is_err_and(|words| words.contains("tls.key")));
}

#[test]
fn a_servers_certificate_is_signed_by_it_and_renewed_in_time() {
    let (authority, _) = kept(None, START);
    let hosts = ["chancery.ns.svc".to_owned()];
    let pair = server_certificate(&authority, &hosts, START, TERMS).unwrap();
    let (pem, _) = Pem::read(std::io::Cursor::new(&pair.certificate)).unwrap();
    let (_, server) = X509Certificate::from_der(&pem.contents).unwrap();
    let (pem, _) = Pem::read(std::io::Cursor::new(&authority.trusted)).unwrap();
    let (_, signer) = X509Certificate::from_der(&pem.contents).unwrap();
    assert_eq!(server.issuer(), signer.subject());
    assert_eq!(certificates(&pair.certificate).len(), 2);
    assert!(!is_due(&pair.certificate, after(Duration::from_mins(30))));
    assert!(is_due(&pair.certificate, after(Duration::from_mins(45))));
    assert!(is_due("nonsense", START));
}

#[test]
fn a_proxys_certificate_names_its_gateway_and_ends_no_later_than_who_signs() {
    let (authority, _) = kept(None, START);
    let ends = |life| {
        end(&proxy_certificate(&authority, (TRUST_DOMAIN, "shop/edge.v2"), START, life).unwrap().certificate).unwrap()
    };
    assert_eq!(ends(Duration::from_hours(1)), after(Duration::from_hours(1)));
    assert_eq!(ends(Duration::from_hours(31)), after(TERMS.authority));
    let pair = proxy_certificate(&authority, (TRUST_DOMAIN, "shop/edge.v2"), START, Duration::from_hours(1)).unwrap();
    let names = in_certificate(&pair.certificate, |found| {
        let names = found.subject_alternative_name().unwrap().unwrap();
        names.value.general_names.iter().map(ToString::to_string).collect::<Vec<_>>()
    });
    assert_eq!(names.unwrap(), ["URI(spiffe://cluster.local/shop/edge.v2)"]);
    assert!(
        proxy_certificate(&authority, (TRUST_DOMAIN, "shop/edge"), after(TERMS.authority), Duration::from_hours(1))
            .is_err()
    );
}

#[test]
fn a_certificate_with_anothers_key_signs_nothing() {
    let (_, mut secret) = kept(None, START);
    let (_, other) = kept(None, START);
    secret.data.insert("tls.key".to_owned(), other.data["tls.key"].clone());
    assert_eq!(list(&secret).iter().map(|one| one.role).collect::<Vec<_>>(), [Role::Trusted]);
    assert!(current(&secret).is_err());
}
