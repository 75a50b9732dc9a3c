//! Whose a stream is: a Pod's token names its `ServiceAccount`, which may be that of a Gateway's proxies, and the Pod, which is a workload
//! otherwise; a certificate names the Gateway or the workload itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::Timestamp;
use infra::kubernetes::{service_account, usual_service_accounts};
use ir::FleetName;
use ir::infra::ObjectName;
use provider::kubernetes::presence::{PodId, Presence};
use provider::kubernetes::{Bearer, BoundPod, Client, ReviewError, TokenReviewer};
use tokio::sync::watch;
use tracing::{debug, warn};
use xds::{Fleets, Gate, Identity, Limits, Revoked, TokenError, VerifyToken, Verifying};

use super::super::{Wanted, certificates, now};
use super::authority::TRUST_DOMAIN;
use crate::core::is_workload;

#[cfg(test)]
mod tests;

/// What Kubernetes calls a `ServiceAccount`.
const ACCOUNT: &str = "system:serviceaccount:";

/// Which Gateways a `ServiceAccount` has proxies of. A clone is the same.
#[derive(Clone)]
pub(super) struct Accounts {
    known: watch::Sender<Arc<Known>>,
    /// The controller's namespace.
    namespace: Arc<str>,
}

#[derive(Default)]
struct Known {
    gateways: BTreeMap<ObjectName, Vec<Arc<str>>>,
    /// Until it is known which Gateways there are, those workloads that were served before; then none: a Pod of no Gateway is a workload.
    workloads: Option<BTreeSet<Arc<str>>>,
}

impl Accounts {
    /// Until it is known which Gateways there are, those of `last_good` are there.
    pub(super) fn new(last_good: &BTreeSet<Arc<str>>, namespace: &Arc<str>) -> Self {
        let mut gateways: BTreeMap<ObjectName, Vec<Arc<str>>> = BTreeMap::new();
        let (workloads, fleets): (BTreeSet<_>, BTreeSet<_>) =
            last_good.iter().cloned().partition(|fleet| is_workload(fleet));
        for fleet in fleets {
            let Some((own, name)) = fleet.split_once('/') else { continue };
            let gateway = ObjectName { namespace: own.into(), name: name.into() };
            for account in usual_service_accounts(&gateway, namespace) {
                gateways.entry(account).or_default().push(Arc::clone(&fleet));
            }
        }
        let known = Known { gateways, workloads: Some(workloads) };
        Self { known: watch::Sender::new(Arc::new(known)), namespace: Arc::clone(namespace) }
    }

    /// Follows which Gateways there are; ends with whoever tells.
    pub(super) async fn follow(self, mut infra: Wanted) -> anyhow::Result<()> {
        while infra.changed().await.is_ok() {
            let mut gateways: BTreeMap<ObjectName, Vec<Arc<str>>> = BTreeMap::new();
            for (fleet, infra) in infra.borrow_and_update().iter() {
                let Some(account) = service_account(infra, &self.namespace) else { continue };
                gateways.entry(account).or_default().push(Arc::clone(&fleet.0));
            }
            self.known.send_replace(Arc::new(Known { gateways, workloads: None }));
        }
        Ok(())
    }

    /// What a bearer may have: `<user>`, or `<user>/<Pod>` where the token is bound to one.
    fn fleets(&self, bearer: &str) -> Fleets {
        let (user, pod) = bearer.split_once('/').map_or((bearer, None), |(user, pod)| (user, Some(pod)));
        let account = user.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
        let Some((namespace, name)) = account else {
            return Fleets::Nobody(format!("{user} is no ServiceAccount").into());
        };
        let known = Arc::clone(&self.known.borrow());
        if let Some(fleets) = known.gateways.get(&ObjectName { namespace: namespace.into(), name: name.into() }) {
            return Fleets::These(fleets.clone());
        }
        let Some(pod) = pod else {
            let text = format!(
                "no Gateway has proxies with the account {user}, and its token is bound to no Pod: mount one as a projected volume"
            );
            return Fleets::Nobody(text.into());
        };
        let FleetName(workload) = FleetName::of_workload(namespace, pod);
        match &known.workloads {
            Some(workloads) if !workloads.contains(&workload) => {
                Fleets::Nobody("it is not known yet which Gateways and workloads there are".into())
            }
            _ => Fleets::Only(workload),
        }
    }
}

/// The trust domain whose certificates name Gateways. A clone is the same.
#[derive(Clone)]
pub(super) struct TrustDomain {
    /// The domain of an authority from elsewhere (`--xds-trust-domain`).
    elsewhere: Option<Arc<str>>,
    /// The authority is one that Chancery made.
    is_ours: Arc<AtomicBool>,
}

impl TrustDomain {
    /// Until [`TrustDomain::set`] says whose the authority is, it is from elsewhere.
    pub(super) fn new(elsewhere: Option<&str>) -> Self {
        Self { elsewhere: elsewhere.map(Arc::from), is_ours: Arc::default() }
    }

    /// Notes whether the authority is one that Chancery made.
    pub(super) fn set(&self, is_ours: bool) {
        self.is_ours.store(is_ours, Ordering::Release);
    }

    /// The fleet that a certificate names. Only URIs of the domain name one: an authority from elsewhere signs DNS names for others, and
    /// `<gateway>.<namespace>` is also a Service's.
    fn fleets(&self, identity: &Identity) -> Fleets {
        let ours = self.is_ours.load(Ordering::Acquire).then_some(TRUST_DOMAIN);
        let Some(domain) = ours.or(self.elsewhere.as_deref()) else {
            return Fleets::Nobody(NO_DOMAIN.into());
        };
        certificates::fleets(identity, Some(domain)).unwrap_or_else(|| {
            let text = format!("a certificate names a Gateway by the URI spiffe://{domain}/<namespace>/<gateway>");
            Fleets::Nobody(text.into())
        })
    }
}

/// Without a domain each certificate of an authority from elsewhere could name any Gateway, also one that was signed for another purpose.
const NO_DOMAIN: &str = "the authority is not Chancery's own: --xds-trust-domain has to say in which trust domain its certificates name Gateways";

/// Admits clients with a token for this audience, or with a certificate of the authority that names a Gateway.
pub(super) fn gate(
    (client, presence): (Client, Presence),
    audience: &str,
    (accounts, trust_domain): (Accounts, TrustDomain),
    limits: Limits,
) -> Gate {
    let fleets_of = move |identity: &Identity| {
        if identity.name.starts_with(ACCOUNT) { accounts.fleets(&identity.name) } else { trust_domain.fleets(identity) }
    };
    let reviews = Reviews(TokenReviewer::new(client, audience.into()), presence);
    Gate::with_tokens(Arc::new(fleets_of), limits, Arc::new(reviews))
}

/// Asks the API server about tokens, and is notified of Pods that go.
struct Reviews(TokenReviewer, Presence);

impl Reviews {
    /// Returns the signal that the Pod of a user's token is gone.
    fn revoked(&self, user: &str, pod: &BoundPod) -> Option<Revoked> {
        let (namespace, _) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
        let pod = PodId { namespace: namespace.into(), name: Arc::clone(&pod.name), uid: pod.uid.clone()? };
        Some(Revoked(self.1.track(&pod)))
    }
}

impl VerifyToken for Reviews {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        Box::pin(async move {
            match self.0.review(token).await {
                // A user who is no account must not be taken for what a certificate names.
                Ok(Bearer { user, .. }) if !user.starts_with(ACCOUNT) => {
                    debug!(%user, "a proxy's token is of no ServiceAccount");
                    Err(TokenError::Refused)
                }
                Ok(Bearer { user, pod, expires }) => {
                    let revoked = pod.as_ref().and_then(|pod| self.revoked(&user, pod));
                    let name = pod.map_or_else(|| Arc::clone(&user), |pod| format!("{user}/{}", pod.name).into());
                    Ok(Identity { name, expires: expires.map(|at| moment(at, now())), revoked })
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
