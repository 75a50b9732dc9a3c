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

use self::value::{DOUBTFUL, Slot, Slots};
pub(crate) use self::value::{Doubt, Doubts, Scope};

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

impl CelError {
    /// There is no answer because what the rule reads is at fault already.
    pub(crate) fn is_doubt(&self) -> bool {
        self.0 == DOUBTFUL.0
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
    /// So a rule about a list can cost the items at fault and not the list.
    pub(crate) fn failing_items(&self, this: Scope<'_>) -> Option<Vec<usize>> {
        let Expr::Macro(Macro::All, pair) = &self.body else { return None };
        let [Expr::Var(0), body] = &**pair else { return None };
        let mut slots = Slots::new(this);
        let mut fails = |item| match eval::holds_for(Slot::Place(item), body, &mut slots) {
            Ok(holds) => !holds,
            Err(failure) => failure != DOUBTFUL,
        };
        let items = this.items().enumerate();
        Some(items.filter(|(_, item)| fails(*item)).map(|(index, _)| index).collect())
    }

    /// The fields of `self` that the rule reads.
    pub(crate) fn fields(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.body.fields_of_self(&mut found);
        found
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
    /// The fields that it reads of the whole that the rule is about.
    fn fields_of_self<'e>(&'e self, found: &mut Vec<&'e str>) {
        let inner: &[Self] = match self {
            Self::Var(_) | Self::Null | Self::Bool(_) | Self::Int(_) | Self::String(_) => &[],
            Self::Field(of, name) | Self::Has(of, name) => {
                found.extend(matches!(**of, Self::Var(0)).then_some(&**name));
                std::slice::from_ref(of)
            }
            Self::Not(of) | Self::Negate(of) | Self::Matches(of, _) => std::slice::from_ref(of),
            Self::List(parts) | Self::Call(_, parts) => parts,
            Self::Index(parts) | Self::Binary(_, parts) | Self::Macro(_, parts) => &**parts,
            Self::If(parts) => &**parts,
        };
        inner.iter().for_each(|part| part.fields_of_self(found));
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
