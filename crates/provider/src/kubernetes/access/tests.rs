//! Which rights are needed where.

use super::*;
use crate::kubernetes::is_named;

#[test]
fn what_is_read_only_where_it_is_named_can_be_allowed_in_some_namespaces_only() {
    let named: Vec<_> = access()
        .into_iter()
        .filter(|access| {
            let mut named = kinds().filter(|kind| is_named(*kind) && kind.scope() == api::Scope::Namespaced);
            named.any(|kind| kind.plural() == access.plural)
        })
        .collect();
    assert_eq!(named.len(), 5);
    assert!(named.iter().all(|access| access.reach != Reach::Cluster));
}
