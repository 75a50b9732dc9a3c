//! Streams that share a budget.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;

fn say(share: &mut Share, cx: &mut Context<'_>, length: usize) -> Option<Bytes> {
    match share.poll_frame(cx, |_| Poll::Ready(Some(Frame::data(vec![7; length].into())))) {
        Poll::Ready(frame) => frame.and_then(|frame| frame.into_data().ok()),
        Poll::Pending => None,
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_all_streams_have_said_is_bounded_and_what_is_read_makes_room_for_who_waited_first() {
    let unread = Unread::default();
    let mut cx = Context::from_waker(Waker::noop());
    let mut said: Vec<Bytes> = (0..100).filter_map(|_| say(&mut unread.share(), &mut cx, 16 << 10)).collect();
    assert_eq!(said.iter().map(Bytes::len).sum::<usize>(), MOST);
    let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let mut waiting = [unread.share(), unread.share()];
    for (share, woken) in waiting.iter_mut().zip(&woken) {
        let waker = Waker::from(Arc::clone(woken));
        assert_eq!(say(share, &mut Context::from_waker(&waker), 1), None);
    }
    said.pop();
    assert_eq!(woken.each_ref().map(|woken| woken.0.load(Ordering::SeqCst)), [1, 0]);
    let [first, second] = &mut waiting;
    assert!(first.poll_frame(&mut cx, |_| Poll::Pending).is_pending(), "it has nothing to say any more");
    assert_eq!(woken.each_ref().map(|woken| woken.0.load(Ordering::SeqCst)), [1, 1]);
    assert_eq!(say(second, &mut cx, 1).as_deref(), Some(&[7][..]));
}

#[test]
fn small_parts_count_as_what_they_are_and_large_ones_that_are_shared_as_one() {
    let unread = Unread::default();
    let mut cx = Context::from_waker(Waker::noop());
    let mut share = unread.share();
    let small: Vec<Bytes> = (0..500).filter_map(|_| say(&mut share, &mut cx, 100)).collect();
    assert_eq!(small.len(), 500);
    drop(small);
    let large: Vec<Bytes> = (0..3).filter_map(|_| say(&mut share, &mut cx, 1 << 20)).collect();
    assert_eq!(large.len(), 3);
    assert_eq!(unread.0.available_permits(), MOST - (48 << 10));
    drop(large);
    assert_eq!(unread.0.available_permits(), MOST);
}
