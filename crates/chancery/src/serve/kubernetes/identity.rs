//! The identity of a stream: a Pod's token names the Pod, which is a proxy of a Gateway if it is one that Chancery made, and a workload otherwise; a
//! certificate names the Gateway or the workload itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::Timestamp;
use infra::kubernetes::{Owner, ProxyObjects, usual_service_accounts, workload};
use ir::FleetName;
use ir::infra::ObjectName;
use ir::infra::kubernetes::Place;
use provider::kubernetes::presence::{PodFacts, PodId, Presence};
use provider::kubernetes::{Bearer, Client, ReviewError, TokenRechecks, TokenReviewer};
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

/// Says which Gateway a Pod is a proxy of. A clone is the same.
#[derive(Clone)]
pub(super) struct Accounts {
    known: watch::Sender<Arc<Known>>,
    /// The controller's namespace.
    namespace: Arc<str>,
    presence: Presence,
    /// The accounts and workloads of proxies that the API server has.
    made: watch::Receiver<Arc<ProxyObjects>>,
}

#[derive(Default)]
struct Known {
    gateways: BTreeMap<Owner, Gateway>,
    /// Until it is known which Gateways there are, those workloads that were served before; then none: a Pod of no Gateway is a workload.
    workloads: Option<BTreeSet<Arc<str>>>,
}

/// A Gateway with proxies in the cluster.
struct Gateway {
    name: ObjectName,
    fleet: Arc<str>,
    place: Place,
}

impl Gateway {
    /// Returns true if Chancery makes proxies of this Gateway in a namespace. Those in the controller's own stay proxies while the
    /// place changes.
    fn has_proxies_in(&self, namespace: &str, controller: &str) -> bool {
        namespace == controller || (self.place == Place::Gateway && *namespace == *self.name.namespace)
    }
}

impl Known {
    fn add(&mut self, name: ObjectName, fleet: &Arc<str>, place: Place) {
        self.gateways.insert(Owner::of(&name), Gateway { name, fleet: Arc::clone(fleet), place });
    }
}

impl Accounts {
    /// Until it is known which Gateways there are, those of `last_good` are there, with proxies at `place`.
    pub(super) fn new(
        last_good: &BTreeSet<Arc<str>>,
        (namespace, place): (&Arc<str>, Place),
        presence: Presence,
        made: watch::Receiver<Arc<ProxyObjects>>,
    ) -> Self {
        let (workloads, fleets): (BTreeSet<_>, BTreeSet<_>) =
            last_good.iter().cloned().partition(|fleet| is_workload(fleet));
        let mut known = Known { gateways: BTreeMap::new(), workloads: Some(workloads) };
        for fleet in fleets {
            let Some((own, name)) = fleet.split_once('/') else { continue };
            known.add(ObjectName { namespace: own.into(), name: name.into() }, &fleet, place);
        }
        Self { known: watch::Sender::new(Arc::new(known)), namespace: Arc::clone(namespace), presence, made }
    }

    /// Follows which Gateways there are, until their sender is dropped.
    pub(super) async fn follow(self, mut infra: Wanted) -> anyhow::Result<()> {
        while infra.changed().await.is_ok() {
            let mut known = Known::default();
            for (fleet, infra) in infra.borrow_and_update().iter() {
                if let Some(kubernetes) = &infra.kubernetes {
                    known.add(infra.gateway.clone(), &fleet.0, kubernetes.place);
                }
            }
            self.known.send_replace(Arc::new(known));
        }
        Ok(())
    }

    /// The fleets of a bearer: `<user>`, or `<user>/<Pod>/<uid>` where the token is bound to a Pod.
    fn fleets(&self, bearer: &str) -> Fleets {
        let mut parts = bearer.splitn(3, '/');
        let user = parts.next().unwrap_or_default();
        let Some(account) = account(user) else {
            return Fleets::Nobody(format!("{user} is no ServiceAccount").into());
        };
        let (Some(pod), Some(uid)) = (parts.next(), parts.next()) else {
            return Fleets::Nobody(
                format!("the token of {user} is bound to no Pod: mount one as a projected volume").into(),
            );
        };
        let known = Arc::clone(&self.known.borrow());
        let made = Arc::clone(&self.made.borrow());
        let owner = match self.presence.facts(uid) {
            Some(facts) => Owner::of_pod(&facts.labels).map(|owner| (owner, facts)),
            None if self.is_of_proxies(&account, &known, &made) => {
                let text = format!(
                    "it cannot be looked up whether the Pod {pod} is a proxy: allow Chancery to list pods in {}",
                    account.namespace
                );
                return Fleets::Nobody(text.into());
            }
            None => None,
        };
        if let Some((owner, facts)) = owner {
            return self.proxy(&owner, &facts, &account, (&known, &made));
        }
        let FleetName(workload) = FleetName::of_workload(&account.namespace, pod);
        match &known.workloads {
            Some(workloads) if !workloads.contains(&workload) => {
                Fleets::Nobody("it is not known yet which Gateways and workloads there are".into())
            }
            _ => Fleets::Only(workload),
        }
    }

    /// The fleet of a Pod whose labels name a Gateway. Labels and accounts are names that users write: what counts is that Chancery made the Pod's account and its
    /// workload for that Gateway.
    fn proxy(
        &self,
        owner: &Owner,
        facts: &PodFacts,
        account: &ObjectName,
        (known, made): (&Known, &ProxyObjects),
    ) -> Fleets {
        let Some(gateway) = known.gateways.get(owner) else {
            return Fleets::Nobody(
                format!("its Pod has the labels of Gateway {owner}, which is not one of Chancery's").into(),
            );
        };
        let refused =
            |why: &str| Fleets::Nobody(format!("its Pod has the labels of Gateway {owner}, but {why}").into());
        if !gateway.has_proxies_in(&account.namespace, &self.namespace) {
            return refused("is in a namespace in which Chancery makes no proxies of this Gateway");
        }
        if made.is_listed() {
            return match made.check(owner, account, facts.controller.as_ref()) {
                Ok(()) => Fleets::These(vec![Arc::clone(&gateway.fleet)]),
                Err(why) => refused(&why.to_string()),
            };
        }
        let usual = usual_service_accounts(&gateway.name, &self.namespace);
        let name = workload(facts.controller.as_ref()).map(|(_, name)| name);
        if usual.contains(account) && name == Some(&*account.name) {
            return Fleets::These(vec![Arc::clone(&gateway.fleet)]);
        }
        refused("it is not known yet which accounts and workloads Chancery made")
    }

    /// Returns true if proxies of a Gateway can have this account.
    fn is_of_proxies(&self, account: &ObjectName, known: &Known, made: &ProxyObjects) -> bool {
        let usual = |gateway: &Gateway| usual_service_accounts(&gateway.name, &self.namespace).contains(account);
        made.has_account(account) || (!made.is_listed() && known.gateways.values().any(usual))
    }
}

/// The account of a user.
fn account(user: &str) -> Option<ObjectName> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    Some(ObjectName { namespace: namespace.into(), name: name.into() })
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

/// Admits clients with a token that was accepted, or with a certificate of the authority that names a Gateway.
pub(super) fn gate(reviews: Reviews, (accounts, trust_domain): (Accounts, TrustDomain), limits: Limits) -> Gate {
    let fleets_of = move |identity: &Identity| {
        if identity.name.starts_with(ACCOUNT) { accounts.fleets(&identity.name) } else { trust_domain.fleets(identity) }
    };
    Gate::with_tokens(Arc::new(fleets_of), limits, Arc::new(reviews))
}

/// Asks the API server about tokens, and is notified of tokens that are withdrawn and of Pods that go.
pub(super) struct Reviews {
    pub(super) client: Client,
    pub(super) reviewer: TokenReviewer,
    pub(super) presence: Presence,
    pub(super) rechecks: TokenRechecks,
}

impl Reviews {
    /// The identity of a token that the API server has accepted.
    async fn identity(&self, token: &str, Bearer { user, uid, pod, expires }: Bearer) -> Result<Identity, TokenError> {
        // A user that is no account must not be taken for what a certificate names.
        let Some(account) = account(&user) else {
            debug!(%user, "a proxy's token is of no ServiceAccount");
            return Err(TokenError::Refused);
        };
        let bound = pod.and_then(|pod| Some(PodId { namespace: account.namespace, name: pod.name, uid: pod.uid? }));
        // It names no proxy and no workload, so it takes no place from those that do.
        let Some(pod) = bound else {
            debug!(%user, "a token is bound to no Pod: mount one as a projected volume");
            return Err(TokenError::Refused);
        };
        let Some(withdrawn) = self.rechecks.keep(token, &uid, Some(&pod), (expires, now())) else {
            return Err(TokenError::Unavailable);
        };
        // The API server remembers a review for some seconds, in which the Pod may have gone.
        let gone = self.presence.find(&self.client, &pod).await;
        if *gone.borrow() {
            debug!(namespace = %pod.namespace, pod = %pod.name, "the Pod of a token is gone");
            return Err(TokenError::Refused);
        }
        let name = format!("{user}/{}/{}", pod.name, pod.uid).into();
        Ok(Identity {
            name,
            expires: expires.map(|at| moment(at, now())),
            revoked: Some(Revoked(vec![withdrawn, gone])),
        })
    }
}

impl VerifyToken for Reviews {
    /// The namespace of its account.
    fn group<'a>(&self, identity: &'a Identity) -> &'a str {
        let account = identity.name.strip_prefix(ACCOUNT);
        account.and_then(|account| account.split_once(':')).map_or(&*identity.name, |(namespace, _)| namespace)
    }

    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        Box::pin(async move {
            match self.reviewer.review(token).await {
                Ok(bearer) => self.identity(token, bearer).await,
                // Refusals are logged by the gate, once in a while.
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
