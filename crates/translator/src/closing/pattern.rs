//! Selectors of policies that close: policies with the same selector share it, and an object finds it by its name and labels.

use std::sync::Arc;

use api::selector::LabelOperator;
use api::{Kind, LabelSelector, Labels, ObjectKey};

use super::MOST_NAMED;
use crate::listener::Namespaces;

/// A selector of a policy, with what the policy lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selecting {
    pub(crate) pattern: Arc<Pattern>,
    pub(crate) words: Arc<str>,
}

/// All that decides which objects a policy selects: policies of one pattern select the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pattern {
    pub(crate) anchor: Anchor,
    /// Kind of the policies: grants are for one kind.
    policies: Option<Kind>,
    /// The only name that is selected, if not every one.
    name: Option<Arc<str>>,
    labels: LabelSelector,
    pub(crate) namespaces: Namespaces,
}

/// The key by which a selector is found from an object that it may select.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Anchor {
    /// That of the policy.
    pub(crate) namespace: Arc<str>,
    reach: Reach,
    kind: Kind,
    property: Property,
}

/// The place of objects that look for a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reach {
    /// In the namespace of the policies.
    Own,
    /// In other namespaces, where a grant is for one kind of policies.
    Others(Kind),
}

/// A property that the object has to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Property {
    Any,
    Name(Arc<str>),
    HasLabel(Arc<str>),
    Label(Arc<str>, Arc<str>),
}

/// The policies of a pattern that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternPolicies {
    /// The first by name, at least one, with what they lack.
    pub(crate) first: Box<[(ObjectKey, Arc<str>)]>,
    pub(crate) has_more: bool,
}

impl Pattern {
    /// Every object of a kind in the policy's namespace, or the one of a name.
    pub(super) fn of_name(policy: &ObjectKey, kind: Kind, name: Option<&Arc<str>>) -> Self {
        let property = name.map_or(Property::Any, |name| Property::Name(name.clone()));
        Self {
            anchor: Anchor { namespace: policy.namespace().into(), reach: Reach::Own, kind, property },
            policies: policy.kind(),
            name: name.cloned(),
            labels: LabelSelector::default(),
            namespaces: Namespaces::Same,
        }
    }

    /// The objects of a kind with some labels.
    pub(super) fn of_labels(policy: &ObjectKey, kind: Kind, labels: LabelSelector, namespaces: Namespaces) -> Self {
        let namespace = policy.namespace().into();
        let anchor = Anchor { namespace, reach: Reach::Own, kind, property: Property::of(&labels) };
        Self { anchor, policies: policy.kind(), name: None, labels, namespaces }
    }

    /// Returns the keys by which objects find it: those of its own namespace, and of others if it selects there.
    pub(crate) fn anchors(&self) -> impl Iterator<Item = Anchor> {
        let outward = self.policies.filter(|_| self.namespaces != Namespaces::Same);
        let reaches = std::iter::once(Reach::Own).chain(outward.map(Reach::Others));
        reaches.map(|reach| Anchor { reach, ..self.anchor.clone() })
    }

    /// Returns true if an object of this name and these labels is selected, as far as its namespace allows.
    pub(crate) fn selects(&self, name: &str, labels: &Labels) -> bool {
        self.name.as_deref().is_none_or(|own| own == name) && self.labels.matches(labels)
    }
}

impl Property {
    /// The property by which what a selector selects is found, the narrowest that is written.
    fn of(labels: &LabelSelector) -> Self {
        let mut needs: Vec<Self> =
            labels.match_labels.iter().map(|(name, value)| Self::Label(name.into(), value.into())).collect();
        needs.extend(labels.match_expressions.iter().filter_map(|one| match (&one.operator, &*one.values) {
            (LabelOperator::In, [value]) => Some(Self::Label((&*one.key).into(), (&**value).into())),
            (LabelOperator::In | LabelOperator::Exists, _) => Some(Self::HasLabel((&*one.key).into())),
            _ => None,
        }));
        let exact = needs.iter().position(|one| matches!(one, Self::Label(..))).unwrap_or_default();
        needs.into_iter().nth(exact).unwrap_or(Self::Any)
    }
}

impl Anchor {
    /// Returns the keys by which policies of a namespace find an object of this name with these labels.
    pub(crate) fn of<'a>(
        (namespace, reach): (&'a Arc<str>, Reach),
        object: &'a ObjectKey,
        labels: &'a Labels,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let labels = labels.iter().flat_map(|(name, value)| {
            let name: Arc<str> = name.into();
            [Property::HasLabel(name.clone()), Property::Label(name, value.into())]
        });
        let all = [Property::Any, Property::Name(object.name().into())].into_iter().chain(labels);
        let kind = object.kind();
        all.filter_map(move |property| Some(Self { namespace: namespace.clone(), reach, kind: kind?, property }))
    }
}

impl PatternPolicies {
    /// Reads the policies of a pattern, in order; a policy may have the pattern more than once.
    pub(crate) fn of<'a>(policies: impl Iterator<Item = (&'a ObjectKey, &'a Arc<str>)>) -> Self {
        let mut first: Vec<(ObjectKey, Arc<str>)> = Vec::new();
        for (policy, words) in policies {
            if first.last().is_some_and(|(last, _)| last == policy) {
                continue;
            }
            if first.len() == MOST_NAMED {
                return Self { first: first.into(), has_more: true };
            }
            first.push((policy.clone(), words.clone()));
        }
        Self { first: first.into(), has_more: false }
    }
}
