//! What is asked of the API server, as rights: the chart's rules are made of it, and a test compares them.

use api::{Kind, Scope};

use super::kinds;

/// Rights on a kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Where they have to hold.
    pub reach: Reach,
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Plural of the kind.
    pub plural: &'static str,
    /// A part of the object that has rights of its own.
    pub part: Option<&'static str>,
    /// Only one object, the name of which the installation knows; none is all.
    pub only: Option<Only>,
    /// What is done.
    pub verbs: &'static [&'static str],
}

/// Which object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Only {
    /// The lease that the leader holds.
    Lease,
    /// The Secret with the authority.
    Authority,
}

/// Where rights have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// In the cluster, for what has no namespace.
    Cluster,
    /// In each namespace whose objects are read.
    Watched,
    /// In the namespace of the controller.
    Own,
}

/// Of kinds with a status of ours: one object is read before it is written.
const READ: &[&str] = &["get", "list", "watch"];

/// Of statuses: they are replaced whole, with the entries of others in them.
const WRITE_STATUS: &[&str] = &["update"];

/// Of the others; and of definitions, whose metadata says which kinds there are.
const FOLLOW: &[&str] = &["list", "watch"];

/// Of the lease that the leader holds, and of the Secret with the authority.
const KEEP: &[&str] = &["get", "update"];

/// Of the same: what is not there yet has no name by which it could be allowed.
const MAKE: &[&str] = &["create"];

/// Of classes: those that are in use have a finalizer.
const FINALIZE: &[&str] = &["patch"];

/// Of what replicas tell each other.
const EXCHANGE: &[&str] = &["create", "delete", "list", "patch", "watch"];

/// All that is asked.
#[must_use]
pub fn access() -> Vec<Access> {
    let reach = |kind: Kind| if kind.scope() == Scope::Cluster { Reach::Cluster } else { Reach::Watched };
    let of = |kind: Kind, part, verbs| Access {
        reach: reach(kind),
        group: kind.group(),
        plural: kind.plural(),
        part,
        only: None,
        verbs,
    };
    let other = |reach, group, plural, verbs| Access { reach, group, plural, part: None, only: None, verbs };
    let one = |only, of: Access| Access { only: Some(only), verbs: KEEP, ..of };
    let lease = other(Reach::Own, "coordination.k8s.io", "leases", MAKE);
    let secret = other(Reach::Own, Kind::Secret.group(), Kind::Secret.plural(), MAKE);
    let read = kinds().map(|kind| of(kind, None, if kind.own_status().is_some() { READ } else { FOLLOW }));
    let statuses =
        kinds().filter(|kind| kind.own_status().is_some()).map(|kind| of(kind, Some("status"), WRITE_STATUS));
    let others = [
        of(Kind::GatewayClass, None, FINALIZE),
        other(Reach::Cluster, "apiextensions.k8s.io", "customresourcedefinitions", FOLLOW),
        other(Reach::Cluster, "authentication.k8s.io", "tokenreviews", &["create"]),
        lease,
        one(Only::Lease, lease),
        secret,
        one(Only::Authority, secret),
        other(Reach::Own, Kind::ConfigMap.group(), Kind::ConfigMap.plural(), EXCHANGE),
        // Pods of proxies can be there, also where it is not watched.
        other(Reach::Own, "", "pods", FOLLOW),
    ];
    read.chain(statuses).chain(others).collect()
}

#[cfg(test)]
mod tests;
