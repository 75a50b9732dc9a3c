//! Eight of everything with a real Envoy 1.40, one of which is refused, kind by kind: the other seven are taken, and versions are true
//! after the server has been restarted (R11).

use std::net::SocketAddr;

use proto::envoy::config::cluster::v3::Cluster;
use proto::envoy::config::core::v3::{HeaderValue, HeaderValueOption, address, socket_address};
use proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, lb_endpoint};
use proto::envoy::config::listener::v3::{Listener, filter};
use proto::envoy::config::route::v3::RouteConfiguration;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use proto::google::protobuf::Any;

use super::authority::{Authority, Pair};
use super::proxy::{Backend, Loop, free_address, get, shown};
use super::resources::tls::{certificate, tls_listener};
use super::resources::{altered, bad_routes_of, cluster, endpoints, routes_of};
use super::stage::{SOON, Stage, over};
use crate::{Change, Event, Need, Resource, TypeUrl};

over!(ads: [seven_of_eight_are_taken_of_each_kind_and_versions_are_true_after_a_restart,]);

/// The one that is refused.
const BAD: usize = 3;

const KINDS: [TypeUrl; 5] = [TypeUrl::Cluster, TypeUrl::Endpoints, TypeUrl::Listener, TypeUrl::Route, TypeUrl::Secret];

/// Number of each kind, 0 to 7: a listener over TLS with a secret, its routes, their cluster, its endpoints.
struct Eight {
    stage: Stage,
    authority: Authority,
    pairs: [Pair; 3],
    backends: [Backend; 3],
    ports: [SocketAddr; 8],
}

/// The listener asks for these routes; perhaps it lacks what Envoy insists on.
fn alter_manager(listener: &mut Listener, routes: &str, bad: bool) {
    let Some(filter::ConfigType::TypedConfig(any)) = &mut listener.filter_chains[0].filters[0].config_type else {
        return;
    };
    let mut manager: HttpConnectionManager = prost::Message::decode(&*any.value).unwrap();
    if let Some(RouteSpecifier::Rds(rds)) = &mut manager.route_specifier {
        routes.clone_into(&mut rds.route_config_name);
    }
    if bad {
        manager.stat_prefix.clear();
    }
    *any = Any::pack(&manager);
}

impl Eight {
    fn new() -> Self {
        let authority = Authority::new("one");
        let pairs = std::array::from_fn(|_| authority.issue("server"));
        let backends = ["0", "1", "2"].map(Backend::start);
        let stage = Stage::new(vec![super::resources::routes(1, "a")]);
        Self { stage, authority, pairs, backends, ports: std::array::from_fn(|_| free_address()) }
    }

    /// One of a kind at this version, 0 to 2; perhaps such that Envoy refuses it.
    fn one(&self, kind: &TypeUrl, number: usize, version: usize, bad: bool) -> Change {
        let (name, at) = (format!("n{number}"), version as u128 + 1);
        match kind {
            TypeUrl::Cluster => altered(cluster(&name, at), |_: &mut Resource, cluster: &mut Cluster| {
                if bad {
                    cluster.connect_timeout = Some(prost_types::Duration::default());
                }
            }),
            TypeUrl::Endpoints => altered(
                endpoints(&name, at, self.backends[version].address),
                |_: &mut Resource, set: &mut ClusterLoadAssignment| {
                    let endpoint = &mut set.endpoints[0].lb_endpoints[0].host_identifier;
                    if let (true, Some(lb_endpoint::HostIdentifier::Endpoint(endpoint))) = (bad, endpoint)
                        && let Some(address::Address::SocketAddress(socket)) =
                            endpoint.address.as_mut().and_then(|address| address.address.as_mut())
                    {
                        socket.port_specifier = Some(socket_address::PortSpecifier::PortValue(70_000));
                    }
                },
            ),
            TypeUrl::Listener => altered(
                tls_listener(&name, at, &name, self.ports[number]),
                |resource: &mut Resource, listener: &mut Listener| {
                    let parts = [TypeUrl::Route, TypeUrl::Secret].map(|kind| Need::new(kind, &*name));
                    resource.needs = [parts.into()].into();
                    alter_manager(listener, &name, bad);
                },
            ),
            TypeUrl::Route if bad => bad_routes_of(&name, at),
            TypeUrl::Route => {
                altered(routes_of(&name, at, &name), |_: &mut Resource, routes: &mut RouteConfiguration| {
                    let (key, value) = ("routes".into(), version.to_string());
                    let header = Some(HeaderValue { key, value, ..HeaderValue::default() });
                    routes.response_headers_to_add = vec![HeaderValueOption { header, ..HeaderValueOption::default() }];
                })
            }
            _ => {
                let Pair { certificate: shown, mut key } = self.pairs[version].clone();
                if bad {
                    key.clone_from(&self.pairs[0].key);
                }
                certificate(&name, at, &Pair { certificate: shown, key })
            }
        }
    }

    /// All of each kind, of the version that each has.
    fn all(&self, version: impl Fn(usize) -> usize + Copy, bad: bool) -> Vec<Change> {
        let one = |kind, number| self.one(kind, number, version(number), bad && number == BAD);
        KINDS.iter().flat_map(|kind| (0..8).map(move |number| one(kind, number))).collect()
    }

    /// The versions in use by number `number`, in the order of [`KINDS`], as requests show them.
    fn versions(&self, number: usize) -> Option<[usize; 5]> {
        let (answer, certificate) = self.authority.get(self.ports[number], "any").ok()?;
        let header = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)?.parse::<usize>().ok());
        let dump = self.stage.envoy.admin("/config_dump?resource=dynamic_active_clusters");
        let named = format!("n{number}\"");
        let cluster = dump.split("\"name\": \"").find(|part| part.starts_with(&named))?;
        let timeout = cluster.split("\"connect_timeout\": \"2.00000000").nth(1)?.split('s').next()?;
        Some([
            timeout.parse::<usize>().ok()? - 1,
            shown(&answer).strip_prefix("200 ")?.parse().ok()?,
            header("server: ")? - 1,
            header("routes: ")?,
            self.pairs.iter().position(|pair| pair.is(&certificate))?,
        ])
    }

    fn wait_for(&self, number: usize, versions: [usize; 5]) {
        let start = std::time::Instant::now();
        while self.versions(number) != Some(versions) {
            let seen = self.versions(number);
            assert!(start.elapsed() < SOON, "number {number}: waited for {versions:?}, is {seen:?}");
        }
    }

    fn wait_for_refusals(&self, kinds: &[TypeUrl]) {
        for kind in kinds {
            let name = format!("n{BAD}");
            let is_it = |event: &Event| matches!(event, Event::Refused { type_url, name: refused, .. } if type_url == kind && **refused == *name);
            self.stage.wait(&format!("{kind:?} to be refused"), is_it);
        }
        let refused = |event: &Event| matches!(event, Event::Refused { name, .. } if **name != *format!("n{BAD}"));
        assert!(!self.stage.events.lock().unwrap().iter().any(refused), "another was refused");
    }
}

fn seven_of_eight_are_taken_of_each_kind_and_versions_are_true_after_a_restart() {
    let mut eight = Eight::new();
    eight.stage.publish(eight.all(|_| 0, false));
    (0..8).for_each(|number| eight.wait_for(number, [0; 5]));
    let requests = Loop::start(eight.stage.at, "any");
    let mut versions = [0; 5];
    for (index, kind) in KINDS.iter().enumerate() {
        versions[index] = 1;
        eight.stage.publish((0..8).map(|number| eight.one(kind, number, 1, number == BAD)).collect());
        (0..8).filter(|number| *number != BAD).for_each(|number| eight.wait_for(number, versions));
        eight.wait_for(BAD, [0; 5]);
    }
    eight.wait_for_refusals(&KINDS);
    eight.stage.restart();
    // the next server begins with what was taken, as it does from what was saved: that is what Envoy says that it has
    let taken = |number| usize::from(number != BAD);
    let mut all = eight.all(taken, false);
    all.extend(eight.stage.small(1));
    all.push(super::resources::routes(1, "a"));
    eight.stage.publish(all);
    eight.stage.wait("the fleet to be live", |event| matches!(event, Event::Live { .. }));
    (0..8).for_each(|number| eight.wait_for(number, [taken(number); 5]));
    eight.stage.publish(eight.all(|_| 1, true));
    // of a secret that it has refused Envoy says the second time that it has taken it
    eight.wait_for_refusals(&KINDS[..4]);
    (0..8).for_each(|number| eight.wait_for(number, [taken(number); 5]));
    eight.stage.publish(eight.all(|_| 2, false));
    (0..8).for_each(|number| eight.wait_for(number, [2; 5]));
    assert_eq!(get(eight.stage.at, "any"), "200 a");
    requests.lost_none();
    eight.stage.end();
}
