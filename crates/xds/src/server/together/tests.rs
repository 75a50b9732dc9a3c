//! Only those parts are polled that were woken, whoever wakes them.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Counts how often it is woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn woken(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// The parts that are polled, given what each of them does.
fn polled(
    together: &Together<3>,
    task: &Arc<Task>,
    mut does: impl FnMut(usize, &Context<'_>) -> Poll<()>,
) -> (Vec<usize>, Poll<()>) {
    let mut all = Vec::new();
    let waker = Waker::from(Arc::clone(task));
    let result = together.poll(&Context::from_waker(&waker), |part, cx| {
        all.push(part);
        does(part, cx)
    });
    (all, result)
}

#[test]
fn at_first_all_are_polled_and_then_those_that_are_woken() {
    let (together, task) = (Together::<3>::new(), Arc::default());
    let mut wakers = Vec::new();
    let (all, result) = polled(&together, &task, |_, cx| {
        wakers.push(cx.waker().clone());
        Poll::Pending
    });
    assert_eq!((all, result, task.woken()), (vec![0, 1, 2], Poll::Pending, 0));
    wakers[1].wake_by_ref();
    wakers[1].wake_by_ref();
    assert_eq!(task.woken(), 1);
    assert_eq!(polled(&together, &task, |_, _| Poll::Pending).0, [1]);
    assert!(polled(&together, &task, |_, _| Poll::Pending).0.is_empty());
}

#[test]
fn one_that_wakes_another_has_it_polled_without_waking_the_task() {
    let (together, task) = (Together::<3>::new(), Arc::default());
    let (mut first, mut again) = (None, true);
    let (all, _) = polled(&together, &task, |part, cx| {
        if part == 0 {
            first = Some(cx.waker().clone());
        }
        if let Some(first) = first.as_ref().filter(|_| part == 2 && std::mem::take(&mut again)) {
            first.wake_by_ref();
        }
        Poll::Pending
    });
    assert_eq!((all, task.woken()), (vec![0, 1, 2, 0], 0));
    first.unwrap().wake();
    assert_eq!(task.woken(), 1, "it waits again");
}

#[test]
fn one_that_always_wakes_itself_lets_others_have_their_turn() {
    let (together, task) = (Together::<3>::new(), Arc::default());
    let (all, result) = polled(&together, &task, |part, cx| {
        if part == 1 {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    });
    assert_eq!((all.len(), result, task.woken()), (TURNS + 2, Poll::Pending, 1));
    assert_eq!(polled(&together, &task, |_, _| Poll::Pending).0, [1]);
}

#[test]
fn what_was_woken_before_one_is_ready_is_polled_afterwards() {
    let (together, task) = (Together::<3>::new(), Arc::default());
    let (all, result) = polled(&together, &task, |_, _| Poll::Ready(()));
    assert_eq!((all, result), (vec![0], Poll::Ready(())));
    assert_eq!(polled(&together, &task, |_, _| Poll::Pending).0, [1, 2]);
    together.touch(0);
    assert_eq!((polled(&together, &task, |_, _| Poll::Pending).0, task.woken()), (vec![0], 0));
}
