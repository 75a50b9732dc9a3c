//! Raw resources: one listener from its JSON text to its canonical bytes, checked; and what the descriptors of Envoy's API take in memory.

use std::io::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

use crate::child::Child;
use crate::dataset;
use crate::figure::{Figure, Report, Samples, micros, millis};

const LISTENER: &str = "envoy.config.listener.v3.Listener";
/// First word of the command line of the process whose memory is measured.
pub(crate) const VERB: &str = "--descriptors";
const ROUNDS: usize = 5_000;
/// Of processes that load the descriptors.
const STARTS: usize = 5;
const MB: f64 = 1e6;

/// Prints the figures.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    one_listener(report)?;
    descriptors(report)
}

fn one_listener(report: &mut Report) -> anyhow::Result<()> {
    let text = listener().to_string();
    let (mut all, mut parsing) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let json: Value = serde_json::from_str(&text)?;
        parsing.add(began.elapsed());
        let read = envoy::read_raw(LISTENER, &json, true);
        all.add(began.elapsed());
        anyhow::ensure!(read.resource.is_some(), "the listener is refused: {:?}", read.errors);
    }
    report.add(&Figure {
        bench: "raw",
        figure: "one_listener_us_p50",
        n: text.len(),
        value: micros(all.percentile(50)),
        unit: "us",
        limit: Some(100.0),
        peer: dataset::peer("serde_json alone", micros(parsing.percentile(50))),
    });
    Ok(())
}

fn descriptors(report: &mut Report) -> anyhow::Result<()> {
    let (mut took, mut grown) = (Samples::default(), Vec::new());
    for _ in 0..STARTS {
        let mut command = Child::command(&[VERB])?;
        // What is free goes back at once, so that what is resident is in use.
        command.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0");
        let mut child = Child::spawn(command)?;
        child.ask("ready?")?;
        let before = child.resident()?;
        let began = Instant::now();
        child.ask("load")?;
        took.add(began.elapsed());
        grown.push(child.resident()?.saturating_sub(before));
    }
    let most = grown.into_iter().max().unwrap_or_default();
    report.figure("raw", "descriptors_resident_MB_max", 1, (most as f64 / MB, "MB"), Some(20.0));
    report.figure("raw", "descriptors_loaded_ms_p50", 1, (millis(took.percentile(50)), "ms"), None);
    Ok(())
}

/// The process whose memory is measured: answers each line, and loads the descriptors and the rules with the second.
pub(crate) fn load(_: &[String]) -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lines();
    for say in ["ready", "loaded"] {
        lines.next().transpose()?;
        if say == "loaded" {
            anyhow::ensure!(envoy::read_raw(LISTENER, &listener(), true).errors.is_empty(), "the listener is refused");
        }
        writeln!(std::io::stdout(), "{say}")?;
    }
    // Until it is killed.
    lines.next().transpose()?;
    Ok(())
}

/// A listener with TLS, seven routes, two filters, an access log: `Any` in `Any`.
fn listener() -> Value {
    json!({
        "name": "web",
        "address": { "socketAddress": { "address": "0.0.0.0", "portValue": 8443 } },
        "perConnectionBufferLimitBytes": 32768,
        "listenerFilters": [any("envoy.filters.listener.tls_inspector", "filters.listener.tls_inspector.v3.TlsInspector", json!({}))],
        "filterChains": [{
            "filterChainMatch": { "serverNames": ["shop.example.com", "*.shop.example.com"] },
            "transportSocket": any("envoy.transport_sockets.tls", "transport_sockets.tls.v3.DownstreamTlsContext", json!({
                "commonTlsContext": {
                    "tlsParams": { "tlsMinimumProtocolVersion": "TLSv1_2", "tlsMaximumProtocolVersion": "TLSv1_3" },
                    "alpnProtocols": ["h2", "http/1.1"],
                    "tlsCertificateSdsSecretConfigs": [{ "name": "shop", "sdsConfig": { "ads": {}, "resourceApiVersion": "V3" } }],
                },
            })),
            "filters": [any(
                "envoy.filters.network.http_connection_manager",
                "filters.network.http_connection_manager.v3.HttpConnectionManager",
                manager(),
            )],
        }],
    })
}

fn manager() -> Value {
    let format = json!({
        "time": "%START_TIME%",
        "method": "%REQ(:METHOD)%",
        "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
        "code": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "duration": "%DURATION%",
    });
    json!({
        "statPrefix": "shop",
        "useRemoteAddress": true,
        "normalizePath": true,
        "streamIdleTimeout": "300s",
        "requestHeadersTimeout": "10s",
        "http2ProtocolOptions": { "maxConcurrentStreams": 100, "initialStreamWindowSize": 65536 },
        "routeConfig": { "name": "shop", "virtualHosts": [{
            "name": "shop",
            "domains": ["shop.example.com", "*.shop.example.com"],
            "routes": routes(),
        }] },
        "httpFilters": [
            any("envoy.filters.http.cors", "filters.http.cors.v3.Cors", json!({})),
            any("envoy.filters.http.router", "filters.http.router.v3.Router", json!({})),
        ],
        "accessLog": [any("envoy.access_loggers.file", "access_loggers.file.v3.FileAccessLog", json!({
            "path": "/dev/stdout",
            "logFormat": { "jsonFormat": format },
        }))],
    })
}

fn routes() -> Vec<Value> {
    let cors = any(
        "cors",
        "filters.http.cors.v3.CorsPolicy",
        json!({ "allowCredentials": true, "allowMethods": "GET, POST" }),
    );
    let mut routes = vec![
        json!({
            "match": { "prefix": "/cart" },
            "route": {
                "cluster": "cart",
                "timeout": "5s",
                "retryPolicy": { "retryOn": "connect-failure,refused-stream", "numRetries": 2 },
            },
        }),
        json!({
            "match": { "path": "/login" },
            "route": { "cluster": "accounts", "timeout": "15s" },
            "typedPerFilterConfig": { "envoy.filters.http.cors": cors.get("typedConfig") },
        }),
    ];
    routes.extend(["orders", "search", "media", "reviews"].map(|name| {
        json!({
            "match": {
                "prefix": format!("/{name}"),
                "headers": [{ "name": "x-canary", "stringMatch": { "exact": "true" } }],
            },
            "route": {
                "cluster": name,
                "timeout": "5s",
                "hashPolicy": [{ "cookie": { "name": "session", "ttl": "3600s" } }],
            },
            "metadata": { "filterMetadata": { "team": { "name": name } } },
        })
    }));
    let halves = json!([{ "name": "front-1", "weight": 90 }, { "name": "front-2", "weight": 10 }]);
    routes.push(json!({ "match": { "prefix": "/" }, "route": { "weightedClusters": { "clusters": halves } } }));
    routes
}

/// An extension's name and configuration.
fn any(name: &str, message: &str, mut config: Value) -> Value {
    if let Value::Object(fields) = &mut config {
        fields.shift_insert(0, "@type".to_owned(), format!("type.googleapis.com/envoy.extensions.{message}").into());
    }
    json!({ "name": name, "typedConfig": config })
}
