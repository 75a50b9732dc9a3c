//! The certificate of the xDS server: signed by the authority that all replicas share, for a short time, and renewed with no restart.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::Timestamp;
use provider::kubernetes::{SecretError, SecretStore};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use xds::{Gate, Pem, Server, Tls};

use super::super::now;
use super::authority::{self, Announced, Authority, Pair, Terms};
use super::identity::TrustDomain;

/// How often the Secret is looked at: one request of a millisecond.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// After a failure.
const RETRY: Duration = Duration::from_secs(1);

/// What it is made from.
pub(super) struct Certificates {
    pub(super) store: SecretStore,
    /// Names of the server.
    pub(super) hosts: Vec<String>,
    pub(super) terms: Terms,
    /// Told whom proxies shall trust, as PEM.
    pub(super) announce: watch::Sender<Arc<str>>,
    /// Notified of whether Chancery made the authority.
    pub(super) trust_domain: TrustDomain,
}

/// What is in use.
struct InUse {
    authority: Authority,
    own: Pair,
}

impl Certificates {
    /// Serves xDS with TLS until `stop`, as soon as there is an authority, and sets `listening` then.
    pub(super) async fn serve(
        self,
        (server, address, gate): (Server, SocketAddr, Gate),
        listening: Arc<AtomicBool>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let (mut in_use, mut tls, mut trouble) = (None, None::<Tls>, None);
        let mut announced = Announced::default();
        loop {
            let pause = match self.renewed(in_use.as_ref(), &mut announced).await {
                Ok(None) => LOOK_AGAIN,
                Ok(Some(new)) => {
                    let pem = pem(&new);
                    // Before a certificate of it can be accepted.
                    self.trust_domain.set(new.authority.is_ours);
                    match &tls {
                        Some(tls) => tls.replace(&pem)?,
                        None => {
                            let new = Tls::new(&pem)?;
                            let bound = server.listen_tls(address, new.clone(), gate.clone());
                            info!(address = %bound.map_err(|error| anyhow::anyhow!("--xds-listen {address}: {error}"))?, "xDS with TLS");
                            tls = Some(new);
                            listening.store(true, Ordering::Release);
                        }
                    }
                    self.announce.send_replace(new.authority.trusted.as_str().into());
                    in_use = Some(new);
                    LOOK_AGAIN
                }
                Err(words) => {
                    if trouble.as_ref() != Some(&words) {
                        warn!("the authority of the cluster's proxies: {words}; it is tried again");
                    }
                    trouble = Some(words);
                    RETRY
                }
            };
            if pause == LOOK_AGAIN && trouble.take().is_some() {
                info!("the authority of the cluster's proxies is there again");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return Ok(()),
            }
        }
    }

    /// What shall be in use, if that is not what is.
    async fn renewed(&self, in_use: Option<&InUse>, announced: &mut Announced) -> Result<Option<InUse>, String> {
        let now = now();
        let authority = self.authority(now, announced).await?;
        let is_same = |old: &InUse| old.authority == authority && !authority::is_due(&old.own.certificate, now);
        if in_use.is_some_and(is_same) {
            return Ok(None);
        }
        let own = authority::server_certificate(&authority, &self.hosts, now, self.terms)?;
        let new = InUse { authority, own };
        // What the server cannot use changes nothing, and ends nothing.
        Tls::new(&pem(&new)).map_err(|error| format!("what the Secret has cannot be used: {error}"))?;
        Ok(Some(new))
    }

    /// What the Secret has, once it has what it shall. Of replicas that write at the same time one does, the others read it.
    async fn authority(&self, now: Timestamp, announced: &mut Announced) -> Result<Authority, String> {
        loop {
            let found = self.store.read().await.map_err(|error| error.to_string())?;
            let (authority, new) = authority::look(found, now, self.terms, announced)?;
            let Some(new) = new else { return Ok(authority) };
            match self.store.write(&new).await {
                Ok(()) => info!("the authority of the cluster's proxies was renewed"),
                Err(SecretError::Changed(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

fn pem(InUse { authority, own }: &InUse) -> Pem {
    Pem {
        certificate: own.certificate.clone().into_bytes(),
        key: own.key.clone().into_bytes(),
        client_ca: authority.trusted.clone().into_bytes(),
        anonymous: true,
    }
}
