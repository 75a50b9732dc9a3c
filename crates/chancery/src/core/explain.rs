//! Which objects make what a workload gets, of a process that runs.

use super::Asking;
use crate::explain::{Answer, answer};

/// Nothing of what the sources say is in force yet.
const WAITS: &str = "not everything could be read, and what was served before stays in force until then (why: `chancery status problems`)";

impl Asking {
    /// What is to be said of a workload, `namespace/name`; `None` if the core has ended.
    pub(crate) async fn explain(&self, workload: String) -> Option<Answer> {
        if !self.is_ready() {
            return Some(Answer::Unknown(WAITS.to_owned()));
        }
        let question = move |core: &super::Core| {
            answer(core.translator.stored(), core.translator.graph(), core.outputs, &workload, false)
        };
        self.ask(question).await
    }
}
