//! `chancery proxy config`: what an Envoy says that it has.

use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use super::dump::{Kind, kind, names, summary, table};
use super::routes::{self, Rules};
use super::{connected, find, proxies};
use crate::cli::columns::Screen;
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
    let mut dump: Value =
        serde_json::from_slice(&text).context("the proxy answered something that is no configuration")?;
    redact(&mut dump);
    let wide = args.output == Format::Wide;
    let screen = if wide { Screen::of_stdout().uncut() } else { Screen::of_stdout() };
    let text = match args.output {
        Format::Json => format!("{}\n", serde_json::to_string_pretty(args.kind.map_or(&dump, |of| kind(&dump, of)))?),
        Format::Yaml => crate::yaml::document(args.kind.map_or(&dump, |of| kind(&dump, of))),
        Format::Name => names(&dump, args.kind),
        Format::Table | Format::Wide => match args.kind {
            None => summary(&dump),
            Some(Kind::Bootstrap) => crate::yaml::document(kind(&dump, Kind::Bootstrap)),
            Some(Kind::Routes) => routes::table(&dump, &rules(running), wide, screen),
            Some(of) => table(&dump, of, wide, screen),
        },
    };
    write!(std::io::stdout(), "{text}")?;
    Ok(Outcome::Fine)
}

/// The rules that routes are made of. Another version of Chancery does not answer: routes are shown without their rules then.
fn rules(running: &Running) -> Rules {
    let ask = || -> anyhow::Result<Rules> {
        let text = running.get(&running.leader()?, "/rules")?;
        Ok(serde_json::from_slice(&text)?)
    };
    ask().unwrap_or_else(|error| {
        let _unread = writeln!(std::io::stderr(), "rules and lines are not shown: {error:#}");
        Rules::new()
    })
}

/// Replaces the token that a proxy sends with its xDS calls: Envoy hides private keys, and does not know that this is a secret.
const REDACTED: &str = "[redacted]";

/// Hides the values of all `initial_metadata` (`envoy.config.core.v3.GrpcService`).
fn redact(dump: &mut Value) {
    match dump {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("initial_metadata", Value::Array(headers)) => {
                        for value in headers.iter_mut().filter_map(|header| header.get_mut("value")) {
                            *value = REDACTED.into();
                        }
                    }
                    (_, value) => redact(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::redact;

    #[test]
    fn tokens_of_proxies_are_not_shown() {
        let mut dump =
            json!({"a": [{"initial_metadata": [{"key": "authorization", "value": "Bearer 1"}, {"key": "b"}]}]});
        redact(&mut dump);
        let shown =
            json!({"a": [{"initial_metadata": [{"key": "authorization", "value": "[redacted]"}, {"key": "b"}]}]});
        assert_eq!(dump, shown);
    }
}
