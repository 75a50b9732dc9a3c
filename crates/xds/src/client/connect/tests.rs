//! Tasks of a connection that has ended.

use super::*;

#[tokio::test]
async fn tasks_of_the_library_end_with_their_connection_and_later_ones_do_not_begin() {
    let (owned, alive) = (Owned::new(), Arc::new(()));
    let tasks = owned.0.clone();
    let endless = || {
        let kept = (tasks.clone(), Arc::clone(&alive));
        async move {
            std::future::pending::<()>().await;
            drop(kept);
        }
    };
    tasks.execute(endless());
    drop(owned);
    tasks.execute(endless());
    let begin = Instant::now();
    while Arc::strong_count(&alive) > 1 {
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "a task goes on");
        tokio::task::yield_now().await;
    }
}
