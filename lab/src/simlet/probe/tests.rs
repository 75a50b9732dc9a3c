//! When answers of a probe count.

use super::Counter;

#[test]
fn only_answers_in_a_row_count() {
    let mut counter = Counter { last: None, row: 0, success: 2, failure: 3 };
    let answers = [true, true, false, false, true, false, false, false, false];
    let verdicts: Vec<_> = answers.into_iter().map(|answer| counter.count(answer)).collect();
    assert_eq!(verdicts, [None, Some(true), None, None, None, None, None, Some(false), Some(false)]);
}
