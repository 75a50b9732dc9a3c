//! Pods that are proxies of a Gateway, and those that are not.

use infra::kubernetes::{ObjectKind, POD_LABELS};
use ir::infra::kubernetes::KubernetesInfra;
use ir::{FleetName, Infra};

use super::*;

/// A Gateway of the namespace `shop` with proxies in the cluster.
fn infra(gateway: &str, place: Place) -> (FleetName, Arc<Infra>) {
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
        service_account: None,
    };
    let infra = Infra {
        fleet: fleet.clone(),
        gateway: gateway_name(gateway),
        addresses: Vec::new(),
        ports: vec![80],
        udp_ports: Vec::new(),
        options: ir::infra::ProxyOptions::default(),
        kubernetes: Some(Box::new(kubernetes)),
    };
    (fleet, Arc::new(infra))
}

fn gateway_name(gateway: &str) -> ObjectName {
    ObjectName { namespace: "shop".into(), name: gateway.into() }
}

/// Accounts of some Gateways, with what the API server has.
struct World {
    accounts: Accounts,
    infra: watch::Sender<Arc<BTreeMap<FleetName, Arc<Infra>>>>,
    made: watch::Sender<Arc<ProxyObjects>>,
    presence: Presence,
    /// Pods are tracked as long as their handles are there.
    handles: Vec<provider::kubernetes::presence::Gone>,
}

impl World {
    /// Gateways of the namespace `shop` that were served before.
    fn new(last_good: &[&str]) -> Self {
        let (made, on_made) = watch::channel(Arc::default());
        let (infra, on_infra) = watch::channel(Arc::default());
        let presence = Presence::new(&POD_LABELS);
        let last_good = last_good.iter().map(|fleet| Arc::from(*fleet)).collect();
        let accounts = Accounts::new(&last_good, (&"system".into(), Place::Gateway), presence.clone(), on_made);
        tokio::spawn(accounts.clone().follow(on_infra));
        Self { accounts, infra, made, presence, handles: Vec::new() }
    }

    async fn know(&self, gateways: &[&str]) {
        self.know_at(Place::Gateway, gateways).await;
    }

    async fn know_at(&self, place: Place, gateways: &[&str]) {
        let mut known = self.accounts.known.subscribe();
        self.infra.send_replace(Arc::new(gateways.iter().map(|gateway| infra(gateway, place)).collect()));
        known.changed().await.unwrap();
    }

    /// The API server has these, all of which Chancery made.
    fn make(&self, objects: &[(ObjectKind, &str, &str, &str)]) {
        let owners: Vec<Owner> = objects.iter().map(|(.., gateway)| Owner::of(&gateway_name(gateway))).collect();
        let objects =
            objects.iter().zip(&owners).map(|((kind, namespace, name, _), owner)| (*kind, *namespace, *name, owner));
        self.made.send_replace(Arc::new(ProxyObjects::of(&objects.collect::<Vec<_>>())));
    }

    /// A Pod that the API server shows, with the labels of a Gateway's proxies, if any, and its controller.
    fn show(&mut self, pod: &str, gateway: Option<&str>, controller: (&str, &str)) {
        let id = PodId { namespace: "shop".into(), name: pod.into(), uid: format!("uid-{pod}").into() };
        self.handles.push(self.presence.track(&id));
        let label = |name: &str, value: &str| (Arc::from(name), Arc::from(value));
        let labels = gateway.into_iter().flat_map(|gateway| {
            [
                label("app.kubernetes.io/managed-by", "chancery"),
                label("app.kubernetes.io/component", "proxy"),
                label("gateway.envoyproxy.io/owning-gateway-namespace", "shop"),
                label("gateway.envoyproxy.io/owning-gateway-name", gateway),
            ]
        });
        let controller = Some((controller.0.into(), controller.1.into()));
        self.presence.set_facts(&id, PodFacts { labels: labels.collect(), controller });
    }

    /// The fleet of a Pod of the namespace `shop` that runs with this account, or the refusal.
    fn fleet(&self, account: &str, pod: &str) -> Result<String, String> {
        match self.accounts.fleets(&format!("system:serviceaccount:shop:{account}/{pod}/uid-{pod}")) {
            Fleets::These(fleets) => Ok(fleets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
            Fleets::Only(fleet) => Ok(fleet.to_string()),
            Fleets::Nobody(why) => Err(why.to_string()),
            Fleets::Any => Err("any".to_owned()),
        }
    }
}

const ACCOUNTS: ObjectKind = ObjectKind::ServiceAccount;

#[tokio::test]
async fn account_that_a_user_names_makes_no_pod_a_proxy() {
    let mut world = World::new(&[]);
    // The Gateway's EnvoyProxy names `default`, which is there and was not made by Chancery.
    world.know(&["g"]).await;
    world.make(&[(ObjectKind::Deployment, "shop", "g-1", "g")]);
    world.show("side", None, ("ReplicaSet", "web-6fc4f874b"));
    assert_eq!(world.fleet("default", "side").as_deref(), Ok("workload/shop/side"), "its sidecar goes on");
    world.show("g-1-6fc4f874b-a", Some("g"), ("ReplicaSet", "g-1-6fc4f874b"));
    let refused = world.fleet("default", "g-1-6fc4f874b-a").unwrap_err();
    assert!(refused.contains("ServiceAccount is not one that Chancery made"), "{refused}");
    // Also where the account is one of Chancery's: the Pod is not the Gateway's.
    world.make(&[(ObjectKind::Deployment, "shop", "g-1", "g"), (ACCOUNTS, "shop", "default", "g")]);
    assert_eq!(world.fleet("default", "side").as_deref(), Ok("workload/shop/side"));
    assert_eq!(world.fleet("default", "g-1-6fc4f874b-a").as_deref(), Ok("shop/g"));
    // Labels alone make no proxy.
    world.show("fake", Some("g"), ("ReplicaSet", "web-6fc4f874b"));
    let refused = world.fleet("default", "fake").unwrap_err();
    assert!(refused.contains("does not belong to a Deployment"), "{refused}");
}

#[tokio::test]
async fn account_of_two_gateways_opens_neither_for_the_other() {
    let mut world = World::new(&[]);
    world.know(&["a", "b"]).await;
    world.make(&[
        (ACCOUNTS, "shop", "both", "a"),
        (ObjectKind::Deployment, "shop", "a-1", "a"),
        (ObjectKind::DaemonSet, "shop", "b-1", "b"),
    ]);
    world.show("a-pod", Some("a"), ("ReplicaSet", "a-1-6fc4f874b"));
    world.show("b-pod", Some("b"), ("DaemonSet", "b-1"));
    assert_eq!(world.fleet("both", "a-pod").as_deref(), Ok("shop/a"));
    let refused = world.fleet("both", "b-pod").unwrap_err();
    assert!(refused.contains("ServiceAccount is not one that Chancery made for this Gateway"), "{refused}");
}

#[tokio::test]
async fn proxies_of_both_places_and_of_last_good_are_served() {
    let mut world = World::new(&["shop/own", "workload/shop/old"]);
    let [own, _] = usual_service_accounts(&gateway_name("own"), &"system".into());
    let replica_set = format!("{}-6fc4f874b", own.name);
    world.show("own-pod", Some("own"), ("ReplicaSet", &replica_set));
    assert_eq!(world.fleet(&own.name, "own-pod").as_deref(), Ok("shop/own"), "nothing is known but the names");
    assert!(world.fleet("default", "own-pod").is_err(), "another account");
    world.show("other", Some("own"), ("ReplicaSet", "web-6fc4f874b"));
    assert!(world.fleet(&own.name, "other").is_err(), "another workload");
    world.show("old", None, ("ReplicaSet", "web-6fc4f874b"));
    world.show("new", None, ("ReplicaSet", "web-6fc4f874b"));
    assert_eq!(world.fleet("default", "old").as_deref(), Ok("workload/shop/old"));
    assert!(world.fleet("default", "new").is_err(), "it may be a Gateway's");
    world.know(&["own"]).await;
    assert_eq!(world.fleet("default", "new").as_deref(), Ok("workload/shop/new"));
    assert_eq!(world.fleet(&own.name, "own-pod").as_deref(), Ok("shop/own"));
    world.know(&[]).await;
    assert!(world.fleet(&own.name, "own-pod").unwrap_err().contains("not one of Chancery's"), "its Gateway is gone");
}

#[tokio::test]
async fn proxies_in_the_controllers_namespace_are_served() {
    let mut world = World::new(&[]);
    world.know(&["own"]).await;
    let [_, central] = usual_service_accounts(&gateway_name("own"), &"system".into());
    world.make(&[(ACCOUNTS, "system", &central.name, "own"), (ObjectKind::Deployment, "system", &central.name, "own")]);
    world.show("own-pod", Some("own"), ("ReplicaSet", &format!("{}-6fc4f874b", central.name)));
    let of = |namespace: &str| {
        world.accounts.fleets(&format!("system:serviceaccount:{namespace}:{}/own-pod/uid-own-pod", central.name))
    };
    assert_eq!(of("system"), Fleets::These(vec!["shop/own".into()]));
    assert!(matches!(of("shop"), Fleets::Nobody(_)), "an account of another namespace is another account");
}

#[tokio::test]
async fn labels_make_no_proxy_where_chancery_makes_none() {
    let mut world = World::new(&["shop/g"]);
    world.show("p", Some("g"), ("ReplicaSet", "x-6fc4f874b"));
    let of = |world: &World, namespace: &str| {
        let fleets = world.accounts.fleets(&format!("system:serviceaccount:{namespace}:x/p/uid-p"));
        if let Fleets::Nobody(why) = &fleets {
            assert!(why.contains("namespace in which Chancery makes no proxies"), "{why}");
        }
        matches!(fleets, Fleets::These(_))
    };
    // Anyone may write these labels onto objects of an own namespace.
    let made = |namespace| [(ACCOUNTS, namespace, "x", "g"), (ObjectKind::Deployment, namespace, "x", "g")];
    world.make(&[made("bank"), made("shop"), made("system")].concat());
    for known in [None, Some(Place::Gateway), Some(Place::Controller)] {
        if let Some(place) = known {
            world.know_at(place, &["g"]).await;
        }
        assert!(!of(&world, "bank"), "{known:?}");
        assert_eq!(of(&world, "shop"), known != Some(Place::Controller), "{known:?}");
        assert!(of(&world, "system"), "{known:?}");
    }
}

#[tokio::test]
async fn pod_that_cannot_be_looked_up_is_no_proxy_and_stays_a_workload() {
    let world = World::new(&[]);
    world.know(&["own"]).await;
    let [own, _] = usual_service_accounts(&gateway_name("own"), &"system".into());
    assert!(world.fleet(&own.name, "unknown").unwrap_err().contains("list pods in shop"));
    world.make(&[(ACCOUNTS, "shop", "made", "own")]);
    assert!(world.fleet("made", "unknown").unwrap_err().contains("list pods in shop"));
    assert_eq!(world.fleet("default", "unknown").as_deref(), Ok("workload/shop/unknown"));
}

#[tokio::test]
async fn token_that_is_bound_to_no_pod_opens_nothing() {
    let world = World::new(&[]);
    world.know(&["own"]).await;
    world.make(&[(ACCOUNTS, "shop", "made", "own")]);
    for bearer in ["system:serviceaccount:shop:made", "system:serviceaccount:shop:default", "shop/own"] {
        assert!(matches!(world.accounts.fleets(bearer), Fleets::Nobody(_)), "{bearer}");
    }
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
