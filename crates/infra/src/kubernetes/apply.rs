//! One fleet's objects made as they shall be, in order: what is there is looked at first, so that nothing of somebody else is touched.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

use super::call::{Caller, Failure};
use super::fields;
use super::name::{Owner, Whose, whose};
use super::object::{Fault, IN_CLUSTER, ObjectKind, Wanted, put_cluster_addresses};
use super::seen::{ObjectId, Raw};

/// The annotation with the hash of what was applied last.
pub(super) const APPLIED: &str = "chancery.io/applied";

/// No object has this version: applied with it, one is made, and one that is there meanwhile is not touched.
const NOT_THERE: &str = "1";

/// What is to be done for a fleet.
pub(super) struct Job {
    pub(super) caller: Caller,
    pub(super) owner: Owner,
    /// The label of this installation.
    pub(super) controller: Arc<str>,
    /// What there shall be and is not known to be.
    pub(super) wanted: Vec<(ObjectId, Wanted)>,
    /// What has to go, in this order: objects and their uids. Something has to go only once all is there that shall be.
    pub(super) stale: Vec<(ObjectId, Arc<str>)>,
    /// Whether anything may be written.
    pub(super) leading: watch::Receiver<bool>,
}

/// What a job came to.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Objects that are as they shall be.
    pub(super) settled: Vec<(ObjectId, Settled)>,
    /// Objects that were removed, with their uids.
    pub(super) removed: Vec<(ObjectId, Arc<str>)>,
    /// What the server said of the others, or what is in their place.
    pub(super) refused: BTreeMap<ObjectId, Refusal>,
    /// The rest could not be tried; why.
    pub(super) away: Option<String>,
}

/// How an object was when it was as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    /// The hash of what was asked for.
    pub(super) content: u64,
    pub(super) uid: Arc<str>,
    pub(super) version: u64,
    /// See [`fields::hash`].
    pub(super) own_fields: u64,
}

/// Why an object is not as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Somebody else's object has its name.
    Taken(Arc<str>),
    /// The server does not take it.
    Words(Fault),
    /// All of it is as it shall be but for addresses in the cluster, which it does not give: its words.
    Addresses(Arc<str>),
    /// Its namespace goes: nothing helps.
    Terminating(Arc<str>),
    /// What is there is on its way out; the next one comes after it.
    Leaving,
}

impl Refusal {
    /// The same where it was refused before: of addresses the first words say why, those of another trial only that the Service is made by now.
    pub(super) fn after(self, before: Option<&Self>) -> Self {
        match (&self, before) {
            (Self::Addresses(now), Some(Self::Addresses(first))) if repeats(now, first) => {
                Self::Addresses(first.clone())
            }
            _ => self,
        }
    }
}

/// What the API server says of addresses of a Service that has others.
pub(super) const FIXED: &str = "may not change once set";

/// Whether it says so of addresses that the first words are about; it quotes them.
fn repeats(now: &str, first: &str) -> bool {
    let mut quoted = now.split('"').filter(|text| text.parse::<IpAddr>().is_ok()).peekable();
    now.contains(FIXED) && quoted.peek().is_some() && quoted.all(|address| first.contains(address))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken(text) | Self::Terminating(text) | Self::Addresses(text) | Self::Words(Fault { text, .. }) => {
                text
            }
            Self::Leaving => "the one before it is not gone yet",
        })
    }
}

/// Why the rest of a job is not done.
type Stop = Option<String>;

impl Job {
    pub(super) async fn run(self) -> Done {
        let mut done = Done::default();
        for (id, wanted) in &self.wanted {
            // Pods would have the rights of an account that is somebody else's.
            if id.kind.has_pods() && done.refused.keys().any(|refused| refused.kind == ObjectKind::ServiceAccount) {
                continue;
            }
            if let Err(stop) = self.put(id, wanted, &mut done).await {
                done.away = stop;
                return done;
            }
        }
        self.clear(&mut done).await;
        done
    }

    async fn put(&self, id: &ObjectId, wanted: &Wanted, done: &mut Done) -> Result<(), Stop> {
        let Ok(object) = &wanted.object else { return Ok(()) };
        let content = content(object);
        let live = match self.caller.get(id).await {
            Ok(live) => live,
            Err(failure) => return refuse(id, failure, done),
        };
        if let Some(refusal) = live.as_ref().and_then(|live| self.taken(id, live)) {
            done.refused.insert(id.clone(), refusal);
            return Ok(());
        }
        if let Some(live) = live.as_ref().filter(|live| is_as_applied(live, object, content)) {
            done.settled.push((id.clone(), Settled::new(content, live)));
            return Ok(());
        }
        if !*self.leading.borrow() {
            return Ok(());
        }
        let mut marked = marked(object.clone(), content, live.as_ref());
        live.iter().for_each(|live| keep_replicas(&mut marked, live));
        match self.caller.apply(id, &marked).await {
            Ok(live) => {
                tracing::debug!(gateway = self.gateway(), object = %id, "applied");
                done.settled.push((id.clone(), Settled::new(content, &live)));
                Ok(())
            }
            Err(Failure::Invalid(text)) if self.does_without(id, &marked, &wanted.cluster_addresses).await => {
                done.refused.insert(id.clone(), Refusal::Addresses(text.into()));
                Ok(())
            }
            Err(failure) => refuse(id, failure, done),
        }
    }

    /// Makes a Service what it shall be but for addresses in the cluster that it cannot have; false if it is not because of them.
    async fn does_without(&self, id: &ObjectId, object: &Value, asked: &[IpAddr]) -> bool {
        for less in fewer_addresses(object, asked) {
            if self.caller.apply(id, &less).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Whether what is there is not to be touched.
    fn taken(&self, id: &ObjectId, live: &Raw) -> Option<Refusal> {
        let text = match whose(&live.metadata, &self.owner, &self.controller) {
            Whose::Ours if live.metadata.deletion_timestamp.is_some() => return Some(Refusal::Leaving),
            Whose::Ours => return None,
            Whose::Foreign => format!("{id} is there already and was not made by Chancery"),
            Whose::Other(owner) => format!("{id} is that of the Gateway {}/{}", owner.namespace, owner.name),
            Whose::Elsewhere(label) => {
                format!("{id} was made by another installation of Chancery (chancery.io/controller={label})")
            }
        };
        let remedy = match field(id.kind) {
            Some(_) if id.kind == ObjectKind::ServiceAccount => "; remove it, or name another one in EnvoyProxy",
            Some(_) => "; remove it, or give this one another name in EnvoyProxy",
            None => "; remove it",
        };
        Some(Refusal::Taken(format!("{text}: it is left alone{remedy}").into()))
    }

    /// Removes what has to go.
    async fn clear(&self, done: &mut Done) {
        for (id, uid) in &self.stale {
            if !*self.leading.borrow() {
                return;
            }
            match self.caller.delete(id, uid).await {
                // another one of that name: the watch tells of it
                Ok(()) | Err(Failure::Outdated) => {
                    tracing::debug!(gateway = self.gateway(), object = %id, "removed");
                    done.removed.push((id.clone(), Arc::clone(uid)));
                }
                Err(failure) => {
                    if let Err(stop) = refuse(id, failure, done) {
                        done.away = stop;
                        return;
                    }
                }
            }
        }
    }

    fn gateway(&self) -> String {
        format!("{}/{}", self.owner.namespace, self.owner.name)
    }
}

impl Settled {
    fn new(content: u64, live: &Raw) -> Self {
        Self { content, uid: live.uid(), version: live.version(), own_fields: live.own_fields() }
    }
}

/// The hash of what is asked for.
pub(super) fn content(object: &Value) -> u64 {
    xxh3_64(object.to_string().as_bytes())
}

/// A Service with fewer of the addresses that we ask for in the cluster: where there are two, with each of them, then with none.
fn fewer_addresses(object: &Value, asked: &[IpAddr]) -> Vec<Value> {
    let address = object.get("spec").and_then(|spec| spec.get(IN_CLUSTER)?.as_str()?.parse::<IpAddr>().ok());
    if address.is_none() || address.as_ref() != asked.first() {
        return Vec::new();
    }
    let each = asked.chunks(1).filter(|_| asked.len() > 1);
    let without = |addresses: &[IpAddr]| {
        let mut object = object.clone();
        if let Some(Value::Object(spec)) = object.get_mut("spec") {
            put_cluster_addresses(spec, addresses);
        }
        object
    };
    each.chain([&[][..]]).map(without).collect()
}

/// The field of `EnvoyProxy` that describes an object of a kind.
fn field(kind: ObjectKind) -> Option<&'static str> {
    match kind {
        ObjectKind::ServiceAccount => Some("spec.provider.kubernetes.envoyServiceAccount"),
        ObjectKind::ConfigMap => None,
        ObjectKind::Service => Some("spec.provider.kubernetes.envoyService"),
        ObjectKind::Deployment => Some("spec.provider.kubernetes.envoyDeployment"),
        ObjectKind::DaemonSet => Some("spec.provider.kubernetes.envoyDaemonSet"),
        ObjectKind::HorizontalPodAutoscaler => Some("spec.provider.kubernetes.envoyHpa"),
        ObjectKind::PodDisruptionBudget => Some("spec.provider.kubernetes.envoyPDB"),
    }
}

/// What a failure means for an object, and for the rest of the job.
fn refuse(id: &ObjectId, failure: Failure, done: &mut Done) -> Result<(), Stop> {
    let refusal = match failure {
        Failure::Away(text) => return Err(Some(text)),
        Failure::Outdated => return Err(Some(format!("{id} was changed meanwhile"))),
        Failure::Terminating => {
            let text = format!("the namespace {} is being deleted: nothing can be made in it", id.namespace);
            Refusal::Terminating(text.into())
        }
        Failure::Invalid(text) => {
            let text = format!("the API server refuses {id}: {text}");
            Refusal::Words(Fault { path: field(id.kind).unwrap_or_default().into(), text: text.into() })
        }
        Failure::Refused(text) => {
            let text = format!("the API server does not let us make {id} what it shall be: {text}");
            Refusal::Words(Fault { path: "".into(), text: text.into() })
        }
    };
    done.refused.insert(id.clone(), refusal);
    Ok(())
}

/// Whether an object was applied in this form, and nobody has taken a field of it since.
fn is_as_applied(live: &Raw, object: &Value, content: u64) -> bool {
    let applied = live.metadata.annotations.as_ref().and_then(|annotations| annotations.get(APPLIED));
    let own = fields::own(live.metadata.managed_fields.as_deref().unwrap_or_default());
    applied.is_some_and(|applied| *applied == hex(content)) && own.is_some_and(|own| fields::cover(own, object))
}

fn hex(content: u64) -> String {
    format!("{content:016x}")
}

/// A number of Pods that was ours and is to be an autoscaler's stays what it is until that one changes it: let go, it would be 1.
fn keep_replicas(object: &mut Value, live: &Raw) {
    let own = fields::own(live.metadata.managed_fields.as_deref().unwrap_or_default());
    let is_ours = own.and_then(|own| own.get("f:spec")?.get("f:replicas")).is_some();
    let spec = object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| is_ours);
    if let (Some(spec), Some(replicas)) = (spec, live.replicas()) {
        spec.entry("replicas").or_insert_with(|| replicas.into());
    }
}

/// What is sent: with its hash, and only for the object as it was when it was looked at. Only by its version a server tells whether that
/// holds; only by its uid, whether it is gone.
fn marked(mut object: Value, content: u64, live: Option<&Raw>) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return object };
    let version = live.and_then(|live| live.metadata.resource_version.as_deref()).unwrap_or(NOT_THERE);
    metadata.insert("resourceVersion".to_owned(), version.into());
    metadata.extend(live.map(|live| ("uid".to_owned(), (*live.uid()).into())));
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(APPLIED.to_owned(), hex(content).into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn the_first_words_about_addresses_stay() {
        let addresses = |words: &str| Refusal::Addresses(words.into());
        let first = addresses("spec.clusterIPs: Invalid value: [\"192.0.2.1\"]: not in the valid range");
        let again = addresses("spec.clusterIPs[0]: Invalid value: [\"192.0.2.1\"]: may not change once set");
        let other = addresses("spec.clusterIPs[0]: Invalid value: [\"192.0.2.9\"]: may not change once set");
        assert_eq!(again.clone().after(Some(&first)), first);
        assert_eq!(other.clone().after(Some(&first)), other);
        assert_eq!(again.clone().after(None), again);
        assert_eq!(first.clone().after(Some(&again)), first);
    }
}
