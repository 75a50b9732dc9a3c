//! Who leads: of several replicas the one that holds a `Lease` (`coordination.k8s.io/v1`), by the protocol of client-go's leader election,
//! so that a clock that is wrong does no harm: a lease is over when it has not changed for its duration by one's own clock.

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::kubernetes::Pace;
use crate::kubernetes::call::{Caller, Failure};

#[cfg(test)]
mod tests;

/// What leading needs.
#[derive(Clone)]
pub struct LeaderOptions {
    /// The API server.
    pub client: Client,
    /// The namespace of the lease.
    pub namespace: Arc<str>,
    /// The name of the lease: the same for all replicas.
    pub name: Arc<str>,
    /// Who we are: another one for each replica, and for each start of it.
    pub identity: Arc<str>,
    /// How long to wait for what.
    pub terms: Terms,
    /// The time, for people who look at the lease.
    pub clock: fn() -> Timestamp,
}

/// How long a lease holds (`EnvoyGateway.provider.kubernetes.leaderElection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long it holds after its last renewal: others wait so long.
    pub duration: Duration,
    /// How long the leader goes on without having been able to renew it: less than the duration, so that there are never two.
    pub renew_deadline: Duration,
    /// How often it is renewed, or looked at.
    pub retry: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// `Lease`, as far as it is read; the rest is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lease {
    #[serde(default)]
    spec: Spec,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

/// `Lease.spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<u32>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

impl Spec {
    fn is_held(&self) -> bool {
        self.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty())
    }
}

/// Tries to lead until `stop`, and tells `leads` whether we do. At the end the lease is given back, so that another leads at once.
pub async fn lead(options: LeaderOptions, leads: watch::Sender<bool>, stop: CancellationToken) {
    let mut elector = Elector::new(options);
    loop {
        let now_leads = elector.step().await;
        leads.send_if_modified(|leads| std::mem::replace(leads, now_leads) != now_leads);
        // Not in step with the others.
        let pause = Instant::now() + elector.options.terms.retry.mul_f64(1.0 + 0.2 * fastrand::f64());
        // And not beyond the end of our own lead.
        let next = elector.until.map_or(pause, |until| until.min(pause));
        tokio::select! {
            () = sleep_until(next) => {}
            () = stop.cancelled() => break,
        }
    }
    leads.send_replace(false);
    elector.release().await;
}

struct Elector {
    options: LeaderOptions,
    caller: Caller,
    /// What was seen last, and since when.
    seen: Option<(Spec, Instant)>,
    /// Until when we lead.
    until: Option<Instant>,
    trouble: Option<String>,
}

impl Elector {
    fn new(options: LeaderOptions) -> Self {
        let caller = Caller { client: options.client.clone(), pace: Pace::default() };
        Self { options, caller, seen: None, until: None, trouble: None }
    }

    /// Renews the lease or tries to get it; whether we lead then.
    async fn step(&mut self) -> bool {
        let began = Instant::now();
        let Terms { renew_deadline, retry, .. } = self.options.terms;
        // Who leads has no longer than it leads; who does not, has time.
        let patience = self.until.unwrap_or(began + renew_deadline.max(retry));
        let result = timeout_at(patience, self.attempt(began)).await;
        let result = result.unwrap_or_else(|_| Err(Failure::Away("no answer in time".to_owned())));
        match result {
            Ok(true) => {
                if self.until.is_none() {
                    info!(identity = %self.options.identity, "leads: statuses and proxies are this replica's business");
                }
                self.until = Some(began + renew_deadline);
            }
            Ok(false) => self.lost("another replica leads"),
            Err(failure) if self.until.is_none_or(|until| until <= Instant::now()) => {
                self.lost("the lease could not be renewed");
                self.tell(&failure);
            }
            Err(failure) => self.tell(&failure),
        }
        self.until.is_some()
    }

    fn lost(&mut self, why: &str) {
        if self.until.take().is_some() {
            warn!("leads no longer: {why}");
        }
    }

    /// Each trouble once.
    fn tell(&mut self, failure: &Failure) {
        let words = match failure {
            Failure::Conflict => return,
            Failure::Forbidden(text) => format!("may not use the lease {}: {text}", self.options.name),
            Failure::Away(text) | Failure::Busy(text) | Failure::Invalid(text) => text.clone(),
            Failure::Missing | Failure::Gone | Failure::Closed => "the API server has no leases".to_owned(),
        };
        if self.trouble.as_ref() != Some(&words) {
            warn!("leader election: {words}");
            self.trouble = Some(words);
        }
    }

    /// One try; whether we hold the lease then.
    async fn attempt(&mut self, now: Instant) -> Result<bool, Failure> {
        let lease = match self.caller.send("GET", &self.path(), Vec::new()).await {
            Ok(text) => read(&text)?,
            Err(Failure::Missing) => {
                let lease = self.fresh();
                self.send("POST", &self.folder(), &lease).await?;
                self.seen = Some((lease.spec, now));
                return Ok(true);
            }
            Err(failure) => return Err(failure),
        };
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != lease.spec) {
            self.seen = Some((lease.spec.clone(), now));
        }
        let ours = lease.spec.holder_identity.as_deref() == Some(&*self.options.identity);
        let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
        let holds = Duration::from_secs(lease.spec.lease_duration_seconds.unwrap_or_default().into());
        if !ours && lease.spec.is_held() && now < since + holds {
            return Ok(false);
        }
        let mut renewed = lease.clone();
        let time = self.time();
        renewed.spec.renew_time = Some(time.clone());
        renewed.spec.lease_duration_seconds = u32::try_from(self.options.terms.duration.as_secs()).ok();
        if !ours {
            renewed.spec.holder_identity = Some(self.options.identity.to_string());
            renewed.spec.acquire_time = Some(time);
            renewed.spec.lease_transitions = Some(lease.spec.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        self.send("PUT", &self.path(), &renewed).await?;
        self.seen = Some((renewed.spec, now));
        self.trouble = None;
        Ok(true)
    }

    /// Gives the lease back.
    async fn release(&mut self) {
        let Some(until) = self.until.take() else { return };
        let given_back = async {
            let mut lease = read(&self.caller.send("GET", &self.path(), Vec::new()).await?)?;
            if lease.spec.holder_identity.as_deref() == Some(&*self.options.identity) {
                lease.spec.holder_identity = Some(String::new());
                lease.spec.lease_duration_seconds = Some(1);
                self.send("PUT", &self.path(), &lease).await?;
            }
            Ok::<_, Failure>(())
        };
        let _another_waits_longer = timeout_at(until.min(Instant::now() + self.options.terms.retry), given_back).await;
    }

    fn fresh(&self) -> Lease {
        let metadata = serde_json::json!({ "name": &*self.options.name, "namespace": &*self.options.namespace });
        let rest = [("apiVersion", "coordination.k8s.io/v1".into()), ("kind", "Lease".into()), ("metadata", metadata)];
        let spec = Spec {
            holder_identity: Some(self.options.identity.to_string()),
            lease_duration_seconds: u32::try_from(self.options.terms.duration.as_secs()).ok(),
            acquire_time: Some(self.time()),
            renew_time: Some(self.time()),
            lease_transitions: Some(0),
            rest: serde_json::Map::new(),
        };
        Lease { spec, rest: rest.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
    }

    /// `MicroTime` of the Kubernetes API.
    fn time(&self) -> String {
        (self.options.clock)().to_string().replace('Z', ".000000Z")
    }

    fn folder(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.options.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.folder(), self.options.name)
    }

    async fn send(&self, method: &'static str, path: &str, lease: &Lease) -> Result<(), Failure> {
        let body = serde_json::to_vec(lease).map_err(|error| Failure::Invalid(error.to_string()))?;
        self.caller.send(method, path, body).await.map(drop)
    }
}

fn read(text: &[u8]) -> Result<Lease, Failure> {
    serde_json::from_slice(text).map_err(|error| Failure::Away(format!("the lease is no JSON: {error}")))
}
