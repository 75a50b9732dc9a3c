//! TLS of the xDS address: the files it is in, read again when they change, and which Gateway a client's certificate names.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::OFlags;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use xds::{Fleets, Gate, Identity, Limits, Pem, Tls, TlsError};

use crate::cli::XdsTls;
use crate::core::is_workload;

#[cfg(test)]
mod tests;

/// How often the files are read: some kilobytes, about 30 µs. It finds a change however it is made: in place, by renaming, through a
/// `..data` link as in a mounted Secret.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A file may have so many bytes: all authorities that a system trusts are about 250 KB.
const MAX_FILE: u64 = 1 << 20;

/// The three files and what was read last.
pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: PathBuf,
    tls: Tls,
    pem: Pem,
}

impl CertificateFiles {
    /// Reads what the command line names; nothing if it names nothing.
    pub(super) fn read(args: &XdsTls) -> anyhow::Result<Option<Self>> {
        let XdsTls { xds_tls_cert: Some(certificate), xds_tls_key: Some(key), xds_client_ca: Some(client_ca), .. } =
            args
        else {
            return Ok(None);
        };
        let pem = read(certificate, key, client_ca)?;
        let tls = Tls::new(&pem).map_err(|error| told(certificate, key, client_ca, &error))?;
        let (certificate, key, client_ca) = (certificate.clone(), key.clone(), client_ca.clone());
        Ok(Some(Self { certificate, key, client_ca, tls, pem }))
    }

    /// What a listener is given.
    pub(super) fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Takes changes over until `stop`. What cannot be used is told and changes nothing.
    pub(super) async fn follow(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut failure = Failure::default();
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => return Ok(()),
            }
            match self.take_over() {
                Ok(true) => info!("the TLS certificates of xDS were replaced; connections that are open stay"),
                Ok(false) if failure.is_told => {
                    info!("the TLS files of xDS can be used again, and are what they were")
                }
                Ok(false) => {}
                Err(error) => {
                    if let Some(words) = failure.seen(format!("{error:#}")) {
                        warn!("{words}; what was read before is used, and the files are read again");
                    }
                    continue;
                }
            }
            failure = Failure::default();
        }
    }

    /// Reads the files. True if they have changed.
    fn take_over(&mut self) -> anyhow::Result<bool> {
        let pem = read(&self.certificate, &self.key, &self.client_ca)?;
        if pem == self.pem {
            return Ok(false);
        }
        self.tls.replace(&pem).map_err(|error| told(&self.certificate, &self.key, &self.client_ca, &error))?;
        self.pem = pem;
        Ok(true)
    }
}

/// What is wrong with the files: told once, and only if it is so two times in a row, as they are not replaced in one step.
#[derive(Default)]
struct Failure {
    words: String,
    times: usize,
    is_told: bool,
}

impl Failure {
    fn seen(&mut self, words: String) -> Option<&str> {
        if self.words == words {
            self.times += 1;
        } else {
            (self.words, self.times) = (words, 1);
        }
        self.is_told |= self.times == 2;
        (self.times == 2).then_some(&*self.words)
    }
}

fn read(certificate: &Path, key: &Path, client_ca: &Path) -> anyhow::Result<Pem> {
    let file = |option, file: &Path| read_file(file).with_context(|| format!("{option} {}", file.display()));
    Ok(Pem {
        certificate: file("--xds-tls-cert", certificate)?,
        key: file("--xds-tls-key", key)?,
        client_ca: file("--xds-client-ca", client_ca)?,
        anonymous: false,
    })
}

/// The content of a file; never waits for a pipe.
fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file; name a file in PEM"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("larger than {} MiB; name a file in PEM", MAX_FILE >> 20)));
    }
    Ok(bytes)
}

/// The error with the option and the file that it is about.
fn told(certificate: &Path, key: &Path, client_ca: &Path, error: &TlsError) -> anyhow::Error {
    let (option, file) = match error {
        TlsError::Certificate => ("--xds-tls-cert", certificate),
        TlsError::Key | TlsError::Mismatch => ("--xds-tls-key", key),
        TlsError::ClientCa => ("--xds-client-ca", client_ca),
    };
    anyhow::anyhow!("{option} {}: {error}", file.display())
}

/// Clients are the proxies of the Gateway that their certificate names, in this trust domain or in any.
pub(super) fn gate(domain: Option<String>, limits: Limits) -> Gate {
    Gate::new(Arc::new(fleets_of(domain)), limits)
}

/// The Gateway that a certificate names.
fn fleets_of(domain: Option<String>) -> impl Fn(&Identity) -> Fleets + Send + Sync + 'static {
    let wanted: Arc<str> = match &domain {
        Some(domain) => format!(
            "with --xds-trust-domain {domain} only a certificate with the URI spiffe://{domain}/<namespace>/<gateway> names a Gateway"
        )
        .into(),
        None => "a Gateway is named by the URI spiffe://<any domain>/<namespace>/<gateway>, or by the DNS name <gateway>.<namespace>".into(),
    };
    move |identity| fleets(identity, domain.as_deref()).unwrap_or_else(|| Fleets::Nobody(Arc::clone(&wanted)))
}

/// The fleet that a certificate names, in this trust domain or in any; none if it names none.
pub(super) fn fleets(identity: &Identity, domain: Option<&str>) -> Option<Fleets> {
    let fleet = gateway(&identity.name, domain)?;
    // What the proxy of a workload says of itself is whatever its owner likes.
    Some(if is_workload(&fleet) { Fleets::Only(fleet) } else { Fleets::These(vec![fleet]) })
}

/// The Gateway (`namespace/name`) that a certificate names: `spiffe://<domain>/<namespace>/<gateway>`, or the DNS name
/// `<gateway>.<namespace>`. A Gateway's name may have dots, a namespace has none. Who has said which domain gets no other, and no DNS name,
/// which can be that of a Service.
fn gateway(identity: &str, domain: Option<&str>) -> Option<Arc<str>> {
    let (namespace, name) = match identity.strip_prefix("spiffe://") {
        Some(rest) => {
            let (_, path) = rest.split_once('/').filter(|(named, _)| domain.is_none_or(|domain| domain == *named))?;
            if let Some(workload) = path.strip_prefix("workload/").filter(|rest| is_pair(rest)) {
                return Some(format!("workload/{workload}").into());
            }
            path.split_once('/').filter(|_| is_pair(path))?
        }
        None => {
            let (name, namespace) = identity.rsplit_once('.').filter(|_| domain.is_none())?;
            (namespace, name)
        }
    };
    (!namespace.is_empty() && !name.is_empty()).then(|| format!("{namespace}/{name}").into())
}

/// A namespace and a name.
fn is_pair(path: &str) -> bool {
    path.split_once('/')
        .is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'))
}
