//! Service and `ServiceImport`: their ports as backends.

use std::sync::Arc;

use api::service::{ServicePort, ServiceType};
use api::{FieldPath, ObjectKey, Problem, Service, ServiceImport, Severity};
use ir::EndpointSource;
use ir::cluster::{DnsEndpoint, Protocol};

use super::own::{OwnPlaces, Refused};
use super::{BackendView, Encryption, RESOLVED, Reading};
use crate::hostname::Hostname;
use crate::key::{BackendKey, Transport};
use crate::reference::{RefFault, RefReason};

/// One row per port number and transport.
pub(crate) fn read(
    key: &ObjectKey,
    service: &Service,
    external_names: bool,
    own: &OwnPlaces,
) -> Vec<(BackendKey, Reading)> {
    let is_external = service.spec.service_type == ServiceType::ExternalName;
    let external = is_external.then(|| service.spec.external_name.as_deref().unwrap_or_default());
    let external = external.map(|name| External { name, allowed: external_names, own });
    let mut rows = read_ports(key, &service.spec.ports, external);
    rows.iter_mut().for_each(|(_, reading)| reading.is_choosy = service.spec.chooses());
    rows
}

/// The same of a Service of several clusters.
pub(crate) fn read_import(key: &ObjectKey, import: &ServiceImport) -> Vec<(BackendKey, Reading)> {
    read_ports(key, &import.spec.ports, None)
}

/// A name that stands for the endpoints.
#[derive(Clone, Copy)]
struct External<'a> {
    name: &'a str,
    allowed: bool,
    own: &'a OwnPlaces,
}

fn read_ports(key: &ObjectKey, ports: &[ServicePort], external: Option<External<'_>>) -> Vec<(BackendKey, Reading)> {
    let mut found: Vec<(BackendKey, Reading)> = Vec::with_capacity(ports.len());
    for (index, port) in ports.iter().enumerate() {
        let Some(transport) = [Transport::Tcp, Transport::Udp].into_iter().find(|it| it.word() == port.protocol) else {
            continue;
        };
        let backend = BackendKey { object: key.clone(), port: port.port, transport };
        if found.iter().all(|(other, _)| *other != backend) {
            let reading = read_port(&backend, (index, port), external);
            found.push((backend, reading));
        }
    }
    found
}

fn read_port(backend: &BackendKey, (index, port): (usize, &ServicePort), external: Option<External<'_>>) -> Reading {
    let not_found = |text: String| Reading::bad(RefFault { reason: RefReason::NotFound, text: text.into() });
    let endpoints = if let Some(External { name, allowed, own }) = external {
        let host = name.trim_end_matches('.');
        if !allowed {
            let text = format!("{} is of type ExternalName, which is not allowed here", backend.object);
            return Reading::bad(RefFault { reason: RefReason::NotPermitted, text: text.into() });
        }
        if Hostname::parse(host).is_none() || host.starts_with('*') {
            return not_found(format!("externalName {host:?} of {} is not a host name", backend.object));
        }
        if let Some(Refused { words, .. }) = own.refuses_host(host, port.port, allowed) {
            return not_found(format!("externalName of {}: {words}", backend.object));
        }
        EndpointSource::Dns(vec![DnsEndpoint { host: host.into(), port: port.port, zone: None }])
    } else {
        EndpointSource::Discovered(backend.endpoint_set())
    };
    let app_protocol = port.app_protocol.as_deref().filter(|_| backend.transport == Transport::Tcp);
    let (protocol, encryption) = speaks(app_protocol);
    let no_datagrams = endpoints.set().is_none().then_some(RESOLVED);
    let mut reading = Reading::good(BackendView {
        endpoints,
        no_datagrams,
        port_name: port.name.as_deref().unwrap_or_default().into(),
        protocol,
        encryption,
        session: None,
    });
    if reading.view.as_ref().is_ok_and(|view| view.encryption.is_tls()) {
        let text = "TLS to the endpoints of this port is not verified: nothing says which certificate to believe";
        let path = FieldPath::from(format!("spec.ports[{index}].appProtocol"));
        reading.problems = [Arc::new(Problem::of(&backend.object, path, Severity::Warning, text))].into();
    }
    reading
}

/// `appProtocol` (Kubernetes KEP-3726). Other words say nothing that we need, `https` included: TLS towards a Service is a matter
/// of policies.
fn speaks(app_protocol: Option<&str>) -> (Protocol, Encryption) {
    match app_protocol {
        Some("kubernetes.io/h2c") => (Protocol::Http2, Encryption::Cleartext),
        Some("kubernetes.io/wss") => (Protocol::Http1, Encryption::unverified()),
        _ => (Protocol::Http1, Encryption::Cleartext),
    }
}
