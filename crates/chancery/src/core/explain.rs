//! Which objects make what a workload gets, of a process that runs.

use super::Asking;
use crate::explain::{Answer, answer};

impl Asking {
    /// What is to be said of a workload, `namespace/name`; `None` if the core has ended.
    pub(crate) async fn explain(&self, workload: String) -> Option<Answer> {
        let question = move |core: &super::Core| {
            answer(core.translator.stored(), core.translator.graph(), core.outputs, &workload, false)
        };
        self.ask(question).await
    }
}
