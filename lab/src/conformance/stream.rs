//! The stream of `go test -json`, and what it says of each test.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Passed,
    Failed,
    Skipped,
    /// The class does not claim a feature that it is about.
    NotClaimed,
}

impl How {
    /// One word or two.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::NotClaimed => "not claimed",
        }
    }
}

/// The end of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) how: How,
    pub(super) seconds: f64,
}

/// What a line says to who waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    /// A step of the preparation.
    Step(String),
    /// A test ended.
    Ended(String, Ended),
}

/// All tests of a stream.
#[derive(Debug)]
pub(super) struct Results {
    /// The test that holds all others; what it says itself is of the preparation.
    root: &'static str,
    tests: BTreeMap<String, Test>,
    preparation: Test,
}

/// What is known of a test, those inside it included.
#[derive(Debug, Default)]
struct Test {
    ended: Option<Ended>,
    /// What it says of its errors.
    error: String,
    /// It is about what the class does not claim.
    is_foreign: bool,
}

/// A line of the stream, as `go doc test2json` says it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Event {
    action: String,
    test: String,
    output: String,
    output_type: String,
    elapsed: f64,
}

/// So much of an error is kept; only its first lines are shown.
const LONGEST: usize = 4096;

/// What the suite says of a test whose features are not all claimed.
const NOT_CLAIMED: &str = "suite does not support";

/// How the suite begins what it says of its preparation.
const STEP: &str = "Test Setup: ";

/// What Go says where no test caught it.
const CRASH: &str = "panic: ";

impl Results {
    pub(super) fn new(root: &'static str) -> Self {
        Self { root, tests: BTreeMap::new(), preparation: Test::default() }
    }

    /// Takes a line.
    pub(super) fn read(&mut self, line: &str) -> Option<News> {
        let event: Event = serde_json::from_str(line).ok()?;
        let inside = event.test.strip_prefix(self.root).and_then(|rest| rest.strip_prefix('/'));
        let Some(inside) = inside else {
            self.preparation.take(&event, event.test == self.root);
            let step = event.output.split_once(STEP)?.1.trim();
            return Some(News::Step(step.to_owned()));
        };
        let name = inside.split('/').next().unwrap_or(inside);
        let test = self.tests.entry(name.to_owned()).or_default();
        let ended = test.take(&event, name == inside)?;
        Some(News::Ended(name.to_owned(), ended))
    }

    /// Nothing more comes. A test without an end has failed, and the whole has if the program says so and no test does.
    pub(super) fn end(&mut self, good: bool) {
        for test in self.tests.values_mut() {
            test.ended.get_or_insert(Ended { how: How::Failed, seconds: 0.0 });
        }
        if !good && self.count(How::Failed) == 0 {
            self.preparation.ended = Some(Ended { how: How::Failed, seconds: 0.0 });
        }
    }

    pub(super) fn count(&self, how: How) -> usize {
        self.tests.values().filter(|test| test.ended.is_some_and(|ended| ended.how == how)).count()
    }

    /// How long all of them took together, in seconds, preparation included; none if that was not said.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.preparation.ended.map(|ended| ended.seconds).filter(|seconds| *seconds > 0.0)
    }

    /// The tests that took longest, the longest first.
    pub(super) fn slowest(&self) -> Vec<(&str, f64)> {
        let ended = self.tests.iter().filter_map(|(name, test)| Some((&**name, test.ended?.seconds)));
        let mut all: Vec<_> = ended.filter(|(_, seconds)| *seconds > 0.0).collect();
        all.sort_by(|one, two| two.1.total_cmp(&one.1));
        all
    }

    /// At least one test passed and none failed.
    pub(super) fn is_good(&self) -> bool {
        let prepared = self.preparation.ended.is_none_or(|ended| ended.how != How::Failed);
        prepared && self.count(How::Failed) == 0 && self.count(How::Passed) > 0
    }

    /// Those that failed by name, each with the first of its errors in one line.
    pub(super) fn failed(&self) -> impl Iterator<Item = (&str, String)> {
        // That something inside it failed is no news of the whole.
        let own = (self.count(How::Failed) == 0).then_some((self.root, &self.preparation));
        let tests = self.tests.iter().map(|(name, test)| (&**name, test));
        let failed =
            own.into_iter().chain(tests).filter(|(_, test)| test.ended.is_some_and(|it| it.how == How::Failed));
        failed.map(|(name, test)| (name, summary(&test.error)))
    }
}

impl Test {
    /// Takes an event of the test `itself`, or of one inside it. Gives its end.
    fn take(&mut self, event: &Event, itself: bool) -> Option<Ended> {
        let how = match &*event.action {
            "pass" => How::Passed,
            "fail" => How::Failed,
            "skip" if self.is_foreign => How::NotClaimed,
            "skip" => How::Skipped,
            _ => {
                self.hear(event);
                return None;
            }
        };
        self.ended = itself.then_some(Ended { how, seconds: event.elapsed }).or(self.ended);
        self.ended.filter(|_| itself)
    }

    fn hear(&mut self, event: &Event) {
        self.is_foreign |= event.output.contains(NOT_CLAIMED);
        let is_error = event.output_type.starts_with("error") || event.output.starts_with(CRASH);
        if is_error && self.error.len() < LONGEST {
            self.error.push_str(&event.output);
        }
    }
}

/// The first error in one line: what was asserted, and what the test says to that.
fn summary(error: &str) -> String {
    if error.is_empty() {
        return "it did not come to its end".to_owned();
    }
    let part = |name: &str| {
        let mut lines = error.lines().skip_while(|line| !line.trim_start().starts_with(name));
        let first = lines.next()?.trim_start().strip_prefix(name)?.trim();
        // What belongs to it is indented further, with nothing before it.
        let more = lines.next().map(str::trim).filter(|_| first.ends_with(':')).unwrap_or_default();
        Some(format!("{first} {more}").trim().to_owned())
    };
    match (part("Messages:"), part("Error:")) {
        (Some(message), Some(fault)) => format!("{message}: {fault}"),
        (None, Some(fault)) => fault,
        _ => error.lines().next().unwrap_or_default().trim().to_owned(),
    }
}

#[cfg(test)]
mod tests;
