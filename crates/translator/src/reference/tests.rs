//! The index of grants against what each grant says.

use api::ObjectMeta;
use api::reference_grant::{GrantFrom, GrantTo, ReferenceGrantSpec};

use super::*;

struct Indexed(Vec<GrantUse>);

impl Grants for Indexed {
    fn granted(&mut self, wanted: &GrantUse) -> bool {
        self.0.contains(wanted)
    }
}

/// A grant of namespace `b`.
fn grant(from: &[(Kind, &str)], to: &[(Kind, Option<&str>)]) -> ReferenceGrant {
    let from = from.iter().map(|(kind, namespace)| GrantFrom {
        group: kind.group().into(),
        kind: kind.name().into(),
        namespace: (*namespace).into(),
    });
    let to = to.iter().map(|(kind, name)| GrantTo {
        group: kind.group().into(),
        kind: kind.name().into(),
        name: name.map(Box::from),
    });
    let meta = ObjectMeta::new(ObjectKey::of(Kind::ReferenceGrant, "b", "g"));
    ReferenceGrant { meta, spec: ReferenceGrantSpec { from: from.collect(), to: to.collect() } }
}

#[test]
fn references_pass_exactly_where_the_grant_allows_them() {
    let grants = [
        grant(&[], &[(Kind::Secret, None)]),
        grant(&[(Kind::Gateway, "a")], &[]),
        grant(&[(Kind::Gateway, "a")], &[(Kind::Secret, None)]),
        grant(&[(Kind::Gateway, "a")], &[(Kind::Secret, Some(""))]),
        grant(&[(Kind::Gateway, "a")], &[(Kind::Secret, Some("s"))]),
        grant(
            &[(Kind::Backend, "a"), (Kind::Gateway, "c")],
            &[(Kind::ConfigMap, Some("t")), (Kind::Secret, Some("s"))],
        ),
    ];
    let mut allowed = Vec::new();
    for (number, grant) in grants.iter().enumerate() {
        for (kind, namespace) in [(Kind::Gateway, "a"), (Kind::Gateway, "c"), (Kind::Backend, "a")] {
            for (target, name) in [(Kind::Secret, "s"), (Kind::Secret, "t"), (Kind::ConfigMap, "t")] {
                let (from, to) = (ObjectKey::of(kind, namespace, "x"), ObjectKey::of(target, "b", name));
                let passes = permit(&mut Indexed(uses(grant)), &from, Reference::to(&to)).is_ok();
                assert_eq!(passes, grant.spec.allows(&from, &to), "{number}: {from} to {to}");
                allowed.extend(passes.then_some(number));
            }
        }
    }
    assert_eq!(allowed, [2, 2, 3, 3, 4, 5, 5, 5, 5]);
}
