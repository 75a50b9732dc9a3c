//! Secrets and listeners over TLS with a real Envoy 1.40: restarts of the server, secrets that come late, never, or are refused.

use std::net::SocketAddr;
use std::sync::Arc;

use proto::envoy::config::core::v3::DataSource;
use proto::envoy::extensions::transport_sockets::tls::v3::{Secret, secret};

use super::authority::{Authority, Pair};
use super::proxy::{Backend, Loop, free_address, shown, wait_for};
use super::resources::tls::{certificate, tls_cluster, tls_listener, trusted};
use super::resources::{altered, cluster, endpoints, gone, routes};
use super::stage::{SOON, Stage, over};
use crate::{Change, Event, Resource, TypeUrl};

over!(ads: [
    restarts_and_changes_of_what_uses_secrets_cost_no_handshake,
    a_listener_waits_for_a_late_secret_and_one_that_serves_is_not_replaced_by_one_without,
    a_refused_secret_is_told_without_its_words_and_costs_no_handshake,
    what_is_removed_and_comes_again_serves_again,
]);

/// A stage with a second listener, over TLS, and an authority that its clients trust.
struct Secrets {
    stage: Stage,
    authority: Arc<Authority>,
    pair: Pair,
    tls: SocketAddr,
}

impl Secrets {
    /// Everything goes to cluster `a` in cleartext.
    fn new() -> Self {
        let authority = Arc::new(Authority::new("one"));
        let (pair, tls) = (authority.issue("server"), free_address());
        let stage = Stage::new(vec![routes(1, "a"), tls_listener("t", 1, "cert", tls), certificate("cert", 1, &pair)]);
        let secrets = Self { stage, authority, pair, tls };
        secrets.wait_for_answer("200 a, 1");
        secrets
    }

    /// One request over TLS: status, body, and the version of the listener.
    fn asker(&self) -> impl Fn() -> String + Send + 'static {
        let (authority, at) = (Arc::clone(&self.authority), self.tls);
        move || match authority.get(at, "any") {
            Ok((answer, _)) => {
                let version = answer.lines().find_map(|line| line.strip_prefix("server: ")).unwrap_or("none");
                format!("{}, {version}", shown(&answer))
            }
            Err(error) => error.to_string(),
        }
    }

    fn wait_for_answer(&self, wanted: &str) {
        let ask = self.asker();
        wait_for(wanted, SOON, || ask() == wanted);
    }

    fn wait_for_certificate(&self, pair: &Pair) {
        let shown = || self.authority.get(self.tls, "any").is_ok_and(|(_, shown)| pair.is(&shown));
        wait_for("the other certificate", SOON, shown);
    }
}

/// How many restarts; by hand `RESTARTS=200`.
fn restarts() -> u128 {
    std::env::var_os("RESTARTS").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(20)
}

/// The trap: an Envoy that comes again with what it has is sent nothing, and a change of a listener or of a cluster that makes it ask for
/// a secret that it has would be answered with nothing: after 15 s every handshake fails.
fn restarts_and_changes_of_what_uses_secrets_cost_no_handshake() {
    let mut secrets = Secrets::new();
    let Secrets { authority, pair, tls, .. } = &secrets;
    let (other, tls, authority) = (authority.issue("server"), *tls, Arc::clone(authority));
    let pairs = [pair.clone(), other];
    let backend = Backend::start_tls("secure", &authority.issue("server"));
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut listener, mut upstream, mut plain, mut secret) = (1, 1, 1, 1);
    let all = |stage: &Stage, [listener, upstream, plain, secret]: [u128; 4]| -> Vec<Change> {
        vec![
            tls_listener("t", listener, "cert", tls),
            super::resources::listener(stage.at),
            routes(2, "u"),
            tls_cluster("u", upstream),
            endpoints("u", 1, backend.address),
            cluster("a", plain),
            endpoints("a", 1, stage.a.address),
            certificate("cert", secret, &pairs[secret as usize % 2]),
            trusted("ca", 1, &authority.pem),
        ]
    };
    secrets.stage.publish(all(&secrets.stage, [listener, upstream, plain, secret]));
    secrets.wait_for_answer("200 secure, 1");
    let requests = Loop::of(secrets.asker());
    for _ in 0..restarts() {
        let mut changes: [u8; 4] = std::array::from_fn(|index| index as u8);
        random.shuffle(&mut changes);
        let before = random.usize(..3);
        for (number, change) in changes.into_iter().enumerate() {
            if number == before {
                secrets.stage.restart();
                secrets.stage.publish(all(&secrets.stage, [listener, upstream, plain, secret]));
            }
            // the new version is in the server's header, or among the active clusters: well before the 15 s
            match change {
                0 => {
                    listener += 1;
                    secrets.stage.publish(vec![tls_listener("t", listener, "cert", tls)]);
                    secrets.wait_for_answer(&format!("200 secure, {listener}"));
                }
                1 => {
                    upstream += 1;
                    secrets.stage.publish(vec![tls_cluster("u", upstream)]);
                    wait_for_upstream(&secrets.stage, upstream);
                }
                2 => {
                    plain += 1;
                    secrets.stage.publish(vec![cluster("a", plain)]);
                    secrets.stage.envoy.wait_for_cluster(plain, SOON);
                }
                _ => {
                    secret += 1;
                    secrets.stage.publish(vec![certificate("cert", secret, &pairs[secret as usize % 2])]);
                    secrets.wait_for_certificate(&pairs[secret as usize % 2]);
                }
            }
        }
    }
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}, seed {seed}");
    secrets.stage.end();
}

/// Waits until this version of cluster `u` is active.
fn wait_for_upstream(stage: &Stage, version: u128) {
    let digits = format!("{version:09}");
    let timeout = format!("\"2.{}s\"", digits.trim_end_matches("000"));
    wait_for("the cluster over TLS", SOON, || {
        let dump = stage.envoy.admin("/config_dump?resource=dynamic_active_clusters");
        dump.split("\"name\": \"").any(|one| one.starts_with("u\"") && one.contains(&timeout))
    });
}

fn a_listener_waits_for_a_late_secret_and_one_that_serves_is_not_replaced_by_one_without() {
    let secrets = Secrets::new();
    let (stage, late) = (&secrets.stage, free_address());
    let requests = Loop::of(secrets.asker());
    stage.publish(vec![tls_listener("late", 1, "late", late), tls_listener("t", 2, "never", secrets.tls)]);
    // other things go on meanwhile, other listeners too
    stage.publish(vec![cluster("b", 1), endpoints("b", 1, stage.b.address), routes(2, "b")]);
    secrets.wait_for_answer("200 b, 1");
    let third = free_address();
    stage.publish(vec![tls_listener("third", 1, "cert", third)]);
    wait_for("the third listener", SOON, || secrets.authority.get(third, "any").is_ok());
    let dump = stage.envoy.admin("/config_dump?resource=dynamic_listeners");
    assert!(!dump.contains("\"never\"") && !dump.contains("\"late\""), "{dump}");
    assert!(secrets.authority.get(late, "any").is_err());
    stage.publish(vec![certificate("late", 1, &secrets.pair)]);
    wait_for("the late listener", SOON, || secrets.authority.get(late, "any").is_ok());
    stage.publish(vec![tls_listener("t", 3, "late", secrets.tls)]);
    secrets.wait_for_answer("200 b, 3");
    requests.lost_none();
    secrets.stage.end();
}

/// Of a secret that breaks a rule of its message Envoy's words hold all, the private key too.
fn a_refused_secret_is_told_without_its_words_and_costs_no_handshake() {
    let secrets = Secrets::new();
    let (stage, authority) = (&secrets.stage, &secrets.authority);
    let requests = Loop::of(secrets.asker());
    let [one, two] = [authority.issue("server"), authority.issue("server")];
    let mismatch = certificate("cert", 2, &Pair { certificate: one.certificate.clone(), key: two.key.clone() });
    let broken = altered(certificate("cert", 3, &two), |_: &mut Resource, secret: &mut Secret| {
        if let Some(secret::Type::TlsCertificate(certificate)) = &mut secret.r#type {
            certificate.signed_certificate_timestamp = vec![DataSource::default()];
        }
    });
    let key = two.key.lines().nth(1).unwrap();
    for (version, bad) in (2..).zip([mismatch, broken]) {
        stage.publish(vec![bad, cluster("a", version)]);
        stage.wait("the secret to be refused", |event| {
            matches!(event, Event::Refused { type_url: TypeUrl::Secret, version: refused, .. } if refused.0 == version)
        });
        stage.envoy.wait_for_cluster(version, SOON);
        secrets.wait_for_certificate(&secrets.pair);
    }
    wait_for("the key in Envoy's own words", SOON, || stage.envoy.log().contains(key));
    let told = format!("{:?}", stage.events.lock().unwrap());
    assert!(!told.contains("PRIVATE") && !told.contains(key), "{told}");
    stage.publish(vec![tls_listener("t", 2, "cert", secrets.tls)]);
    secrets.wait_for_answer("200 a, 2");
    stage.publish(vec![certificate("cert", 4, &one)]);
    secrets.wait_for_certificate(&one);
    requests.lost_none();
    secrets.stage.end();
}

/// Envoy lets go of a secret when nobody uses it any more (of a listener: after its drain, 1 s here), and asks for it again: it is to be
/// answered though nothing changed (R9).
fn what_is_removed_and_comes_again_serves_again() {
    let secrets = Secrets::new();
    let stage = &secrets.stage;
    let requests = Loop::start(stage.at, "any");
    let secrets_of = |stage: &Stage| stage.envoy.admin("/config_dump?resource=dynamic_active_secrets");
    for round in 2..10 {
        stage.publish(vec![cluster("u", 1), endpoints("u", 1, stage.b.address), routes(20 + round, "u")]);
        secrets.wait_for_answer("200 b, 1");
        stage.publish(vec![gone(TypeUrl::Cluster, "u"), routes(round, "a")]);
        secrets.wait_for_answer("200 a, 1");
        wait_for("the cluster to be gone", SOON, || !stage.envoy.admin("/clusters").contains("u::"));
    }
    for round in 0..4 {
        stage.publish(vec![gone(TypeUrl::Listener, "t")]);
        wait_for("the port to be closed", SOON, || std::net::TcpStream::connect(secrets.tls).is_err());
        if round % 2 == 1 {
            wait_for("the end of the drain", SOON, || !secrets_of(stage).contains("\"cert\""));
        }
        stage.publish(vec![tls_listener("t", 1, "cert", secrets.tls)]);
        secrets.wait_for_answer("200 a, 1");
    }
    requests.lost_none();
    secrets.stage.end();
}
