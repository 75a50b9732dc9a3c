//! Runs an expression.
//!
//! Most of what rules ask is whether a field is there, equal to a word, or how long it is. Those go from tree to answer
//! without a [`Val`] in between: [`truth`] answers yes or no, [`place`] finds a part of the tree.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use super::value::{DOUBTFUL, Doubt, Failure, Scope, Slot, Slots, Val};
use super::{Expr, Macro, Operator, call};
use crate::tree::Value;

type Answer<T> = Result<T, Failure>;

/// The value of an expression.
pub(super) fn eval<'a>(expr: &'a Expr, slots: &mut Slots<'a>) -> Answer<Val<'a>> {
    Ok(match expr {
        Expr::Null => Val::Null,
        Expr::Int(value) => Val::Int(*value),
        Expr::String(text) => Val::String(Cow::Borrowed(text)),
        Expr::List(items) => list(items, slots)?,
        Expr::Var(number) => slots.get(*number)?,
        Expr::Field(..) | Expr::Index(..) => member(expr, slots)?,
        Expr::Negate(inner) => Val::Int(int(&eval(inner, slots)?)?.checked_neg().ok_or(OVERFLOW)?),
        Expr::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            let chosen = if truth(condition, slots)? { then } else { otherwise };
            return eval(chosen, slots);
        }
        Expr::Binary(operator @ (Operator::Add | Operator::Subtract | Operator::Multiply), pair) => {
            arithmetic(*operator, pair, slots)?
        }
        Expr::Macro(which @ (Macro::Filter | Macro::Map), pair) => over(*which, pair, slots)?,
        Expr::Call(function, arguments) => call::call(*function, arguments, slots)?,
        Expr::Bool(_) | Expr::Has(..) | Expr::Not(_) | Expr::Binary(..) | Expr::Macro(..) | Expr::Matches(..) => {
            Val::Bool(truth(expr, slots)?)
        }
    })
}

/// Whether an expression holds.
pub(super) fn truth<'a>(expr: &'a Expr, slots: &mut Slots<'a>) -> Answer<bool> {
    match expr {
        Expr::Bool(value) => Ok(*value),
        Expr::Has(of, name) => has(of, name, slots),
        Expr::Not(inner) => truth(inner, slots).map(|holds| !holds),
        Expr::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            let chosen = if truth(condition, slots)? { then } else { otherwise };
            truth(chosen, slots)
        }
        Expr::Binary(operator, pair) => match operator {
            Operator::And => logic(pair, false, slots),
            Operator::Or => logic(pair, true, slots),
            Operator::Equal => equal(pair, slots),
            Operator::NotEqual => equal(pair, slots).map(|same| !same),
            Operator::In => contained(pair, slots),
            Operator::Less => order(pair, slots).map(|order| order == Ordering::Less),
            Operator::LessEqual => order(pair, slots).map(|order| order != Ordering::Greater),
            Operator::Greater => order(pair, slots).map(|order| order == Ordering::Greater),
            Operator::GreaterEqual => order(pair, slots).map(|order| order != Ordering::Less),
            Operator::Add | Operator::Subtract | Operator::Multiply => Err(Failure("a number is no answer")),
        },
        Expr::Macro(which @ (Macro::All | Macro::Exists | Macro::ExistsOne), pair) => quantifier(*which, pair, slots),
        Expr::Matches(text, pattern) => match eval(text, slots)? {
            Val::String(text) => Ok(pattern.matches(&text)),
            _ => Err(Failure("matches takes a string")),
        },
        _ => bool_of(&eval(expr, slots)?),
    }
}

/// The part of the tree that an expression names; none if it is not a plain path.
fn place<'a>(expr: &'a Expr, slots: &Slots<'a>) -> Option<Answer<Scope<'a>>> {
    match expr {
        Expr::Var(number) => slots.place(*number).map(Ok),
        Expr::Field(of, name) => Some(place(of, slots)?.and_then(|scope| scope.find(name)?.ok_or(NO_FIELD))),
        Expr::Index(pair) => {
            let [of, Expr::Int(at)] = &**pair else { return None };
            let scope = match place(of, slots)? {
                Ok(scope) if scope.is_list() => scope,
                Ok(_) => return None,
                Err(failure) => return Some(Err(failure)),
            };
            Some(usize::try_from(*at).ok().and_then(|at| scope.items().nth(at)).ok_or(NO_ITEM))
        }
        _ => None,
    }
}

fn has<'a>(of: &'a Expr, name: &str, slots: &mut Slots<'a>) -> Answer<bool> {
    if let Some(scope) = place(of, slots) {
        return Ok(scope?.find(name)?.is_some());
    }
    match eval(of, slots)? {
        Val::Part(part) => Ok(part.find(name)?.is_some()),
        _ => Err(Failure("a plain value has no fields")),
    }
}

/// `&&` and `||` answer even if one side cannot, where the other side decides.
fn logic<'a>([left, right]: &'a [Expr; 2], decisive: bool, slots: &mut Slots<'a>) -> Answer<bool> {
    let first = truth(left, slots);
    if matches!(first, Ok(holds) if holds == decisive) {
        return first;
    }
    let second = truth(right, slots);
    match (first, second) {
        (_, Ok(holds)) if holds == decisive => second,
        (Err(one), Err(two)) => Err(one.or(two)),
        _ => first.and(second),
    }
}

fn equal<'a>(pair: &'a [Expr; 2], slots: &mut Slots<'a>) -> Answer<bool> {
    let [left, right] = pair;
    if let (other, literal @ (Expr::String(_) | Expr::Int(_))) | (literal @ (Expr::String(_) | Expr::Int(_)), other) =
        (left, right)
        && let Some(scope) = place(other, slots)
    {
        return is_literal(scope?, literal);
    }
    let first = eval(left, slots)?.whole()?;
    Ok(first.equals(&eval(right, slots)?.whole()?))
}

/// Whether a part of the tree is a literal.
fn is_literal(scope: Scope<'_>, literal: &Expr) -> Answer<bool> {
    scope.unless(Doubt::Value)?;
    Ok(match (scope.cursor.value(), literal) {
        (Value::String(text), Expr::String(literal)) => **text == **literal,
        (Value::Int(number), Expr::Int(literal)) => number == literal,
        _ => false,
    })
}

fn contained<'a>([value, whole]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Answer<bool> {
    if let Expr::List(items) = whole
        && items.iter().all(|item| matches!(item, Expr::String(_) | Expr::Int(_)))
        && let Some(scope) = place(value, slots)
    {
        let scope = scope?;
        scope.unless(Doubt::Value)?;
        return Ok(items.iter().any(|item| is_literal(scope, item) == Ok(true)));
    }
    let value = eval(value, slots)?.whole()?;
    match eval(whole, slots)?.whole()? {
        Val::List(items) => Ok(items.iter().any(|item| item.equals(&value))),
        Val::Part(part) if part.is_list() => {
            Ok(part.items().any(|item| item.val().is_ok_and(|item| item.equals(&value))))
        }
        Val::Part(part) => match value {
            Val::String(name) => Ok(part.find(&name)?.is_some()),
            _ => Ok(false),
        },
        _ => Err(Failure("`in` takes a list or map")),
    }
}

fn order<'a>([left, right]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Answer<Ordering> {
    let first = eval(left, slots)?;
    match (&first, &eval(right, slots)?) {
        (Val::Int(one), Val::Int(two)) => Ok(one.cmp(two)),
        (Val::String(one), Val::String(two)) => Ok(one.cmp(two)),
        (Val::Duration(one), Val::Duration(two)) => Ok(one.cmp(two)),
        (Val::Bool(one), Val::Bool(two)) => Ok(one.cmp(two)),
        _ => Err(Failure("these values have no order")),
    }
}

fn arithmetic<'a>(operator: Operator, [left, right]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Answer<Val<'a>> {
    let (first, second) = (eval(left, slots)?, eval(right, slots)?);
    if let (Operator::Add, Val::String(one), Val::String(two)) = (operator, &first, &second) {
        return Ok(Val::String(Cow::Owned(format!("{one}{two}"))));
    }
    let (one, two) = (int(&first)?, int(&second)?);
    let sum = match operator {
        Operator::Add => one.checked_add(two),
        Operator::Subtract => one.checked_sub(two),
        _ => one.checked_mul(two),
    };
    sum.map(Val::Int).ok_or(OVERFLOW)
}

/// How many items or characters a part of the tree has, if the expression names one.
pub(super) fn size_of_place<'a>(expr: &'a Expr, slots: &Slots<'a>) -> Option<Answer<i64>> {
    let counted = place(expr, slots)?.and_then(|scope| {
        scope.unless(Doubt::Value)?;
        scope.unless(Doubt::Size)?;
        Ok(scope.cursor)
    });
    let cursor = match counted {
        Ok(cursor) => cursor,
        Err(failure) => return Some(Err(failure)),
    };
    match cursor.value() {
        Value::List(count) | Value::Map(count) => Some(Ok(i64::from(*count))),
        _ => None,
    }
}

fn list<'a>(items: &'a [Expr], slots: &mut Slots<'a>) -> Answer<Val<'a>> {
    let items: Result<Vec<_>, _> = items.iter().map(|item| eval(item, slots)).collect();
    Ok(Val::List(items?.into()))
}

/// `of.name` or `of[index]`.
fn member<'a>(expr: &'a Expr, slots: &mut Slots<'a>) -> Answer<Val<'a>> {
    if let Some(scope) = place(expr, slots) {
        return scope?.val();
    }
    match expr {
        Expr::Field(of, name) => match eval(of, slots)? {
            Val::Part(part) => part.find(name)?.ok_or(NO_FIELD)?.val(),
            _ => Err(Failure("a plain value has no fields")),
        },
        Expr::Index(pair) => {
            let [of, at] = &**pair;
            match (eval(of, slots)?, eval(at, slots)?) {
                (Val::List(items), Val::Int(at)) => {
                    usize::try_from(at).ok().and_then(|at| items.get(at).cloned()).ok_or(NO_ITEM)
                }
                (Val::Part(part), Val::Int(at)) if part.is_list() => {
                    usize::try_from(at).ok().and_then(|at| part.items().nth(at)).ok_or(NO_ITEM)?.val()
                }
                (Val::Part(part), Val::String(name)) => part.find(&name)?.ok_or(NO_ITEM)?.val(),
                _ => Err(Failure("this value has no items")),
            }
        }
        _ => Err(NO_ITEM),
    }
}

/// Calls `visit` with each item of a list or name of a map, until it answers true.
fn each<'a>(
    range: &'a Expr,
    slots: &mut Slots<'a>,
    mut visit: impl FnMut(Slot<'a>, &mut Slots<'a>) -> Answer<bool>,
) -> Answer<()> {
    let mut see = |item, slots: &mut Slots<'a>| {
        slots.pay()?;
        visit(item, slots)
    };
    let range = match place(range, slots) {
        Some(scope) => scope?.val()?,
        None => eval(range, slots)?,
    };
    match range {
        Val::List(items) => {
            for item in items.iter() {
                if see(Slot::Val(item.clone()), slots)? {
                    break;
                }
            }
        }
        Val::Part(part) if part.is_list() => {
            for item in part.items() {
                if see(Slot::Place(item), slots)? {
                    break;
                }
            }
        }
        Val::Part(part) => {
            for (name, _) in part.cursor.entries() {
                let name = Val::String(Cow::Borrowed(name.as_str().unwrap_or_default()));
                if see(Slot::Val(name), slots)? {
                    break;
                }
            }
        }
        _ => return Err(Failure("this value has no items")),
    }
    Ok(())
}

/// `all`, `exists` and `exists_one`. The first two answer even if some items cannot, where another decides; the last one where the items in doubt
/// can change nothing.
fn quantifier<'a>(which: Macro, [range, body]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Answer<bool> {
    let (mut found, mut failure) = (0_u32, None::<Failure>);
    each(range, slots, |item, slots| {
        match (which, holds_for(item, body, slots)) {
            (Macro::All, Ok(holds)) => found += u32::from(!holds),
            (_, Ok(holds)) => found += u32::from(holds),
            (Macro::ExistsOne, Err(error)) if error != DOUBTFUL => return Err(error),
            (_, Err(error)) => failure = Some(failure.map_or(error, |former| former.or(error))),
        }
        Ok(which != Macro::ExistsOne && found > 0)
    })?;
    match (which, failure) {
        (Macro::ExistsOne, None) => Ok(found == 1),
        (Macro::ExistsOne, Some(_)) if found > 1 => Ok(false),
        (Macro::ExistsOne, Some(doubt)) => Err(doubt),
        (_, _) if found > 0 => Ok(which == Macro::Exists),
        (_, Some(error)) => Err(error),
        (_, None) => Ok(which == Macro::All),
    }
}

/// `filter` and `map`.
fn over<'a>(which: Macro, [range, body]: &'a [Expr; 2], slots: &mut Slots<'a>) -> Answer<Val<'a>> {
    let mut kept = Vec::new();
    each(range, slots, |item, slots| {
        if which == Macro::Map {
            slots.push(item);
            let value = eval(body, slots);
            slots.pop();
            kept.push(value?);
        } else if holds_for(item.clone(), body, slots)? {
            kept.push(item.val()?);
        }
        Ok(false)
    })?;
    Ok(Val::List(Rc::from(kept)))
}

/// Whether the body of a macro holds for one item.
pub(super) fn holds_for<'a>(item: Slot<'a>, body: &'a Expr, slots: &mut Slots<'a>) -> Answer<bool> {
    slots.push(item);
    let answer = truth(body, slots);
    slots.pop();
    answer
}

fn bool_of(value: &Val<'_>) -> Answer<bool> {
    match value {
        Val::Bool(value) => Ok(*value),
        _ => Err(Failure("this is neither true nor false")),
    }
}

fn int(value: &Val<'_>) -> Answer<i64> {
    match value {
        Val::Int(value) => Ok(*value),
        _ => Err(Failure("this is no integer")),
    }
}

const OVERFLOW: Failure = Failure("the number is too large");
const NO_FIELD: Failure = Failure("it reads a field that is not there");
const NO_ITEM: Failure = Failure("there is no such item");
