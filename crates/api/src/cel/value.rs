//! Values of CEL, borrowed from trees wherever possible.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::schema::Schema;
use crate::tree::{Cursor, Value};

/// A value of a tree and the schema that it obeys; the schema knows the defaults of fields that are not written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) cursor: Cursor<'a, 'a>,
    pub(crate) schema: &'a Schema,
    /// What in the tree is at fault already; none where nothing is.
    pub(crate) doubts: Option<&'a Doubts<'a>>,
}

/// What in a tree is at fault, by node. What a rule would say of it only follows from that fault, so that a rule that reads it has no answer.
pub(crate) type Doubts<'a> = BTreeSet<(u32, Doubt<'a>)>;

/// What of a node is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt<'a> {
    /// All of it.
    Value,
    /// How many items or entries it has.
    Size,
    /// A field, be it written or not.
    Field(&'a str),
}

/// Why an expression has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure(pub(super) &'static str);

/// It reads what is in doubt.
pub(super) const DOUBTFUL: Failure = Failure("it reads what is at fault already");

impl Failure {
    /// Of two reasons the one that counts: with a doubt nobody knows whether the other one stays.
    pub(super) fn or(self, other: Self) -> Self {
        if self == DOUBTFUL { self } else { other }
    }
}

/// A value while a rule runs.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    String(Cow<'a, str>),
    /// A list or map of a tree.
    Part(Scope<'a>),
    /// A list that the rule made.
    List(Rc<[Val<'a>]>),
    /// Nanoseconds.
    Duration(u128),
    /// A named format.
    Format(super::call::Format),
    /// What `format.validate` says: whether there is something to object.
    Objection(bool),
}

impl<'a> Scope<'a> {
    /// As a value.
    pub(super) fn val(self) -> Result<Val<'a>, Failure> {
        self.unless(Doubt::Value)?;
        Ok(match self.cursor.value() {
            Value::Null => Val::Null,
            Value::Bool(value) => Val::Bool(*value),
            Value::Int(value) => Val::Int(*value),
            Value::Number(_) => return Err(Failure("a number is no integer")),
            Value::String(text) => Val::String(Cow::Borrowed(text)),
            Value::List(_) | Value::Map(_) => Val::Part(self),
        })
    }

    /// A field as written, or its default.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        let property = self.schema.property(name);
        if let Some(cursor) = self.cursor.get(name) {
            let schema = property.map(|property| &property.schema).or(self.schema.values()).unwrap_or(Schema::any());
            return Some(Self { cursor, schema, ..self });
        }
        let schema = &property?.schema;
        // Doubts are about nodes of the tree that is checked.
        schema.default_value().map(|tree| Self { cursor: tree.root(), schema, doubts: None })
    }

    /// The same for rules.
    pub(super) fn find(self, name: &str) -> Result<Option<Self>, Failure> {
        self.unless(Doubt::Value)?;
        self.unless(Doubt::Field(name))?;
        Ok(self.field(name))
    }

    /// Fails if this is in doubt.
    pub(super) fn unless(self, doubt: Doubt<'_>) -> Result<(), Failure> {
        let doubted = self.doubts.is_some_and(|doubts| doubts.contains(&(self.cursor.index, doubt)));
        if doubted { Err(DOUBTFUL) } else { Ok(()) }
    }

    /// Fails if anything in it is in doubt.
    fn unless_in(self) -> Result<(), Failure> {
        let Some(doubts) = self.doubts else { return Ok(()) };
        let end = self.cursor.tree.node(self.cursor.index).map_or(self.cursor.index, |node| node.end);
        let within = (self.cursor.index, Doubt::Value)..(end, Doubt::Value);
        if doubts.range(within).next().is_some() { Err(DOUBTFUL) } else { Ok(()) }
    }

    /// The items of a list.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> {
        let schema = self.schema.items().unwrap_or(Schema::any());
        self.cursor.items().map(move |cursor| Self { cursor, schema, ..self })
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(self.cursor.value(), Value::List(_))
    }
}

/// What a variable stands for.
#[derive(Debug, Clone)]
pub(super) enum Slot<'a> {
    Place(Scope<'a>),
    Val(Val<'a>),
}

impl<'a> Slot<'a> {
    pub(super) fn val(self) -> Result<Val<'a>, Failure> {
        match self {
            Self::Place(scope) => scope.val(),
            Self::Val(value) => Ok(value),
        }
    }
}

/// The variables of a running rule.
pub(super) struct Slots<'a> {
    this: Scope<'a>,
    values: Vec<Slot<'a>>,
    /// Items that macros may still visit.
    fuel: u32,
}

/// The macros of one rule visit at most so many items: 64 listeners with each other are 4,096, and a million take about a
/// tenth of a second.
const FUEL: u32 = 1 << 20;

impl<'a> Slots<'a> {
    pub(super) fn new(this: Scope<'a>) -> Self {
        Self { this, values: Vec::new(), fuel: FUEL }
    }

    pub(super) fn get(&self, number: usize) -> Result<Val<'a>, Failure> {
        match number.checked_sub(1) {
            None => self.this.val(),
            Some(at) => self.values.get(at).cloned().ok_or(Failure("a variable has no value"))?.val(),
        }
    }

    /// The part of the tree that a variable stands for, if it is one.
    pub(super) fn place(&self, number: usize) -> Option<Scope<'a>> {
        match number.checked_sub(1) {
            None => Some(self.this),
            Some(at) => match self.values.get(at) {
                Some(Slot::Place(scope)) => Some(*scope),
                _ => None,
            },
        }
    }

    /// Pays for one more item of a macro.
    pub(super) fn pay(&mut self) -> Result<(), Failure> {
        self.fuel = self.fuel.checked_sub(1).ok_or(Failure("there are too many items for this rule"))?;
        Ok(())
    }

    pub(super) fn push(&mut self, value: Slot<'a>) {
        self.values.push(value);
    }

    pub(super) fn pop(&mut self) {
        self.values.pop();
    }
}

impl Val<'_> {
    /// The same value if it can be compared: nothing in it is in doubt.
    pub(super) fn whole(self) -> Result<Self, Failure> {
        if let Val::Part(part) = &self {
            part.unless_in()?;
        }
        Ok(self)
    }

    /// Whether two values are equal; values of different types are not.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(one), Val::Bool(two)) => one == two,
            (Val::Int(one), Val::Int(two)) => one == two,
            (Val::String(one), Val::String(two)) => one == two,
            (Val::Duration(one), Val::Duration(two)) => one == two,
            (Val::List(one), Val::List(two)) => {
                one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| one.equals(two))
            }
            (Val::Part(one), Val::Part(two)) => same(one.cursor, two.cursor),
            _ => false,
        }
    }
}

/// Whether two parts of trees hold the same values; maps compare without regard to order.
fn same(one: Cursor<'_, '_>, two: Cursor<'_, '_>) -> bool {
    match (one.value(), two.value()) {
        (Value::List(_), Value::List(_)) => {
            one.len() == two.len() && one.items().zip(two.items()).all(|(one, two)| same(one, two))
        }
        (Value::Map(_), Value::Map(_)) => {
            one.len() == two.len()
                && one.entries().all(|(name, value)| {
                    let name = name.as_str().unwrap_or_default();
                    two.get(name).map_or(value.is_null(), |other| same(value, other))
                })
        }
        (one, two) => one == two,
    }
}
