//! An Envoy that Chancery did not start: over TLS by its certificate, over a socket by its token, or without TLS. And a Chancery for such.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

use crate::binary;
use crate::certificate::Pair;
use crate::running::Running;
use crate::wait;

/// A Chancery that starts no Envoys. It listens on this port of loopback with `tls.crt` and `tls.key` of a folder, for clients that its `ca.crt`
/// trusts.
///
/// # Errors
/// If there is no room for its own folder.
pub fn server(folder: &Path, port: u16) -> anyhow::Result<Running> {
    let file = |name: &str| folder.join(name).display().to_string();
    let (address, certificate, key, clients) =
        (format!("127.0.0.1:{port}"), file("tls.crt"), file("tls.key"), file("ca.crt"));
    let options = [
        ["--xds-listen", &address],
        ["--xds-tls-cert", &certificate],
        ["--xds-tls-key", &key],
        ["--xds-client-ca", &clients],
    ];
    Ok(Running::prepare()?.with(&["--no-envoy"]).with(&options.concat()))
}

/// Puts the files of `deploy/envoy-tls` into a folder, made for it; gives the bootstrap.
///
/// # Errors
/// If a file cannot be read or written.
pub fn tls_example(folder: &Path) -> anyhow::Result<String> {
    let from = binary::root().join("deploy/envoy-tls");
    let made_for = |name: &str| {
        Ok::<_, anyhow::Error>(std::fs::read_to_string(from.join(name))?.replace("/etc/envoy", path(folder)?))
    };
    for name in ["certificate.yaml", "authority.yaml"] {
        std::fs::write(folder.join(name), made_for(name)?)?;
    }
    made_for("envoy.yaml")
}

/// The bootstrap in `deploy/envoy-socket.yaml`, made for a fleet of this Chancery: `namespace/name`, behind `workload/` where it is one.
///
/// # Errors
/// If the socket does not appear, or the file cannot be read.
pub fn socket_example(running: &Running, fleet: &str, folder: &Path) -> anyhow::Result<String> {
    let socket = wait::until("the socket", || {
        let named = |folder: &PathBuf| {
            let name = std::fs::read_to_string(folder.join("gateway")).unwrap_or_default();
            name.trim() == fleet && folder.join("xds.sock").exists()
        };
        let folders = std::fs::read_dir(running.state().join("gateways")).ok()?;
        folders.flatten().map(|folder| folder.path()).find(named)
    })?;
    let bootstrap = std::fs::read_to_string(binary::root().join("deploy/envoy-socket.yaml"))?;
    Ok(bootstrap
        .replace("/var/lib/chancery/gateways/HASH", &socket.display().to_string())
        .replace("/tmp/envoy-admin.sock", &folder.join("admin.sock").display().to_string()))
}

fn path(folder: &Path) -> anyhow::Result<&str> {
    folder.to_str().context("the path is no text")
}

/// How it reaches the server.
pub struct Way<'a> {
    /// The Gateway that it says it is of, `namespace/name`.
    pub gateway: &'a str,
    /// `DELTA_GRPC`, or `GRPC` for the state of the world.
    pub api: &'a str,
    /// The port of loopback where the server listens; it shows a certificate for `chancery.example`.
    pub port: u16,
    /// What it shows the server.
    pub own: &'a Pair,
    /// Self-signed certificates of servers that it trusts.
    pub trusted: &'a [&'a Pair],
}

/// It ends with this value.
pub struct Elsewhere(Child);

impl Elsewhere {
    /// Starts one, with its files in this folder.
    ///
    /// # Errors
    /// If a file cannot be written or Envoy not be started.
    pub fn start(folder: &Path, way: &Way<'_>) -> anyhow::Result<Self> {
        Self::run(folder, &bootstrap(folder, way)?)
    }

    /// Starts one with this bootstrap.
    ///
    /// # Errors
    /// If a file cannot be written or Envoy not be started.
    pub fn run(folder: &Path, bootstrap: &str) -> anyhow::Result<Self> {
        Self::run_by(&mut Command::new(binary::envoy()?), folder, bootstrap)
    }

    /// Starts one of a workload (`namespace/name`), over the socket that a Chancery has for it.
    ///
    /// # Errors
    /// If the socket does not appear, a file cannot be written, or Envoy not be started.
    pub fn of_workload(running: &Running, workload: &str, folder: &Path) -> anyhow::Result<Self> {
        Self::run(folder, &socket_example(running, &format!("workload/{workload}"), folder)?)
    }

    /// Starts one with this bootstrap by a command that Envoy's options follow.
    ///
    /// # Errors
    /// If a file cannot be written or the command not be run.
    pub fn run_by(command: &mut Command, folder: &Path, bootstrap: &str) -> anyhow::Result<Self> {
        let config = folder.join("envoy.yaml");
        std::fs::write(&config, bootstrap)?;
        let log = File::create(folder.join("envoy.log"))?;
        // A bootstrap may say itself who it is.
        let id: &[&str] = if bootstrap.contains("node: {id:") { &[] } else { &["--service-node", "far"] };
        let child = command
            .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"])
            .args(id)
            .arg("-c")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // it may have ended by itself
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The bootstrap of an Envoy that asks a port of loopback without TLS. Its admin interface listens on a socket in this folder. `node` is YAML
/// (`{id: far, cluster: default/edge}`), and `headers` are items of `initial_metadata`.
pub fn cleartext(folder: &Path, node: &str, port: u16, headers: &str) -> String {
    let admin = folder.join("admin.sock").display().to_string();
    let bootstrap = of_port(node, "DELTA_GRPC", (port, headers));
    format!("{bootstrap}admin: {{ address: {{ pipe: {{ path: {admin:?}, mode: 384 }} }} }}\n")
}

fn bootstrap(folder: &Path, way: &Way<'_>) -> anyhow::Result<String> {
    let Way { gateway, api, port, own, trusted } = way;
    let trusted: String = trusted.iter().map(|pair| &*pair.certificate).collect();
    let file = |name: &str, text: &str| -> anyhow::Result<String> {
        std::fs::write(folder.join(name), text)?;
        Ok(folder.join(name).display().to_string())
    };
    let (certificate, key) = (file("client.crt", &own.certificate)?, file("client.key", &own.key)?);
    let trusted = file("trusted.crt", &trusted)?;
    let node = format!("{{id: far, cluster: {gateway}}}");
    let tls = format!(
        r#"    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: chancery.example
        common_tls_context:
          tls_certificates: [{{ certificate_chain: {{ filename: {certificate} }}, private_key: {{ filename: {key} }} }}]
          validation_context:
            trusted_ca: {{ filename: {trusted} }}
            match_typed_subject_alt_names: [{{ san_type: DNS, matcher: {{ exact: chancery.example }} }}]
"#
    );
    Ok(of_port(&node, api, (*port, "")) + &tls)
}

/// A bootstrap that asks a port of loopback. It ends in the cluster of that, to which more fields can be added.
fn of_port(node: &str, api: &str, (port, headers): (u16, &str)) -> String {
    format!(
        r#"
node: {node}
dynamic_resources:
  ads_config:
    api_type: {api}
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc:
        cluster_name: xds
        retry_policy: {{ retry_back_off: {{ base_interval: 0.1s, max_interval: 1s }} }}
      initial_metadata: [{headers}]
  cds_config: {{ ads: {{}}, resource_api_version: V3 }}
  lds_config: {{ ads: {{}}, resource_api_version: V3 }}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
    load_assignment:
      cluster_name: xds
      endpoints:
      - lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }} }}]
"#
    )
}
