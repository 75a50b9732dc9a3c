//! A scripted delta ADS client: it subscribes to everything and acknowledges everything.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hyper_util::rt::TokioIo;
use prost::Message as _;
use proto::envoy::config::cluster::v3::Cluster;
use proto::envoy::config::core::v3::transport_socket::ConfigType as SocketConfig;
use proto::envoy::config::core::v3::{Node, TransportSocket};
use proto::envoy::config::listener::v3::Listener;
use proto::envoy::config::listener::v3::filter::ConfigType;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use proto::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, UpstreamTlsContext,
};
use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use crate::process::authorization;

pub(crate) const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
pub(crate) const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub(crate) const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const SECRETS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
const STREAMS: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
pub(crate) const HOSTS: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";

/// One open stream.
pub(crate) struct Client {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
    endpoints: BTreeSet<String>,
    clusters: usize,
    routes: BTreeSet<String>,
}

/// What one response brought.
pub(crate) struct Received {
    /// When its last byte was there.
    pub(crate) at: Instant,
    /// Its resources' names.
    pub(crate) names: Vec<String>,
    /// Bytes of its resources.
    pub(crate) bytes: usize,
}

impl Client {
    /// Connects to an xDS socket and subscribes to all clusters and listeners.
    pub(crate) async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let path = socket.to_path_buf();
        let connector = tower::service_fn(move |_: http::Uri| {
            let path = path.clone();
            async move { patiently(&path).await.map(TokioIo::new) }
        });
        // The address is not used: the connector knows where to go.
        let channel = Endpoint::try_from("http://chancery")?.connect_with_connector(connector).await?;
        // As many as there may be: an Envoy goes on reading whatever it has to say.
        let (requests, outgoing) = mpsc::channel(1 << 20);
        let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(1 << 30);
        grpc.ready().await.map_err(|error| anyhow::anyhow!("{error}"))?;
        let node = Node {
            id: "bench".to_owned(),
            cluster: "default/edge".to_owned(),
            user_agent_name: "envoy".to_owned(),
            ..Node::default()
        };
        requests.send(DeltaDiscoveryRequest { node: Some(node), ..subscription(CLUSTER, &["*"]) }).await?;
        requests.send(subscription(LISTENER, &["*"])).await?;
        let path = http::uri::PathAndQuery::from_static(
            "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
        );
        let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
        if let Some(value) = authorization(socket) {
            request.metadata_mut().insert("authorization", value.parse()?);
        }
        let codec = tonic_prost::ProstCodec::default();
        let responses = grpc.streaming(request, path, codec).await?.into_inner();
        Ok(Self { requests, responses, endpoints: BTreeSet::new(), clusters: 0, routes: BTreeSet::new() })
    }

    /// Takes the next response, acknowledges it, and subscribes to what it names.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Received> {
        let response = tokio::time::timeout(Duration::from_secs(120), self.responses.message())
            .await
            .context("nothing came for two minutes")??
            .context("the server ended the stream")?;
        let at = Instant::now();
        let names: Vec<String> = response.resources.iter().map(|resource| resource.name.clone()).collect();
        let bytes =
            response.resources.iter().map(|resource| resource.resource.as_ref().map_or(0, |any| any.value.len())).sum();
        let acknowledgement = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..DeltaDiscoveryRequest::default()
        };
        match &*response.type_url {
            CLUSTER => {
                self.clusters += names.len();
                self.requests.send(acknowledgement).await?;
                self.subscribe(ENDPOINTS, &names).await?;
                self.subscribe(SECRETS, &secrets(response.resources.iter().filter_map(cluster_socket))).await?;
            }
            ENDPOINTS => {
                self.endpoints.extend(names.iter().cloned());
                self.requests.send(acknowledgement).await?;
            }
            LISTENER => {
                self.requests.send(acknowledgement).await?;
                let named: Vec<String> = response.resources.iter().flat_map(route_configurations).collect();
                self.subscribe(ROUTES, &named).await?;
                let streams: Vec<String> = response.resources.iter().flat_map(streams).collect();
                self.subscribe(STREAMS, &streams).await?;
                self.subscribe(SECRETS, &secrets(response.resources.iter().flat_map(listener_sockets))).await?;
            }
            ROUTES => {
                self.requests.send(acknowledgement).await?;
                if self.routes.is_empty() {
                    self.requests.send(subscription(HOSTS, &[])).await?;
                }
                self.routes.extend(names.iter().cloned());
            }
            _ => self.requests.send(acknowledgement).await?,
        }
        Ok(Received { at, names, bytes })
    }

    async fn subscribe(&self, type_url: &str, names: &[String]) -> anyhow::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(self.requests.send(subscription(type_url, &names)).await?)
    }

    /// Takes responses until none has come for this long.
    pub(crate) async fn drain(&mut self, quiet: Duration) -> anyhow::Result<()> {
        while let Ok(response) = tokio::time::timeout(quiet, self.next()).await {
            response?;
        }
        Ok(())
    }

    /// Takes responses until `hosts` virtual hosts and the endpoints of `clusters` clusters are there; gives the time of the last
    /// and the bytes of all.
    pub(crate) async fn complete(&mut self, clusters: usize, hosts: usize) -> anyhow::Result<(Instant, usize)> {
        let (mut seen_hosts, mut total) = (BTreeSet::new(), 0);
        loop {
            let received = self.next().await?;
            total += received.bytes;
            seen_hosts.extend(received.names.into_iter().filter(|name| name.contains(".example.com")));
            let routed = seen_hosts.len() >= hosts || (hosts <= INLINE_HOSTS && !self.routes.is_empty());
            if self.endpoints.len() >= clusters && self.clusters >= clusters && routed {
                return Ok((received.at, total));
            }
        }
    }
}

impl Client {
    /// Takes responses until those of so many clusters are there and then none has come for this long; gives the time of the last.
    pub(crate) async fn all(&mut self, clusters: usize, quiet: Duration) -> anyhow::Result<Instant> {
        let mut last = Instant::now();
        while self.clusters < clusters || self.endpoints.is_empty() {
            last = self.next().await?.at;
        }
        while let Ok(received) = tokio::time::timeout(quiet, self.next()).await {
            last = received?.at;
        }
        Ok(last)
    }
}

/// The configurations of filters that a listener names: where connections go.
fn streams(listener: &Resource) -> Vec<String> {
    let bytes = listener.resource.as_ref().map_or(&[][..], |any| &any.value);
    let chains = Listener::decode(bytes).map(|listener| listener.filter_chains).unwrap_or_default();
    let filters = chains.into_iter().flat_map(|chain| chain.filters);
    let separate = filters.filter(|filter| matches!(filter.config_type, Some(ConfigType::ConfigDiscovery(_))));
    separate.map(|filter| filter.name).collect()
}

/// The certificates and bundles that TLS of these settings asks for, each once.
fn secrets(sockets: impl Iterator<Item = CommonTlsContext>) -> Vec<String> {
    let names = sockets.flat_map(|tls| {
        let bundle = match tls.validation_context_type {
            Some(ValidationContextType::ValidationContextSdsSecretConfig(config)) => Some(config),
            Some(ValidationContextType::CombinedValidationContext(both)) => both.validation_context_sds_secret_config,
            _ => None,
        };
        tls.tls_certificate_sds_secret_configs.into_iter().chain(bundle).map(|config| config.name)
    });
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

fn listener_sockets(listener: &Resource) -> Vec<CommonTlsContext> {
    let bytes = listener.resource.as_ref().map_or(&[][..], |any| &any.value);
    let chains = Listener::decode(bytes).map(|listener| listener.filter_chains).unwrap_or_default();
    let sockets = chains.into_iter().filter_map(|chain| config(chain.transport_socket?));
    let contexts = sockets.filter_map(|any| DownstreamTlsContext::decode(&*any.value).ok());
    contexts.filter_map(|context| context.common_tls_context).collect()
}

fn cluster_socket(cluster: &Resource) -> Option<CommonTlsContext> {
    let cluster = Cluster::decode(&*cluster.resource.as_ref()?.value).ok()?;
    let config = config(cluster.transport_socket?)?;
    UpstreamTlsContext::decode(&*config.value).ok()?.common_tls_context
}

fn config(socket: TransportSocket) -> Option<proto::google::protobuf::Any> {
    let Some(SocketConfig::TypedConfig(config)) = socket.config_type else { return None };
    Some(config)
}

/// The route configurations that a listener names.
fn route_configurations(listener: &Resource) -> Vec<String> {
    route_configurations_in(listener.resource.as_ref().map_or(&[][..], |any| &any.value))
}

/// The same of an encoded listener.
pub(crate) fn route_configurations_in(bytes: &[u8]) -> Vec<String> {
    let chains = Listener::decode(bytes).map(|listener| listener.filter_chains).unwrap_or_default();
    let filters = chains.into_iter().flat_map(|chain| chain.filters);
    let managers = filters.filter_map(|filter| match filter.config_type {
        Some(ConfigType::TypedConfig(any)) => HttpConnectionManager::decode(&*any.value).ok(),
        _ => None,
    });
    let names = managers.filter_map(|manager| match manager.route_specifier {
        Some(RouteSpecifier::Rds(rds)) => Some(rds.route_config_name),
        _ => None,
    });
    names.collect()
}

/// The file of a socket is there a moment before somebody listens.
async fn patiently(path: &Path) -> std::io::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match UnixStream::connect(path).await {
            Err(_) if began.elapsed() < Duration::from_secs(5) => tokio::time::sleep(Duration::from_micros(200)).await,
            outcome => return outcome,
        }
    }
}

/// Up to this many virtual hosts travel inside their route configuration.
const INLINE_HOSTS: usize = 64;

fn subscription(type_url: &str, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: type_url.to_owned(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DeltaDiscoveryRequest::default()
    }
}
