//! The life of one container: its image, its starts and ends, what is asked of it and told to it meanwhile.

mod run;

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::backoff::Backoff;
use super::board::{Ended, State};
use super::image::{self, Image};
use super::pod::Life;
use super::status::is_sidecar;
use run::{Run, once};

/// By when a container that has to end must have ended. It may become earlier.
pub(crate) type Stop = watch::Receiver<Option<Instant>>;

/// What becomes of a container whose run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The others wait for its success.
    Init,
    /// The others wait for its start.
    Sidecar,
    Main,
}

impl Role {
    pub(crate) fn of_init(container: &Container) -> Self {
        if is_sidecar(container) { Self::Sidecar } else { Self::Init }
    }

    /// Whether it runs again after this end, by its pod's policy.
    fn restarts(self, policy: &str, code: u8) -> bool {
        match self {
            Self::Sidecar => true,
            Self::Init => code != 0 && policy != "Never",
            Self::Main => policy == "Always" || (policy == "OnFailure" && code != 0),
        }
    }
}

/// How soon is looked again at what a container lacks.
const AGAIN: Duration = Duration::from_secs(5);

/// Runs a container until it has to end, or does not start again; gives the exit code of its last run, if it had one.
pub(crate) async fn keep(life: &Life, container: &Container, role: Role, stop: Stop) -> Option<u8> {
    let mut starts = Backoff::default();
    let mut attempt = 0;
    let mut last: Option<Ended> = None;
    loop {
        let image = until_image(life, container, &stop).await?;
        let ended = match once(life, container, &image, Run { attempt, role, stop: stop.clone() }).await {
            Ok(ended) => ended,
            Err(lack) => {
                life.wait_for(container, lack.reason, lack.message);
                let mut contents = life.context.world.contents();
                contents.mark_unchanged();
                tokio::select! {
                    () = sleep(AGAIN) => {}
                    _changed = contents.changed() => {}
                    () = stopped(stop.clone()) => return last.map(|ended| ended.code),
                }
                continue;
            }
        };
        last = Some(ended.clone());
        life.board.container(&container.name, |record| {
            record.state = State::Ended(ended.clone());
            record.restarts = attempt;
            (record.ready, record.started) = (role == Role::Init && ended.code == 0, false);
        });
        if stop.borrow().is_some() || !role.restarts(life.policy(), ended.code) {
            return Some(ended.code);
        }
        let ran = Duration::try_from(ended.finished.duration_since(ended.began)).unwrap_or_default();
        let wait = starts.after(ran);
        if !wait.is_zero() {
            let name = &container.name;
            let why =
                format!("back-off {} s restarting failed container={name} pod={}", wait.as_secs(), life.full_name());
            life.warn("BackOff", format!("Back-off restarting failed container {name} in pod {}", life.full_name()));
            life.board.container(name, |record| record.last = Some(ended.clone()));
            life.wait_for(container, "CrashLoopBackOff", why);
            tokio::select! {
                () = sleep(wait) => {}
                () = stopped(stop.clone()) => return Some(ended.code),
            }
        }
        attempt += 1;
        life.board.container(&container.name, |record| record.last = Some(ended));
    }
}

/// Until it has to end.
pub(super) async fn stopped(mut stop: Stop) {
    drop(stop.wait_for(Option::is_some).await);
}

/// Until the image is there; None if the container has to end before.
async fn until_image(life: &Life, container: &Container, stop: &Stop) -> Option<Image> {
    let name = container.image.clone().unwrap_or_default();
    let mut pulls = Backoff::default();
    let mut failed = false;
    loop {
        if stop.borrow().is_some() {
            return None;
        }
        if let Some(image) = image::find(&life.context.place, &name) {
            if failed {
                life.tell("Pulled", format!("Successfully pulled image \"{name}\""));
            }
            return Some(image);
        }
        failed = true;
        let why = format!(
            "failed to pull image \"{name}\": the lab has no such image; lab/README.md has those that it knows"
        );
        life.warn("Failed", why.clone());
        life.warn("Failed", "Error: ErrImagePull".to_owned());
        life.wait_for(container, "ErrImagePull", why);
        // the next time that somebody looks, it says that it waits
        let wait = pulls.after(Duration::ZERO).max(AGAIN * 2);
        let again = Instant::now() + wait;
        tokio::select! {
            () = sleep(AGAIN) => {}
            () = stopped(stop.clone()) => return None,
        }
        life.tell("BackOff", format!("Back-off pulling image \"{name}\""));
        life.wait_for(container, "ImagePullBackOff", format!("Back-off pulling image \"{name}\""));
        tokio::select! {
            () = sleep_until(again) => {}
            () = stopped(stop.clone()) => return None,
        }
    }
}
