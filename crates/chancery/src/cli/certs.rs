//! `chancery certs`: the authority that proxies of a cluster trust, as the Secret has it. Works through the kubeconfig; no Chancery has to run.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use provider::kubernetes::{Kept, SecretError, SecretStore, connect};
use serde_json::json;

use super::run::{duration, trust_domain};
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

#[derive(Debug, Subcommand)]
enum Deed {
    /// Announce another authority: it signs once proxies have had the time to learn of it (`--ca-overlap` of `chancery run`)
    Rotate,
    /// Sign a certificate for a Gateway's proxies outside the cluster, and write `GATEWAY.crt`, `GATEWAY.key` and `ca.crt` (whom they trust)
    /// into a folder, in place of those that are there: an Envoy with the files of `deploy/envoy-tls` takes
    /// them up without a restart
    Issue(IssueArgs),
}

#[derive(Debug, Args)]
struct IssueArgs {
    /// The Gateway; there may be none yet
    #[arg(value_name = "NAMESPACE/GATEWAY", value_parser = gateway)]
    gateway: String,
    /// Trust domain of the certificate: with an authority from elsewhere that of `--xds-trust-domain` of `chancery run`
    #[arg(long, value_name = "NAME", default_value = authority::TRUST_DOMAIN, value_parser = trust_domain)]
    trust_domain: String,
    /// Where to write the files; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How long the certificate holds; no longer than the authority
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    valid_for: Duration,
}

fn gateway(text: &str) -> Result<String, String> {
    let is_one = |(namespace, name): (&str, &str)| api::is_dns_label(namespace) && api::is_dns_subdomain(name);
    match text.split_once('/').is_some_and(is_one) {
        true => Ok(text.to_owned()),
        false => Err("not a namespace and a name: write for example default/edge".to_owned()),
    }
}

/// Exit code 1 if there is no authority that signs.
pub(crate) fn run(args: &CertsArgs) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let kept = runtime.block_on(look(args))?;
    let all = authority::list(&kept);
    let signs = all.iter().any(|one| one.role == Role::Signs && one.until > now());
    let (table, data) = match &args.deed {
        Some(Deed::Issue(wanted)) => issue(&kept, wanted)?,
        _ => (table(&all), as_data(&all)),
    };
    let text = match args.output {
        None => table,
        Some(DataFormat::Json) => format!("{data:#}\n"),
        Some(DataFormat::Yaml) => crate::yaml::document(&data),
    };
    write!(std::io::stdout(), "{text}")?;
    Ok(if signs { Outcome::Fine } else { Outcome::Problems })
}

/// The Secret, after what is to be done with it.
async fn look(args: &CertsArgs) -> anyhow::Result<Kept> {
    let client = connect(&args.cluster.connection()).await?;
    let name = args.ca_secret.clone().unwrap_or_else(|| format!("{}-ca", args.cluster.service()));
    let (namespace, name): (Arc<str>, Arc<str>) = (args.cluster.chancery_namespace_by_each_name()?.into(), name.into());
    let store = SecretStore::new(client, &namespace, &name);
    let kept = match args.deed {
        Some(Deed::Rotate) => Some(rotate(&store).await?),
        _ => store.read().await?,
    };
    kept.with_context(|| {
        format!("there is no Secret {namespace}/{name}: Chancery makes it when it starts (--chancery-namespace, --ca-secret)")
    })
}

/// Signs a certificate and writes it. The key comes last: who watches the files takes all of them then.
fn issue(
    kept: &Kept,
    IssueArgs { gateway, trust_domain, dir, valid_for }: &IssueArgs,
) -> anyhow::Result<(String, serde_json::Value)> {
    let authority = authority::current(kept).map_err(anyhow::Error::msg)?;
    let named = (&**trust_domain, &**gateway);
    let pair = authority::proxy_certificate(&authority, named, now(), *valid_for).map_err(anyhow::Error::msg)?;
    let until = authority::end(&pair.certificate).context("the certificate cannot be read")?;
    if until.0 < now().0 + i64::try_from(valid_for.as_secs()).unwrap_or(i64::MAX) {
        writeln!(std::io::stderr(), "it ends at {until}, with who signs it: there is no longer one")?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| dir.display().to_string())?;
    let (_, name) = gateway.rsplit_once('/').context("no Gateway")?;
    let file = |name: String, text: &str, mode| {
        let path = dir.join(name);
        replace(&path, text, mode).with_context(|| path.display().to_string()).map(|()| path.display().to_string())
    };
    let trusted = file("ca.crt".to_owned(), &authority.trusted, 0o644)?;
    let certificate = file(format!("{name}.crt"), &pair.certificate, 0o644)?;
    let key = file(format!("{name}.key"), &pair.key, 0o600)?;
    let table = format!("{gateway} until {until}\n  {certificate}\n  {key}\n  {trusted}\n");
    let data = json!({ "gateway": gateway, "until": until.to_string(), "certificate": certificate, "key": key, "trusted": trusted });
    Ok((table, data))
}

/// Replaces a file in one step, so that nobody reads half of it.
fn replace(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let _left_by_a_write_that_failed = std::fs::remove_file(&beside);
    let mut file = File::options().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
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
            Ok(()) => {
                writeln!(
                    std::io::stderr(),
                    "proxies outside the cluster need its ca.crt before it signs: `chancery certs issue` again"
                )?;
                return Ok(kept);
            }
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
