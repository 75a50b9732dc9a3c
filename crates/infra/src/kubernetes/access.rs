//! What is asked of the API server, as rights: the chart's rules are made of it, and a test compares them.

use super::object::ObjectKind;

/// Of the objects of proxies: they are made by server-side apply, which is `create` and `patch`, and removed by name.
pub const VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];

/// Of nodes, whose addresses are those of Services of type `NodePort`. They belong to the cluster.
pub const NODES: (&str, &str, &[&str]) = ("", "nodes", &["list", "watch"]);

/// Rights on Chancery's own Service and its `EndpointSlice`s, in its namespace: no backend leads to the addresses there.
pub const OWN: [(&str, &str, &[&str]); 2] =
    [("", "services", &["list", "watch"]), ("discovery.k8s.io", "endpointslices", &["list", "watch"])];

/// Group (empty for the core group) and plural of each kind that is made, for [`VERBS`] in each namespace that can have proxies.
pub fn objects() -> impl Iterator<Item = (&'static str, &'static str)> {
    ObjectKind::ALL.into_iter().map(|kind| {
        let (version, _, plural) = kind.names();
        (version.split_once('/').map_or("", |(group, _)| group), plural)
    })
}
