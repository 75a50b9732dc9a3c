//! A panic does not leave its task.

use super::*;

#[tokio::test]
async fn work_that_panics_is_survived_and_can_begin_anew() {
    let mut turns = 0;
    while !survived("the test", async { assert!(turns > 1, "on purpose") }).await {
        turns += 1;
    }
    assert_eq!(turns, 2);
}
