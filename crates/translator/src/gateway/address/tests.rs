//! Entries and the addresses that they get (GEP-5093).

use std::net::{IpAddr, SocketAddr};

use api::gateway::GatewaySpecAddress;
use proptest::prelude::*;
use store::ProxyFacts;

use super::{AddressPlan, Assignment, CLUSTER, Given, Request, SENTINEL, Scope, request};

const INSIDE: &str = "10.96.0.42";
const OUTSIDE: &str = "203.0.113.10";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Each entry as `value routability`, either of them `-`.
fn plan(entries: &[&str], file_mode: bool) -> AddressPlan {
    let entry = |text: &&str| {
        let [value, routability] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let word = |word: &str| (word != "-").then(|| word.into());
        GatewaySpecAddress { value: word(value), routability: word(routability), ..GatewaySpecAddress::default() }
    };
    let entries = entries.iter().map(entry).enumerate();
    let entries: Vec<_> = entries.map(|(index, entry)| request(index, &entry, file_mode)).collect();
    AddressPlan { numbers: (0..entries.len()).collect(), entries, file_mode }
}

fn facts(outside: &[&str], inside: &[&str]) -> ProxyFacts {
    ProxyFacts {
        addresses: outside.iter().map(|address| SocketAddr::new(ip(address), 80)).collect(),
        cluster_addresses: inside.iter().map(|address| ip(address)).collect(),
        ..ProxyFacts::default()
    }
}

/// Given addresses, and what lacks with its reason.
fn assigned(plan: &AddressPlan, facts: &ProxyFacts) -> (Vec<String>, Vec<String>) {
    let Assignment { given, lacking } = plan.assign(Some(facts)).unwrap();
    let lack = |(index, refusal): &(usize, crate::listener::Refusal)| format!("{index} {}", refusal.reason);
    let given = given.iter().map(|(address, routability)| format!("{address} {routability}").trim().to_owned());
    (given.collect(), lacking.iter().map(lack).collect())
}

#[test]
fn each_entry_gets_what_it_asks_for_or_nothing() {
    let both = facts(&[OUTSIDE], &[INSIDE]);
    let cluster = format!("{INSIDE} Cluster");
    for entries in [["- -", "- Cluster"], ["- Cluster", "- -"]] {
        assert_eq!(assigned(&plan(&entries, false), &both), (vec![cluster.clone(), OUTSIDE.to_owned()], vec![]));
    }
    let only = |entry: &str| assigned(&plan(&[entry], false), &both);
    assert_eq!(only("- Cluster"), (vec![cluster.clone()], vec![]));
    assert_eq!(only(&format!("{INSIDE} Cluster")), (vec![cluster.clone()], vec![]));
    assert_eq!(only(&format!("- {SENTINEL}")), (vec![format!("{OUTSIDE} {SENTINEL}")], vec![]));
    assert_eq!(
        only(&format!("{INSIDE} -")),
        (vec![cluster], vec![]),
        "an entry without a wish may be reached in the cluster"
    );
    assert_eq!(only(&format!("{OUTSIDE} Cluster")), (vec![], vec!["0 AddressNotAssigned".to_owned()]));
    assert_eq!(only("192.0.2.1 -"), (vec![], vec!["0 AddressNotUsable".to_owned()]));
    for odd in ["- example.com/Wan", "- testing.x-k8s.io/other"] {
        assert_eq!(only(odd), (vec![], vec!["0 AddressNotAssigned".to_owned()]), "{odd}");
    }
    let second = assigned(&plan(&["- -", "- -", "- Cluster", "- Cluster"], false), &both).1;
    assert_eq!(second, ["1 AddressNotAssigned", "3 AddressNotAssigned"]);
}

#[test]
fn a_service_of_the_cluster_only_is_where_everybody_comes() {
    let inside = facts(&[INSIDE], &[INSIDE]);
    let cluster = vec![format!("{INSIDE} Cluster")];
    assert_eq!(assigned(&plan(&[], false), &inside), (cluster.clone(), vec![]));
    assert_eq!(assigned(&plan(&["- -"], false), &inside), (cluster.clone(), vec![]));
    assert_eq!(
        assigned(&plan(&["- -", "- Cluster"], false), &inside),
        (cluster, vec!["0 AddressNotAssigned".to_owned()])
    );
}

#[test]
fn nothing_is_told_before_something_is_known_but_what_objects_say() {
    let nothing = ProxyFacts::default();
    assert_eq!(plan(&["- -"], false).assign(Some(&nothing)), None);
    assert_eq!(plan(&["- -", "x -"], false).assign(None), None);
    assert_eq!(plan(&["- -", "x -"], false).fault(None).unwrap().reason, "AddressNotUsable");
    assert_eq!(plan(&["- -", "- example.com/Wan"], false).fault(None), None);
    let void = plan(&["x -", "- example.com/Wan"], false);
    assert!(void.is_void());
    let fault = void.fault(None).unwrap();
    assert_eq!(fault.reason, "AddressNotAssigned");
    assert!(fault.text.contains("spec.addresses[0]: ") && fault.text.contains("spec.addresses[1]: "), "{fault:?}");
}

#[test]
fn of_several_values_a_service_tries_one_and_files_all() {
    let neither = ProxyFacts { unassigned: Some("none yet".into()), ..ProxyFacts::default() };
    let reason = |entries: &[&str], file_mode| plan(entries, file_mode).fault(Some(&neither)).unwrap().reason;
    let both = ["192.0.2.1 -", "192.0.2.2 -"];
    assert_eq!((reason(&both, false), reason(&both, true)), ("AddressNotUsable", "AddressNotAssigned"));
    assert_eq!(reason(&both[..1], false), "AddressNotAssigned");
}

#[test]
fn files_have_no_service() {
    let cluster = plan(&["- Cluster"], true);
    assert!(cluster.is_void() && !cluster.is_inside_only());
    assert!(plan(&["- Cluster"], false).is_inside_only());
    assert!(plan(&["- Cluster", "- example.com/Wan"], false).is_inside_only(), "no other scope takes its place");
    assert!(!plan(&["- Cluster", "- -"], false).is_inside_only() && !plan(&[], false).is_inside_only());
    assert_eq!(plan(&["127.0.0.2 -", "- Cluster"], true).bound(), [ip("127.0.0.2")]);
    assert_eq!(plan(&["127.0.0.2 -", "- -"], true).bound(), Vec::<IpAddr>::new());
    assert_eq!(plan(&["127.0.0.2 -", "0.0.0.0 -"], true).asked(), [ip("127.0.0.2"), ip("0.0.0.0")]);
    assert_eq!(plan(&["127.0.0.2 -", "- -"], false).asked(), [ip("127.0.0.2")]);
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![Just(Scope::Any), Just(Scope::Cluster), Just(Scope::Sentinel)]
}

fn address() -> impl Strategy<Value = IpAddr> {
    (1_u8..6).prop_map(|last| IpAddr::from([10, 0, 0, last]))
}

/// Whether an address is an answer to an entry, in the words of the API.
fn matches(request: Request, (address, routability): Given) -> bool {
    let value = request.value.is_none_or(|value| value == address);
    value
        && match request.scope {
            Scope::Cluster => routability == CLUSTER,
            Scope::Sentinel => routability == SENTINEL,
            Scope::Any => ["", CLUSTER].contains(&routability),
        }
}

/// The most entries that can be satisfied at once.
fn most(requests: &[Request], facts: &ProxyFacts, taken: &mut Vec<IpAddr>) -> usize {
    let Some((first, rest)) = requests.split_first() else { return 0 };
    let outside: Vec<IpAddr> = facts.addresses.iter().map(SocketAddr::ip).collect();
    let mut best = most(rest, facts, taken);
    for address in outside.iter().chain(&facts.cluster_addresses) {
        let inside = facts.cluster_addresses.contains(address);
        let fits = match first.scope {
            Scope::Cluster => inside,
            Scope::Sentinel => outside.contains(address),
            Scope::Any => outside.contains(address) || first.value.is_some(),
        };
        if fits && first.value.is_none_or(|value| value == *address) && !taken.contains(address) {
            taken.push(*address);
            best = best.max(1 + most(rest, facts, taken));
            taken.pop();
        }
    }
    best
}

proptest! {
    #[test]
    fn as_many_entries_as_can_be_are_satisfied_each_by_an_address_of_its_own(
        requests in prop::collection::vec((prop::option::of(address()), scope()), 1..5),
        outside in prop::collection::btree_set(address(), 0..4),
        inside in prop::collection::btree_set(address(), 0..3),
        same in any::<bool>(),
    ) {
        let inside = if same { outside.clone() } else { &inside - &outside };
        let facts = ProxyFacts {
            addresses: outside.iter().map(|address| SocketAddr::new(*address, 80)).collect(),
            cluster_addresses: inside.into_iter().collect(),
            unassigned: Some("none yet".into()),
            ..ProxyFacts::default()
        };
        let requests: Vec<Request> = requests.into_iter().map(|(value, scope)| Request { value, scope }).collect();
        let plan = AddressPlan { entries: requests.iter().copied().map(Ok).collect(), numbers: Vec::new(), file_mode: true };
        let Assignment { given, lacking } = plan.assign(Some(&facts)).unwrap();
        prop_assert_eq!(given.len() + lacking.len(), requests.len());
        prop_assert_eq!(given.len(), most(&requests, &facts, &mut Vec::new()));
        let mut addresses: Vec<IpAddr> = given.iter().map(|(address, _)| *address).collect();
        addresses.dedup();
        prop_assert_eq!(addresses.len(), given.len());
        let satisfied = |index: usize| lacking.iter().all(|(lacks, _)| *lacks != index);
        for found in &given {
            let mut requests = requests.iter().enumerate();
            prop_assert!(requests.any(|(index, request)| satisfied(index) && matches(*request, *found)), "{found:?}");
        }
    }
}
