//! Remnants: what is known of a policy that cannot be used, so that it closes what it may be for; and policies that are written twice.

use std::sync::Arc;

use super::{PolicyAttachment, loose};
use crate::key::ObjectKey;
use crate::kind::{Kind, Object, group};
use crate::meta::ObjectMeta;
use crate::problem::{Fault, FieldPath};
use crate::resource::Resource;
use crate::schema::is_dns_label;
use crate::tree::{Cursor, Value};

/// The name of a policy that has none that can be read. No object can have it.
const NAMELESS: &str = "(no name)";

/// The namespace of objects that name none.
const DEFAULT: &str = "default";

/// The policy kind that a group and a kind mean, whatever their case, with or without `List` behind it; and whether that is there. No group: that
/// of the kind.
pub(crate) fn meant(group: Option<&str>, kind: &str) -> Option<(Kind, bool)> {
    if !group.is_none_or(|group| group.eq_ignore_ascii_case(group::ENVOY_GATEWAY)) {
        return None;
    }
    let find = |word: &str| {
        Kind::ALL.iter().copied().filter(|kind| kind.is_attached()).find(|kind| kind.name().eq_ignore_ascii_case(word))
    };
    let of_list = || {
        let (kind, list) = kind.split_at_checked(kind.len().checked_sub("List".len())?)?;
        list.eq_ignore_ascii_case("List").then(|| find(kind))?
    };
    find(kind).map(|kind| (kind, false)).or_else(|| of_list().map(|kind| (kind, true)))
}

/// The remnant of a policy from its document. Its guards are known, or none.
pub(crate) fn of_document(kind: Kind, root: Cursor<'_, '_>, guards: Vec<FieldPath>, fault: Fault) -> Option<Object> {
    let mut attachment =
        PolicyAttachment { guards: guards.into(), fault: Some(Box::new(fault)), ..PolicyAttachment::default() };
    loose::read(root, &mut attachment);
    attachment.remnant = true;
    let metadata = root.get("metadata");
    let text = |name: &str| match metadata?.get(name)?.value() {
        Value::String(text) => Some(text.to_string()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    };
    let namespace = text("namespace").map(|namespace| namespace.trim().to_ascii_lowercase());
    let namespace = namespace.filter(|namespace| is_dns_label(namespace));
    let name = text("name").filter(|name| !name.is_empty());
    let name = name.as_deref().unwrap_or(NAMELESS);
    let key = ObjectKey::of(kind, namespace.as_deref().unwrap_or(DEFAULT), name);
    Object::with_attachment(ObjectMeta::new(key), attachment)
}

impl Object {
    /// The remnant of a policy of which nothing but the key can be read: it is for everything in its namespace. None for other kinds.
    #[must_use]
    pub fn unread(key: &ObjectKey, fault: &str) -> Option<Self> {
        let fault = Some(Box::new(Fault { path: FieldPath::default(), text: fault.into() }));
        let attachment = PolicyAttachment { fault, for_all: true, remnant: true, ..PolicyAttachment::default() };
        Self::with_attachment(ObjectMeta::new(key.clone()), attachment)
    }

    /// True for what is left of a policy that cannot be used as it is written. An earlier form of the policy that [covers](Self::covers) it is
    /// better.
    #[must_use]
    pub fn is_remnant(&self) -> bool {
        self.attachment_ref().is_some_and(|attachment| attachment.remnant)
    }

    /// True for a policy with something that guards, or may guard, and is not built.
    #[must_use]
    pub fn is_guard(&self) -> bool {
        self.attachment_ref().is_some_and(PolicyAttachment::closes)
    }

    /// True for the earlier form of a policy if it closes at least what the remnant says for certain.
    #[must_use]
    pub fn covers(&self, remnant: &Self) -> bool {
        let (Some(own), Some(new)) = (self.attachment_ref(), remnant.attachment_ref()) else { return false };
        let is_same = self.kind() == remnant.kind()
            && (self.key() == remnant.key()
                || remnant.meta().name() == NAMELESS
                || !crate::schema::is_dns_subdomain(remnant.meta().name()));
        let has_guards = new.guards.iter().all(|guard| own.guards.contains(guard));
        is_same && (new.guards.is_empty() || has_guards && new.is_named_in(own))
    }

    /// The policy with what another text of the same identity closes as well. None if that is nothing.
    #[must_use]
    pub fn united(&self, other: &Self, fault: impl FnOnce() -> String) -> Option<Self> {
        if let (Self::BackendTlsPolicy(own), Self::BackendTlsPolicy(more)) = (self, other) {
            let spec = own.spec.united(&more.spec, fault)?;
            return Some(Self::BackendTlsPolicy(Arc::new(Resource { meta: own.meta.clone(), spec })));
        }
        let (own, more) = (self.attachment_ref()?, other.attachment_ref()?);
        let has_all = own.closes() && more.is_named_in(own) && (own.for_all || !more.for_all);
        let selects = more.target_selectors.iter().all(|selector| own.target_selectors.contains(selector));
        if !more.closes() || has_all && selects {
            return None;
        }
        let mut united = own.clone();
        united.unite(more);
        united.fault.get_or_insert_with(|| Box::new(Fault { path: "metadata.name".into(), text: fault().into() }));
        let mut object = self.clone();
        *object.attachment_mut()? = united;
        Some(object)
    }
}

/// Largest number of further targets, selectors and guards of a united policy: 16 texts of one policy with all that the API allows. Of more texts it is for
/// everything in its namespace.
const MAX_UNITED: usize = 256;

impl PolicyAttachment {
    /// True if it closes what it is for.
    fn closes(&self) -> bool {
        !self.guards.is_empty() || self.fault.is_some()
    }

    /// True if another one names every target that this one names for certain.
    fn is_named_in(&self, other: &Self) -> bool {
        let is_certain = |kind: &str, name: &str| Kind::of_policy_target(kind).is_some() && !name.is_empty();
        let mut certain = self.targets().chain(&self.further).filter(|target| is_certain(&target.kind, &target.name));
        certain.all(|target| {
            other.targets().chain(&other.further).any(|own| {
                let same_part = own.section_name.is_none() || own.section_name == target.section_name;
                Kind::of_policy_target(&own.kind) == Kind::of_policy_target(&target.kind)
                    && own.name == target.name
                    && same_part
            })
        })
    }

    fn unite(&mut self, more: &Self) {
        fn joined<T: Clone + PartialEq>(own: &[T], more: impl Iterator<Item = T>) -> Box<[T]> {
            let new = more.filter(|one| !own.contains(one)).take(MAX_UNITED.saturating_sub(own.len()));
            own.iter().cloned().chain(new).collect()
        }
        self.guards = joined(&self.guards, more.guards.iter().cloned());
        self.further = joined(&self.further, more.targets().chain(&more.further).cloned());
        self.target_selectors = joined(&self.target_selectors, more.target_selectors.iter().cloned());
        self.for_all |= more.for_all || self.further.len() >= MAX_UNITED || self.target_selectors.len() >= MAX_UNITED;
        self.remnant = false;
    }
}
