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

#[tokio::test(start_paused = true)]
async fn what_is_heard_after_a_late_look_takes_that_look_back() {
    let mut cx = Context::from_waker(Waker::noop());
    for (between, most) in [(WHOLE, 3 * PARTS), (WHOLE / PARTS, PARTS)] {
        let mut patience = Patience::new(WHOLE);
        let mut looks = 0;
        while looks < 3 * PARTS && patience.poll_parts(PARTS, &mut cx).is_pending() {
            patience.hear();
            tokio::time::advance(between).await;
            looks += 1;
        }
        assert_eq!(looks, most, "{between:?} between two looks");
    }
}
