//! The Pods of a fleet: what Envoy is started with, and how it is probed and stopped.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use envoy::bootstrap::{BootstrapOptions, ControlPlane, DEFAULT_MAX_CONNECTIONS, Endpoint, XdsService, secret_files};
use ir::Infra;
use ir::infra::kubernetes::{CONFIG_PORT, Fields, LOCAL_PORT};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{ClusterOptions, Maker, merge, strings};

/// Where the ConfigMap is mounted.
const CONFIG: &str = "/etc/chancery";
/// Where the token is mounted.
const TOKEN: &str = "/var/run/secrets/chancery";
/// Where Envoy's admin socket is: within the Pod only.
const RUN: &str = "/run/chancery";
/// Where the tool is that drains a proxy.
const TOOLS: &str = "/opt/chancery";

/// Folders of a proxy's Pod that are Chancery's own: its configuration, all tokens, the admin socket, the tool. `/var/run` is a link to `/run` in
/// most images, so that both names count.
pub(in super::super) const POD_FOLDERS: [&str; 6] =
    [CONFIG, "/var/run/secrets", "/run/secrets", RUN, "/var/run/chancery", TOOLS];

/// Whom Envoy runs as: nobody in particular, and not root.
const USER: u32 = 65_532;

/// How long connections may end by themselves, unless `EnvoyProxy` says otherwise.
const DRAIN: Duration = Duration::from_secs(60);

/// How much longer than that a Pod is given before it is killed: the waiting before the draining begins, and Envoy's own end.
const GRACE: Duration = Duration::from_secs(30);

/// How long a token holds. It is renewed when a fifth of that is left.
const TOKEN_SECONDS: u32 = 3_600;

pub(in super::super) fn xds_service(options: &ClusterOptions) -> XdsService {
    XdsService {
        host: options.xds_host.clone(),
        port: options.xds_port,
        folder: CONFIG.into(),
        token: format!("{TOKEN}/token").into(),
    }
}

/// What Envoy is started with.
pub(super) fn bootstrap(infra: &Infra, options: &ClusterOptions) -> String {
    let options = BootstrapOptions {
        // Each Pod says who it is on its command line.
        node_id: "".into(),
        node_cluster: infra.fleet.0.clone(),
        zone: None,
        control_plane: ControlPlane::Service(xds_service(options)),
        admin: Endpoint::Unix(format!("{RUN}/admin.sock").into()),
        local_listener: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, LOCAL_PORT))),
        config_listener: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, CONFIG_PORT))),
        max_connections: DEFAULT_MAX_CONNECTIONS,
        of_gateway: true,
    };
    envoy::bootstrap(&options).to_string()
}

/// The files that a proxy finds where its ConfigMap is mounted: its bootstrap, the secrets that it names, and `more`.
pub(in super::super) fn config_files(options: &ClusterOptions, bootstrap: &str, more: &[(&str, &str)]) -> Value {
    let secrets = secret_files(&xds_service(options), &options.authorities);
    let files = secrets.into_iter().map(|(name, content)| (name.to_owned(), content.to_string().into()));
    let more =
        more.iter().copied().chain([("bootstrap.json", bootstrap)]).map(|(name, text)| (name.to_owned(), text.into()));
    Value::Object(files.chain(more).collect())
}

impl Maker<'_> {
    /// The files of the ConfigMap.
    pub(super) fn files(&self) -> Value {
        config_files(self.options, &self.bootstrap, &[])
    }

    /// `spec` of the Deployment or `DaemonSet`.
    pub(super) fn workload_spec(&self) -> Value {
        let settings = &self.kubernetes.workload;
        let mut annotations = strings(&self.kubernetes.annotations);
        annotations.extend(strings(&settings.pod_annotations));
        // Envoy reads its bootstrap once.
        let hash = format!("{:016x}", xxh3_64(self.bootstrap.as_bytes()));
        annotations.insert("chancery.io/bootstrap".to_owned(), hash.into());
        let template = json!({
            "metadata": { "labels": self.labels(Some(&settings.pod_labels)), "annotations": annotations },
            "spec": self.pod(),
        });
        let mut spec = json!({ "selector": self.match_labels(), "template": template });
        let strategy = if settings.on_every_node { "updateStrategy" } else { "strategy" };
        // With an autoscaler the number is its own.
        let counted = !settings.on_every_node && self.kubernetes.autoscaler.is_none();
        if let Some(written) = settings.strategy.as_deref() {
            merge(&mut spec, json!({ strategy: written }));
        }
        if counted {
            merge(&mut spec, json!({ "replicas": settings.replicas.unwrap_or(1) }));
        }
        spec
    }

    fn pod(&self) -> Value {
        let settings = &self.kubernetes.workload;
        let token = json!({ "serviceAccountToken": {
            "path": "token", "audience": &*self.options.audience, "expirationSeconds": TOKEN_SECONDS,
        } });
        let mut init = vec![self.tool()];
        init.extend(settings.init_containers.as_deref().and_then(Value::as_array).into_iter().flatten().cloned());
        let mut pod = json!({
            "serviceAccountName": &**self.service_account_name(),
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": (self.drain() + GRACE).as_secs(),
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "initContainers": init,
            "containers": [self.envoy()],
            "volumes": [
                { "name": "config", "configMap": { "name": &*self.name } },
                { "name": "token", "projected": { "sources": [token] } },
                { "name": "run", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
                { "name": "tools", "emptyDir": {} },
            ],
        });
        put_into(&mut pod, &settings.pod);
        pod
    }

    /// Puts the tool that drains a proxy where Envoy's container finds it: its image has nothing but Envoy.
    fn tool(&self) -> Value {
        json!({
            "name": "tools",
            "image": &*self.options.own_image,
            "args": ["shutdown", "--install", TOOLS],
            "securityContext": restricted(),
            "volumeMounts": [{ "name": "tools", "mountPath": TOOLS }],
        })
    }

    fn envoy(&self) -> Value {
        // Listeners are not named here: they may come and go, and a Pod that changes is another Pod.
        let metrics = json!({ "name": "metrics", "containerPort": LOCAL_PORT, "protocol": "TCP" });
        let field =
            |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let ready = json!({ "path": "/ready", "port": LOCAL_PORT });
        let mut stop = vec![
            format!("{TOOLS}/chancery"),
            "shutdown".to_owned(),
            format!("--admin={RUN}/admin.sock"),
            format!("--drain-timeout={}", time(self.drain())),
        ];
        stop.extend(self.infra.options.min_drain.map(|least| format!("--min-drain={}", time(least))));
        let mut container = json!({
            "name": "envoy",
            "image": self.image(),
            "command": ["envoy"],
            "args": self.arguments(),
            "env": [field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")],
            "ports": [metrics],
            "resources": { "requests": { "cpu": "100m", "memory": "512Mi" } },
            "securityContext": restricted(),
            // it gets its configuration when it comes, be that in an hour: nothing is gained by starting it anew
            "readinessProbe": { "httpGet": &ready, "periodSeconds": 1, "failureThreshold": 3 },
            "lifecycle": { "preStop": { "exec": { "command": stop } } },
            "volumeMounts": [
                { "name": "config", "mountPath": CONFIG, "readOnly": true },
                { "name": "token", "mountPath": TOKEN, "readOnly": true },
                { "name": "run", "mountPath": RUN },
                { "name": "tools", "mountPath": TOOLS, "readOnly": true },
            ],
        });
        put_into(&mut container, &self.kubernetes.workload.container);
        container
    }

    fn image(&self) -> String {
        let settings = &self.kubernetes.workload;
        let repository = settings.image_repository.as_ref().unwrap_or(&self.options.envoy_repository);
        match &settings.image {
            Some(image) => image.to_string(),
            None => format!("{repository}:{}", self.options.envoy_tag),
        }
    }

    /// Envoy takes an option's value as an argument of its own only.
    fn arguments(&self) -> Vec<String> {
        let options = &self.infra.options;
        let level = |(component, level): &(Arc<str>, Arc<str>)| format!("{component}:{level}");
        let levels: Vec<_> = options.component_log_levels.iter().map(level).collect();
        let with_values = [
            ("--config-path", Some(format!("{CONFIG}/bootstrap.json"))),
            ("--service-node", Some("$(POD_NAMESPACE)/$(POD_NAME)".to_owned())),
            ("--log-level", Some(options.log_level.as_deref().unwrap_or("warn").to_owned())),
            ("--drain-time-s", Some(self.drain().as_secs().to_string())),
            ("--drain-strategy", Some("immediate".to_owned())),
            ("--component-log-level", (!levels.is_empty()).then(|| levels.join(","))),
            ("--concurrency", options.concurrency.map(|threads| threads.to_string())),
        ];
        let given = with_values.into_iter().filter_map(|(option, value)| Some([option.to_owned(), value?]));
        let mut arguments = vec!["--disable-hot-restart".to_owned()];
        arguments.extend(given.flatten());
        arguments.extend(options.extra_args.iter().map(ToString::to_string));
        arguments
    }

    fn drain(&self) -> Duration {
        self.infra.options.drain_timeout.unwrap_or(DRAIN)
    }
}

/// As the Gateway API writes it.
fn time(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        millis => format!("{}s{millis}ms", time.as_secs()),
    }
}

/// What a container may do that needs no rights.
fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
    })
}

/// The user's fields over ours; of lists, items of the same key are changed and others added.
fn put_into(ours: &mut Value, fields: &Fields) {
    for (field, value) in fields {
        let own = json!({ field.as_ref(): &**value });
        let mut merged = ours.clone();
        // An item without a key is the API server's to refuse: it says which.
        match patch::strategic_merge(&mut merged, &own) {
            Ok(()) if value.is_array() => *ours = merged,
            _ => merge(ours, own),
        }
    }
}
