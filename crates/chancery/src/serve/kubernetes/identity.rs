//! Whose a stream is: a Pod's token names its `ServiceAccount`, and that its Gateway; a certificate names the Gateway itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Timestamp;
use infra::kubernetes::{service_account, usual_service_accounts};
use ir::infra::ObjectName;
use provider::kubernetes::{Bearer, Client, ReviewError, TokenReviewer};
use tokio::sync::watch;
use tracing::{debug, warn};
use xds::{Fleets, Gate, Identity, Limits, TokenError, VerifyToken, Verifying};

use super::super::{Wanted, certificates, now};

#[cfg(test)]
mod tests;

/// What Kubernetes calls a `ServiceAccount`.
const ACCOUNT: &str = "system:serviceaccount:";

/// Which Gateways a `ServiceAccount` has proxies of. A clone is the same.
#[derive(Clone)]
pub(super) struct Accounts {
    known: watch::Sender<Arc<BTreeMap<ObjectName, Vec<Arc<str>>>>>,
    /// The controller's namespace.
    namespace: Arc<str>,
}

impl Accounts {
    /// Until it is known which Gateways there are, those of `last_good` are there.
    pub(super) fn new(last_good: &BTreeSet<Arc<str>>, namespace: &Arc<str>) -> Self {
        let mut all: BTreeMap<ObjectName, Vec<Arc<str>>> = BTreeMap::new();
        for fleet in last_good {
            let Some((own, name)) = fleet.split_once('/') else { continue };
            let gateway = ObjectName { namespace: own.into(), name: name.into() };
            for account in usual_service_accounts(&gateway, namespace) {
                all.entry(account).or_default().push(Arc::clone(fleet));
            }
        }
        Self { known: watch::Sender::new(Arc::new(all)), namespace: Arc::clone(namespace) }
    }

    /// Follows which Gateways there are; ends with whoever tells.
    pub(super) async fn follow(self, mut infra: Wanted) -> anyhow::Result<()> {
        while infra.changed().await.is_ok() {
            let mut all: BTreeMap<ObjectName, Vec<Arc<str>>> = BTreeMap::new();
            for (fleet, infra) in infra.borrow_and_update().iter() {
                let Some(account) = service_account(infra, &self.namespace) else { continue };
                all.entry(account).or_default().push(Arc::clone(&fleet.0));
            }
            self.known.send_replace(Arc::new(all));
        }
        Ok(())
    }

    fn fleets(&self, user: &str) -> Fleets {
        let account = user.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
        let account = account.map(|(namespace, name)| ObjectName { namespace: namespace.into(), name: name.into() });
        match account.and_then(|account| self.known.borrow().get(&account).cloned()) {
            Some(fleets) => Fleets::These(fleets),
            None => Fleets::Nobody(format!("no Gateway has proxies with the account {user}").into()),
        }
    }
}

/// Lets in who has a token for this audience, or a certificate of our authority.
pub(super) fn gate(client: Client, audience: &str, accounts: Accounts) -> Gate {
    let by_certificate = certificates::fleets_of(None);
    let fleets_of = move |identity: &Identity| {
        if identity.name.starts_with(ACCOUNT) { accounts.fleets(&identity.name) } else { by_certificate(identity) }
    };
    let reviews = Reviews(TokenReviewer::new(client, audience.into()));
    Gate::with_tokens(Arc::new(fleets_of), Limits::default(), Arc::new(reviews))
}

/// Asks the API server.
struct Reviews(TokenReviewer);

impl VerifyToken for Reviews {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        Box::pin(async move {
            match self.0.review(token).await {
                // A user who is no account must not be taken for what a certificate names.
                Ok(Bearer { user, .. }) if !user.starts_with(ACCOUNT) => {
                    debug!(%user, "a proxy's token is of no ServiceAccount");
                    Err(TokenError::Refused)
                }
                Ok(Bearer { user, expires }) => {
                    Ok(Identity { name: user, expires: expires.map(|at| moment(at, now())) })
                }
                // Refusals are logged by whoever asks, once in a while.
                Err(error @ ReviewError::Refused(_)) => {
                    debug!("{error}");
                    Err(TokenError::Refused)
                }
                Err(error @ ReviewError::Unavailable(_)) => {
                    warn!("{error}");
                    Err(TokenError::Unavailable)
                }
            }
        })
    }
}

/// The moment of a time.
fn moment(at: Timestamp, now: Timestamp) -> Instant {
    Instant::now() + Duration::from_secs(u64::try_from(at.0 - now.0).unwrap_or_default())
}
