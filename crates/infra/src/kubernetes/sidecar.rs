//! What workloads need to reach the control plane: a `ConfigMap` in each namespace with workloads, with a bootstrap for Envoy and one for
//! gRPC, the authorities to trust, and where their token is. Nothing else of these Pods is ours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use envoy::bootstrap::{BootstrapOptions, ControlPlane, DEFAULT_MAX_CONNECTIONS, Endpoint, XdsService};
use ir::infra::kubernetes::{CONFIG_PORT, LOCAL_PORT};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Scope;
use super::call::{Caller, Failure};
use super::name::{CONTROLLER, MANAGED_BY};
use super::object::{ClusterOptions, ObjectKind, config_files, xds_service};
use super::pace::{Backoff, Pace};
use super::seen::ObjectId;

#[cfg(test)]
mod tests;

/// The name of the `ConfigMap`.
pub const SIDECAR_CONFIG: &str = "chancery-sidecar";

/// The port of the admin interface, on the Pod's loopback only.
const ADMIN_PORT: u16 = 19_000;

/// The file with the bootstrap of gRPC, which `GRPC_XDS_BOOTSTRAP` names.
const GRPC_BOOTSTRAP: &str = "grpc-bootstrap.json";

/// The file with the authorities for gRPC, which reads PEM.
const GRPC_AUTHORITIES: &str = "xds-authorities.pem";

/// The listener that a gRPC server asks for: its address replaces `%s`.
const GRPC_SERVER_LISTENER: &str = "grpc/server?xds.resource.listening_address=%s";

/// Somebody may have deleted or changed it: each is looked at so often.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// What keeping them needs.
pub struct SidecarOptions {
    /// The API server.
    pub client: Client,
    /// Where they may be.
    pub scope: Scope,
    /// What is in them, as it is now and whenever it changes.
    pub cluster: watch::Receiver<Arc<ClusterOptions>>,
    /// Whether this replica writes.
    pub leading: watch::Receiver<bool>,
    /// How long to wait for what.
    pub pace: Pace,
}

/// Keeps one in each of these namespaces while it leads, until `stop` or until whoever tells is gone. In namespaces that are no longer told it stays:
/// Pods may mount it.
pub async fn keep_sidecar_config(
    options: SidecarOptions,
    mut namespaces: watch::Receiver<BTreeSet<Arc<str>>>,
    stop: CancellationToken,
) {
    let SidecarOptions { client, scope, mut cluster, mut leading, pace } = options;
    let mut keeper = Keeper { caller: Caller { client, pace }, kept: BTreeMap::new() };
    let mut written: Option<Arc<ClusterOptions>> = None;
    let keeping = async {
        loop {
            if leading.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let wanted: BTreeSet<_> =
                namespaces.borrow_and_update().iter().filter(|name| scope.has(name)).cloned().collect();
            let options = Arc::clone(&cluster.borrow_and_update());
            if !written.as_ref().is_some_and(|written| Arc::ptr_eq(written, &options)) {
                keeper.kept.clear();
                written = Some(Arc::clone(&options));
            }
            let due = keeper.keep(&wanted, &options).await;
            tokio::select! {
                () = sleep_until(due) => {}
                changed = namespaces.changed() => if changed.is_err() { return },
                changed = cluster.changed() => if changed.is_err() { return },
                changed = leading.changed() => {
                    if changed.is_err() { return }
                    // Another replica may lead meanwhile, and write others.
                    written = None;
                }
            }
        }
    };
    tokio::select! {
        () = keeping => {}
        () = stop.cancelled() => {}
    }
}

struct Keeper {
    caller: Caller,
    kept: BTreeMap<Arc<str>, Kept>,
}

/// How one stands.
struct Kept {
    /// When it is looked at again.
    due: Instant,
    /// What went wrong: it is said once.
    told: Option<String>,
    backoff: Backoff,
}

impl Keeper {
    /// Looks at those that are due; gives when the next one is.
    async fn keep(&mut self, namespaces: &BTreeSet<Arc<str>>, options: &ClusterOptions) -> Instant {
        self.kept.retain(|namespace, _| namespaces.contains(namespace));
        for namespace in namespaces {
            if self.kept.get(namespace).is_some_and(|kept| kept.due > Instant::now()) {
                continue;
            }
            let done = self.keep_one(namespace, options).await;
            let refused = self.caller.pace.refused;
            let fresh = || Kept { due: Instant::now(), told: None, backoff: Backoff::new(refused) };
            let kept = self.kept.entry(Arc::clone(namespace)).or_insert_with(fresh);
            kept.note(namespace, done);
        }
        self.kept.values().map(|kept| kept.due).min().unwrap_or_else(|| Instant::now() + LOOK_AGAIN)
    }

    async fn keep_one(&self, namespace: &Arc<str>, options: &ClusterOptions) -> Result<(), Failure> {
        let id =
            ObjectId { kind: ObjectKind::ConfigMap, namespace: Arc::clone(namespace), name: SIDECAR_CONFIG.into() };
        let wanted = config_map(namespace, options);
        let found = self.caller.get_data(&id).await?;
        if let Some(found) = &found {
            let label = found.metadata.labels.as_ref().and_then(|labels| labels.get(CONTROLLER));
            if label != Some(&options.label()) {
                let text =
                    format!("there is one that is not ours: it lacks the label {CONTROLLER}={}", options.label());
                return Err(Failure::Invalid(text));
            }
            if wanted.get("data") == Some(&found.data) {
                return Ok(());
            }
        }
        self.caller.apply(&id, &wanted).await?;
        if found.is_none() {
            info!(%namespace, "made the ConfigMap {SIDECAR_CONFIG}: Envoys next to applications, and gRPC, find there how to reach Chancery");
        }
        Ok(())
    }
}

impl Kept {
    fn note(&mut self, namespace: &str, done: Result<(), Failure>) {
        let now = Instant::now();
        match done {
            // With its namespace everything goes.
            Ok(()) | Err(Failure::Terminating) => {
                self.backoff.reset();
                (self.due, self.told) = (now + LOOK_AGAIN, None);
            }
            Err(failure) => {
                let words = words(&failure);
                if self.told.as_ref() != Some(&words) {
                    warn!(%namespace, "no ConfigMap {SIDECAR_CONFIG}, which Envoys beside applications mount: {words}");
                }
                (self.due, self.told) = (now + self.backoff.wait(), Some(words));
            }
        }
    }
}

fn words(failure: &Failure) -> String {
    match failure {
        Failure::Away(text) | Failure::Invalid(text) | Failure::Refused(text) => text.clone(),
        Failure::Outdated => "somebody else writes it".to_owned(),
        Failure::Terminating => "the namespace is on its way out".to_owned(),
    }
}

/// The whole object.
fn config_map(namespace: &str, options: &ClusterOptions) -> Value {
    let grpc = [(GRPC_BOOTSTRAP, &*grpc_bootstrap(namespace, options)), (GRPC_AUTHORITIES, &*options.authorities)];
    let data = config_files(options, &bootstrap(namespace, options), &grpc);
    let (name, value) = MANAGED_BY;
    let labels = json!({ name: value, "app.kubernetes.io/component": "sidecar", CONTROLLER: options.label() });
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": SIDECAR_CONFIG, "namespace": namespace, "labels": labels },
        "data": data,
    })
}

/// What Envoy is started with, beside `--service-node $(POD_NAME).$(POD_NAMESPACE)`.
fn bootstrap(namespace: &str, options: &ClusterOptions) -> String {
    let options = BootstrapOptions {
        node_id: "".into(),
        // Envoy does not start without one.
        node_cluster: namespace.into(),
        zone: None,
        control_plane: ControlPlane::Service(xds_service(options)),
        admin: Endpoint::Tcp(Ipv4Addr::LOCALHOST.into(), ADMIN_PORT),
        local_listener: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, LOCAL_PORT))),
        config_listener: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, CONFIG_PORT))),
        max_connections: DEFAULT_MAX_CONNECTIONS,
        of_gateway: false,
    };
    envoy::bootstrap(&options).to_string()
}

/// The bootstrap of gRPC clients and servers (gRFC A27, A36). The token says which Pod it is (gRFC A97), so the node may be the same in all.
fn grpc_bootstrap(namespace: &str, options: &ClusterOptions) -> String {
    let XdsService { host, port, folder, token } = xds_service(options);
    let authorities = json!({ "ca_certificate_file": format!("{folder}/{GRPC_AUTHORITIES}") });
    let server = json!({
        "server_uri": format!("{host}:{port}"),
        "channel_creds": [{ "type": "tls", "config": authorities }],
        "call_creds": [{ "type": "jwt_token_file", "config": { "jwt_token_file": &*token } }],
        "server_features": ["xds_v3"],
    });
    // grpc-js refuses a node without a locality
    let node = json!({ "id": "grpc", "cluster": namespace, "locality": {} });
    json!({ "xds_servers": [server], "node": node, "server_listener_resource_name_template": GRPC_SERVER_LISTENER })
        .to_string()
}
