//! Addresses for Services of type LoadBalancer, from a pool that only the lab knows. kube-proxy does the rest.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::Context;
use super::pool::Pool;

/// The pool.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const LAST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 255);

/// The annotation that asks for an address, as `spec.loadBalancerIP` does.
const ADDRESS: &str = "lab.chancery.io/load-balancer-ip";

/// How long after a failed write it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Which Service has which address.
struct Assigned {
    pool: Pool,
    of: BTreeMap<(String, String), Ipv4Addr>,
}

/// Gives and takes back, for ever.
pub(crate) async fn assign(context: Arc<Context>) {
    let mut changed = context.world.addresses();
    context.world.listed().await;
    let mut assigned = Assigned { pool: Pool::new(FIRST, LAST), of: BTreeMap::new() };
    loop {
        let services = context.world.services.state();
        assigned.release(&services);
        let mut failed = false;
        for service in &services {
            let Some(status) = assigned.status(service) else { continue };
            let namespace = service.namespace().unwrap_or_default();
            let api: Api<Service> = Api::namespaced(context.client.clone(), &namespace);
            let patch = Patch::Merge(json!({ "status": { "loadBalancer": status } }));
            if let Err(error) = api.patch_status(&service.name_any(), &PatchParams::default(), &patch).await {
                tracing::info!("address of Service {namespace}/{}: {error}", service.name_any());
                failed = true;
            }
        }
        tokio::select! {
            ended = changed.changed() => if ended.is_err() { return },
            () = tokio::time::sleep(AGAIN), if failed => {}
        }
    }
}

impl Assigned {
    /// Takes back what nobody wants any more.
    fn release(&mut self, services: &[Arc<Service>]) {
        let wanting: BTreeMap<_, _> =
            services.iter().filter(|service| is_ours(service)).map(|service| (key(service), service)).collect();
        let pool = &mut self.pool;
        self.of.retain(|key, address| {
            let keeps =
                wanting.get(key).is_some_and(|service| asked(service).is_none_or(|asked| asked == Ok(*address)));
            if !keeps {
                pool.release(*address);
            }
            keeps
        });
    }

    /// The status that a Service has to get, if it has another one.
    fn status(&mut self, service: &Service) -> Option<serde_json::Value> {
        let now = ingress(service);
        if !is_ours(service) {
            let ours = now.is_some_and(|address| (FIRST..=LAST).contains(&address));
            let is_balancer = kind(service) == Some("LoadBalancer");
            return (ours && !is_balancer).then(|| json!({ "ingress": null }));
        }
        let address = self.address(service);
        match address {
            Some(address) if now != Some(address) => Some(json!({ "ingress": [{ "ip": address, "ipMode": "VIP" }] })),
            None if now.is_some() => Some(json!({ "ingress": null })),
            _ => None,
        }
    }

    /// What it has, or gets now. None if it asks for one that cannot be had: it waits.
    fn address(&mut self, service: &Service) -> Option<Ipv4Addr> {
        if let Some(address) = self.of.get(&key(service)) {
            return Some(*address);
        }
        let address = match asked(service) {
            None => self.pool.take()?,
            Some(asked) => asked.ok().filter(|asked| self.pool.take_this(*asked))?,
        };
        self.of.insert(key(service), address);
        Some(address)
    }
}

fn key(service: &Service) -> (String, String) {
    (service.namespace().unwrap_or_default(), service.name_any())
}

fn kind(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.type_.as_deref()
}

/// Of the type, and of no class: that of another is not ours.
fn is_ours(service: &Service) -> bool {
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    kind(service) == Some("LoadBalancer") && class.is_none() && service.metadata.deletion_timestamp.is_none()
}

/// The address that it asks for; what is no IPv4 address cannot be had.
fn asked(service: &Service) -> Option<Result<Ipv4Addr, ()>> {
    let field = service.spec.as_ref().and_then(|spec| spec.load_balancer_ip.as_deref()).filter(|text| !text.is_empty());
    let asked = field.or_else(|| service.annotations().get(ADDRESS).map(String::as_str))?;
    Some(asked.parse().map_err(|_| ()))
}

/// The address that it has.
fn ingress(service: &Service) -> Option<Ipv4Addr> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?;
    ingress.first()?.ip.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
