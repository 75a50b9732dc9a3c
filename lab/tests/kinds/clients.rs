//! Certificates of clients, who are believed by a bundle of the cluster.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::certificate::{self, Pair};
use tests::{objects, wait};

use crate::place::{Place, inside, trust_bundle};
use crate::world::HTTP;

const HTTPS: &str = "{name: https, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: site}]}}";

const ASKED: &str = "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: certificates.k8s.io, kind: ClusterTrustBundle, name: clients}]}}}}\n";

const HOST: &str = "site.example";

/// Keeps a pair as curl wants it.
fn keep(folder: &Path, name: &str, pair: &Pair) {
    std::fs::write(folder.join(name).with_extension("crt"), &pair.certificate).unwrap();
    std::fs::write(folder.join(name).with_extension("key"), &pair.key).unwrap();
}

/// Which Pod answers a client that shows one of the pairs that are kept, or none.
fn answer(place: &Place, folder: &Path, shown: Option<&str>) -> Option<String> {
    let mut command = Command::new("curl");
    let resolve = format!("{HOST}:443:{}", place.address);
    command.args(["--silent", "--max-time", "15", "--resolve", &resolve]);
    command.arg("--cacert").arg(folder.join("site.crt"));
    if let Some(name) = shown {
        command.arg("--cert").arg(folder.join(name).with_extension("crt"));
        command.arg("--key").arg(folder.join(name).with_extension("key"));
    }
    let asked = inside(&place.state, || command.arg(format!("https://{HOST}/")).output()).unwrap();
    let said: Value = serde_json::from_slice(&asked.stdout).ok()?;
    Some(said["pod"].as_str()?.to_owned())
}

#[test]
fn a_client_is_believed_by_a_bundle_of_the_cluster() {
    let place = Place::make("clients", &[HTTP, HTTPS], ASKED);
    let folder = tempfile::tempdir().unwrap();
    let site = certificate::self_signed(&[HOST], false).unwrap();
    let [own, foreign] = ["own.clients", "other.clients"].map(|name| certificate::authority(name).unwrap());
    keep(folder.path(), "site", &site);
    for (name, authority) in [("ann", &own), ("bob", &foreign)] {
        keep(folder.path(), name, &certificate::issued(&format!("{name}.example"), authority).unwrap());
    }
    place.apply(&objects::tls_secret("site", &site.certificate, &site.key));
    place.world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    let served = |shown: Option<&str>| answer(&place, folder.path(), shown).as_deref() == Some("cart");
    let until_served = |name: &str| wait::until(name, || served(Some(name)).then_some(())).unwrap();
    let until_refused = |name: &str| {
        wait::until(&format!("no answer to {name}"), || (!served(Some(name))).then_some(())).unwrap();
    };
    let refs = |status: &str, reason: &str, words: &[&str]| {
        place.world.until_said("gateway/edge", "/listeners/1", ("ResolvedRefs", status, reason), words);
    };

    // nobody can be believed, so nobody is served
    refs("False", "InvalidCACertificateRef", &["clients"]);
    place.world.until_said("gateway/edge", "/listeners/1", ("Accepted", "False", "NoValidCACertificate"), &[]);
    assert!(!served(Some("ann")) && !served(None));

    place.apply(&trust_bundle("clients", &own.certificate));
    until_served("ann");
    refs("True", "ResolvedRefs", &[]);
    place.world.until_said("gateway/edge", "/listeners/1", ("Programmed", "True", "Programmed"), &[]);
    assert!(!served(Some("bob")), "somebody else's client");
    assert!(!served(None), "a client without a certificate");
    // whoever is believed changes
    place.apply(&trust_bundle("clients", &foreign.certificate));
    until_served("bob");
    until_refused("ann");
    place.apply(&trust_bundle("clients", &(foreign.certificate.clone() + &own.certificate)));
    until_served("ann");
    assert!(served(Some("bob")));

    place.namespace().run(&["delete", "clustertrustbundle", "clients"]);
    refs("False", "InvalidCACertificateRef", &["clients"]);
    until_refused("ann");
    until_refused("bob");
    // and nothing else was in their way
    place.apply(&trust_bundle("clients", &own.certificate));
    until_served("ann");
}
