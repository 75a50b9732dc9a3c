//! A time that passes in looks.

use std::task::Waker;

use super::*;

const WHOLE: Duration = Duration::from_secs(12);

#[tokio::test(start_paused = true)]
async fn time_is_over_when_all_of_it_has_passed() {
    let began = Instant::now();
    Patience::new(WHOLE).await;
    assert_eq!(began.elapsed().as_secs(), WHOLE.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_look_that_comes_late_counts_for_one_part() {
    let mut patience = Patience::new(WHOLE);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 1..PARTS {
        tokio::time::advance(10 * WHOLE).await;
        assert!(Pin::new(&mut patience).poll(&mut cx).is_pending());
    }
    tokio::time::advance(10 * WHOLE).await;
    assert!(Pin::new(&mut patience).poll(&mut cx).is_ready());
}
