//! Regular expressions of users: RE2 syntax and a bounded size, judged before a proxy sees them.

use regex_syntax::ast::{Ast, RepetitionKind, RepetitionRange};

/// The largest program that we let a proxy compile, in RE2 instructions as we estimate them. The proxies' own limit
/// (`re2.max_program_size.error_level`) has to be at least this.
pub const MAX_PROGRAM_SIZE: u64 = 4_096;

/// Instructions for "any character".
const ANY_CHARACTER: u64 = 10;

/// RE2 refuses counted repetition above this.
const MAX_REPEAT: u32 = 1000;

/// Whether a proxy will take an expression; else why not, in words.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("an empty regular expression matches nothing useful".into());
    }
    let ast = regex_syntax::ast::parse::ParserBuilder::new()
        .nest_limit(100)
        .build()
        .parse(text)
        .map_err(|error| format!("{text:?} is not a regular expression: {}", error.kind()))?;
    let size = size(&ast).map_err(|reason| format!("{text:?} is not supported: {reason}"))?;
    if size > MAX_PROGRAM_SIZE {
        return Err(format!(
            "{text:?} is too large: about {size} instructions, at most {MAX_PROGRAM_SIZE} are allowed"
        ));
    }
    Ok(())
}

/// The instructions of a part. RE2 copies what is repeated a counted number of times.
fn size(ast: &Ast) -> Result<u64, String> {
    Ok(match ast {
        Ast::Empty(_) | Ast::Flags(_) => 1,
        Ast::Literal(_) | Ast::Assertion(_) => 1,
        // Any character but one is several ranges of bytes in UTF-8.
        Ast::Dot(_) | Ast::ClassPerl(_) => ANY_CHARACTER,
        Ast::ClassUnicode(_) => 200,
        Ast::ClassBracketed(class) => bracketed(class)?,
        Ast::Repetition(repetition) => {
            let inner = size(&repetition.ast)?;
            let times = match &repetition.op.kind {
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
                RepetitionKind::Range(
                    RepetitionRange::Exactly(times)
                    | RepetitionRange::AtLeast(times)
                    | RepetitionRange::Bounded(_, times),
                ) if *times > MAX_REPEAT => return Err(format!("a part may be repeated {MAX_REPEAT} times at most")),
                RepetitionKind::Range(
                    RepetitionRange::Exactly(times)
                    | RepetitionRange::AtLeast(times)
                    | RepetitionRange::Bounded(_, times),
                ) => u64::from(*times).max(1),
            };
            inner.saturating_mul(times).saturating_add(1)
        }
        Ast::Group(group) => size(&group.ast)?.saturating_add(2),
        Ast::Alternation(alternation) => sum(&alternation.asts)?,
        Ast::Concat(concat) => sum(&concat.asts)?,
    })
}

fn sum(asts: &[Ast]) -> Result<u64, String> {
    asts.iter().try_fold(1, |total: u64, ast| Ok(total.saturating_add(size(ast)?)))
}

/// Sets of characters; RE2 knows no operations between sets.
fn bracketed(class: &regex_syntax::ast::ClassBracketed) -> Result<u64, String> {
    match &class.kind {
        regex_syntax::ast::ClassSet::BinaryOp(_) => {
            Err("sets of characters cannot be combined with && -- or ~~".into())
        }
        regex_syntax::ast::ClassSet::Item(_) => {
            let written = class.span.end.offset.saturating_sub(class.span.start.offset);
            let least = if class.negated { ANY_CHARACTER } else { 1 };
            Ok(u64::try_from(written).unwrap_or(u64::MAX).saturating_add(least))
        }
    }
}

#[cfg(test)]
mod tests;
