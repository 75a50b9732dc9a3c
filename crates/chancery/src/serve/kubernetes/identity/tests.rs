//! Which Gateways an account has.

use ir::infra::kubernetes::{KubernetesInfra, Place};
use ir::{FleetName, Infra};

use super::*;

/// A Gateway whose Pods have this account, or the usual one.
fn infra(gateway: &str, account: Option<&str>, place: Place) -> (FleetName, Arc<Infra>) {
    let fleet = FleetName(format!("shop/{gateway}").into());
    let kubernetes = KubernetesInfra {
        class: "chancery".into(),
        uid: None,
        place,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        mapped_ports: Vec::new(),
        cluster_addresses: Vec::new(),
        dual_stack: false,
        workload: ir::infra::kubernetes::Workload::default(),
        service: ir::infra::kubernetes::Service::default(),
        autoscaler: None,
        disruption_budget: None,
        service_account: account.map(Into::into),
    };
    let infra = Infra {
        fleet: fleet.clone(),
        gateway: ObjectName { namespace: "shop".into(), name: gateway.into() },
        addresses: Vec::new(),
        ports: vec![80],
        udp_ports: Vec::new(),
        options: ir::infra::ProxyOptions::default(),
        kubernetes: Some(Box::new(kubernetes)),
    };
    (fleet, Arc::new(infra))
}

/// The fleets of an account, sorted.
fn fleets(accounts: &Accounts, namespace: &str, name: &str) -> Vec<String> {
    match accounts.fleets(&format!("system:serviceaccount:{namespace}:{name}")) {
        Fleets::These(fleets) => fleets.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn an_account_has_the_gateways_whose_pods_have_it() {
    let accounts = Accounts::new(&BTreeSet::new(), &"system".into());
    let (sender, receiver) = watch::channel(Arc::default());
    let following = tokio::spawn(accounts.clone().follow(receiver));
    let all = [
        infra("own", None, Place::Gateway),
        infra("here", None, Place::Controller),
        infra("one", Some("both"), Place::Gateway),
        infra("two", Some("both"), Place::Gateway),
    ];
    let usual = |at: usize| service_account(&all[at].1, &"system".into()).unwrap();
    let mut known = accounts.known.subscribe();
    sender.send_replace(Arc::new(all.clone().into()));
    known.changed().await.unwrap();
    assert_eq!(fleets(&accounts, "shop", &usual(0).name), ["shop/own"]);
    assert_eq!(fleets(&accounts, "system", &usual(1).name), ["shop/here"]);
    assert_eq!(fleets(&accounts, "shop", "both"), ["shop/one", "shop/two"]);
    assert_eq!(fleets(&accounts, "system", "both"), [""; 0], "an account of another namespace is another account");
    assert!(matches!(accounts.fleets("shop/own"), Fleets::Nobody(_)));
    drop(sender);
    following.await.unwrap().unwrap();
}

#[test]
fn until_gateways_are_known_those_that_were_have_their_usual_accounts() {
    let accounts = Accounts::new(&["shop/own".into()].into(), &"system".into());
    let account = service_account(&infra("own", None, Place::Gateway).1, &"system".into()).unwrap();
    assert_eq!(fleets(&accounts, "shop", &account.name), ["shop/own"]);
    assert_eq!(fleets(&accounts, "shop", "default"), [""; 0]);
}

/// The workload of a Pod with a token of this account.
fn workload(accounts: &Accounts, account: &str, pod: &str) -> Option<String> {
    match accounts.fleets(&format!("system:serviceaccount:shop:{account}/{pod}")) {
        Fleets::Only(fleet) => Some(fleet.to_string()),
        _ => None,
    }
}

#[tokio::test]
async fn a_pod_of_no_gateway_is_a_workload_once_it_is_known_which_gateways_there_are() {
    let accounts = Accounts::new(&["workload/shop/old".into(), "shop/own".into()].into(), &"system".into());
    assert_eq!(workload(&accounts, "default", "old").as_deref(), Some("workload/shop/old"));
    assert_eq!(workload(&accounts, "default", "new"), None, "it may be a Gateway's");
    let (sender, receiver) = watch::channel(Arc::default());
    let following = tokio::spawn(accounts.clone().follow(receiver));
    let mut known = accounts.known.subscribe();
    sender.send_replace(Arc::new([infra("one", Some("both"), Place::Gateway)].into()));
    known.changed().await.unwrap();
    assert_eq!(workload(&accounts, "default", "new").as_deref(), Some("workload/shop/new"));
    assert_eq!(workload(&accounts, "both", "one-1"), None, "it is that of a Gateway");
    assert_eq!(fleets(&accounts, "shop", "both/one-1"), ["shop/one"]);
    assert!(
        matches!(accounts.fleets("system:serviceaccount:shop:default"), Fleets::Nobody(text) if text.contains("bound to no Pod"))
    );
    drop(sender);
    following.await.unwrap().unwrap();
}

#[test]
fn a_certificate_of_an_authority_from_elsewhere_names_a_gateway_in_its_trust_domain_only() {
    let named = |domain: &TrustDomain, name: &str| match domain.fleets(&Identity {
        name: name.into(),
        expires: None,
        revoked: None,
    }) {
        Fleets::These(fleets) => fleets.first().map(ToString::to_string),
        Fleets::Only(fleet) => Some(fleet.to_string()),
        _ => None,
    };
    let (ours, theirs) = ("spiffe://cluster.local/default/edge", "spiffe://example.org/default/edge");
    let none = TrustDomain::new(None);
    for name in [ours, theirs, "edge.default"] {
        assert_eq!(named(&none, name), None, "{name}: no domain is configured");
    }
    none.set(true);
    assert_eq!(named(&none, ours).as_deref(), Some("default/edge"));
    assert_eq!((named(&none, theirs), named(&none, "edge.default")), (None, None));
    let domain = TrustDomain::new(Some("example.org"));
    assert_eq!(named(&domain, theirs).as_deref(), Some("default/edge"));
    assert_eq!(named(&domain, "spiffe://example.org/workload/shop/cart").as_deref(), Some("workload/shop/cart"));
    for name in [ours, "edge.default", "spiffe://example.org.evil/default/edge"] {
        assert_eq!(named(&domain, name), None, "{name}");
    }
}
