//! `chancery proxy config`: what an Envoy says that it has.

use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use super::dump::{Kind, kind, summary, table};
use super::{connected, find, proxies};
use crate::cli::running::Running;
use crate::cli::{Format, Outcome};

/// Endpoints are left out unless they are asked for.
const PATH: &str = "/config_dump?include_eds";

/// Arguments of `chancery proxy config`.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// The proxy: `pod`, `pod.namespace`, `namespace/pod`, or `gateway/NAME` where one proxy serves it
    name: String,
    /// Only this kind
    #[arg(value_enum)]
    kind: Option<Kind>,
    /// How to print: as data it is what Envoy says, with all fields
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Asks the proxy itself.
pub(super) fn run(running: &Running, args: &ConfigArgs) -> anyhow::Result<Outcome> {
    let all = proxies(&connected(running)?)?;
    let proxy = find(&all, &args.name)?;
    let text = running.get_from_proxy(&proxy.name, &proxy.gateway, PATH)?;
    let dump: Value = serde_json::from_slice(&text).context("the proxy answered something that is no configuration")?;
    let text = match args.output {
        Format::Json => format!("{}\n", serde_json::to_string_pretty(args.kind.map_or(&dump, |of| kind(&dump, of)))?),
        Format::Yaml => crate::yaml::document(args.kind.map_or(&dump, |of| kind(&dump, of))),
        Format::Table | Format::Wide => match args.kind {
            None => summary(&dump),
            Some(Kind::Bootstrap) => crate::yaml::document(kind(&dump, Kind::Bootstrap)),
            Some(of) => table(&dump, of, args.output == Format::Wide),
        },
    };
    write!(std::io::stdout(), "{text}")?;
    Ok(Outcome::Fine)
}
