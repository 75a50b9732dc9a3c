//! Regular expressions of users: RE2 syntax and a bounded size, judged before a proxy sees them.

mod classes;

use regex_syntax::ast::{
    AssertionKind, Ast, ClassBracketed, ClassSet, ClassSetItem, ClassUnicode, ClassUnicodeKind, Flag, Flags,
    FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind, RepetitionKind, RepetitionRange,
};

use classes::UNICODE_CLASSES;

/// The largest program that we let a proxy compile, in RE2 instructions as we estimate them. The proxies' own limit
/// (`re2.max_program_size.error_level`) has to be at least this.
pub const MAX_PROGRAM_SIZE: u64 = 4_096;

/// Instructions for "any character": in UTF-8 it is several ranges of bytes.
const ANY_CHARACTER: u64 = 10;

/// Instructions for a class of Unicode, such as all letters.
const UNICODE_CLASS: u64 = 200;

/// RE2 refuses counted repetition above this.
const MAX_REPEAT: u32 = 1000;

/// Whether a proxy will take an expression; else why not, in words.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("an empty regular expression matches nothing useful".into());
    }
    let size = instructions(text)?;
    if size > MAX_PROGRAM_SIZE {
        return Err(format!(
            "{text:?} is too large: about {size} instructions, at most {MAX_PROGRAM_SIZE} are allowed"
        ));
    }
    Ok(())
}

/// The instructions of an expression as they are estimated; or what is wrong with it, in words.
pub(crate) fn instructions(text: &str) -> Result<u64, String> {
    let ast = regex_syntax::ast::parse::ParserBuilder::new()
        .nest_limit(100)
        .build()
        .parse(text)
        .map_err(|error| format!("{text:?} is not a regular expression: {}", error.kind()))?;
    size(&ast).map_err(|reason| format!("{text:?} is not supported: {reason}"))
}

/// The instructions of a part, or what of it RE2 does not know.
fn size(ast: &Ast) -> Result<u64, String> {
    match ast {
        Ast::Empty(_) => Ok(1),
        Ast::Flags(set) => flags(&set.flags),
        Ast::Literal(one) => literal(one),
        Ast::Assertion(assertion) => match assertion.kind {
            AssertionKind::StartLine
            | AssertionKind::EndLine
            | AssertionKind::StartText
            | AssertionKind::EndText
            | AssertionKind::WordBoundary
            | AssertionKind::NotWordBoundary => Ok(1),
            _ => Err("the only word boundaries are \\b and \\B".into()),
        },
        Ast::Dot(_) | Ast::ClassPerl(_) => Ok(ANY_CHARACTER),
        Ast::ClassUnicode(class) => unicode(class),
        Ast::ClassBracketed(class) => bracketed(class),
        Ast::Repetition(repetition) => {
            if matches!(*repetition.ast, Ast::Repetition(_)) {
                return Err("a repetition cannot be repeated".into());
            }
            let (copies, optional) = times(&repetition.op.kind)?;
            Ok(size(&repetition.ast)?.saturating_mul(copies).saturating_add(optional).saturating_add(1))
        }
        Ast::Group(group) => {
            let own = match &group.kind {
                GroupKind::NonCapturing(set) => flags(set)?,
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => 2,
            };
            Ok(size(&group.ast)?.saturating_add(own))
        }
        Ast::Alternation(alternation) => sum(&alternation.asts),
        Ast::Concat(concat) => sum(&concat.asts),
    }
}

fn sum(asts: &[Ast]) -> Result<u64, String> {
    asts.iter().try_fold(1, |total: u64, ast| Ok(total.saturating_add(size(ast)?)))
}

/// RE2 copies what is repeated a counted number of times, and puts a choice in front of each copy that may be left out: how many
/// copies, and how many choices.
fn times(kind: &RepetitionKind) -> Result<(u64, u64), String> {
    let RepetitionKind::Range(range) = kind else { return Ok((1, 0)) };
    let (least, most) = match range {
        RepetitionRange::Exactly(times) | RepetitionRange::AtLeast(times) => (*times, *times),
        RepetitionRange::Bounded(least, most) => (*least, *most),
    };
    if most > MAX_REPEAT {
        return Err(format!("a part may be repeated {MAX_REPEAT} times at most"));
    }
    Ok((u64::from(most).max(1), u64::from(most.saturating_sub(least))))
}

/// RE2 knows the flags i, m, s and U.
fn flags(flags: &Flags) -> Result<u64, String> {
    let known = |kind: &FlagsItemKind| {
        !matches!(kind, FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace))
    };
    if flags.items.iter().all(|item| known(&item.kind)) {
        Ok(1)
    } else {
        Err("the only flags are i, m, s and U".into())
    }
}

/// Envoy compiles for single bytes (Latin-1): a number above that is none of a character.
fn literal(literal: &Literal) -> Result<u64, String> {
    match &literal.kind {
        LiteralKind::HexBrace(_) if u32::from(literal.c) > 0xff => {
            Err("a character above \\xFF cannot be written by number, write it as it is".into())
        }
        LiteralKind::HexFixed(HexLiteralKind::X) | LiteralKind::HexBrace(HexLiteralKind::X) => Ok(1),
        LiteralKind::HexFixed(_) | LiteralKind::HexBrace(_) => Err("write characters by number as \\x{..}".into()),
        _ => Ok(u64::try_from(literal.c.len_utf8()).unwrap_or(4)),
    }
}

/// RE2 names general categories by one or two letters, and scripts by their name.
fn unicode(class: &ClassUnicode) -> Result<u64, String> {
    let listed = |name: &str| UNICODE_CLASSES.binary_search(&name).is_ok();
    let known = match &class.kind {
        ClassUnicodeKind::OneLetter(letter) => listed(letter.encode_utf8(&mut [0; 4])),
        ClassUnicodeKind::Named(name) => listed(name),
        ClassUnicodeKind::NamedValue { .. } => false,
    };
    if known {
        Ok(UNICODE_CLASS)
    } else {
        Err("this class of characters is not known, \\p{Greek} or \\pL would be".into())
    }
}

/// Sets of characters; RE2 knows no sets in sets and no operations between them.
fn bracketed(class: &ClassBracketed) -> Result<u64, String> {
    let inside = match &class.kind {
        ClassSet::BinaryOp(_) => return Err("sets of characters cannot be combined with && -- or ~~".into()),
        ClassSet::Item(item) => set_item(item)?,
    };
    Ok(inside.saturating_add(if class.negated { ANY_CHARACTER } else { 1 }))
}

fn set_item(item: &ClassSetItem) -> Result<u64, String> {
    match item {
        ClassSetItem::Empty(_) => Ok(0),
        ClassSetItem::Literal(one) => literal(one),
        ClassSetItem::Range(range) => Ok(literal(&range.start)?.saturating_add(literal(&range.end)?)),
        ClassSetItem::Ascii(_) => Ok(4),
        ClassSetItem::Perl(_) => Ok(ANY_CHARACTER),
        ClassSetItem::Unicode(class) => unicode(class),
        ClassSetItem::Bracketed(_) => Err("a set of characters cannot hold another one".into()),
        ClassSetItem::Union(union) => {
            union.items.iter().try_fold(0, |total: u64, item| Ok(total.saturating_add(set_item(item)?)))
        }
    }
}

#[cfg(test)]
mod tests;
