//! What part of a log is asked for, with the parameters of the API: `sinceTime`, `tailLines` and so on.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    /// As lines have it, so that texts compare as times do.
    since: Option<String>,
    pub(crate) limit: Option<usize>,
    stream: Option<&'static str>,
}

/// A time as lines have it, always of the same length.
pub(crate) fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()
}

impl Query {
    /// From the parameters of a request.
    ///
    /// # Errors
    /// If one has no meaning.
    pub(crate) fn parse(parameters: &BTreeMap<String, String>, now: Timestamp) -> Result<Self, String> {
        let text = |name: &str| parameters.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let flag = |name: &str| matches!(text(name), Some("true" | "1"));
        let number = |name: &str| {
            let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{name} is no number: {text}"));
            text(name).map(number).transpose()
        };
        let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let since = match (text("sinceTime"), number("sinceSeconds")?) {
            (Some(time), _) => Some(time.parse::<Timestamp>().map_err(|error| format!("sinceTime: {error}"))?),
            (None, Some(seconds)) => now.checked_sub(SignedDuration::from_secs(seconds.into())).ok(),
            (None, None) => None,
        };
        Ok(Self {
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            tail: number("tailLines")?.map(size),
            since: since.map(stamp),
            limit: number("limitBytes")?.map(size),
            stream: match text("stream") {
                Some("Stdout") => Some("stdout"),
                Some("Stderr") => Some("stderr"),
                _ => None,
            },
        })
    }

    /// The part of some lines that is asked for, as people see it. Only of the first lines of a log the last ones can be chosen.
    pub(crate) fn select(&self, lines: &[u8], first: bool) -> Vec<u8> {
        let wanted = |line: &Line<'_>| {
            self.since.as_deref().is_none_or(|since| line.time >= since)
                && self.stream.is_none_or(|stream| line.stream == stream)
        };
        let all: Vec<Line<'_>> = lines.split(|byte| *byte == b'\n').filter_map(Line::parse).filter(wanted).collect();
        let skipped = self.tail.filter(|_| first).map_or(0, |tail| all.len().saturating_sub(tail));
        let mut out = Vec::new();
        for line in all.iter().skip(skipped) {
            if self.timestamps {
                out.extend(line.time.as_bytes());
                out.push(b' ');
            }
            out.extend(line.text);
            if line.whole {
                out.push(b'\n');
            }
        }
        out
    }
}

/// `2026-11-23T01:02:03.000000000Z stdout F text`.
struct Line<'a> {
    time: &'a str,
    stream: &'a str,
    /// A part of a long line has the next part behind it.
    whole: bool,
    text: &'a [u8],
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let mut word = || std::str::from_utf8(parts.next()?).ok();
        let (time, stream, tag) = (word()?, word()?, word()?);
        Some(Self { time, stream, whole: tag == "F", text: parts.next()? })
    }
}

#[cfg(test)]
mod tests;
