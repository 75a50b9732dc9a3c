//! CEL, as far as validation rules of schemas need it: compiled once, then run over trees without copying them.
//!
//! The language is that of <https://github.com/google/cel-spec>, with the functions of Kubernetes that the schemas use;
//! a rule that needs anything else does not compile, and a test holds that all of our schemas' rules do. Another test
//! runs every rule beside an independent implementation and compares the answers.

mod call;
mod eval;
mod lex;
mod parse;
mod value;

use std::fmt;

pub(crate) use self::value::Scope;
use self::value::{Slot, Slots};

/// A rule, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    body: Expr,
}

/// Why a rule does not compile or cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CelError(pub(crate) String);

impl fmt::Display for CelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Program {
    /// Compiles the text of a rule.
    pub(crate) fn compile(rule: &str) -> Result<Self, CelError> {
        parse::parse(rule).map(|body| Self { body })
    }

    /// Whether the rule holds for a value.
    ///
    /// # Errors
    ///
    /// A rule that cannot be answered for this value, for example because it reads a field that is not there. Kubernetes
    /// counts that as a failed rule.
    pub(crate) fn holds(&self, this: Scope<'_>) -> Result<bool, CelError> {
        eval::truth(&self.body, &mut Slots::new(this)).map_err(|failure| CelError(failure.0.to_owned()))
    }

    /// For a rule of the form `self.all(item, ..)`: the items that it does not hold for; none for any other rule.
    ///
    /// So a rule about a list can cost the items at fault and not the list. `among_broken`: something is wrong with other items, so that only rules count that look at
    /// each item by itself, and what cannot be answered is no fault.
    pub(crate) fn failing_items(&self, this: Scope<'_>, among_broken: bool) -> Option<Vec<usize>> {
        let Expr::Macro(Macro::All, pair) = &self.body else { return None };
        let [Expr::Var(0), body] = &**pair else { return None };
        if among_broken && body.reads_self() {
            return None;
        }
        let mut slots = Slots::new(this);
        let mut fails = |item| match eval::holds_for(Slot::Place(item), body, &mut slots) {
            Ok(holds) => !holds,
            Err(_) => !among_broken,
        };
        let items = this.items().enumerate();
        Some(items.filter(|(_, item)| fails(*item)).map(|(index, _)| index).collect())
    }
}

/// A compiled expression. Variables are numbered: 0 is `self`, each macro inside adds one.
#[derive(Debug)]
enum Expr {
    Null,
    Bool(bool),
    Int(i64),
    String(Box<str>),
    List(Box<[Expr]>),
    Var(usize),
    /// `of.name`
    Field(Box<Expr>, Box<str>),
    /// `has(of.name)`
    Has(Box<Expr>, Box<str>),
    Index(Box<[Expr; 2]>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    /// Condition, then, else.
    If(Box<[Expr; 3]>),
    Binary(Operator, Box<[Expr; 2]>),
    /// `range.all(variable, body)` and its kin; the variable has the number of macros around plus one.
    Macro(Macro, Box<[Expr; 2]>),
    /// `text.matches(pattern)` with a literal pattern.
    Matches(Box<Expr>, Box<crate::schema::Pattern>),
    Call(call::Function, Box<[Expr]>),
}

impl Expr {
    /// Whether it reads the whole that the rule is about.
    fn reads_self(&self) -> bool {
        match self {
            Self::Var(number) => *number == 0,
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::String(_) => false,
            Self::Field(of, _) | Self::Has(of, _) | Self::Not(of) | Self::Negate(of) | Self::Matches(of, _) => {
                of.reads_self()
            }
            Self::List(parts) | Self::Call(_, parts) => parts.iter().any(Self::reads_self),
            Self::Index(parts) | Self::Binary(_, parts) | Self::Macro(_, parts) => parts.iter().any(Self::reads_self),
            Self::If(parts) => parts.iter().any(Self::reads_self),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

#[cfg(test)]
mod tests;
