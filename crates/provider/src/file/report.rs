//! The wording of the problems that are the file provider's own.

use std::fmt;
use std::sync::Arc;

use api::{Kind, Object, Place, Problem, Severity};
use store::Origin;

use crate::file::access::Denied;

/// Problems kept per file at most: enough to work with, and 10,000 files full of mistakes stay below 2 GB at about
/// 200 bytes each.
pub(crate) const MAX_PROBLEMS: usize = 1_000;

/// Something is wrong at a line and column of a file, both from 1.
pub(crate) fn at(file: &Arc<str>, line: u32, column: u32, text: impl fmt::Display) -> Problem {
    let place = Some(Place { file: file.clone(), line, column });
    Problem { place, ..Problem::unbound(Severity::Error, text.to_string()) }
}

/// Something is wrong with a file or directory as a whole.
pub(crate) fn whole(file: &Arc<str>, text: impl fmt::Display) -> Problem {
    at(file, 1, 1, text)
}

/// A file or link that is not read for what it is, or where it is. What may be read is a rule that the operator sets: only a link that leads elsewhere is a
/// warning, as what it leads to may well be meant for another program.
pub(crate) fn denied(file: &Arc<str>, denied: &Denied) -> Problem {
    let severity = if matches!(denied, Denied::Outside) { Severity::Warning } else { Severity::Error };
    Problem { severity, ..whole(file, denied) }.refusing(denied.refusal())
}

/// A version of a file that waits for a costly file.
pub(crate) fn waits(file: &Arc<str>, guard: &str) -> Problem {
    let text = format_args!(
        "held back: {guard} was written before, takes long to read, and names a policy that may guard what is opened here; this counts once that is read"
    );
    Problem { severity: Severity::Note, ..whole(file, text) }
}

/// An object that a stronger place gives as well.
pub(crate) fn duplicate(object: &Object, winner: &Origin, file: &Arc<str>, line: u32) -> Problem {
    let text = match object.is_guard() || object.kind() == Kind::BackendTlsPolicy {
        true => format!(
            "written twice: the one at {winner} comes first, and what this one at {file}:{line} guards counts for that one too; \
             remove or rename one of them"
        ),
        false => format!(
            "written twice: the one at {winner} comes first and is effective, this one at {file}:{line} has no effect; \
             remove or rename one of them"
        ),
    };
    let place = Some(Place { file: file.clone(), line, column: 1 });
    Problem { place, ..Problem::of(object.key(), "", Severity::Error, text) }
}

/// The same problem of a place whose objects stay in force.
pub(crate) fn kept(mut problem: Problem) -> Problem {
    problem.text = format!("{}; what was read there before stays in force", problem.text).into();
    problem
}

/// The same problem of a place that may have given something that is served still, which only an earlier process knew.
pub(crate) fn held(mut problem: Problem) -> Problem {
    problem.text = format!(
        "{}; what was served before the restart stays in force, and nothing else that changed counts, until this is mended or \
         removed (removed, it takes with it what it gave)",
        problem.text
    )
    .into();
    problem
}

/// The same problem of a root that has not been read yet, while nothing is known of what it gives.
pub(crate) fn awaited(mut problem: Problem) -> Problem {
    problem.text =
        format!("{}; waiting for it: nothing changes for the proxies until it was read", problem.text).into();
    problem
}

/// At most [`MAX_PROBLEMS`]; a last one says how many were left out, here and before.
pub(crate) fn bounded(mut problems: Vec<Problem>, left_out: usize, file: &Arc<str>) -> Vec<Problem> {
    let left_out = left_out + problems.len().saturating_sub(MAX_PROBLEMS);
    if left_out > 0 {
        problems.truncate(MAX_PROBLEMS);
        problems.push(whole(file, format_args!("{left_out} more problems in this file are not listed")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::io;

    use api::RefusalKind;

    use super::*;
    use crate::file::access::TooLarge;

    #[test]
    fn denied_files_have_their_reason() {
        for (refused, expected) in [
            (Denied::Outside, Some(RefusalKind::Link)),
            (Denied::Special, Some(RefusalKind::SpecialFile)),
            (Denied::Kind("a socket"), Some(RefusalKind::SpecialFile)),
            (Denied::Io(io::Error::other(TooLarge(50))), Some(RefusalKind::LargeFile)),
            (Denied::Io(io::Error::from(io::ErrorKind::PermissionDenied)), None),
        ] {
            assert_eq!(denied(&"a.yaml".into(), &refused).refusal, expected, "{refused}");
        }
    }
}
