//! Runs an expression.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use super::value::{Scope, Slots, Val};
use super::{CelError, Expr, Macro, Operator, call};

/// The value of an expression.
pub(super) fn eval<'a>(expr: &'a Expr, slots: &mut Slots<'a>) -> Result<Val<'a>, CelError> {
    Ok(match expr {
        Expr::Null => Val::Null,
        Expr::Bool(value) => Val::Bool(*value),
        Expr::Int(value) => Val::Int(*value),
        Expr::String(text) => Val::String(Cow::Borrowed(text)),
        Expr::List(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(|item| eval(item, slots)).collect();
            Val::List(items?.into())
        }
        Expr::Var(number) => slots.get(*number)?,
        Expr::Field(of, name) => match eval(of, slots)? {
            Val::Part(part) => part.field(name).ok_or_else(|| CelError(format!("there is no {name}")))?.val()?,
            _ => return Err(CelError(format!("there is no {name} in a plain value"))),
        },
        Expr::Has(of, name) => match eval(of, slots)? {
            Val::Part(part) => Val::Bool(part.field(name).is_some()),
            _ => return Err(CelError(format!("a plain value has no {name}"))),
        },
        Expr::Index(pair) => index(pair, slots)?,
        Expr::Not(inner) => Val::Bool(!truth(eval(inner, slots)?)?),
        Expr::Negate(inner) => Val::Int(int(&eval(inner, slots)?)?.checked_neg().ok_or_else(overflow)?),
        Expr::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            let chosen = if truth(eval(condition, slots)?)? { then } else { otherwise };
            return eval(chosen, slots);
        }
        Expr::Binary(operator, pair) => binary(*operator, pair, slots)?,
        Expr::Macro(which, pair) => over(*which, pair, slots)?,
        Expr::Matches(text, pattern) => match eval(text, slots)? {
            Val::String(text) => Val::Bool(pattern.matches(&text)),
            _ => return Err(CelError("matches takes a string".to_owned())),
        },
        Expr::Call(function, arguments) => call::call(*function, arguments, slots)?,
    })
}

fn binary<'a>(operator: Operator, [left, right]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Result<Val<'a>, CelError> {
    let first = eval(left, slots);
    // `&&` and `||` answer even if one side cannot, where the other side decides.
    if let Operator::And | Operator::Or = operator {
        let decisive = operator == Operator::Or;
        let first = first.and_then(truth);
        if first == Ok(decisive) {
            return Ok(Val::Bool(decisive));
        }
        let second = eval(right, slots).and_then(truth);
        return if second == Ok(decisive) { Ok(Val::Bool(decisive)) } else { first.and(second).map(Val::Bool) };
    }
    let (first, second) = (first?, eval(right, slots)?);
    Ok(match operator {
        Operator::Equal => Val::Bool(first.equals(&second)),
        Operator::NotEqual => Val::Bool(!first.equals(&second)),
        Operator::Less => Val::Bool(order(&first, &second)? == Ordering::Less),
        Operator::LessEqual => Val::Bool(order(&first, &second)? != Ordering::Greater),
        Operator::Greater => Val::Bool(order(&first, &second)? == Ordering::Greater),
        Operator::GreaterEqual => Val::Bool(order(&first, &second)? != Ordering::Less),
        Operator::In => Val::Bool(contains(&second, &first)?),
        Operator::Add => match (&first, &second) {
            (Val::String(one), Val::String(two)) => Val::String(Cow::Owned(format!("{one}{two}"))),
            _ => Val::Int(int(&first)?.checked_add(int(&second)?).ok_or_else(overflow)?),
        },
        Operator::Subtract => Val::Int(int(&first)?.checked_sub(int(&second)?).ok_or_else(overflow)?),
        Operator::Multiply => Val::Int(int(&first)?.checked_mul(int(&second)?).ok_or_else(overflow)?),
        Operator::And | Operator::Or => return Err(CelError("decided above".to_owned())),
    })
}

fn order(one: &Val<'_>, two: &Val<'_>) -> Result<Ordering, CelError> {
    match (one, two) {
        (Val::Int(one), Val::Int(two)) => Ok(one.cmp(two)),
        (Val::String(one), Val::String(two)) => Ok(one.cmp(two)),
        (Val::Duration(one), Val::Duration(two)) => Ok(one.cmp(two)),
        (Val::Bool(one), Val::Bool(two)) => Ok(one.cmp(two)),
        _ => Err(CelError("these values have no order".to_owned())),
    }
}

fn contains(whole: &Val<'_>, value: &Val<'_>) -> Result<bool, CelError> {
    match whole {
        Val::List(items) => Ok(items.iter().any(|item| item.equals(value))),
        Val::Part(part) if part.is_list() => {
            Ok(part.items().any(|item| item.val().is_ok_and(|item| item.equals(value))))
        }
        Val::Part(part) => match value {
            Val::String(name) => Ok(part.field(name).is_some()),
            _ => Ok(false),
        },
        _ => Err(CelError("`in` takes a list or map".to_owned())),
    }
}

fn index<'a>([of, at]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Result<Val<'a>, CelError> {
    let missing = || CelError("there is no such item".to_owned());
    match (eval(of, slots)?, eval(at, slots)?) {
        (Val::List(items), Val::Int(at)) => {
            usize::try_from(at).ok().and_then(|at| items.get(at).cloned()).ok_or_else(missing)
        }
        (Val::Part(part), Val::Int(at)) if part.is_list() => {
            usize::try_from(at).ok().and_then(|at| part.items().nth(at)).ok_or_else(missing)?.val()
        }
        (Val::Part(part), Val::String(name)) => part.field(&name).ok_or_else(missing)?.val(),
        _ => Err(CelError("this value has no items".to_owned())),
    }
}

/// A macro over the items of a list or the names of a map.
fn over<'a>(which: Macro, [range, body]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Result<Val<'a>, CelError> {
    let mut answers = Answers { which, found: 0, error: None, kept: Vec::new() };
    match eval(range, slots)? {
        Val::List(items) => {
            for item in items.iter() {
                if answers.take(item.clone(), body, slots)? {
                    break;
                }
            }
        }
        Val::Part(part) if part.is_list() => {
            for item in part.items() {
                if answers.take(item.val()?, body, slots)? {
                    break;
                }
            }
        }
        Val::Part(part) => {
            for (name, _) in part.cursor.entries() {
                let name = Val::String(Cow::Borrowed(name.as_str().unwrap_or_default()));
                if answers.take(name, body, slots)? {
                    break;
                }
            }
        }
        _ => return Err(CelError("this value has no items".to_owned())),
    }
    answers.sum()
}

/// Whether the body of a macro over `self` holds for one item.
pub(super) fn holds_for<'a>(item: Scope<'a>, body: &'a Expr, slots: &mut Slots<'a>) -> bool {
    let Ok(value) = item.val() else { return false };
    slots.push(value);
    let answer = eval(body, slots).and_then(truth);
    slots.pop();
    answer == Ok(true)
}

struct Answers<'a> {
    which: Macro,
    /// How many items the body held for (for `all`: did not hold for).
    found: u32,
    error: Option<CelError>,
    kept: Vec<Val<'a>>,
}

impl<'a> Answers<'a> {
    /// Runs the body for one item; true when the answer is decided.
    fn take(&mut self, item: Val<'a>, body: &'a Expr, slots: &mut Slots<'a>) -> Result<bool, CelError> {
        slots.push(item.clone());
        let answer = eval(body, slots);
        slots.pop();
        if self.which == Macro::Map {
            self.kept.push(answer?);
            return Ok(false);
        }
        match (self.which, answer.and_then(truth)) {
            (Macro::All, Ok(holds)) => self.found += u32::from(!holds),
            (Macro::Filter, Ok(true)) => self.kept.push(item),
            (_, Ok(holds)) => self.found += u32::from(holds),
            // `all` and `exists` answer if another item decides; the others cannot.
            (Macro::All | Macro::Exists, Err(error)) => self.error = Some(error),
            (_, Err(error)) => return Err(error),
        }
        Ok(matches!(self.which, Macro::All | Macro::Exists) && self.found > 0)
    }

    fn sum(self) -> Result<Val<'a>, CelError> {
        match (self.which, self.error) {
            (Macro::All, _) if self.found > 0 => Ok(Val::Bool(false)),
            (Macro::Exists, _) if self.found > 0 => Ok(Val::Bool(true)),
            (_, Some(error)) => Err(error),
            (Macro::All, None) => Ok(Val::Bool(true)),
            (Macro::Exists, None) => Ok(Val::Bool(false)),
            (Macro::ExistsOne, None) => Ok(Val::Bool(self.found == 1)),
            (Macro::Filter | Macro::Map, None) => Ok(Val::List(Rc::from(self.kept))),
        }
    }
}

pub(super) fn truth(value: Val<'_>) -> Result<bool, CelError> {
    match value {
        Val::Bool(value) => Ok(value),
        _ => Err(CelError("this is neither true nor false".to_owned())),
    }
}

fn int(value: &Val<'_>) -> Result<i64, CelError> {
    match value {
        Val::Int(value) => Ok(*value),
        _ => Err(CelError("this is no integer".to_owned())),
    }
}

fn overflow() -> CelError {
    CelError("the number is too large".to_owned())
}
