//! Addresses by where they are reachable (GEP-5093), with the definitions of the experimental channel: the feature has no test in the
//! official suite.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Value, json};
use tests::wait;

use crate::cluster::installed_with;
use crate::harness::Namespace;
use crate::world::{HTTP, World, gateway, said};

/// The first two bytes of every Service's address in the lab.
const SERVICES: [u8; 2] = [10, 96];

/// An address that a Service asks for, far from those that are given by themselves.
const STATIC: &str = "10.96.200.7";

fn is_of_services(address: &str) -> bool {
    address.parse::<Ipv4Addr>().is_ok_and(|address| address.octets()[..2] == SERVICES)
}

struct Addresses {
    world: World,
}

impl Addresses {
    /// Makes a Gateway that asks for these and gives its addresses once this is said of them, in these words, and of whether it is
    /// programmed.
    fn made(
        &self,
        name: &str,
        entries: &str,
        (assigned, words): ([&str; 2], &[&str]),
        programmed: [&str; 2],
    ) -> Vec<Value> {
        self.world.gateway(name, &[HTTP], &format!("  addresses: {entries}\n"));
        self.world.route(name, name, "[{backendRefs: [{name: cart, port: 80}]}]");
        let what = format!("{name} with {entries}: {assigned:?}, {words:?}, {programmed:?}");
        self.world.namespace.until(&what, &format!("gateway/{name}"), |object| {
            let of = |kind: &str| said(object, "", kind);
            let (addresses, whole) = (of("AddressesAssigned")?, of("Programmed")?);
            let right = [&*addresses.status, &*addresses.reason] == assigned
                && words.iter().all(|words| addresses.message.contains(words))
                && [&*whole.status, &*whole.reason] == programmed;
            let current = object["status"]["conditions"][0]["observedGeneration"] == object["metadata"]["generation"];
            (right && current).then(|| object["status"]["addresses"].as_array().cloned().unwrap_or_default())
        })
    }

    /// The same where all is well: values by their routability.
    fn given(&self, name: &str, entries: &str) -> Vec<(String, String)> {
        let found = self.made(name, entries, (["True", "AddressesAssigned"], &[]), ["True", "Programmed"]);
        let word = |address: &Value, field: &str| address[field].as_str().unwrap().to_owned();
        let mut given: Vec<_> =
            found.iter().map(|address| (word(address, "routability"), word(address, "value"))).collect();
        given.sort();
        given
    }

    /// What the API takes, and what is claimed.
    fn are_known(&self) {
        let takes = |routability: &str| {
            let entries = format!("  addresses: [{{routability: {routability}}}]\n");
            self.world.namespace.takes(&gateway("odd", &[HTTP], &entries))
        };
        for good in ["''", "Cluster", "testing.x-k8s.io/sentinel", "example.com/Wan"] {
            assert!(takes(good), "{good}");
        }
        for bad in ["Public", "example.com/", "/Wan", "EXAMPLE.com/Wan", "k8s.io/value", "example.k8s.io/value"] {
            assert!(!takes(bad), "{bad}");
        }
        let features =
            self.world.namespace.get("gatewayclass/chancery").unwrap()["status"]["supportedFeatures"].clone();
        for feature in ["GatewayAddressRoutability", "GatewayAddressRoutabilityCluster"] {
            assert!(features.as_array().unwrap().contains(&json!({ "name": feature })), "{features}");
        }
    }

    /// Nothing is given, and the words say why.
    fn refused(&self, name: &str, entries: &str, words: &[&str]) {
        let found = self.made(name, entries, (["False", "NotAssigned"], words), ["False", "AddressNotAssigned"]);
        assert_eq!(found, Vec::<Value>::new());
    }

    /// The same of one that has had an address of the cluster: until its Service is one for the outside, it still has that.
    fn given_outside(&self, name: &str) -> Vec<(String, String)> {
        let outside = || Some(self.given(name, "[]")).filter(|given| given.len() == 1 && given[0].0.is_empty());
        wait::until("an address outside", outside).unwrap()
    }

    /// The Services of a Gateway: one, or none that is left.
    fn services(&self, gateway: &str) -> Vec<Value> {
        let label = format!("gateway.networking.k8s.io/gateway-name={gateway}");
        let services = self.world.namespace.run(&["get", "service", "--selector", &label, "--output=json"]);
        let services: Value = serde_json::from_str(&services).unwrap();
        services["items"].as_array().unwrap().clone()
    }

    fn until_service_type(&self, gateway: &str, wanted: &str) {
        let is_so = || (self.services(gateway).first()?["spec"]["type"] == wanted).then_some(());
        wait::until(&format!("type {wanted} of {gateway}"), is_so).unwrap();
    }

    fn answers(&self, address: &str) {
        let lab = &self.world.namespace.lab;
        let url = format!("http://{address}/");
        let ask = || lab.exec(&["curl", "--silent", "--fail", "--max-time", "5", &url]);
        wait::until(&format!("an answer of {address}"), || ask()?.contains("\"pod\": \"cart\"").then_some(())).unwrap();
    }
}

#[test]
fn each_entry_has_an_address_that_is_reachable_from_where_it_says() {
    let lab = Arc::new(installed_with("experimental"));
    let addresses = Addresses { world: World::made_in(lab, "addresses") };

    addresses.are_known();

    // whatever there is
    let given = addresses.given("any", "[]");
    assert_eq!(given.iter().map(|(routability, _)| &**routability).collect::<Vec<_>>(), [""], "{given:?}");
    addresses.answers(&given[0].1);
    for entries in ["[{}]", "[{routability: ''}]"] {
        assert_eq!(addresses.given("any", entries), given, "{entries}");
    }
    let sentinel = addresses.given("any", "[{routability: testing.x-k8s.io/sentinel}]");
    assert_eq!(sentinel, [("testing.x-k8s.io/sentinel".to_owned(), given[0].1.clone())]);

    // what was reached from outside is so no more, and again
    let inside = addresses.given("any", "[{routability: Cluster}]");
    assert!(inside.len() == 1 && inside[0].0 == "Cluster" && is_of_services(&inside[0].1), "{inside:?}");
    addresses.until_service_type("any", "ClusterIP");
    addresses.answers(&inside[0].1);
    let outside = addresses.given_outside("any");
    assert!(!is_of_services(&outside[0].1), "{outside:?}");
    addresses.answers(&outside[0].1);

    // in the cluster, and only there
    let given = addresses.given("inside", "[{type: IPAddress, routability: Cluster}]");
    assert!(given.len() == 1 && given[0].0 == "Cluster" && is_of_services(&given[0].1), "{given:?}");
    addresses.until_service_type("inside", "ClusterIP");
    addresses.answers(&given[0].1);

    // both, in either order
    for (name, entries) in [("one", "[{}, {routability: Cluster}]"), ("other", "[{routability: Cluster}, {}]")] {
        let given = addresses.given(name, entries);
        assert_eq!(given.iter().map(|(routability, _)| &**routability).collect::<Vec<_>>(), ["", "Cluster"]);
        assert!(!is_of_services(&given[0].1) && is_of_services(&given[1].1), "{given:?}");
        addresses.until_service_type(name, "LoadBalancer");
        given.iter().for_each(|(_, address)| addresses.answers(address));
    }

    // one that is named
    let entries = format!("[{{routability: Cluster, value: {STATIC}}}]");
    assert_eq!(addresses.given("static", &entries), [("Cluster".to_owned(), STATIC.to_owned())]);
    addresses.answers(STATIC);
    // of another Gateway already; of no Service; not to be changed any more
    addresses.refused("second", &entries, &[STATIC, "the API server says: "]);
    addresses.refused(
        "foreign",
        "[{routability: Cluster, value: 192.0.2.1}]",
        &["192.0.2.1", "the API server says: ", "spec.clusterIPs: Invalid value"],
    );
    addresses.refused("unknown", "[{routability: example.com/Wan}]", &["\"example.com/Wan\" is not known here"]);
    addresses.refused(
        "static",
        "[{routability: Cluster, value: 10.96.200.8}]",
        &["10.96.200.8", "may not change once set"],
    );

    // beside one that can be had
    let entries = "[{}, {routability: Cluster, value: 192.0.2.1}]";
    let words = (["False", "PartiallyAssigned"], &["spec.addresses[1]: ", "192.0.2.1"][..]);
    let found = addresses.made("partly", entries, words, ["True", "Programmed"]);
    assert_eq!((found.len(), &found[0]["routability"]), (1, &json!("")));
    addresses.answers(found[0]["value"].as_str().unwrap());

    // an address that another one lets go
    addresses.world.namespace.run(&["delete", "gateway", "static"]);
    wait::until("the end of its Service", || addresses.services("static").is_empty().then_some(())).unwrap();
    let entries = format!("[{{routability: Cluster, value: {STATIC}}}]");
    addresses.refused("second", &entries, &["already allocated", "remove Service addresses/second-"]);
    let label = "gateway.networking.k8s.io/gateway-name=second";
    addresses.world.namespace.run(&["delete", "service", "--selector", label]);
    let second = addresses.given("second", &entries);
    assert_eq!(second, [("Cluster".to_owned(), STATIC.to_owned())]);
    addresses.answers(STATIC);
}

impl Namespace {
    /// Whether the API server would take objects.
    fn takes(&self, yaml: &str) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("object.yaml");
        std::fs::write(&file, yaml).unwrap();
        self.try_run(&["create", "--dry-run=server", "-f", file.to_str().unwrap()]).is_some()
    }
}
