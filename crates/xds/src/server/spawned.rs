//! The tasks that the HTTP/2 library spawns for one connection. They end with it on every path: each of them holds the executor, and so
//! a queue that outlived its connection would hold itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use hyper::rt::Executor;

use super::locked;

#[cfg(test)]
mod tests;

/// A future of the library.
pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The executor of one connection: it keeps what is to be polled together with the connection. None once the connection has ended.
#[derive(Clone)]
pub(super) struct Spawned(Arc<Mutex<Option<Vec<Task>>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawned {
    fn execute(&self, future: F) {
        let mut late = Some(Box::pin(future) as Task);
        if let Some(tasks) = &mut *locked(&self.0) {
            tasks.extend(late.take());
        }
        // what comes after the end is dropped, and not under the lock: its values may spawn too
        drop(late);
    }
}

impl Spawned {
    /// Takes what was spawned since the last time.
    pub(super) fn take(&self) -> Vec<Task> {
        locked(&self.0).as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// The connection that an executor belongs to: when this is dropped, so are the tasks that were not taken, and all later ones.
pub(super) struct TaskOwner(Spawned);

impl TaskOwner {
    /// Returns the owner of the tasks of a connection that begins.
    pub(super) fn new() -> Self {
        Self(Spawned(Arc::new(Mutex::new(Some(Vec::new())))))
    }

    /// For the library.
    pub(super) fn executor(&self) -> Spawned {
        self.0.clone()
    }
}

impl Drop for TaskOwner {
    fn drop(&mut self) {
        let left = locked(&self.0.0).take();
        drop(left);
    }
}
