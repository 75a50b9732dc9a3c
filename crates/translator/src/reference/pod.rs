//! References to Pods by their labels: an object that is for workloads of other namespaces names none of them, so that what it may have is asked the
//! other way round: which grants let it in, and to which Pods.

use std::sync::Arc;

use api::reference_grant::GrantTo;
use api::{Kind, ObjectKey, ReferenceGrant};

/// Who may have objects for workloads of other namespaces: those of a kind and a namespace, for Pods that a grant allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Guest {
    group: Arc<str>,
    kind: Arc<str>,
    namespace: Arc<str>,
}

impl Guest {
    pub(crate) fn of(object: &ObjectKey) -> Self {
        Self { group: object.group().into(), kind: object.kind_name().into(), namespace: object.namespace().into() }
    }
}

/// Whom a grant lets in to Pods of its namespace.
pub(crate) fn guests(grant: &ReferenceGrant) -> Vec<Guest> {
    if !grant.spec.to.iter().any(is_pods) {
        return Vec::new();
    }
    let from = grant.spec.from.iter();
    from.map(|from| Guest {
        group: (&*from.group).into(),
        kind: (&*from.kind).into(),
        namespace: (&*from.namespace).into(),
    })
    .collect()
}

/// Whether a grant that lets somebody in to Pods means this one.
pub(crate) fn grants_pod(grant: &ReferenceGrant, pod: &ObjectKey) -> bool {
    let named = |to: &GrantTo| to.name.as_deref().is_none_or(|name| name.is_empty() || name == pod.name());
    grant.spec.to.iter().any(|to| is_pods(to) && named(to))
}

fn is_pods(to: &GrantTo) -> bool {
    Kind::find(&to.group, &to.kind) == Some(Kind::Pod)
}
