//! Statuses: what is decided, in the words of the Gateway API.
//!
//! Conditions carry no time: [`api::status::Condition::last_transition_time`] stays empty here, and whoever writes a status
//! keeps or sets it by comparing with what is there. So a status is a function of the tables like everything else.

pub(crate) mod backend;
pub(crate) mod backend_tls_policy;
pub(crate) mod envoy_proxy;
pub(crate) mod gateway;
pub(crate) mod gateway_class;
pub(crate) mod listener_set;
pub(crate) mod patch;
pub(crate) mod policy;
pub(crate) mod raw;
pub(crate) mod rejected;
pub(crate) mod route;
pub(crate) mod unsupported;
pub(crate) mod x_telemetry_policy;

use std::sync::{Arc, LazyLock};

use api::ObjectKey;
use api::reference::ParentRef;
use api::status::{AGGREGATED, Condition, ConditionStatus};

/// Writes the conditions of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub(crate) generation: i64,
}

impl Writer {
    pub(crate) fn yes(self, kind: &str, reason: &str, message: &str) -> Condition {
        self.write(kind, ConditionStatus::True, reason, message)
    }

    pub(crate) fn no(self, kind: &str, reason: &str, message: &str) -> Condition {
        self.write(kind, ConditionStatus::False, reason, message)
    }

    pub(crate) fn unknown(self, kind: &str, reason: &str, message: &str) -> Condition {
        self.write(kind, ConditionStatus::Unknown, reason, message)
    }

    /// `Warning`, where there is something to warn of: each a reason and words.
    pub(crate) fn warning(self, warnings: Vec<(&'static str, String)>) -> Option<Condition> {
        let (first, _) = warnings.first()?;
        let alike = warnings.iter().all(|(reason, _)| reason == first);
        let reason = if alike { first } else { SEVERAL };
        let texts: Vec<String> = warnings.into_iter().map(|(_, text)| text).collect();
        Some(self.yes("Warning", reason, &texts.join("; ")))
    }

    /// `Aggregated`, on the last entry of a list from which some were left out.
    pub(crate) fn aggregated(self, left_out: usize) -> Condition {
        let plural = if left_out == 1 { "entry is" } else { "entries are" };
        self.yes(AGGREGATED, AGGREGATED, &format!("{left_out} more {plural} left out, the list is full"))
    }

    fn write(self, kind: &str, status: ConditionStatus, reason: &str, message: &str) -> Condition {
        Condition {
            condition_type: shared(kind),
            status,
            observed_generation: self.generation,
            last_transition_time: None,
            reason: shared(reason),
            message: shared(bounded(message)),
        }
    }
}

/// An object as an ancestor, in the group and kind that it has.
pub(crate) fn ancestor(object: &ObjectKey) -> ParentRef {
    let namespace = Some(object.namespace()).filter(|namespace| !namespace.is_empty());
    ParentRef {
        group: object.group().into(),
        kind: object.kind_name().into(),
        namespace: namespace.map(Into::into),
        name: object.name().into(),
        section_name: None,
        port: None,
    }
}

/// Reason of `Warning`: a field is not supported and ignored.
pub(crate) const UNSUPPORTED: &str = "UnsupportedValue";
/// Reason of `Warning`: a field should be replaced by another.
pub(crate) const DEPRECATED: &str = "DeprecatedField";
/// Reason of `Warning` where there are several reasons (Envoy Gateway's word).
const SEVERAL: &str = "Warnings";

/// The words that most objects carry, once for all of them.
static COMMON: [&str; 9] = [
    "Accepted",
    "Programmed",
    "ResolvedRefs",
    "Pending",
    ATTACHED,
    RESOLVED,
    "BackendNotFound",
    "UnsupportedValue",
    "Invalid",
];

/// What the status of a good route says.
pub(crate) const ATTACHED: &str = "the route is attached";
/// What is said of good references.
pub(crate) const RESOLVED: &str = "all references lead to something";

fn shared(text: &str) -> Arc<str> {
    static KEPT: LazyLock<[Arc<str>; 9]> = LazyLock::new(|| COMMON.map(Arc::from));
    KEPT.iter().find(|kept| &***kept == text).map_or_else(|| Arc::from(text), Arc::clone)
}

/// Bound of `metav1.Condition.message`, in characters.
const MAX_MESSAGE: usize = 32_768;

fn bounded(message: &str) -> &str {
    if message.len() <= MAX_MESSAGE {
        return message;
    }
    let end = message.char_indices().nth(MAX_MESSAGE).map_or(message.len(), |(at, _)| at);
    message.get(..end).unwrap_or(message)
}
