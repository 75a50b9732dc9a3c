//! What a probe or a hook does: a command, a request, a connection, a rest.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::runtime::Joint;
use crate::http::{self, Get};

/// Something to do with a container that runs.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Exec(Vec<String>),
    Http(Get),
    Tcp(SocketAddr),
    Grpc {
        address: SocketAddr,
        service: String,
    },
    Sleep(Duration),
    /// What cannot be done, and why.
    Wrong(String),
}

impl Action {
    pub(crate) fn of_probe(probe: &Probe, container: &Container, own: Ipv4Addr) -> Self {
        let port = |port: i32| u16::try_from(port).unwrap_or_default();
        match (&probe.exec, &probe.http_get, &probe.tcp_socket, &probe.grpc) {
            (Some(exec), ..) => Self::exec(exec),
            (_, Some(get), ..) => Self::http(get, container, own),
            (_, _, Some(tcp), _) => Self::tcp(tcp, container, own),
            (_, _, _, Some(grpc)) => {
                Self::Grpc { address: (own, port(grpc.port)).into(), service: grpc.service.clone().unwrap_or_default() }
            }
            _ => Self::Wrong("a probe that does nothing".to_owned()),
        }
    }

    pub(crate) fn of_hook(hook: &LifecycleHandler, container: &Container, own: Ipv4Addr) -> Self {
        match (&hook.exec, &hook.http_get, &hook.sleep, &hook.tcp_socket) {
            (Some(exec), ..) => Self::exec(exec),
            (_, Some(get), ..) => Self::http(get, container, own),
            (_, _, Some(sleep), _) => {
                Self::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default()))
            }
            (_, _, _, Some(tcp)) => Self::tcp(tcp, container, own),
            _ => Self::Wrong("a hook that does nothing".to_owned()),
        }
    }

    fn exec(action: &ExecAction) -> Self {
        Self::Exec(action.command.clone().unwrap_or_default())
    }

    fn http(action: &HTTPGetAction, container: &Container, own: Ipv4Addr) -> Self {
        let address = match address(action.host.as_deref(), &action.port, container, own) {
            Ok(address) => address,
            Err(why) => return Self::Wrong(why),
        };
        let mut headers: Vec<(String, String)> =
            action.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone())).collect();
        let host = headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("host"));
        let path = action.path.as_deref().unwrap_or("/");
        Self::Http(Get {
            tls: action.scheme.as_deref() == Some("HTTPS"),
            address,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            host: host.map(|host| headers.swap_remove(host).1),
            headers,
        })
    }

    fn tcp(action: &TCPSocketAction, container: &Container, own: Ipv4Addr) -> Self {
        address(action.host.as_deref(), &action.port, container, own).map_or_else(Self::Wrong, Self::Tcp)
    }
}

/// A port by its number or name, of the pod unless a host is given.
fn address(host: Option<&str>, port: &IntOrString, container: &Container, own: Ipv4Addr) -> Result<SocketAddr, String> {
    let ip = match host.filter(|host| !host.is_empty()) {
        Some(host) => host.parse().map_err(|_| format!("host {host} is no address"))?,
        None => own,
    };
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            named.map(|port| port.container_port).or_else(|| name.parse().ok())
        }
    };
    let number = number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| format!("no port {port:?}"))?;
    Ok((ip, number).into())
}

/// Does it. Whoever calls limits the time.
///
/// # Errors
/// With what is said of it when it fails.
pub(crate) async fn run(action: &Action, joint: &Joint) -> Result<(), String> {
    match action {
        Action::Exec(command) => match joint.run(command).await {
            Ok((0, _)) => Ok(()),
            Ok((code, said)) => Err(format!("command {command:?} exited with {code}: {said}")),
            Err(error) => Err(format!("command {command:?}: {error:#}")),
        },
        Action::Http(get) => match http::get(get).await {
            Ok((200..=399, _)) => Ok(()),
            Ok((code, _)) => Err(format!("HTTP probe failed with statuscode: {code}")),
            Err(error) => Err(format!("GET {}: {error:#}", get.path)),
        },
        Action::Tcp(address) => match TcpStream::connect(address).await {
            Ok(_connected) => Ok(()),
            Err(error) => Err(format!("dial tcp {address}: {error}")),
        },
        Action::Grpc { address, service } => grpc(*address, service).await,
        Action::Sleep(time) => {
            tokio::time::sleep(*time).await;
            Ok(())
        }
        Action::Wrong(why) => Err(why.clone()),
    }
}

async fn grpc(address: SocketAddr, service: &str) -> Result<(), String> {
    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await.map_err(|error| format!("connecting to {address}: {error}"))?;
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = HealthClient::new(channel).check(request).await.map_err(|error| format!("gRPC probe: {error}"))?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        other => Err(format!("service unhealthy (responded with {:?})", other.as_str_name())),
    }
}

#[cfg(test)]
mod tests;
