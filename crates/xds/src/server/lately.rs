//! What was logged lately: other words are news, the same again are not, and nobody can cause more than so many lines in a time.

use std::time::{Duration, Instant};

/// See the module.
pub(super) struct Lately {
    within: Duration,
    most: usize,
    logged: Vec<(Instant, Box<str>)>,
}

impl Lately {
    /// Each words once, and at most so many, within this time.
    pub(super) fn new(most: usize, within: Duration) -> Self {
        Self { within, most, logged: Vec::new() }
    }

    /// True if these words are to be logged now.
    pub(super) fn is_news(&mut self, words: &str) -> bool {
        let now = Instant::now();
        self.forget(now);
        let news = self.logged.len() < self.most && self.logged.iter().all(|(_, logged)| **logged != *words);
        if news {
            self.logged.push((now, words.into()));
        }
        news
    }

    /// Whether anything was logged within the time.
    pub(super) fn has_said(&mut self) -> bool {
        self.forget(Instant::now());
        !self.logged.is_empty()
    }

    fn forget(&mut self, now: Instant) {
        self.logged.retain(|(at, _)| now.saturating_duration_since(*at) < self.within);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_are_news_and_the_same_are_not_up_to_a_number() {
        let mut lately = Lately::new(2, Duration::from_secs(3600));
        let seen = ["a", "a", "b", "a", "c"].map(|words| lately.is_news(words));
        assert_eq!(seen, [true, false, true, false, false]);
        let mut at_once = Lately::new(1, Duration::ZERO);
        assert!(at_once.is_news("a") && at_once.is_news("a"));
    }
}
