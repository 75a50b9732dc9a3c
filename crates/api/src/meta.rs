//! `ObjectMeta`: what we keep of an object's metadata.

use std::fmt;
use std::num::NonZeroU32;

use crate::key::ObjectKey;
use crate::problem::FieldPath;

/// The metadata of an object, slim: empty parts cost a pointer at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Group, kind, namespace and name.
    pub key: ObjectKey,
    /// `metadata.generation` as written, else 1.
    pub generation: i64,
    /// `metadata.labels`.
    pub labels: Labels,
    /// What most objects of files do not have; none where that is so.
    pub more: Option<Box<MoreMeta>>,
    /// The age of an object of followed files, which no author writes. None: [`Self::creation_timestamp`] is all that is known of it.
    pub first_seen: Option<FirstSeen>,
}

/// When files first gave an object. The order is that of age, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FirstSeen {
    /// The number of that change of the files, from 1. All objects of one change have the same.
    pub change: NonZeroU32,
    /// [`ObjectMeta::created`] at that change: what an author writes later makes no object older.
    pub created: u32,
}

/// What an API server adds to an object, and annotations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct MoreMeta {
    /// When the API server made the object.
    pub creation_timestamp: Option<Timestamp>,
    /// `metadata.annotations` without kubectl's copy of the whole object.
    pub annotations: Labels,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// Items that were left out because something is wrong with them: the list, and which of its items, from 0, as written.
    pub dropped: Box<[(FieldPath, usize)]>,
}

impl ObjectMeta {
    /// Metadata with nothing but its key; generation 1.
    #[must_use]
    pub fn new(key: ObjectKey) -> Self {
        Self { key, generation: 1, labels: Labels::default(), more: None, first_seen: None }
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// Namespace, empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.namespace()
    }

    /// When the API server made the object; files usually do not say.
    #[must_use]
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        self.more.as_deref().and_then(|more| more.creation_timestamp)
    }

    /// The creation timestamp in seconds since 1970 (until 2106), so that the older object has the smaller number; `u32::MAX` without one.
    #[must_use]
    pub fn created(&self) -> u32 {
        let seconds = |Timestamp(seconds)| u32::try_from(i64::max(seconds, 0)).unwrap_or(u32::MAX);
        self.creation_timestamp().map_or(u32::MAX, seconds)
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.more.as_deref().and_then(|more| more.annotations.get(name))
    }

    /// `metadata.uid`, if an API server gave one.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.more.as_deref().map(|more| &*more.uid).filter(|uid| !uid.is_empty())
    }

    /// Which item of a list as written, from 0, is the one at `kept` of those that are kept.
    #[must_use]
    pub fn written_index(&self, list: &str, kept: usize) -> usize {
        let dropped = self.more.iter().flat_map(|more| &more.dropped);
        let of_list = dropped.filter(|(of, _)| **of == *list).map(|(_, index)| *index);
        of_list.fold(kept, |at, gone| at + usize::from(gone <= at))
    }

    /// The path at which a field is written; `path` counts the items that are kept. None if it is the same.
    #[must_use]
    pub fn written_path(&self, path: &str) -> Option<FieldPath> {
        let (list, rest) = path.split_once('[')?;
        let (index, rest) = rest.split_once(']')?;
        let kept = index.parse().ok()?;
        let written = self.written_index(list, kept);
        (written != kept).then(|| format!("{list}[{written}]{rest}").into())
    }

    /// `metadata.resourceVersion`, if an API server gave one.
    #[must_use]
    pub fn resource_version(&self) -> Option<&str> {
        self.more.as_deref().map(|more| &*more.resource_version).filter(|version| !version.is_empty())
    }
}

/// A moment in seconds since 1970 UTC (the precision of Kubernetes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads RFC 3339, for example `2026-11-21T10:04:00Z`; fractions of a second are cut off.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let mark = |at: usize, allowed: &[u8]| bytes.get(at).filter(|byte| allowed.contains(byte)).map(|_| ());
        mark(4, b"-")?;
        mark(7, b"-")?;
        mark(10, b"Tt ")?;
        mark(13, b":")?;
        mark(16, b":")?;
        let (month, day) = (number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
        let days = days_from_civil(number(0, 4)?, month, day);
        let offset = zone_offset(text.get(19..)?)?;
        in_range.then_some(Self(days * 86_400 + hour * 3_600 + minute * 60 + second - offset))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with second precision.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, seconds) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Labels or annotations: sorted by name, each name once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(candidate, _)| (**candidate).cmp(name)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    /// Names and values in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// True where there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for Labels {
    /// Of equal names the last one counts.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        pairs.reverse();
        pairs.sort_by(|(one, _): &(Box<str>, Box<str>), (two, _)| one.cmp(two));
        pairs.dedup_by(|(later, _), (kept, _)| later == kept);
        Self(pairs.into())
    }
}

impl<'de> serde::Deserialize<'de> for Labels {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names and values, all strings")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(map.size_hint().unwrap_or(0).min(64));
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar, after Howard Hinnant's `days_from_civil`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Seconds east of UTC of what follows the seconds: an optional fraction, then `Z` or `+hh:mm`.
fn zone_offset(rest: &str) -> Option<i64> {
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|letter: char| letter.is_ascii_digit()),
        None => rest,
    };
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let two = |digits: &str| (digits.len() == 2).then(|| digits.parse::<u8>().ok()).flatten().map(i64::from);
    Some(sign * (two(hours)? * 3_600 + two(minutes)? * 60))
}

#[cfg(test)]
mod tests;
