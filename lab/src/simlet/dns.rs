//! Names of Services, as a cluster's DNS gives them: `web.shop.svc.cluster.local`. Only addresses (A); there is nothing outside to ask.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{PodSpec, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::net::UdpSocket;

use super::Context;
use super::node::MANAGER;
use crate::network::NODE;

/// The address of the Service, as clusters have it.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// The name below which all are.
const DOMAIN: &str = "svc.cluster.local";

/// Answers are believed for so long, in seconds.
const LIFE: u32 = 5;

/// A question of one packet.
const PACKET: usize = 512;

/// Binds it on the node, and makes the Service that leads there.
pub(crate) async fn bind(client: &Client) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((NODE, 53)).await.context("binding the port of DNS")?;
    let ports = json!([{ "name": "dns", "port": 53, "protocol": "UDP" }]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "kube-dns" },
        "spec": { "clusterIP": ADDRESS, "ports": ports },
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "kube-dns", "labels": { "kubernetes.io/service-name": "kube-dns" } },
        "addressType": "IPv4", "ports": ports,
        "endpoints": [{ "addresses": [NODE], "conditions": { "ready": true } }],
    });
    let parameters = PatchParams::apply(MANAGER).force();
    let services: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    services.patch("kube-dns", &parameters, &Patch::Apply(&service)).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "kube-system");
    slices.patch("kube-dns", &parameters, &Patch::Apply(&slice)).await?;
    Ok(socket)
}

/// The `/etc/resolv.conf` of a pod.
pub(crate) fn resolv_conf(namespace: &str, spec: &PodSpec) -> String {
    let own = spec.dns_config.clone().unwrap_or_default();
    let cluster = !matches!(spec.dns_policy.as_deref(), Some("None" | "Default"));
    let mut servers: Vec<String> = cluster.then(|| ADDRESS.to_string()).into_iter().collect();
    servers.extend(own.nameservers.unwrap_or_default());
    let mut searches = match cluster {
        true => vec![format!("{namespace}.{DOMAIN}"), DOMAIN.to_owned(), "cluster.local".to_owned()],
        false => Vec::new(),
    };
    searches.extend(own.searches.unwrap_or_default());
    let mut text = String::new();
    if !searches.is_empty() {
        text += &format!("search {}\n", searches.join(" "));
    }
    for server in servers {
        text += &format!("nameserver {server}\n");
    }
    text + if cluster { "options ndots:5\n" } else { "" }
}

/// Answers, for ever.
pub(crate) async fn serve(context: Arc<Context>, socket: UdpSocket) {
    let mut packet = [0; PACKET];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut packet).await else { continue };
        let question = packet.get(..length).unwrap_or_default();
        let known = |name: &str| addresses(&context, name);
        if let Some(answer) = answer(question, known) {
            let _gone = socket.send_to(&answer, from).await;
        }
    }
}

/// The addresses of a name; None if there is no such Service.
fn addresses(context: &Context, name: &str) -> Option<Vec<Ipv4Addr>> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let mut parts = name.strip_suffix(DOMAIN)?.strip_suffix('.')?.rsplit('.');
    let (namespace, service) = (parts.next()?, parts.next()?);
    // a host of a headless Service
    let host = parts.next();
    let key = kube::runtime::reflector::ObjectRef::new(service).within(namespace);
    let found = context.world.services.get(&key)?;
    let spec = found.spec.as_ref()?;
    match spec.cluster_ip.as_deref() {
        Some("None") => {
            let slices = context.world.slices.state();
            let of = |slice: &&Arc<EndpointSlice>| {
                slice.namespace().as_deref() == Some(namespace)
                    && slice.labels().get("kubernetes.io/service-name").map(String::as_str) == Some(service)
            };
            let endpoints = slices.iter().filter(of).flat_map(|slice| slice.endpoints.iter().flatten());
            let wanted = endpoints.filter(|endpoint| {
                let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false);
                ready && host.is_none_or(|host| endpoint.hostname.as_deref() == Some(host))
            });
            Some(wanted.flat_map(|endpoint| &endpoint.addresses).filter_map(|address| address.parse().ok()).collect())
        }
        Some(address) if host.is_none() => Some(address.parse().into_iter().collect()),
        _ => None,
    }
}

/// The answer to a question (RFC 1035 4.1): the question again, and an address for each that is known.
fn answer(question: &[u8], known: impl Fn(&str) -> Option<Vec<Ipv4Addr>>) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    const A: u16 = 1;
    const NO_SUCH_NAME: u8 = 3;
    let (head, rest) = question.split_at_checked(HEADER)?;
    let mut name = String::new();
    let mut left = rest;
    loop {
        let (length, after) = left.split_first()?;
        let length = usize::from(*length);
        if length == 0 {
            left = after;
            break;
        }
        let (label, after) = after.split_at_checked(length).filter(|_| length < 64)?;
        name += &format!("{}.", String::from_utf8_lossy(label));
        left = after;
    }
    let (kind, after) = left.split_at_checked(2)?;
    let asked = rest.get(..rest.len() - after.len() + 2)?;
    let found = known(&name);
    let code = if found.is_some() { 0 } else { NO_SUCH_NAME };
    let is_address = u16::from_be_bytes(kind.try_into().ok()?) == A;
    let found: Vec<Ipv4Addr> = found.filter(|_| is_address).unwrap_or_default().into_iter().take(20).collect();
    let mut answer = Vec::with_capacity(PACKET);
    answer.extend(head.get(..2)?);
    // a response, authoritative; recursion as it was asked for, and said to be there
    answer.extend([0x84 | (head.get(2)? & 1), 0x80 | code, 0, 1]);
    answer.extend(u16::try_from(found.len()).ok()?.to_be_bytes());
    answer.extend([0; 4]);
    answer.extend(asked);
    for address in found {
        // the name of the question, its kind and class, the life, four bytes
        answer.extend([0xc0, 12, 0, 1, 0, 1]);
        answer.extend(LIFE.to_be_bytes());
        answer.extend([0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

#[cfg(test)]
mod tests;
