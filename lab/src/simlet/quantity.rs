//! Quantities (`100m`, `1.5Gi`, `2e3`), as far as pods can ask for theirs: `resourceFieldRef`.

/// A thousandth of one.
pub(crate) type Milli = i128;

/// A quantity in thousandths, rounded up, as the API does it.
pub(crate) fn parse(text: &str) -> Option<Milli> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && !matches!(letter, '.' | '-' | '+'));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (numerator, denominator) = scale(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let digits = format!("{}{fraction}", whole.trim_start_matches(['-', '+']));
    let size = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(denominator)?;
    let milli = digits.parse::<i128>().ok()?.checked_mul(numerator)?.checked_mul(1000)?;
    let rounded = milli.checked_add(size - 1)? / size;
    Some(if negative { -rounded } else { rounded })
}

/// What a suffix multiplies and divides with.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    const DECIMAL: &str = "kMGTPE";
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse::<i32>().ok()) {
        let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
        return Some(if exponent < 0 { (1, power) } else { (power, 1) });
    }
    let power = |letter: &str| DECIMAL.find(letter).and_then(|at| u32::try_from(at + 1).ok());
    match suffix {
        "" => Some((1, 1)),
        "m" => Some((1, 1000)),
        "u" => Some((1, 1_000_000)),
        "n" => Some((1, 1_000_000_000)),
        "Ki" => Some((1024, 1)),
        _ => match suffix.strip_suffix('i') {
            Some(letter) if letter.len() == 1 => Some((1024_i128.checked_pow(power(letter)?)?, 1)),
            None if suffix.len() == 1 => Some((1000_i128.checked_pow(power(suffix)?)?, 1)),
            _ => None,
        },
    }
}

/// How many times the divisor, rounded up.
pub(crate) fn divided(value: Milli, divisor: Milli) -> Milli {
    let divisor = divisor.max(1);
    (value + divisor - 1) / divisor
}

#[cfg(test)]
mod tests;
