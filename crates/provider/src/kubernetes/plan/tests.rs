//! Plans: from what is named and where we may look to what is watched.

use super::*;

fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::of(kind, namespace, name)
}

/// What is watched, as words.
fn plan(scope: &Scope, named: &[ObjectKey], refused: &[Target]) -> Vec<String> {
    let served: Served =
        [Kind::GatewayClass, Kind::Gateway, Kind::Secret, Kind::Namespace].map(|kind| (kind, "v1")).into();
    let (mut wanted, namespaces) = (Wanted::default(), Namespaces::default());
    wanted.set(&key(Kind::Gateway, "a", "by"), named.to_vec());
    let refused = refused.iter().cloned().collect();
    let given = Given { scope, served: &served, wanted: &wanted, namespaces: &namespaces, refused: &refused };
    let (targets, left_out) = given.targets();
    assert_eq!(left_out, 0);
    targets.iter().map(ToString::to_string).collect()
}

const GATEWAYS: &str = "gateways.gateway.networking.k8s.io";
const CLASSES: &str = "gatewayclasses.gateway.networking.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

#[test]
fn of_the_whole_cluster_each_kind_is_watched_once() {
    let named = [key(Kind::Secret, "x", "s"), key(Kind::Secret, "Bad/../", "s"), key(Kind::Secret, "x", "a=b,c")];
    assert_eq!(
        plan(&Scope::All, &named, &[]),
        [CLASSES, GATEWAYS, "secrets s in namespace x", "namespaces", DEFINITIONS]
    );
}

#[test]
fn of_a_selector_nothing_namespaced_is_watched_before_the_namespaces_are_known() {
    let scope = Scope::Selector(api::LabelSelector::default());
    assert_eq!(plan(&scope, &[key(Kind::Secret, "x", "s")], &[]), [CLASSES, "namespaces", DEFINITIONS]);
}

#[test]
fn what_may_not_be_watched_in_the_cluster_is_watched_by_name() {
    let scope = Scope::Namespaces(["one", "two"].map(Arc::from).into());
    let of = |kind| Target::all(Resource::Kind(kind, "v1"));
    let refused = [of(Kind::GatewayClass), of(Kind::Namespace), Target::all(Resource::Definitions)];
    let classes = [key(Kind::GatewayClass, "", "ours")];
    assert_eq!(
        plan(&scope, &classes, &refused),
        [
            format!("{CLASSES} ours"),
            format!("{GATEWAYS} in namespace one"),
            format!("{GATEWAYS} in namespace two"),
            "namespaces one".to_owned(),
            "namespaces two".to_owned(),
        ]
    );
}

#[test]
fn of_too_many_names_the_rest_is_left_out_and_counted() {
    let served: Served = [(Kind::Secret, "v1")].into();
    let (mut wanted, namespaces, refused) = (Wanted::default(), Namespaces::default(), BTreeSet::new());
    let names: Vec<ObjectKey> =
        (0..MAX_WATCHES + 9).map(|index| key(Kind::Secret, &format!("n{index}"), "s")).collect();
    wanted.set(&key(Kind::Gateway, "a", "by"), names);
    let given =
        Given { scope: &Scope::All, served: &served, wanted: &wanted, namespaces: &namespaces, refused: &refused };
    let (targets, left_out) = given.targets();
    assert_eq!((targets.len(), left_out), (MAX_WATCHES, 10));
    assert!(targets.contains(&Target::all(Resource::Definitions)));
}

#[test]
fn pods_are_watched_where_they_matter_and_together_where_that_is_in_many_namespaces() {
    let served: Served = [(Kind::Pod, "v1")].into();
    let pods = |scope: &Scope, namespaces: usize| {
        let (mut wanted, known, refused) = (Wanted::default(), Namespaces::default(), BTreeSet::new());
        let named = (0..namespaces).map(|number| pods_of(&format!("n{number}"))).collect();
        wanted.set(&key(Kind::EnvoyCluster, "a", "by"), named);
        let given = Given { scope, served: &served, wanted: &wanted, namespaces: &known, refused: &refused };
        let pod = |namespace: &str| key(Kind::Pod, namespace, "p");
        assert_eq!((given.counts(&pod("n0")), given.counts(&pod("other"))), (namespaces > 0, false));
        let targets = given.targets().0.into_iter().filter(|target| target.resource.kind() == Some(Kind::Pod));
        targets.map(|target| target.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(pods(&Scope::All, 0), [""; 0]);
    assert_eq!(pods(&Scope::All, 2), ["pods in namespace n0", "pods in namespace n1"]);
    assert_eq!(pods(&Scope::All, ONE_BY_ONE).len(), ONE_BY_ONE);
    assert_eq!(pods(&Scope::All, ONE_BY_ONE + 1), ["pods"]);
    let some = Scope::Namespaces(["n0".into()].into());
    assert_eq!(pods(&some, ONE_BY_ONE + 1), ["pods in namespace n0"]);
}
