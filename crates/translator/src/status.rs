//! Statuses: what is decided, in the words of the Gateway API.
//!
//! Conditions carry no time: [`api::status::Condition::last_transition_time`] stays empty here, and whoever writes a status
//! keeps or sets it by comparing with what is there. So a status is a function of the tables like everything else.

pub(crate) mod gateway;
pub(crate) mod gateway_class;
pub(crate) mod policy;
pub(crate) mod route;

use api::status::{Condition, ConditionStatus};

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

    fn write(self, kind: &str, status: ConditionStatus, reason: &str, message: &str) -> Condition {
        Condition {
            condition_type: kind.into(),
            status,
            observed_generation: self.generation,
            last_transition_time: None,
            reason: reason.into(),
            message: bounded(message).into(),
        }
    }
}

/// Bound of `metav1.Condition.message`, in characters.
const MAX_MESSAGE: usize = 32_768;

fn bounded(message: &str) -> &str {
    let end = message.char_indices().nth(MAX_MESSAGE).map_or(message.len(), |(at, _)| at);
    message.get(..end).unwrap_or(message)
}
