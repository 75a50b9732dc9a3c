//! The thread of the core, and how it ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::{Core, Input};

/// The core's thread.
pub(crate) struct Thread(watch::Receiver<Option<Result<(), Arc<str>>>>);

impl Thread {
    /// Starts it. Its end is known before anything that the core holds is gone, so that it is the first reason that is seen.
    pub(super) fn start(mut core: Core, mut inputs: mpsc::Receiver<Input>) -> std::io::Result<Self> {
        let (ended, end) = watch::channel(None);
        std::thread::Builder::new().name("core".to_owned()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| core.run(&mut inputs)));
            ended.send_replace(Some(outcome.map_err(|panic| words(&*panic))));
        })?;
        Ok(Self(end))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It panicked.
    pub(crate) async fn end(&mut self) -> anyhow::Result<()> {
        match self.0.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(words))) => anyhow::bail!("the core panicked: {words}; please report it"),
            _ => Ok(()),
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words").into()
}
