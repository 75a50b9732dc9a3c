//! Tests of what policies close.

use std::sync::Arc;

use api::{Kind, ObjectKey};

use super::{Closers, ClosingClaim};
use crate::backend_traffic_policy::PolicyTarget;

fn policy(name: &str) -> ObjectKey {
    ObjectKey::of(Kind::SecurityPolicy, "default", name)
}

fn claim(policy: ObjectKey, section: Option<&str>) -> ClosingClaim {
    let object = ObjectKey::of(Kind::HttpRoute, "default", "r");
    ClosingClaim { target: PolicyTarget { object, section: section.map(Arc::from) }, policy }
}

#[test]
fn a_section_is_closed_by_policies_of_all_and_of_its_own() {
    let mut closers = Closers::default();
    closers.named(&claim(policy("b"), Some("one")), &"spec.jwt".into());
    closers.named(&claim(policy("a"), Some("one")), &"spec.oidc".into());
    let closing = closers.closing(false).expect("some");
    assert_eq!(closing.reason(None), None);
    assert_eq!(closing.reason(Some("two")), None);
    let reason = closing.reason(Some("one")).expect("closed");
    assert!(reason.ends_with("SecurityPolicy default/a (spec.oidc), SecurityPolicy default/b (spec.jwt)"), "{reason}");
    let mut closers = Closers::default();
    closers.selected(&policy("a"), &"spec.jwt".into());
    let closing = closers.closing(false).expect("some");
    assert!(closing.reason(None).is_some() && closing.reason(Some("one")).is_some());
    assert_eq!(&*closing.selected_by, [policy("a")]);
}

#[test]
fn nothing_is_closed_where_such_policies_are_allowed() {
    let mut closers = Closers::default();
    closers.named(&claim(policy("a"), None), &"spec.jwt".into());
    let closing = closers.closing(true).expect("some");
    assert!(closing.whole().is_some() && closing.reason(None).is_none());
    assert!(Closers::default().closing(false).is_none());
}

#[test]
fn of_many_policies_the_rest_is_counted() {
    let mut closers = Closers::default();
    for at in 0..12 {
        closers.named(&claim(policy(&format!("p{at:02}")), None), &"spec.jwt".into());
    }
    let closing = closers.closing(false).expect("some");
    assert!(closing.whole().is_some_and(|words| words.ends_with("SecurityPolicy default/p07 (spec.jwt) and 4 more")));
}
