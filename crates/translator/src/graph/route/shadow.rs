//! Notices at routes whose requests go to a more specific listener of a `ListenerSet` of another namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use engine::{Cx, Graph, Table};

use super::super::Gateways;
use super::BucketIndex;
use crate::gating::Effective;
use crate::hostname::Hostname;
use crate::key::{AttachmentKey, Bucket, EntryKey, ListenerKey, ProblemKey};
use crate::listener::{SetListener, Shadows, shadows};

/// Largest number of entries of a host name whose routes get a notice. A change of the host's entries looks at all of these: 1,000 are some 0.1 ms, and the
/// routes of a host name are rarely more than a few dozen. The notices of the first routes are enough to find the others.
const MOST_ENTRIES: usize = 1_000;

/// Declares the tables of problems, for routes of requests and of connections.
pub(super) fn problems(
    g: &mut Graph,
    gateways: Gateways,
    effective: Table<AttachmentKey, Effective>,
    buckets: [BucketIndex; 2],
) -> [Table<ProblemKey, Arc<Problem>>; 2] {
    let shadows = g.derive("listener_shadow", gateways.plans, |_, _, plan| {
        let rows = shadows(plan.live_listeners(), plan.live_by_owner());
        let key = |listener| ListenerKey { fleet: plan.fleet.clone(), listener };
        rows.into_iter().map(|(listener, shadows)| (key(listener), Arc::new(shadows))).collect::<Vec<_>>()
    });
    let [requests, streams] = buckets;
    [
        of_buckets(g, ["shadowed_host", "shadowed_route"], requests, (shadows, effective)),
        of_buckets(g, ["shadowed_stream_host", "shadowed_stream_route"], streams, (shadows, effective)),
    ]
}

/// Asks once for each host name of a listener, when it is added, and looks at the routes of those that are shadowed, few if any.
fn of_buckets(
    g: &mut Graph,
    [hosts, routes]: [&'static str; 2],
    by_bucket: BucketIndex,
    (shadows, effective): (Table<ListenerKey, Arc<Shadows>>, Table<AttachmentKey, Effective>),
) -> Table<ProblemKey, Arc<Problem>> {
    let shadowed = g.distinct(hosts, by_bucket, move |cx, bucket: &Arc<Bucket>| {
        let listener = cx.get(shadows, &bucket.listener)?.find(&bucket.hostname)?;
        Some((bucket.clone(), listener.clone()))
    });
    g.derive(routes, shadowed, move |cx, bucket: &Arc<Bucket>, listener: &Arc<SetListener>| {
        let entries = cx.keys(by_bucket, bucket).take(MOST_ENTRIES);
        let routes: BTreeSet<&ObjectKey> = entries.map(|key: &EntryKey| &key.route).collect();
        let others = routes.into_iter().filter(|route| route.namespace() != listener.set.namespace());
        let lost = others.filter(|route| !is_at(cx, effective, (bucket, listener), route));
        lost.map(|route| notice(bucket, listener, route)).collect::<Vec<_>>()
    })
}

/// Returns true if a route is attached to the more specific listener as well.
fn is_at(
    cx: &mut Cx<'_>,
    effective: Table<AttachmentKey, Effective>,
    (bucket, listener): (&Bucket, &SetListener),
    route: &ObjectKey,
) -> bool {
    let key = AttachmentKey { fleet: bucket.listener.fleet.clone(), route: route.clone() };
    let has = |hostnames: &[Hostname]| hostnames.contains(&bucket.hostname);
    cx.get(effective, &key).is_some_and(|effective| {
        let mut listeners = effective.form.listeners.iter();
        listeners.any(|one| one.listener == listener.id && has(&one.hostnames))
    })
}

fn notice(bucket: &Bucket, listener: &SetListener, route: &ObjectKey) -> (ProblemKey, Arc<Problem>) {
    let (host, own, SetListener { set, name, .. }) = (bucket.hostname.domain(), &bucket.listener.listener, listener);
    let text = format!(
        "requests for {host} do not come to this route at listener {own}: listener {name} of {set} is more specific and gets them; attach the route to that \
         ListenerSet, or let the Gateway have a listener for {host} of its own"
    );
    let place = [&*bucket.listener.fleet.0, &**own, &*host];
    (ProblemKey::hashed(route, &place), Arc::new(Problem::of(route, "spec.hostnames", Severity::Warning, text)))
}
