//! Rules of numbers and of durations.

use std::fmt::Display;

use prost_reflect::Value;
use prost_types::Duration;
use proto::validate::field_rules::Type;

use super::{Rules, Test};
use crate::well_known::seconds_and_nanos;

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;

/// What all the number rules have in common.
struct Bounds<T> {
    only: Option<T>,
    lt: Option<T>,
    lte: Option<T>,
    gt: Option<T>,
    gte: Option<T>,
    one_of: Vec<T>,
    none_of: Vec<T>,
}

macro_rules! bounds {
    ($rules:expr, $out:expr, $convert:expr, $read:expr, $show:expr) => {{
        let rules = $rules;
        let bounds = Bounds {
            only: rules.r#const.map($convert),
            lt: rules.lt.map($convert),
            lte: rules.lte.map($convert),
            gt: rules.gt.map($convert),
            gte: rules.gte.map($convert),
            one_of: rules.r#in.iter().copied().map($convert).collect(),
            none_of: rules.not_in.iter().copied().map($convert).collect(),
        };
        compile_bounds(&bounds, $read, $show, $out);
    }};
}

macro_rules! integer_bounds {
    ($rules:expr, $out:expr) => {{
        $out.ignore_empty = $rules.ignore_empty();
        bounds!($rules, $out, i128::from, integer, |number: i128| number.to_string())
    }};
}

macro_rules! float_bounds {
    ($rules:expr, $out:expr) => {{
        $out.ignore_empty = $rules.ignore_empty();
        bounds!($rules, $out, f64::from, float, |number: f64| number.to_string())
    }};
}

/// Compiles the rules of a number or a duration; rules of other kinds give nothing.
pub(super) fn compile(rules: &Type, out: &mut Rules) {
    match rules {
        Type::Float(rules) => float_bounds!(rules, out),
        Type::Double(rules) => float_bounds!(rules, out),
        Type::Int32(rules) => integer_bounds!(rules, out),
        Type::Int64(rules) => integer_bounds!(rules, out),
        Type::Uint32(rules) => integer_bounds!(rules, out),
        Type::Uint64(rules) => integer_bounds!(rules, out),
        Type::Sint32(rules) => integer_bounds!(rules, out),
        Type::Sint64(rules) => integer_bounds!(rules, out),
        Type::Fixed32(rules) => integer_bounds!(rules, out),
        Type::Fixed64(rules) => integer_bounds!(rules, out),
        Type::Sfixed32(rules) => integer_bounds!(rules, out),
        Type::Sfixed64(rules) => integer_bounds!(rules, out),
        Type::Duration(rules) => {
            let nanos = |duration: Duration| i128::from(duration.seconds) * SECOND + i128::from(duration.nanos);
            bounds!(rules, out, nanos, duration, show_duration);
        }
        _ => {}
    }
}

fn compile_bounds<T: PartialOrd + Copy + Display + Send + Sync + 'static>(
    bounds: &Bounds<T>,
    read: fn(&Value) -> Option<T>,
    show: fn(T) -> String,
    out: &mut Rules,
) {
    let mut test = |text: String, holds: Box<dyn Fn(T) -> bool + Send + Sync>| {
        out.tests.push(Test::new(text, move |value| read(value).is_some_and(&holds)));
    };
    let show_all = |all: &[T]| all.iter().map(|one| show(*one)).collect::<Vec<_>>().join(", ");
    if let Some(only) = bounds.only {
        test(format!("must be {}", show(only)), Box::new(move |value| value == only));
    }
    if !bounds.one_of.is_empty() {
        let all = bounds.one_of.clone();
        test(format!("must be one of {}", show_all(&all)), Box::new(move |value| all.contains(&value)));
    }
    if !bounds.none_of.is_empty() {
        let all = bounds.none_of.clone();
        test(format!("must be none of {}", show_all(&all)), Box::new(move |value| !all.contains(&value)));
    }
    range(bounds, show, &mut test);
}

/// The bounds above and below. Where the upper one is the lower, the rule means "outside of these", says PGV.
fn range<T: PartialOrd + Copy + Send + Sync + 'static>(
    bounds: &Bounds<T>,
    show: fn(T) -> String,
    test: &mut impl FnMut(String, Box<dyn Fn(T) -> bool + Send + Sync>),
) {
    let above = bounds.gt.map(|gt| (gt, false)).or(bounds.gte.map(|gte| (gte, true)));
    let below = bounds.lt.map(|lt| (lt, false)).or(bounds.lte.map(|lte| (lte, true)));
    let over = move |value: T, (bound, equal): (T, bool)| value > bound || (equal && value == bound);
    let under = move |value: T, (bound, equal): (T, bool)| value < bound || (equal && value == bound);
    let over_text =
        |(bound, equal): (T, bool)| format!("{} {}", if equal { "at least" } else { "greater than" }, show(bound));
    let under_text =
        |(bound, equal): (T, bool)| format!("{} {}", if equal { "at most" } else { "less than" }, show(bound));
    match (above, below) {
        (Some(above), Some(below)) if below.0 < above.0 => test(
            format!("must be {} or {}", under_text(below), over_text(above)),
            Box::new(move |value| over(value, above) || under(value, below)),
        ),
        _ => {
            if let Some(above) = above {
                test(format!("must be {}", over_text(above)), Box::new(move |value| over(value, above)));
            }
            if let Some(below) = below {
                test(format!("must be {}", under_text(below)), Box::new(move |value| under(value, below)));
            }
        }
    }
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::I32(number) => Some(i128::from(*number)),
        Value::I64(number) => Some(i128::from(*number)),
        Value::U32(number) => Some(i128::from(*number)),
        Value::U64(number) => Some(i128::from(*number)),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        _ => None,
    }
}

fn duration(value: &Value) -> Option<i128> {
    let (seconds, nanos) = seconds_and_nanos(value.as_message()?);
    Some(i128::from(seconds) * SECOND + i128::from(nanos))
}

fn show_duration(nanos: i128) -> String {
    let part = |number: i128| i64::try_from(number).unwrap_or_default();
    let nanos_left = i32::try_from(nanos % SECOND).unwrap_or_default();
    Duration { seconds: part(nanos / SECOND), nanos: nanos_left }.to_string()
}
