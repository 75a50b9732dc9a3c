//! Which proxy is meant, and what is shown of what it says.

use serde_json::{Value, json};

use super::dump::{Kind, names, summary, table};
use super::{Proxy, find, proxies};
use crate::cli::columns::Screen;

fn all(names: &[(&str, &str)]) -> Vec<Proxy> {
    let proxy = |(name, gateway): &(&str, &str)| json!({ "name": name, "gateway": gateway, "address": "10.0.0.1", "program": "envoy", "version": "1.40.0", "accepted": 4, "pending": 0, "refused": 0, "refusals": [] });
    proxies(&names.iter().map(proxy).collect::<Vec<_>>()).unwrap()
}

fn found(proxies: &[Proxy], word: &str) -> Result<String, String> {
    find(proxies, word).map(|proxy| proxy.name.clone()).map_err(|error| error.to_string())
}

#[test]
fn a_proxy_is_named_as_people_name_pods() {
    let proxies = all(&[("shop/edge-1", "shop/edge"), ("shop/inner-1", "shop/inner"), ("blog/edge-1", "blog/edge")]);
    for word in ["shop/edge-1", "edge-1.shop", "gateway/shop/edge", "gateway/edge.shop"] {
        assert_eq!(found(&proxies, word).as_deref(), Ok("shop/edge-1"), "{word}");
    }
    for word in ["inner-1", "gateway/inner"] {
        assert_eq!(found(&proxies, word).as_deref(), Ok("shop/inner-1"), "{word}");
    }
    for word in ["edge-1", "gateway/edge"] {
        assert_eq!(found(&proxies, word), Err(format!("{word} may be each of shop/edge-1, blog/edge-1: say which")));
    }
    for word in ["edge", "edge-1.other", "shop", "gateway/shop", ""] {
        let none = format!("no proxy {word} is connected; there are shop/edge-1, shop/inner-1, blog/edge-1");
        assert_eq!(found(&proxies, word), Err(none));
    }
    assert_eq!(found(&[], "edge"), Err("no proxy is connected: `chancery status` says why".to_owned()));
}

#[test]
fn the_proxy_of_a_workload_is_named_by_it() {
    let proxies = all(&[("web-1.team", "workload/team/web-1"), ("far", "workload/team/web-2")]);
    for (word, name) in [
        ("web-1", "web-1.team"),
        ("team/web-1", "web-1.team"),
        ("workload/team/web-1", "web-1.team"),
        ("gateway/workload/team/web-1", "web-1.team"),
        ("web-2", "far"),
        ("web-2.team", "far"),
        ("far", "far"),
    ] {
        assert_eq!(found(&proxies, word).as_deref(), Ok(name), "{word}");
    }
}

#[test]
fn one_that_changes_replicas_is_one() {
    assert_eq!(found(&all(&[("shop/edge-1", "shop/edge"); 2]), "edge-1").as_deref(), Ok("shop/edge-1"));
}

/// What Envoy says, shortened.
fn dump() -> Value {
    let kind = |name: &str| format!("type.googleapis.com/envoy.admin.v3.{name}");
    let listener = |port: u16| json!({ "name": "l", "address": { "socket_address": { "address": "::", "port_value": port } }, "filter_chains": [{}, {}] });
    json!({ "configs": [
        { "@type": kind("ListenersConfigDump"), "dynamic_listeners": [{
            "name": "l",
            "active_state": { "version_info": "1", "listener": listener(80), "last_updated": "then" },
            "error_state": { "failed_configuration": listener(81), "details": "no\nway" },
        }] },
        { "@type": kind("EndpointsConfigDump"), "dynamic_endpoint_configs": [{ "endpoint_config": {
            "cluster_name": "c",
            "endpoints": [{ "locality": { "zone": "a" }, "priority": 1, "lb_endpoints": [
                { "endpoint": { "address": { "socket_address": { "address": "10.0.0.1", "port_value": 8080 } } }, "health_status": "HEALTHY" },
            ] }],
        } }, { "endpoint_config": { "cluster_name": "empty" } }] },
        { "@type": kind("ScopedRoutesConfigDump") },
        { "@type": kind("RoutesConfigDump"), "static_route_configs": [{ "route_config": { "name": "r", "virtual_hosts": [
            { "name": "h", "domains": ["a", "b"], "routes": [{}, {}] },
        ] } }] },
        { "@type": kind("SecretsConfigDump"), "dynamic_warming_secrets": [{ "name": "s", "secret": {} }] },
        { "@type": kind("ClustersConfigDump"), "static_clusters": [{ "cluster": { "name": "own", "type": "STATIC" } }] },
    ] })
}

fn shown(dump: &Value, of: Kind, wide: bool) -> String {
    table(dump, of, wide, Screen::default())
}

#[test]
fn what_an_envoy_says_is_shown_in_columns() {
    assert_eq!(
        shown(&dump(), Kind::Listeners, true),
        "NAME  STATE            ADDRESS  CHAINS  VERSION  UPDATED\n\
         l     active           [::]:80  2       1        then\n\
         l     refused: no way  [::]:81  2\n"
    );
    assert_eq!(
        shown(&dump(), Kind::Endpoints, false),
        "NAME   STATE   ADDRESS        HEALTH   ZONE  PRIORITY\n\
         c      active  10.0.0.1:8080  HEALTHY  a     1\n\
         empty  active  -              -        -     -\n"
    );
    assert_eq!(shown(&dump(), Kind::Secrets, false), "NAME  STATE    HOLDS\ns     warming  -\n");
    assert_eq!(shown(&dump(), Kind::Clusters, false), "NAME  STATE   TYPE\nown   static  STATIC\n");
    assert_eq!(shown(&Value::Null, Kind::Secrets, false), "no secrets\n");
    assert_eq!(names(&dump(), Some(Kind::Endpoints)), "c\nempty\n");
    assert_eq!(names(&dump(), None), "listeners/l\nroutes/r\nclusters/own\nendpoints/c\nendpoints/empty\nsecrets/s\n");
    assert_eq!(
        summary(&dump()),
        "KIND       ACTIVE  WARMING  REFUSED  STATIC\n\
         listeners  1       0        1        0\n\
         routes     0       0        0        1\n\
         clusters   0       0        0        1\n\
         endpoints  2       0        0        0\n\
         secrets    0       1        0        0\n"
    );
}
