//! `chancery certs`: the authority that proxies of a cluster trust, as the Secret has it. Works through the kubeconfig; no Chancery has to run.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use provider::kubernetes::{Kept, SecretError, SecretStore, connect};
use serde_json::json;

use super::{ClusterArgs, DataFormat, Outcome};
use crate::serve::kubernetes::authority::{self, Listed, Role, Terms};
use crate::serve::now;

/// Arguments of `chancery certs`.
#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    #[command(subcommand)]
    deed: Option<Deed>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Secret with the authority [default: the name of the Service with `-ca` behind it]
    #[arg(long, value_name = "NAME", global = true)]
    ca_secret: Option<String>,
    /// Print it for machines
    #[arg(long, short, value_enum, global = true)]
    output: Option<DataFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum Deed {
    /// Announce another authority: it signs once proxies have had the time to learn of it (`--ca-overlap` of `chancery run`)
    Rotate,
}

/// Exit code 1 if there is no authority that signs.
pub(crate) fn run(args: &CertsArgs) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let all = runtime.block_on(look(args))?;
    let text = match args.output {
        None => table(&all),
        Some(DataFormat::Json) => format!("{:#}\n", as_data(&all)),
        Some(DataFormat::Yaml) => crate::yaml::document(&as_data(&all)),
    };
    write!(std::io::stdout(), "{text}")?;
    let signs = all.iter().any(|one| one.role == Role::Signs && one.until > now());
    Ok(if signs { Outcome::Fine } else { Outcome::Problems })
}

async fn look(args: &CertsArgs) -> anyhow::Result<Vec<Listed>> {
    let client = connect(&args.cluster.connection()).await?;
    let name = args.ca_secret.clone().unwrap_or_else(|| format!("{}-ca", args.cluster.service()));
    let (namespace, name): (Arc<str>, Arc<str>) = (args.cluster.namespace().into(), name.into());
    let store = SecretStore::new(client, &namespace, &name);
    let kept = match args.deed {
        None => store.read().await?,
        Some(Deed::Rotate) => Some(rotate(&store).await?),
    };
    let kept = kept.with_context(|| {
        format!("there is no Secret {namespace}/{name}: Chancery makes it when it starts (--namespace, --ca-secret)")
    })?;
    Ok(authority::list(&kept))
}

/// Announces another authority, unless one is.
async fn rotate(store: &SecretStore) -> anyhow::Result<Kept> {
    loop {
        let mut kept = store.read().await?.context("there is no authority yet: Chancery makes it when it starts")?;
        if !authority::is_ours(&kept) {
            bail!("the authority is not Chancery's own: it is replaced where it comes from");
        }
        if authority::list(&kept).iter().any(|one| one.role == Role::Next) {
            writeln!(std::io::stderr(), "one is announced already")?;
            return Ok(kept);
        }
        authority::announce_next(&mut kept, now(), Terms::default()).map_err(anyhow::Error::msg)?;
        match store.write(&kept).await {
            Ok(()) => return Ok(kept),
            // A replica wrote in between.
            Err(SecretError::Changed(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

const fn word(role: Role) -> &'static str {
    match role {
        Role::Signs => "signs",
        Role::Next => "next",
        Role::Trusted => "trusted",
    }
}

fn table(all: &[Listed]) -> String {
    let mut text = format!("{:<8}  {:<20}  {:<20}  {}\n", "ROLE", "FROM", "UNTIL", "SUBJECT");
    for Listed { role, subject, from, until } in all {
        let _in_memory =
            writeln!(text, "{:<8}  {:<20}  {:<20}  {subject}", word(*role), from.to_string(), until.to_string());
    }
    text
}

fn as_data(all: &[Listed]) -> serde_json::Value {
    let one = |Listed { role, subject, from, until }: &Listed| json!({ "role": word(*role), "subject": subject, "from": from.to_string(), "until": until.to_string() });
    json!({ "authorities": all.iter().map(one).collect::<Vec<_>>() })
}
