//! What came of a run, for people.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Deserialize;

use super::stream::{How, Results};

/// So many of the tests that took longest are named.
const SLOWEST: usize = 3;

/// Counts, how long it took, and what failed.
pub(super) fn results(results: &Results) -> String {
    let count = |how: How| format!("{} {}", results.count(how), how.word());
    let mut text = [How::Passed, How::Failed, How::Skipped, How::NotClaimed].map(count).join(", ");
    if let Some(seconds) = results.seconds() {
        let slowest = results.slowest().into_iter().take(SLOWEST);
        let slowest: Vec<String> = slowest.map(|(name, seconds)| format!("{name} {seconds:.1} s")).collect();
        let _infallible = write!(text, ", in {seconds:.0} s (longest: {})", slowest.join(", "));
    }
    text.push('\n');
    for (name, error) in results.failed() {
        let _infallible = write!(text, "\nfailed  {name}\n        {error}\n");
    }
    text
}

/// `ConformanceReport`: what is shown of it.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    name: String,
    core: Part,
    extended: Option<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    result: String,
    statistics: Statistics,
    #[serde(default)]
    supported_features: Vec<String>,
    #[serde(default)]
    unsupported_features: Vec<String>,
}

impl Part {
    /// How many of the profile's extended features are claimed; the core ones always are.
    fn features(&self) -> String {
        let claimed = self.supported_features.len();
        let all = claimed + self.unsupported_features.len();
        if all == 0 { String::new() } else { format!("{claimed} of {all}") }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statistics {
    passed: u32,
    failed: u32,
    skipped: u32,
}

/// A line for each part of each profile of a `ConformanceReport`.
///
/// # Errors
/// It is no such report.
pub(super) fn profiles(report: &str) -> anyhow::Result<String> {
    let report: Report = serde_saphyr::from_str(report).context("it is no ConformanceReport")?;
    let mut text = format!(
        "{:<14} {:<9} {:<8} {:>6} {:>6} {:>7} {:>9}\n",
        "profile", "", "result", "passed", "failed", "skipped", "features"
    );
    for Profile { name, core, extended } in &report.profiles {
        for (what, part) in [("core", Some(core)), ("extended", extended.as_ref())] {
            let Some(part) = part else { continue };
            let Part { result, statistics: Statistics { passed, failed, skipped }, .. } = part;
            let row =
                format!("{name:<14} {what:<9} {result:<8} {passed:>6} {failed:>6} {skipped:>7} {:>9}", part.features());
            let _infallible = writeln!(text, "{}", row.trim_end());
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
