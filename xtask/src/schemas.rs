//! `cargo xtask schemas`: the schemas of Gateway API, read out of its pinned Go module, as data for `crates/api`.
//!
//! Only what checking needs is kept: structure, limits, defaults and CEL rules, without descriptions and statuses.
//! The output is a function of the module, so `--check` can compare bytes.

#![expect(clippy::indexing_slicing, reason = "a JSON value gives null for a key that it does not have")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value, json};

use crate::{Chore, Outcome, say};

/// The Go module and its version, as `go mod download` wants them.
const MODULE: &str = "sigs.k8s.io/gateway-api@v1.7.0";
/// The checksum of the module's content, as in `go.sum`.
const SUM: &str = "h1:duVnm7nO6oXfMMUWfcDoBph47CYR/ME3NGxccOVglaY=";
/// Where the experimental CRDs are inside the module.
const CRDS: &str = "config/crd/experimental";
/// CRDs that are read, and the files that they become.
const KINDS: &[(&str, &str)] = &[
    ("gateway.networking.k8s.io_gatewayclasses.yaml", "GatewayClass.json"),
    ("gateway.networking.k8s.io_gateways.yaml", "Gateway.json"),
    ("gateway.networking.k8s.io_listenersets.yaml", "ListenerSet.json"),
    ("gateway.networking.k8s.io_httproutes.yaml", "HTTPRoute.json"),
    ("gateway.networking.k8s.io_grpcroutes.yaml", "GRPCRoute.json"),
    ("gateway.networking.k8s.io_tlsroutes.yaml", "TLSRoute.json"),
    ("gateway.networking.k8s.io_tcproutes.yaml", "TCPRoute.json"),
    ("gateway.networking.k8s.io_udproutes.yaml", "UDPRoute.json"),
    ("gateway.networking.k8s.io_backendtlspolicies.yaml", "BackendTLSPolicy.json"),
    ("gateway.networking.k8s.io_referencegrants.yaml", "ReferenceGrant.json"),
    ("gateway.networking.x-k8s.io_xbackends.yaml", "XBackend.json"),
    ("gateway.networking.x-k8s.io_xbackendtrafficpolicies.yaml", "XBackendTrafficPolicy.json"),
    ("gateway.networking.x-k8s.io_xtelemetrypolicies.yaml", "XTelemetryPolicy.json"),
];
/// Where the output is kept.
const OUTPUT: &str = "crates/api/schemas/gateway-api";
/// Keywords of a schema that say nothing about validity.
const DROPPED: &[&str] = &["description", "title", "example", "externalDocs"];

/// Writes the schemas, or with `--check` says which files would change.
pub(crate) fn run(chore: &Chore<'_>) -> anyhow::Result<Outcome> {
    let check_only = chore.check_only()?;
    let written = outputs(&module()?.join(CRDS))?;
    let folder = chore.root.join(OUTPUT);
    let changed: Vec<_> = written
        .iter()
        .filter(|(name, text)| fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text))
        .collect();
    if check_only {
        changed.iter().for_each(|(name, _)| {
            say(&format!("schemas: {OUTPUT}/{name} is not as generated; run cargo xtask schemas"))
        });
        return Ok(if changed.is_empty() { Outcome::Fine } else { Outcome::Wrong });
    }
    fs::create_dir_all(&folder)?;
    for (name, text) in changed {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {OUTPUT}/{name}"))?;
    }
    say(&format!("schemas: {} kinds of {MODULE}", written.len()));
    Ok(Outcome::Fine)
}

/// The folder of the module, fetched if need be and checked against its sum.
fn module() -> anyhow::Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .output()
        .context("cannot run go, which fetches the module that the schemas come from (install golang)")?;
    // The command also fails where the module wants a newer Go than there is; what it downloaded is good all the same.
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("go mod download {MODULE} failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    ensure!(report["Sum"] == SUM, "the content of {MODULE} has the sum {} and not {SUM}", report["Sum"]);
    let folder = match (report["Dir"].as_str(), report["Zip"].as_str()) {
        (Some(folder), _) => PathBuf::from(folder),
        // `<cache>/cache/download/<module>/@v/v1.7.0.zip` stands beside `<cache>/<module>@v1.7.0`.
        (None, Some(zip)) => match zip.split_once("/cache/download/") {
            Some((cache, _)) => Path::new(cache).join(MODULE),
            None => bail!("{zip} is not in a module cache"),
        },
        (None, None) => bail!("go did not say where it put {MODULE}: {}", report["Error"]),
    };
    ensure!(folder.is_dir(), "go did not unpack {MODULE}: {}", report["Error"]);
    Ok(folder)
}

/// The text of every output file by name.
fn outputs(crds: &Path) -> anyhow::Result<BTreeMap<&'static str, String>> {
    KINDS.iter().map(|(crd, name)| Ok((*name, schema(&crds.join(crd)).with_context(|| format!("in {crd}"))?))).collect()
}

/// The schema of the version that a CRD's objects are stored in: one line of JSON per field of `spec` keeps diffs readable.
fn schema(crd: &Path) -> anyhow::Result<String> {
    let crd: Value = serde_saphyr::from_str(&fs::read_to_string(crd)?)?;
    let versions = crd["spec"]["versions"].as_array().context("a CRD has versions")?;
    let version = versions.iter().find(|version| version["storage"] == true).context("no version is stored")?;
    let mut schema = slim(&version["schema"]["openAPIV3Schema"]);
    let fields = schema["properties"].as_object_mut().context("the schema has properties")?;
    fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    let text = serde_json::to_string_pretty(&schema)?;
    let indented = text.lines().map(|line| {
        let depth = line.len() - line.trim_start().len();
        format!("{}{}", " ".repeat(depth / 2), line.trim_start())
    });
    Ok(indented.collect::<Vec<_>>().join("\n") + "\n")
}

/// A schema without what says nothing about validity, keywords sorted.
fn slim(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut kept = BTreeMap::new();
    for (name, value) in fields.iter().filter(|(name, _)| !DROPPED.contains(&name.as_str())) {
        let value = match name.as_str() {
            "properties" => sorted(value, slim),
            "items" | "additionalProperties" | "not" => slim(value),
            "oneOf" | "anyOf" | "allOf" => value.as_array().into_iter().flatten().map(slim).collect(),
            "x-kubernetes-validations" => value.as_array().into_iter().flatten().map(rule).collect(),
            _ => value.clone(),
        };
        kept.insert(name.clone(), value);
    }
    kept.into_iter().collect()
}

/// A CEL rule with its message; blanks at line ends say nothing.
fn rule(rule: &Value) -> Value {
    let text = |name: &str| {
        rule[name].as_str().map(|text| text.split('\n').map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned())
    };
    let mut kept = Map::new();
    for name in ["rule", "message", "messageExpression"] {
        kept.extend(text(name).map(|text| (name.to_owned(), json!(text))));
    }
    Value::Object(kept)
}

fn sorted(fields: &Value, map: fn(&Value) -> Value) -> Value {
    let fields: BTreeMap<_, _> = fields.as_object().into_iter().flatten().collect();
    fields.into_iter().map(|(name, value)| (name.clone(), map(value))).collect()
}
