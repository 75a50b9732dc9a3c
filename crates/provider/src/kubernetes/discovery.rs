//! Which kinds the API server has, and in which version each is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Kind;
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::kubernetes::call::{Caller, Failure};
use crate::kubernetes::kinds;
use crate::kubernetes::pace::{Backoff, Pace};

#[cfg(test)]
mod tests;

/// Kinds with the version in which each is read.
pub(crate) type Served = BTreeMap<Kind, &'static str>;

/// What is known of what the server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// None before the first answer.
    pub(crate) served: Option<Served>,
    /// Why nobody knows better at the moment.
    pub(crate) trouble: Option<String>,
}

/// Looks when it is told to, and now and then; ends when nobody wants to know any more.
pub(crate) async fn run(caller: Caller, nudge: Arc<Notify>, found: watch::Sender<Found>) {
    let pace = caller.pace;
    let mut known = Known::default();
    // What was told to have changed may not be served yet: after a nudge the looks come soon, then seldom.
    let mut backoff = Backoff::new(pace.retry_first, pace.look);
    let mut failing = Backoff::new(pace.retry_first, pace.retry_last);
    while !found.is_closed() {
        let (trouble, wait) = match look(&caller).await {
            Ok(served) => {
                failing.reset();
                let settled = known.take(served, Instant::now(), &pace);
                (None, if settled { backoff.wait() } else { failing.wait() })
            }
            Err(Failure::Away(text) | Failure::Busy(text) | Failure::Forbidden(text) | Failure::Invalid(text)) => {
                (Some(text), failing.wait())
            }
            Err(_) => (Some("its list of kinds makes no sense".to_owned()), failing.wait()),
        };
        let now = Found { served: known.served.clone(), trouble };
        found.send_if_modified(|before| {
            let changed = *before != now;
            *before = now;
            changed
        });
        if timeout(wait, nudge.notified()).await.is_ok() {
            backoff.reset();
        }
    }
}

/// What the looks came to.
#[derive(Debug, Default)]
struct Known {
    served: Option<Served>,
    /// Kinds that were there and are not, and since when.
    missing: BTreeMap<Kind, Instant>,
}

impl Known {
    /// Takes what a look found; true if it is believed as it is.
    fn take(&mut self, mut found: Served, now: Instant, pace: &Pace) -> bool {
        self.missing.retain(|kind, _| !found.contains_key(kind));
        // Without a Gateway there would be nothing to serve: at a start too that is not believed at once.
        if self.served.is_none() && !found.contains_key(&Kind::Gateway) {
            let since = *self.missing.entry(Kind::Gateway).or_insert(now);
            if now.duration_since(since) < pace.missing {
                return false;
            }
            self.missing.clear();
        }
        let before = self.served.take().unwrap_or_default();
        for (kind, version) in before.into_iter().filter(|(kind, _)| !found.contains_key(kind)).collect::<Vec<_>>() {
            let since = *self.missing.entry(kind).or_insert(now);
            if now.duration_since(since) < pace.missing {
                found.insert(kind, version);
            } else {
                self.missing.remove(&kind);
            }
        }
        self.served = Some(found);
        self.missing.is_empty()
    }
}

/// Asks for every group in every version that we read.
async fn look(caller: &Caller) -> Result<Served, Failure> {
    let pairs: BTreeSet<(&str, &str)> =
        kinds().flat_map(|kind| kind.versions().iter().map(move |version| (kind.group(), *version))).collect();
    let mut plurals = BTreeMap::new();
    for (group, version) in pairs {
        plurals.insert((group, version), resources(caller, group, version).await?);
    }
    let has = |kind: Kind, version: &'static str| {
        plurals.get(&(kind.group(), version)).is_some_and(|all| all.contains(kind.plural()))
    };
    let newest = |kind: Kind| kind.versions().iter().copied().find(|version| has(kind, version));
    Ok(kinds().filter_map(|kind| Some((kind, newest(kind)?))).collect())
}

/// The plurals of a group in a version; none where the server does not have it.
async fn resources(caller: &Caller, group: &str, version: &str) -> Result<BTreeSet<String>, Failure> {
    let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| Failure::Away(error.to_string()))?;
    match caller.whole(request).await {
        Ok(text) => {
            let list: Resources = serde_json::from_slice(&text)
                .map_err(|error| Failure::Away(format!("its list of kinds is no JSON: {error}")))?;
            Ok(list.resources.into_iter().map(|resource| resource.name).collect())
        }
        Err(Failure::Missing) => Ok(BTreeSet::new()),
        Err(failure) => Err(failure),
    }
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
}
