//! The objects that benchmarks work on: N routes, each with a Service and a slice of 10 endpoints, on hosts of ten routes each.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

/// Routes in one file.
pub(crate) const ROUTES_PER_FILE: usize = 100;

/// Routes that share a host.
pub(crate) const ROUTES_PER_HOST: usize = 10;

/// Where the ten endpoints of each service are.
#[derive(Clone, Copy)]
pub(crate) enum Endpoints {
    /// Nowhere: addresses that nobody asks, on this port.
    Elsewhere(u16),
    /// On this port of loopback, each endpoint on an address of its own, so that who answers can tell which service was meant.
    Here(u16),
}

impl Endpoints {
    const fn port(self) -> u16 {
        match self {
            Self::Elsewhere(port) | Self::Here(port) => port,
        }
    }

    /// The address of endpoint `endpoint` of service number `index`.
    pub(crate) const fn address(self, index: usize, endpoint: usize) -> [usize; 4] {
        let number = index * 10 + endpoint;
        let first = match self {
            Self::Elsewhere(_) => [10, number >> 16 & 127],
            Self::Here(_) => [127, 64 + (number >> 16 & 63)],
        };
        let [a, b] = first;
        [a, b, number >> 8 & 255, number & 255]
    }
}

/// The service whose endpoint has this address of loopback.
pub(crate) fn service_at([_, a, b, c]: [u8; 4]) -> usize {
    ((usize::from(a) & 63) << 16 | usize::from(b) << 8 | usize::from(c)) / 10
}

/// The Gateway `edge` with one HTTP listener, open to every namespace.
pub(crate) fn gateway(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: edge\nspec:\n  gatewayClassName: chancery\n  \
         listeners:\n  - name: http\n    protocol: HTTP\n    port: {port}\n    allowedRoutes:\n      namespaces:\n        from: All\n"
    )
}

/// Route number `index`: its own path on a host of ten routes. `value` is a header that it sets, so that it can be changed.
pub(crate) fn route(index: usize, value: &str) -> String {
    let host = index / ROUTES_PER_HOST;
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: route-{index}\nspec:\n  parentRefs:\n  - name: \
         edge\n  hostnames:\n  - host-{host}.example.com\n  rules:\n  - matches:\n    - path:\n        type: PathPrefix\n        value: \
         /path-{index}\n    filters:\n    - type: ResponseHeaderModifier\n      responseHeaderModifier:\n        set:\n        - name: \
         x-value\n          value: {value}\n    backendRefs:\n    - name: service-{index}\n      port: 80\n"
    )
}

/// Service number `index` with ten endpoints.
pub(crate) fn service(index: usize, endpoints: Endpoints) -> String {
    let port = endpoints.port();
    let mut text = format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: service-{index}\nspec:\n  ports:\n  - name: http\n    port: 80\n    \
         targetPort: {port}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: service-{index}-1\n  \
         labels:\n    kubernetes.io/service-name: service-{index}\naddressType: IPv4\nports:\n- name: http\n  port: {port}\nendpoints:\n"
    );
    for endpoint in 0..10 {
        let [a, b, c, d] = endpoints.address(index, endpoint);
        let _ = write!(text, "- addresses:\n  - {a}.{b}.{c}.{d}\n  conditions:\n    ready: true\n");
    }
    text
}

/// One file: its routes, each with `value`, behind their services.
pub(crate) fn routes_file(file: usize, routes: usize, value: impl Fn(usize) -> String) -> String {
    let first = file * ROUTES_PER_FILE;
    let indexes = first..routes.min(first + ROUTES_PER_FILE);
    indexes.map(|index| route(index, &value(index))).collect::<Vec<_>>().join("---\n")
}

/// Writes the folder: `gateway.yaml`, and for each 100 routes a file of routes and a file of services.
pub(crate) fn write(folder: &Path, routes: usize, port: u16, endpoints: Endpoints) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("gateway.yaml"), gateway(port))?;
    for file in 0..routes.div_ceil(ROUTES_PER_FILE) {
        write_part(folder, file, routes, endpoints)?;
    }
    Ok(())
}

/// Writes one file of routes and one of services.
pub(crate) fn write_part(folder: &Path, file: usize, routes: usize, endpoints: Endpoints) -> anyhow::Result<()> {
    let first = file * ROUTES_PER_FILE;
    let services: Vec<String> =
        (first..routes.min(first + ROUTES_PER_FILE)).map(|index| service(index, endpoints)).collect();
    std::fs::write(folder.join(format!("services-{file:04}.yaml")), services.join("---\n"))?;
    Ok(std::fs::write(
        folder.join(format!("routes-{file:04}.yaml")),
        routes_file(file, routes, |_| "first".to_owned()),
    )?)
}

/// Replaces a file in one step, as editors do: written under a hidden name beside it, then renamed.
pub(crate) struct Edit {
    beside: std::path::PathBuf,
    path: std::path::PathBuf,
}

impl Edit {
    /// Writes the text; it is not in place yet.
    pub(crate) fn prepare(folder: &Path, name: &str, text: &str) -> anyhow::Result<Self> {
        let edit = Self { beside: folder.join(format!(".{name}.new")), path: folder.join(name) };
        std::fs::write(&edit.beside, text)?;
        Ok(edit)
    }

    /// Puts it in place.
    pub(crate) fn rename(self) -> anyhow::Result<()> {
        Ok(std::fs::rename(self.beside, self.path)?)
    }
}

/// A count as a figure; no benchmark counts further than 2^32.
pub(crate) fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// What a peer has for the same.
pub(crate) fn peer(name: &str, value: f64) -> Value {
    json!({ "name": name, "value": value })
}
