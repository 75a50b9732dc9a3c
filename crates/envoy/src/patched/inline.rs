//! Patched resources in a whole configuration in one file.

use std::collections::BTreeMap;

use ir::RawName;
use serde_json::Value as Json;

use crate::raw::inline::{LISTENER, is_ours, text, with_endpoints, with_routes};
use crate::raw::{CLUSTER, ENDPOINTS, ROUTE_CONFIGURATION};

const VIRTUAL_HOST: &str = "envoy.config.route.v3.VirtualHost";

/// Puts patched resources, in their JSON form, in the place of those that a whole configuration has without ([`crate::static_bootstrap_json`]), and adds
/// those that are there by a patch alone. Route configurations come into the listeners that name them, endpoints into their clusters.
pub fn patched_bootstrap(mut bootstrap: Json, patched: &BTreeMap<RawName, Json>) -> Json {
    let Some(resources) = bootstrap.get_mut("staticResources") else { return bootstrap };
    let mut known = Known::default();
    known.collect(resources);
    known.patch(patched);
    for (field, message) in [("listeners", LISTENER), ("clusters", CLUSTER)] {
        let mut list = match resources.get_mut(field).map(Json::take) {
            Some(Json::Array(list)) => list,
            _ => Vec::new(),
        };
        let of_message = patched.iter().filter(|(id, _)| id.message == message);
        for (id, json) in of_message {
            match list.iter_mut().find(|one| text(one, "name") == Some(&id.name)) {
                Some(one) => *one = without_sources(json.clone()),
                None => list.push(without_sources(json.clone())),
            }
        }
        let put = |one| if message == LISTENER { known.in_listener(one) } else { known.in_cluster(one) };
        let list: Vec<Json> = list.into_iter().map(put).collect();
        if let (Json::Object(fields), false) = (&mut *resources, list.is_empty()) {
            fields.insert(field.to_owned(), list.into());
        }
    }
    bootstrap
}

/// What stands inside others, by name.
#[derive(Default)]
struct Known {
    routes: BTreeMap<String, Json>,
    endpoints: BTreeMap<String, Json>,
}

impl Known {
    /// What is there without patches.
    fn collect(&mut self, value: &Json) {
        match value {
            Json::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Json::Object(fields) => {
                for (field, inner) in fields {
                    let (into, name) = match &**field {
                        "routeConfig" => (&mut self.routes, "name"),
                        "loadAssignment" => (&mut self.endpoints, "clusterName"),
                        _ => {
                            self.collect(inner);
                            continue;
                        }
                    };
                    into.insert(text(inner, name).unwrap_or_default().to_owned(), inner.clone());
                }
            }
            _ => {}
        }
    }

    fn patch(&mut self, patched: &BTreeMap<RawName, Json>) {
        for (id, json) in patched {
            match id.message {
                ROUTE_CONFIGURATION => {
                    drop(self.routes.insert(id.name.to_string(), self.whole(&id.name, json.clone())))
                }
                ENDPOINTS => drop(self.endpoints.insert(id.name.to_string(), json.clone())),
                VIRTUAL_HOST => self.host(&id.name, json),
                _ => {}
            }
        }
    }

    /// A route configuration whose hosts come one by one, with those that it has without patches.
    fn whole(&self, name: &str, mut json: Json) -> Json {
        let hosts = self.routes.get(name).and_then(|routes| routes.get("virtualHosts")).cloned();
        if let (Json::Object(fields), Some(hosts)) = (&mut json, hosts)
            && fields.shift_remove("vhds").is_some()
        {
            fields.insert("virtualHosts".to_owned(), hosts);
        }
        json
    }

    fn host(&mut self, name: &str, json: &Json) {
        let hosts = self.routes.values_mut().filter_map(|routes| routes.get_mut("virtualHosts")?.as_array_mut());
        let host = hosts.flatten().find(|host| text(host, "name") == Some(name));
        if let Some(host) = host {
            *host = json.clone();
        }
    }

    fn in_listener(&self, listener: Json) -> Json {
        let listener = with_routes(listener, &|name: &str| self.routes.get(name).cloned());
        self.anew(listener)
    }

    /// What is inside already, as it is now.
    fn anew(&self, value: Json) -> Json {
        match value {
            Json::Array(items) => items.into_iter().map(|item| self.anew(item)).collect(),
            Json::Object(fields) => {
                let put = |(field, inner): (String, Json)| {
                    let named = text(&inner, "name").filter(|_| field == "routeConfig");
                    match named.and_then(|name| self.routes.get(name)) {
                        Some(routes) => (field, routes.clone()),
                        None => {
                            let inner = self.anew(inner);
                            (field, inner)
                        }
                    }
                };
                Json::Object(fields.into_iter().map(put).collect())
            }
            other => other,
        }
    }

    fn in_cluster(&self, cluster: Json) -> Json {
        let mut cluster = with_endpoints(cluster, |name| self.endpoints.get(name).cloned());
        if let Some(inside) = cluster.get_mut("loadAssignment")
            && let Some(endpoints) = text(inside, "clusterName").and_then(|name| self.endpoints.get(name))
        {
            *inside = endpoints.clone();
        }
        cluster
    }
}

/// Secrets stand in the configuration itself, by name.
fn without_sources(value: Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(without_sources).collect(),
        Json::Object(fields) => {
            let kept = fields.into_iter().filter(|(field, inner)| field != "sdsConfig" || !is_ours(inner));
            Json::Object(kept.map(|(field, inner)| (field, without_sources(inner))).collect())
        }
        other => other,
    }
}
