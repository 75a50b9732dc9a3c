//! Counting and pacing, with the time as an argument where it matters.

use super::*;

#[test]
fn a_bucket_gives_its_burst_at_once_and_then_its_rate() {
    let start = Instant::now();
    let (mut bucket, rate) = (Bucket::full(start), Rate { per_second: 10, burst: 3 });
    for _ in 0..3 {
        assert_eq!(bucket.take(rate, start), Ok(()));
    }
    let wait = bucket.take(rate, start).unwrap_err();
    assert_eq!(wait, Duration::from_millis(100));
    assert_eq!(bucket.take(rate, start + wait), Ok(()));
    assert!(bucket.take(rate, start + wait).is_err());
    let later = start + Duration::from_secs(60);
    assert_eq!((0..9).filter(|_| bucket.take(rate, later).is_ok()).count(), 3, "silence saves no more than the burst");
}

#[tokio::test]
async fn places_are_given_back_and_an_account_is_forgotten_after_its_last_user() {
    let accounts = Accounts::new(Limits { connections: 1, calls: 1, ..Limits::default() });
    let account = accounts.of(&"a".into());
    let Admission::Welcome(first) = account.connect() else { panic!("the first connection is refused") };
    assert!(matches!(account.connect(), Admission::Refused(_)));
    let others = accounts.of(&"b".into());
    assert!(matches!(others.connect(), Admission::Welcome(_)), "one identity costs another nothing");
    drop(first);
    assert!(matches!(account.connect(), Admission::Welcome(_)));

    let call = account.call().await.ok().unwrap();
    assert_eq!(account.call().await.err().unwrap().0, Code::ResourceExhausted);
    drop(call);
    assert!(account.call().await.is_ok());

    drop((account, others));
    accounts.of(&"c".into());
    let kept = || locked(&accounts.all).keys().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(kept(), ["a", "c"], "what was said of it a moment ago is not to be said again");
    *locked(&accounts.of(&"a".into()).logged) = Lately::new(1, Duration::ZERO);
    accounts.of(&"d".into());
    assert_eq!(kept(), ["d"]);
}

#[test]
fn connections_far_beyond_the_limit_are_dropped_without_a_word() {
    let accounts = Accounts::new(Limits { connections: 2, ..Limits::default() });
    let account = accounts.of(&"a".into());
    let all: Vec<Admission> = (0..100).map(|_| account.connect()).collect();
    let count = |is: fn(&Admission) -> bool| all.iter().filter(|admission| is(admission)).count();
    assert_eq!(count(|a| matches!(a, Admission::Welcome(_))), 2);
    assert_eq!(count(|a| matches!(a, Admission::Refused(_))), TOLD);
}

#[test]
fn the_names_of_all_clients_of_an_identity_count_until_each_is_gone() {
    let accounts = Accounts::new(Limits { names: 10, name_bytes: 100, ..Limits::default() });
    let names = |identity: &str| Names::new(accounts.of(&identity.into()));
    let (mut one, mut two, mut other) = (names("a"), names("a"), names("b"));
    assert!(!one.set((6, 60)) && !two.set((4, 40)) && !other.set((10, 100)));
    assert!(two.set((5, 40)), "one name more");
    assert!(!two.set((5, 40)) && !one.set((6, 60)), "who asks for no more is not to blame");
    assert!(!two.set((4, 39)) && two.set((4, 41)), "one byte more");
    drop(two);
    assert!(!one.set((10, 100)));
    assert_eq!(one.refusal().0, Code::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn room_is_kept_by_what_comes_and_not_by_what_was_announced() {
    let accounts = Accounts::new(Limits { complete: Duration::from_secs(60), ..Limits::default() });
    let mut pace = Pace::new(accounts.of(&"a".into()));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut room = || match pace.poll_room(12 << 20, &mut cx) {
        Poll::Ready(room) => room,
        Poll::Pending => panic!("no room"),
    };
    for (have, seconds) in [(0, 30), (1 << 20, 35), (3 << 20, 45), (6 << 20, 60), (12 << 20, 60)] {
        let (mut room, began) = (room(), tokio::time::Instant::now());
        room.have(have);
        std::future::poll_fn(|cx| room.poll_over(cx)).await;
        assert_eq!(began.elapsed().as_secs(), seconds, "{have} bytes");
    }
}

#[tokio::test]
async fn large_requests_wait_for_room_and_one_alone_always_fits() {
    let accounts = Accounts::new(Limits { bytes: 100 << 10, ..Limits::default() });
    let account = accounts.of(&"a".into());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let (mut first, mut second) = (Pace::new(Arc::clone(&account)), Pace::new(account));
    let Poll::Ready(held) = first.poll_room(80 << 10, &mut cx) else { panic!("no room") };
    assert!(second.poll_room(1 << 20, &mut cx).is_pending());
    drop(held);
    assert!(second.poll_room(1 << 20, &mut cx).is_ready(), "more than there is at all");
}

#[test]
fn limits_follow_from_the_memory_that_there_is() {
    let small = Limits::default().within(1 << 30);
    assert_eq!((small.places, small.share, small.connections, small.calls), (1_536, 192, 1_152, 4_608));
    assert_eq!((small.all_names, small.bytes, small.buffer), (1 << 20, 64 << 20, 128 << 10));
    assert!(small.names <= small.all_names / 4 * 3 && small.name_bytes <= small.names * 64);
    let whole = Limits::default();
    let large = whole.within(64 << 30);
    assert_eq!(
        (large.places, large.names, large.bytes, large.buffer),
        (whole.places, whole.names, whole.bytes, whole.buffer)
    );
    let least = Limits::default().within(0);
    assert!(least.places > 0 && least.share > 0 && least.names > 0 && least.bytes >= 16 << 20, "{least:?}");
    assert_eq!((small.with_places(100).connections, small.with_places(100).buffer), (75, 512 << 10));
}

#[test]
fn what_connections_buffer_follows_from_the_memory_as_their_number_does() {
    for mebibytes in [64, 256, 512, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10_u64] {
        let memory = mebibytes << 20;
        let Limits { places, connections, buffer, .. } = Limits::default().within(memory);
        // in small frames half as much again is kept
        let worst = |connections: usize| connections as u64 * u64::from(buffer) / 2 * 3;
        assert!(worst(places) <= memory / 8 * 3, "{mebibytes} MiB: {places} connections with {buffer} bytes");
        assert!(worst(connections) <= memory / 32 * 9, "{mebibytes} MiB: {connections} of one identity");
    }
}

#[tokio::test]
async fn all_listeners_of_a_server_count_names_and_large_requests_together() {
    let limits = Limits { names: 75, all_names: 100, bytes: 100 << 10, ..Limits::default() };
    let totals = Arc::new(Totals::new(&limits, Arc::default()));
    let listeners = [0; 3].map(|_| Accounts::new(limits));
    listeners.iter().for_each(|accounts| accounts.count_in(&totals));
    let [one, two, three] = listeners.map(|accounts| accounts.of(&"a".into()));
    let (mut names, mut others) = (Names::new(Arc::clone(&one)), Names::new(Arc::clone(&two)));
    assert!(!names.set((75, 1)) && others.set((26, 1)));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut room = |account: &Arc<Account>| Pace::new(Arc::clone(account)).poll_room(75 << 10, &mut cx);
    let (first, second) = (room(&one), room(&two));
    assert!(first.is_ready() && second.is_ready());
    assert!(room(&three).is_pending(), "three quarters of twice what one identity may have are taken");
    drop(first);
    assert!(room(&three).is_ready());
}

#[tokio::test]
async fn incomplete_requests_of_two_identities_hold_up_no_third() {
    let accounts = Accounts::new(Limits { bytes: 256 << 10, ..Limits::default() });
    let mut cx = Context::from_waker(std::task::Waker::noop());
    // Each stream announces as much as a first message of Envoy has, and waits where there is no room.
    let mut flood = |identity: &str| {
        let account = accounts.of(&identity.into());
        let mut paces: Vec<Pace> = (0..16).map(|_| Pace::new(Arc::clone(&account))).collect();
        let held: Vec<_> = paces.iter_mut().map(|pace| pace.poll_room(61 << 10, &mut cx)).collect();
        (held.iter().filter(|room| room.is_ready()).count(), held, paces)
    };
    let (first, second, third) = (flood("a"), flood("b"), flood("c"));
    assert_eq!([first.0, second.0, third.0], [4, 2, 1], "of 384 KiB, and one each of the last 128 KiB");
    assert_eq!(flood("d").0, 1);
}

#[test]
fn names_of_several_identities_leave_the_last_quarter_to_others() {
    let limits = Limits { names: 75, all_names: 100, ..Limits::default() };
    let accounts = Accounts::new(limits);
    let names = |identity: &str| Names::new(accounts.of(&identity.into()));
    let (mut one, mut two, mut three) = (names("a"), names("b"), names("c"));
    assert!(!one.set((75, 1)));
    assert!(!two.set((12, 1)));
    assert!(two.set((13, 1)), "more than an eighth of all while there are few left");
    two.set((12, 1));
    assert!(!three.set((12, 1)));
    drop(one);
    assert!(!two.set((60, 1)));
}

#[tokio::test]
async fn calls_of_several_identities_leave_the_last_quarter_to_others() {
    let accounts = Accounts::new(Limits { calls: 60, all_calls: 80, ..Limits::default() });
    let mut held = Vec::new();
    for identity in ["a", "b", "c"] {
        while let Ok(place) = accounts.of(&identity.into()).call().await {
            held.push(place);
        }
    }
    let [a, b, c] = ["a", "b", "c"].map(|identity| accounts.of(&identity.into()).under_way());
    assert_eq!([a, b, c], [60, 10, 10]);
    for _ in 0..4 {
        let Ok(place) = accounts.of(&"d".into()).call().await else { panic!("each identity may have a few calls") };
        held.push(place);
    }
    assert!(accounts.of(&"d".into()).call().await.is_err());
    held.clear();
    assert_eq!(accounts.of(&"d".into()).under_way(), 0);
    assert!(accounts.of(&"d".into()).call().await.is_ok());
}
