//! What comes in one batch: things that cease to count and count again in it, and what changed meanwhile.

use super::*;
use crate::kubernetes::call::Caller;
use crate::kubernetes::discovery::Found;
use crate::kubernetes::follower::Follower;
use crate::kubernetes::kinds;
use crate::kubernetes::watch::{Event, Message, News};
use crate::kubernetes::watches::Watches;

/// A server, and one that follows it by hand: messages wait until they are delivered.
struct ByHand {
    mock: Mock,
    inbox: mpsc::Receiver<Message>,
    follower: Follower,
    state: State,
}

impl ByHand {
    /// Returns when everything is listed.
    async fn with(scope: Scope, prepare: impl FnOnce(&Mock)) -> Self {
        let mock = Mock::start().await;
        permit(&mock);
        prepare(&mock);
        let options = Options { client: mock.client(), scope, observed: Observed::new(CONTROLLER), pace: pace() };
        let (sender, inbox) = mpsc::channel(1);
        let caller = Caller { client: options.client.clone(), pace: options.pace };
        let mut follower = Follower::new(&options, Watches::new(caller, sender));
        let newest = kinds().filter_map(|kind| Some((kind, *kind.versions().first()?)));
        follower.discovered(Found { served: Some(newest.collect()), trouble: None });
        let mut by_hand = Self { mock, inbox, follower, state: State::default() };
        by_hand.until(|state| state.listed).await;
        by_hand
    }

    async fn next(&mut self) -> Message {
        let message = timeout_at(Instant::now() + DEADLINE, self.inbox.recv()).await;
        message.unwrap_or_else(|_| panic!("nothing more comes: {:#?}", self.state)).unwrap()
    }

    /// Delivers messages, each as a batch of its own, until something holds.
    async fn until(&mut self, holds: impl Fn(&State) -> bool) {
        loop {
            self.hand_on();
            if holds(&self.state) {
                return;
            }
            let message = self.next().await;
            self.follower.take(message);
        }
    }

    fn hand_on(&mut self) {
        self.follower.settle();
        if let Some(batch) = self.follower.batch() {
            self.state.apply(batch);
        }
    }

    /// Takes all messages up to the next one about this object, which become part of the same batch.
    async fn take_in(&mut self, key: &str) {
        loop {
            let message = self.next().await;
            let is_meant = |event: &Event| matches!(event, Event::Applied(seen) if seen.key.to_string() == key);
            let is_last = matches!(&message.news, News::Events(events) if events.iter().any(is_meant));
            self.follower.take(message);
            if is_last {
                return;
            }
        }
    }
}

#[tokio::test]
async fn secret_that_is_not_named_for_a_moment_is_read_as_it_is_then() {
    for is_first in [true, false] {
        let mut world = ByHand::with(Scope::All, |mock| {
            mock.put(Kind::Gateway, gateway("web", &["certs/a"]));
            if !is_first {
                mock.put(Kind::Secret, secret("certs", "a", "1"));
            }
        })
        .await;
        world.mock.put(Kind::Gateway, gateway("web", &[]));
        world.take_in("Gateway infra/web").await;
        world.mock.put(Kind::Secret, secret("certs", "a", "2"));
        world.take_in("Secret certs/a").await;
        world.mock.put(Kind::Gateway, gateway("web", &["certs/a"]));
        world.take_in("Gateway infra/web").await;
        world.until(|state| state.objects.get("Secret certs/a").is_some_and(|version| version == "2")).await;
    }
}

#[tokio::test]
async fn secret_of_a_namespace_that_is_left_for_a_moment_is_read_as_it_is_then() {
    let match_labels = [("team", "ours")].into_iter().collect();
    let scope = Scope::Selector(LabelSelector { match_labels, ..LabelSelector::default() });
    let mut world = ByHand::with(scope, |mock| {
        for name in ["infra", "certs"] {
            mock.put(Kind::Namespace, namespace(name, ("team", "ours")));
        }
        mock.put(Kind::Gateway, gateway("web", &["certs/a"]));
        mock.put(Kind::Secret, secret("certs", "a", "1"));
    })
    .await;
    world.until(|state| state.has("Secret certs/a")).await;
    world.mock.put(Kind::Namespace, namespace("certs", ("team", "theirs")));
    world.take_in("Namespace certs").await;
    world.mock.put(Kind::Secret, secret("certs", "a", "2"));
    world.take_in("Secret certs/a").await;
    world.mock.put(Kind::Namespace, namespace("certs", ("team", "ours")));
    world.take_in("Namespace certs").await;
    world.until(|state| state.objects.get("Secret certs/a").is_some_and(|version| version == "2")).await;
}
