//! Refusals of what authors of objects ask for, counted by reason. The reasons are a fixed list, and no text of an author is a label.

use std::fmt::Write as _;

use api::RefusalKind;

use super::Findings;

const NAME: &str = "chancery_refusals";

/// Adds the numbers to a text of OpenMetrics.
pub(crate) fn write(findings: &Findings, text: &mut String) {
    let _infallible = write!(
        text,
        "# HELP {NAME} Problems that refuse what an author of objects asks for, by reason.\n# TYPE {NAME} gauge\n"
    );
    for reason in RefusalKind::ALL {
        let count = findings.refusals().filter(|refusal| *refusal == reason).count();
        let _infallible = writeln!(text, "{NAME}{{reason=\"{}\"}} {count}", reason.word());
    }
}
