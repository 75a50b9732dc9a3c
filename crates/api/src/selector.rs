//! Label selectors.

use std::fmt;

use serde::Deserialize;

use crate::meta::Labels;
use crate::open::open_enum;

/// `metav1.LabelSelector`. An empty one selects everything; the absence of a selector selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    pub match_labels: Labels,
    /// Further conditions, all of which must hold.
    pub match_expressions: Box<[LabelRequirement]>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelRequirement {
    /// Name of the label.
    pub key: Box<str>,
    /// How it is compared.
    pub operator: LabelOperator,
    /// What it is compared with; empty for `Exists` and `DoesNotExist`.
    pub values: Box<[Box<str>]>,
}

open_enum! {
    /// Operators of a label selector.
    LabelOperator {
        /// The label has one of the values.
        In = "In",
        /// The label has none of the values or is absent.
        NotIn = "NotIn",
        /// The label is there.
        Exists = "Exists",
        /// The label is absent.
        DoesNotExist = "DoesNotExist",
    }
}

impl LabelSelector {
    /// Whether an object with these labels is selected. An unknown operator selects nothing.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels))
    }

    /// The first thing that makes this selector unusable, if any, as Kubernetes would say it.
    #[must_use]
    pub fn defect(&self) -> Option<String> {
        self.match_expressions.iter().find_map(|requirement| {
            let empty = requirement.values.is_empty();
            match &requirement.operator {
                LabelOperator::Unknown(word) => Some(format!("{word:?} is not a label selector operator")),
                LabelOperator::In | LabelOperator::NotIn if empty => {
                    Some(format!("operator {} of label {:?} needs values", requirement.operator, requirement.key))
                }
                LabelOperator::Exists | LabelOperator::DoesNotExist if !empty => {
                    Some(format!("operator {} of label {:?} takes no values", requirement.operator, requirement.key))
                }
                _ => None,
            }
        })
    }
}

impl LabelRequirement {
    pub(crate) fn holds(&self, labels: &Labels) -> bool {
        let found = labels.get(&self.key);
        let listed = found.is_some_and(|value| self.values.iter().any(|candidate| **candidate == *value));
        match &self.operator {
            LabelOperator::In => listed,
            LabelOperator::NotIn => !listed,
            LabelOperator::Exists => found.is_some(),
            LabelOperator::DoesNotExist => found.is_none(),
            LabelOperator::Unknown(_) => false,
        }
    }
}

impl fmt::Display for LabelRequirement {
    /// As `kubectl` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match &self.operator {
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Exists => write!(f, "{key}"),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::Unknown(word) => write!(f, "{key} {word} ({values})"),
        }
    }
}

#[cfg(test)]
mod tests;
