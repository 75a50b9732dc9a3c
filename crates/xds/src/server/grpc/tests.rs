//! Messages out of bytes that come in pieces.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::Waker;

use http_body::Frame;
use prost::Message as _;
use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::*;
use crate::server::limits::{Accounts, Limits, Rate};
use crate::wire::Variant;
use crate::wire::read::{Discovery, Said};

/// After an empty piece nothing comes for a time.
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.pop_front() {
            Some(piece) if piece.is_empty() => Poll::Pending,
            piece => Poll::Ready(piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }
}

fn read(bytes: &[u8], size: usize) -> Vec<Result<Bytes, Broken>> {
    let mut frames = Frames::new(Pieces(bytes.chunks(size).map(Bytes::copy_from_slice).collect()));
    let mut messages = Vec::new();
    while let Poll::Ready(Some(message)) = frames.poll_next(&mut Context::from_waker(Waker::noop())) {
        let broken = message.is_err();
        messages.push(message);
        if broken {
            break;
        }
    }
    messages
}

#[test]
fn messages_come_out_whole_however_they_are_cut() {
    let bytes = [&[0, 0, 0, 0, 2][..], b"ab", &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1], b"c"].concat();
    for size in 1..=bytes.len() {
        let expect = [Bytes::from("ab"), Bytes::new(), Bytes::from("c")].map(Ok);
        assert_eq!(read(&bytes, size), expect, "pieces of {size}");
    }
}

#[test]
fn a_body_that_ends_in_the_middle_of_a_message_is_broken() {
    let whole = [&[0, 0, 0, 0, 2][..], b"ab"].concat();
    for length in 1..whole.len() {
        let bytes = [&whole[..], &whole[..length]].concat();
        for size in 1..=bytes.len() {
            let read = read(&bytes, size);
            let [first, second] = &read[..] else { panic!("{read:?}") };
            assert_eq!(first.as_deref(), Ok(&b"ab"[..]));
            assert_eq!(second.as_ref().unwrap_err().0, Code::InvalidArgument, "{length} in pieces of {size}");
        }
    }
}

#[test]
fn a_request_is_read_where_its_frame_came_in() {
    let names = |prefix: &str| (0..100).map(|n| format!("{prefix}-{n}")).collect::<Vec<_>>();
    let sent = DeltaDiscoveryRequest {
        type_url: "type".into(),
        resource_names_subscribe: names("wanted"),
        resource_names_unsubscribe: names("unwanted"),
        initial_resource_versions: names("held").into_iter().map(|name| (name, "v".into())).collect(),
        response_nonce: "7".into(),
        ..DeltaDiscoveryRequest::default()
    };
    let message = sent.encode_to_vec();
    let head = [&[0][..], &u32::to_be_bytes(message.len() as u32)].concat();
    let frame = Bytes::from([&head[..], &message, &head, &message].concat());
    let within = |whole: &[u8], part: &str| whole.as_ptr_range().contains(&part.as_ptr());
    let shared_with = |frame: &Bytes, message: Bytes| {
        let read = Discovery::decode(Variant::Delta, message).unwrap().said;
        let Said::Delta(read) = read else { panic!("a delta request") };
        let listed = read.initial_versions.iter().map(|(name, _)| name);
        let names = read.subscribe.iter().chain(&read.unsubscribe).chain(listed);
        let all: Vec<_> = names.chain([&read.type_url, &read.nonce]).collect();
        assert_eq!(all.len(), 302);
        all.iter().filter(|text| within(frame, text)).count()
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut next = |frames: &mut Frames<Pieces>| match frames.poll_next(&mut cx) {
        Poll::Ready(Some(Ok(message))) => message,
        other => panic!("{other:?}"),
    };
    let mut frames = Frames::new(Pieces([frame.clone()].into()));
    for _ in 0..2 {
        assert_eq!(shared_with(&frame, next(&mut frames)), 302);
    }
    // one that goes on in another frame is put together, and shared as that
    let (first, second) = (frame.slice(..message.len()), frame.slice(message.len()..message.len() + 5));
    let together = next(&mut Frames::new(Pieces([first, second].into())));
    assert_eq!(shared_with(&frame, together.clone()), 0);
    assert_eq!(shared_with(&together.clone(), together), 302);
}

#[test]
fn a_request_that_is_too_large_or_compressed_ends_the_reading() {
    assert_eq!(read(&[0, 1, 0, 0, 1], 5), [Err(Broken(Code::ResourceExhausted, "the request is larger than 16 MiB"))]);
    assert_eq!(read(&[1, 0, 0, 0, 0], 5), [Err(Broken(Code::Unimplemented, "compressed requests are not read"))]);
}

#[tokio::test]
async fn small_requests_that_are_not_complete_take_room_as_large_ones_do() {
    let accounts = Accounts::new(Limits { bytes: 2 << 10, ..Limits::default() });
    let account = accounts.of(&"a".into());
    let slow = || {
        let pieces = [&[0, 0, 0, 0, 3][..], b"", b"abc", &[0, 0, 0, 0, 0], b"", b"the end"];
        Frames::paced(Pieces(pieces.map(Bytes::from_static).into()), Pace::new(Arc::clone(&account)))
    };
    let mut cx = Context::from_waker(Waker::noop());
    let [mut one, mut two, mut three] = [slow(), slow(), slow()];
    for frames in [&mut one, &mut two, &mut three] {
        assert!(frames.poll_next(&mut cx).is_pending());
    }
    assert!(three.poll_next(&mut cx).is_pending(), "there is no room");
    assert_eq!(one.poll_next(&mut cx), Poll::Ready(Some(Ok(Bytes::from("abc")))));
    assert!(three.poll_next(&mut cx).is_pending(), "it comes in now");
    assert_eq!(three.poll_next(&mut cx), Poll::Ready(Some(Ok(Bytes::from("abc")))));
    assert_eq!(one.poll_next(&mut cx), Poll::Ready(Some(Ok(Bytes::new()))), "what is complete needs none");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_server_comes_late_to_is_read_all_the_same() {
    let accounts = Accounts::new(Limits::default());
    let mut cx = Context::from_waker(Waker::noop());
    let pieces = [&[0, 0, 0, 0, 3][..], b"", b"ab", b"", b"c"].map(Bytes::from_static);
    let mut frames = Frames::paced(Pieces(pieces.into()), Pace::new(accounts.of(&"a".into())));
    for _ in 0..2 {
        assert!(frames.poll_next(&mut cx).is_pending());
        tokio::time::advance(10 * Limits::default().complete).await;
    }
    assert_eq!(frames.poll_next(&mut cx), Poll::Ready(Some(Ok(Bytes::from("abc")))));
}

#[test]
fn a_long_request_costs_its_identity_as_much_as_several() {
    let most = Rate { per_second: 1, burst: 1000 };
    let accounts = Accounts::new(Limits { all: most, ..Limits::default() });
    let mut cx = Context::from_waker(Waker::noop());
    for (identity, length, least) in [("short", 16_000, 0), ("long", 1 << 20, 60)] {
        let account = accounts.of(&identity.into());
        let message = [&[0][..], &u32::to_be_bytes(length), &vec![1; length as usize]].concat();
        let mut frames = Frames::paced(Pieces([message.into()].into()), Pace::new(Arc::clone(&account)));
        assert!(frames.poll_next(&mut cx).is_ready());
        let owed = account.until_full()[0].as_secs();
        assert!((least..=least + 10).contains(&owed), "{owed} requests for {length} bytes");
    }
}
