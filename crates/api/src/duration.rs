//! Durations as users write them.

use std::fmt;
use std::time::Duration;

/// A duration such as `1h30m`, `500ms` or `0s`: GEP-2257 (up to four parts of at most five digits, units h m s ms)
/// and the notation of Go that Envoy Gateway's kinds use (fractions, `us` and `ns` as well).
///
/// A text that is no duration is kept, so that it costs only the field that it is written in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DurationText {
    /// What the text says.
    Valid(Duration),
    /// A text that says no duration.
    Invalid(Box<str>),
}

impl DurationText {
    /// The duration, unless the text says none.
    #[must_use]
    pub fn get(&self) -> Option<Duration> {
        match self {
            Self::Valid(duration) => Some(*duration),
            Self::Invalid(_) => None,
        }
    }
}

impl From<&str> for DurationText {
    fn from(text: &str) -> Self {
        parse(text).map_or_else(|| Self::Invalid(text.into()), Self::Valid)
    }
}

impl fmt::Debug for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid(duration) => write!(f, "{duration:?}"),
            Self::Invalid(text) => write!(f, "not a duration: {text:?}"),
        }
    }
}

impl<'de> serde::Deserialize<'de> for DurationText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(crate::open::Word(std::marker::PhantomData))
    }
}

/// Reads a duration; none if the text is not one, is negative, or exceeds the 292 years of Go's type.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut nanoseconds) = (text, 0_u128);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        nanoseconds = nanoseconds.checked_add(part(number, unit_nanoseconds(unit)?)?)?;
        rest = next;
    }
    let total = i64::try_from(nanoseconds).ok().and_then(|total| u64::try_from(total).ok());
    total.filter(|_| !text.is_empty()).map(Duration::from_nanos)
}

/// Nanoseconds of one part such as `1.5` hours; what is below a nanosecond is cut off.
fn part(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    digits(whole)?.checked_mul(unit)?.checked_add(digits(fraction)?.checked_mul(unit)? / scale)
}

fn unit_nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" | "µs" | "μs" => 1_000,
        "ns" => 1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
