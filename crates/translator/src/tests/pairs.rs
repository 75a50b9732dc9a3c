//! Certificates and keys that are written one after the other.

use api::Kind;
use serde_json::json;

use super::tls::{https, pair, secret, section};
use crate::testing::{World, gateway, service};

#[test]
fn half_written_pair_keeps_the_pair_before_it() {
    let (first, second) = (pair(), pair());
    let mut world = World::with([
        gateway("web", json!([https("https", "", json!({"name": "cert"}))])),
        section("r", "", &[], "v1"),
        service("v1", 80),
        secret("cert", &first),
    ]);
    let shown = |world: &World| {
        let secrets = world.translator.outputs().secrets;
        let found = world.translator.graph().iter(secrets).map(|(_, secret)| secret.content.clone()).next();
        found.map(|content| match content {
            ir::secret::SecretContent::Certificate { chain, .. } => String::from_utf8(chain.0.to_vec()).expect("PEM"),
            ir::secret::SecretContent::Bundle(_) => panic!("no bundle is used"),
        })
    };
    let resolved = |world: &World| {
        let conditions = world.listener("web", "https").conditions;
        let found = conditions.iter().find(|condition| condition.reason.contains("Ref")).expect("a condition");
        format!("{}: {}", found.reason, found.message)
    };
    let good = shown(&world);
    assert!(good.is_some());
    world.translator.remember_served();
    let broken = [
        (second.0.clone(), first.1.clone()),
        (second.0.clone(), String::new()),
        (second.0.clone(), second.1[..second.1.len() / 2].to_owned()),
        (String::new(), first.1.clone()),
    ];
    for (certificate, key) in broken {
        world.apply([secret("cert", &(certificate, key))]);
        assert_eq!(shown(&world), good);
        let words = resolved(&world);
        let told = words.starts_with("InvalidCertificateRef: Secret default/cert: ");
        assert!(told && words.contains("before these stay served"), "{words}");
        world.translator.remember_served();
    }
    world.apply([secret("cert", &second)]);
    world.translator.remember_served();
    assert!(shown(&world).is_some_and(|chain| Some(&chain) != good.as_ref()));
    assert!(resolved(&world).starts_with("ResolvedRefs: "));
    // Deleted, and written again: there is no pair before.
    world.apply([secret("cert", &(first.0.clone(), second.1.clone()))]);
    assert!(shown(&world).is_some());
    world.translator.remember_served();
    world.delete(Kind::Secret, "default", "cert");
    assert_eq!(shown(&world), None);
    world.translator.remember_served();
    world.apply([secret("cert", &(first.0, second.1))]);
    assert_eq!(shown(&world), None);
}
