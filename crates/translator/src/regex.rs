//! Regular expressions of users: RE2 syntax and a bounded size, judged before a proxy sees them.

mod classes;

use regex_syntax::ast::{
    AssertionKind, Ast, ClassBracketed, ClassSet, ClassSetItem, ClassSetRange, ClassUnicode, ClassUnicodeKind, Flag,
    Flags, FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind, Repetition, RepetitionKind, RepetitionOp,
    RepetitionRange,
};

use classes::UNICODE_CLASSES;

/// The largest program that we let a proxy compile, in RE2 instructions as we estimate them. The proxies' own limit
/// (`re2.max_program_size.error_level`) has to be at least this.
pub const MAX_PROGRAM_SIZE: u64 = 4_096;

/// Instructions for "any character": in UTF-8 it is several ranges of bytes.
const ANY_CHARACTER: u64 = 10;

/// Instructions for a class of Unicode, such as all letters.
const UNICODE_CLASS: u64 = 200;

/// RE2 refuses counted repetition above this, also as the product of those inside each other.
const MAX_REPEAT: u32 = 1000;

/// Instructions around every expression: where it fails, where it matches, and the search for its start.
const FRAME: u64 = 5;

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
    let ast = regex_syntax::ast::parse::ParserBuilder::new().nest_limit(100).build().parse(text).map_err(|error| {
        format!("{text:?} is not a regular expression: {}; Envoy takes the syntax of RE2", error.kind())
    })?;
    let size = Judge { text, repeats: MAX_REPEAT }.size(&ast);
    size.map(|size| size.saturating_add(FRAME)).map_err(|reason| format!("{text:?} is not supported: {reason}"))
}

/// What goes over the parts of an expression.
#[derive(Clone, Copy)]
struct Judge<'t> {
    text: &'t str,
    /// How often a part may be repeated here: RE2 divides by each count around it, and drops what is left over.
    repeats: u32,
}

impl Judge<'_> {
    /// The instructions of a part, or what of it RE2 does not know.
    fn size(self, ast: &Ast) -> Result<u64, String> {
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
                let inside = Self { repeats: self.repeats_in(&repetition.op)?, ..self };
                let (copies, optional) = times(&repetition.op.kind);
                let choices = optional.saturating_add(choice(repetition));
                Ok(inside.size(&repetition.ast)?.saturating_mul(copies).saturating_add(choices))
            }
            Ast::Group(group) => {
                let own = match &group.kind {
                    GroupKind::NonCapturing(set) => flags(set)?,
                    GroupKind::CaptureIndex(_) => 2,
                    GroupKind::CaptureName { name, .. } => group_name(&name.name)?,
                };
                Ok(self.size(&group.ast)?.saturating_add(own))
            }
            Ast::Alternation(alternation) => {
                // The sum of a sequence has the instruction that chooses it already.
                let single = alternation.asts.iter().filter(|ast| !matches!(ast, Ast::Concat(_))).count();
                Ok(self.sum(&alternation.asts)?.saturating_add(u64::try_from(single).unwrap_or(u64::MAX)))
            }
            Ast::Concat(concat) => self.sum(&concat.asts),
        }
    }

    fn sum(self, asts: &[Ast]) -> Result<u64, String> {
        asts.iter().try_fold(1, |total: u64, ast| Ok(total.saturating_add(self.size(ast)?)))
    }

    /// How often what is inside of a repetition may be repeated.
    fn repeats_in(self, op: &RepetitionOp) -> Result<u32, String> {
        let RepetitionKind::Range(range) = &op.kind else { return Ok(self.repeats) };
        let count = match range {
            RepetitionRange::Exactly(times) => format!("{{{times}}}"),
            RepetitionRange::AtLeast(least) => format!("{{{least},}}"),
            RepetitionRange::Bounded(least, most) => format!("{{{least},{most}}}"),
        };
        let written = self.text.get(op.span.start.offset..op.span.end.offset).unwrap_or_default();
        if written.strip_suffix('?').unwrap_or(written) != count {
            return Err(format!("proxies take {written} for text and for no count: write it as {count}"));
        }
        let (RepetitionRange::Exactly(most) | RepetitionRange::AtLeast(most) | RepetitionRange::Bounded(_, most)) =
            range;
        match self.repeats / (*most).max(1) {
            0 => Err(format!("a part may be repeated {MAX_REPEAT} times at most, counts around it multiplied")),
            left => Ok(left),
        }
    }
}

/// Instructions that choose whether to go on: more where there is no end and what is repeated may be empty.
fn choice(repetition: &Repetition) -> u64 {
    let has_end = match &repetition.op.kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::Range(RepetitionRange::Exactly(_)) => true,
        RepetitionKind::Range(RepetitionRange::Bounded(..)) => true,
        RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => false,
        RepetitionKind::Range(RepetitionRange::AtLeast(_)) => false,
    };
    let is_character = matches!(
        &*repetition.ast,
        Ast::Literal(_) | Ast::Dot(_) | Ast::ClassPerl(_) | Ast::ClassUnicode(_) | Ast::ClassBracketed(_)
    );
    if has_end || is_character { 1 } else { 4 }
}

/// RE2 has fewer names than others.
fn group_name(name: &str) -> Result<u64, String> {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        Ok(2)
    } else {
        Err(format!("the name of a group ({name}) has letters, digits and _ only"))
    }
}

/// RE2 copies what is repeated a counted number of times, and puts a choice in front of each copy that may be left out: how many
/// copies, and how many choices.
fn times(kind: &RepetitionKind) -> (u64, u64) {
    let RepetitionKind::Range(range) = kind else { return (1, 0) };
    let (least, most) = match range {
        RepetitionRange::Exactly(times) | RepetitionRange::AtLeast(times) => (*times, *times),
        RepetitionRange::Bounded(least, most) => (*least, *most),
    };
    (u64::from(most).max(1), u64::from(most.saturating_sub(least)))
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
        ClassSetItem::Range(range) => range_of_bytes(range),
        ClassSetItem::Ascii(_) => Ok(4),
        ClassSetItem::Perl(_) => Ok(ANY_CHARACTER),
        ClassSetItem::Unicode(class) => unicode(class),
        ClassSetItem::Bracketed(_) => Err("a set of characters cannot hold another one".into()),
        ClassSetItem::Union(union) => {
            if union.items.windows(3).any(is_other_range) {
                return Err("a - in a set of characters that is no range is written \\- or comes last".into());
            }
            union.items.iter().try_fold(0, |total: u64, item| Ok(total.saturating_add(set_item(item)?)))
        }
    }
}

/// Of a range between characters beyond ASCII RE2 sees the last byte of the first and the first byte of the last.
fn range_of_bytes(range: &ClassSetRange) -> Result<u64, String> {
    let size = literal(&range.start)?.saturating_add(literal(&range.end)?);
    let bytes = |one: &Literal| match one.kind {
        LiteralKind::HexFixed(_) | LiteralKind::HexBrace(_) => vec![u8::try_from(u32::from(one.c)).unwrap_or(u8::MAX)],
        _ => one.c.to_string().into_bytes(),
    };
    if bytes(&range.start).last() > bytes(&range.end).first() {
        return Err("proxies compare bytes, of which this range in a set of characters is none".into());
    }
    Ok(size)
}

/// Items of a set which RE2 takes for a range: behind a - or ] at its beginning, or a character beyond ASCII that ends a range.
fn is_other_range(items: &[ClassSetItem]) -> bool {
    let is_start = |item: &ClassSetItem| match item {
        ClassSetItem::Literal(_) => true,
        ClassSetItem::Range(range) => !range.end.c.is_ascii(),
        _ => false,
    };
    let is_minus = |item: &ClassSetItem| matches!(item, ClassSetItem::Literal(one) if one.c == '-' && one.kind == LiteralKind::Verbatim);
    matches!(items, [start, minus, _] if is_start(start) && is_minus(minus))
}

#[cfg(test)]
mod tests;
