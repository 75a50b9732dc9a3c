//! Frames found in any cut, and a client that is asked to calm down.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::super::limits::{Accounts, Limits};
use super::super::records::RecordsSeen;
use super::*;
use crate::{Gate, Server};

const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PONG: &[u8] = &[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PLAIN: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const PLAIN_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];
/// A header block of 17,000 bytes.
const LONG_HEADERS: &[u8] = &{
    let mut frame = [0; 9 + 17_000];
    (frame[1], frame[2], frame[3], frame[8]) = (0x42, 0x68, HEADERS, 1);
    frame
};
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[test]
fn frames_are_found_however_the_bytes_are_cut_and_answers_are_none() {
    let bytes = [HELLO, PLAIN, PING, PONG, PLAIN, PLAIN_ACK, PING, PING].concat();
    for size in 1..=bytes.len() {
        let mut frames = Frames::new();
        let seen: Vec<Seen> = bytes.chunks(size).map(|piece| frames.see(piece)).collect();
        let sum = |count: fn(&Seen) -> usize| seen.iter().map(count).sum::<usize>();
        assert_eq!([sum(|s| s.frames), sum(|s| s.pings), sum(|s| s.settings)], [7, 3, 2], "pieces of {size}");
    }
}

#[test]
fn work_and_header_blocks_are_counted_however_the_bytes_are_cut() {
    let frame = |kind: u8, flags: u8, length: usize| {
        [&u32::try_from(length).unwrap().to_be_bytes()[1..], &[kind, flags, 0, 0, 0, 1], &vec![0; length]].concat()
    };
    let kinds = [(DATA, 500), (HEADERS, 160), (2, 5), (3, 4), (8, 4), (99, 4096), (CONTINUATION, 0)];
    let bytes = [HELLO, &kinds.map(|(kind, length)| frame(kind, END_HEADERS, length)).concat()].concat();
    for size in [1, 7, 4096] {
        let mut frames = Frames::new();
        let seen: Vec<Seen> = bytes.chunks(size).map(|piece| frames.see(piece)).collect();
        let sum = |count: fn(&Seen) -> usize| seen.iter().map(count).sum::<usize>();
        assert_eq!([sum(|s| s.frames), sum(|s| s.headers), sum(|s| s.work)], [7, 160, 7 + 10 + 4], "pieces of {size}");
        assert!(seen.iter().all(|seen| !seen.is_too_large));
    }
    let half = HEADER_BLOCK / 2 + 1;
    for (flags, is_too_large) in [(END_HEADERS, false), (0, true)] {
        let mut frames = Frames::new();
        let blocks = [HELLO, &frame(HEADERS, flags, half), &frame(CONTINUATION, flags, half)].concat();
        assert_eq!(frames.see(&blocks).is_too_large, is_too_large);
    }
}

#[test]
fn frames_cost_nothing_while_a_client_reads_and_headers_always_do() {
    let mut calm = calm();
    let seen = |work, headers| Seen { work, headers, ..Seen::default() };
    for _ in 0..1000 {
        // 64 KiB were written, and a client sends ten WINDOW_UPDATE for them
        calm.note_written(64 << 10);
        calm.count(seen(10, 0));
    }
    let now = Instant::now();
    assert!(calm.work.owed(Rate { burst: 1, ..WORK }, now).is_none());
    calm.count(seen(1_000, 16_000));
    assert!(calm.work.owed(Rate { burst: 1, ..WORK }, now).is_some());
    assert!(calm.work.owed(WORK, now).is_none());
    calm.count(seen(WORK.burst as usize + 10_000, WORK.burst as usize * 16));
    assert!(calm.work.owed(WORK, now).is_some());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(async { calm.poll_pause(&mut cx).is_pending() })
    );
}

/// The same frame without end, behind the preface.
struct Flood {
    bytes: Vec<u8>,
    at: usize,
}

impl Flood {
    fn of(kind: u8) -> Self {
        Self { bytes: [HELLO, &[0, 0, 0, kind, 0, 0, 0, 0, 1].repeat(1_000)].concat(), at: 0 }
    }
}

impl AsyncRead for Flood {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.at == self.bytes.len() {
            self.at = HELLO.len();
        }
        let length = buf.remaining().min(self.bytes.len() - self.at);
        buf.put_slice(&self.bytes[self.at..self.at + length]);
        self.at += length;
        Poll::Ready(Ok(()))
    }
}

impl InRecords for Flood {}

impl AsyncWrite for Flood {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// The smallest request.
fn small_request() -> Vec<u8> {
    [&[0, 0, 1, HEADERS, END_STREAM | END_HEADERS, 0, 0, 0, 1][..], &[0x83]].concat()
}

#[test]
fn few_requests_are_read_of_a_client_that_takes_no_answers() {
    let mut flood = Flood::of(HEADERS);
    flood.bytes = [HELLO, &small_request().repeat(1_000)].concat();
    let accounts = Accounts::new(Limits::default());
    let mut calm = Calm::new(flood, accounts.of(&"a".into()));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut requests = 0;
    for _ in 0..1_000 {
        let mut space = vec![0; 9_000];
        let mut buf = ReadBuf::new(&mut space);
        let mut read = Vec::new();
        while Pin::new(&mut calm).poll_read(&mut cx, &mut buf).is_ready() {
            read.extend_from_slice(buf.filled());
            buf.clear();
        }
        // each is answered, and nothing is taken
        let new = read.len() / small_request().len();
        (0..new).for_each(|_| calm.backlog.end(None));
        requests += new;
        assert!(Pin::new(&mut calm).poll_write(&mut cx, b"answer").is_pending());
        calm.backlog.note_turn();
        calm.backlog.note_streams();
    }
    assert!((10..=160).contains(&requests), "{requests}");
    assert!(calm.pause.is_none());
}

#[test]
fn ends_of_answers_are_found_however_they_are_written() {
    let mut calm = calm();
    let frame = |kind: u8, flags: u8| [&[0, 0, 3, kind, flags, 0, 0, 0, 1][..], b"abc"].concat();
    let bytes = [frame(HEADERS, END_HEADERS), frame(DATA, 0), frame(HEADERS, 5), frame(DATA, END_STREAM)].concat();
    for size in 1..=bytes.len() {
        (0..3).for_each(|_| calm.backlog.end(None));
        for part in bytes.chunks(size) {
            let (one, other) = part.split_at(part.len() / 2);
            calm.note_frames(part.len(), [one, other, b"not written"].into_iter());
        }
        assert_eq!(calm.backlog.waiting(), 1, "pieces of {size}");
        calm.backlog.note_turn();
    }
}

/// TLS records without end, of one byte of a frame or of nothing.
struct Trickle {
    brings: bool,
    records: usize,
    new: usize,
}

impl AsyncRead for Trickle {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let new = if self.brings { 1 } else { 100 };
        (self.records, self.new) = (self.records + new, self.new + new);
        if self.brings {
            // of a frame that has as many bytes as one may have
            buf.put_slice(if self.records == PREFACE + 1 { &[0xff] } else { &[0x77] });
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl InRecords for Trickle {
    fn take_records(&mut self, _: usize) -> RecordsSeen {
        RecordsSeen { all: std::mem::take(&mut self.new), updates: 0 }
    }
}

#[tokio::test]
async fn tls_records_are_charged_whether_or_not_they_bring_anything() {
    for brings in [true, false] {
        let (accounts, begin) = (Accounts::new(Limits::default()), Instant::now());
        let account = accounts.of(&"a".into());
        let mut calm = Calm::new(Trickle { brings, records: 0, new: 0 }, Arc::clone(&account));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut space = [0; 64];
        let most = WORK.burst as usize;
        while calm.pause.is_none() && calm.io.records < 10 * most {
            let _pending = Pin::new(&mut calm).poll_read(&mut cx, &mut ReadBuf::new(&mut space));
        }
        let refilled = usize::try_from(begin.elapsed().as_micros()).unwrap() * WORK.per_second as usize / 1_000_000;
        assert!(calm.io.records <= most + refilled + 1_000, "{} records, brings: {brings}", calm.io.records);
        assert!(!account.until_frames_are_paid().is_zero(), "it is not charged to the identity");
    }
}

/// Frames of a flood that are let through to the library until the connection is paused or ended.
fn let_through(kind: u8, account: &Arc<Account>) -> usize {
    let mut calm = Calm::new(Flood::of(kind), Arc::clone(account));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let (mut space, mut bytes) = (vec![0; 9_000], 0);
    while calm.pause.is_none() && calm.end == End::Not {
        let mut buf = ReadBuf::new(&mut space);
        if let Poll::Ready(result) = Pin::new(&mut calm).poll_read(&mut cx, &mut buf) {
            result.unwrap();
            bytes += buf.filled().len();
        }
        calm.backlog.note_streams();
    }
    bytes / 9
}

#[tokio::test]
async fn every_kind_of_frame_is_counted_and_charged() {
    let most = WORK.burst as usize;
    for kind in (0..=12).chain([99, 255]) {
        let accounts = Accounts::new(Limits::default());
        let (account, begin) = (accounts.of(&"a".into()), Instant::now());
        let frames = let_through(kind, &account);
        let refilled = usize::try_from(begin.elapsed().as_micros()).unwrap() * WORK.per_second as usize / 1_000_000;
        assert!(frames <= most + refilled + 3_000, "{frames} frames of kind {kind}");
        let is_few = [super::PING, SETTINGS_FRAME].contains(&kind);
        assert_eq!(frames < 3_000, is_few, "{frames} frames of kind {kind}");
        assert!(!account.until_frames_are_paid().is_zero(), "kind {kind} is not charged to the identity");
    }
}

#[tokio::test]
async fn connections_of_one_identity_share_what_floods_may_cost() {
    for kind in [2, 8, 99] {
        let accounts = Accounts::new(Limits::default());
        let account = accounts.of(&"a".into());
        let read: Vec<usize> = (0..9).map(|_| let_through(kind, &account)).collect();
        assert!(read[8] * 4 < read[0], "{read:?} frames of kind {kind}");
        assert!(let_through(kind, &accounts.of(&"b".into())) >= read[0] / 2, "another identity is read as before");
    }
}

#[test]
fn an_identity_whose_connections_cause_too_much_work_together_is_read_more_slowly() {
    let accounts = Accounts::new(Limits::default());
    let (account, now) = (accounts.of(&"a".into()), Instant::now());
    for _ in 0..10 {
        let mut calm = Calm::new((), Arc::clone(&account));
        calm.count(Seen { work: 250_000, headers: 4_000_000, ..Seen::default() });
        assert!(calm.work.owed(WORK, now).is_none());
    }
    assert!(account.owes_frames(now).is_some());
    assert!(accounts.of(&"b".into()).owes_frames(now).is_none());
}

fn calm() -> Calm<()> {
    Calm::new((), Accounts::new(Limits::default()).of(&"a".into()))
}

#[test]
fn pings_cost_nothing_while_something_is_sent() {
    let mut calm = calm();
    let pings = |pings| Seen { pings, ..Seen::default() };
    for _ in 0..1000 {
        calm.written = SAID + 1;
        calm.count(pings(1));
    }
    assert_eq!(calm.end, End::Not);
    calm.count(pings(60));
    assert_eq!(calm.end, End::Not);
    calm.count(pings(10));
    assert_eq!(calm.end, End::Words(MANY_PINGS));
}

#[test]
fn settings_cost_whatever_is_sent() {
    let mut calm = calm();
    let settings = |settings| Seen { settings, ..Seen::default() };
    calm.count(settings(50));
    assert_eq!(calm.end, End::Not);
    calm.written = 1 << 20;
    calm.count(settings(20));
    assert_eq!(calm.end, End::Words(MANY_SETTINGS));
}

/// What a client reads that sends this without end, or once and is then silent.
async fn answers_to(sent: &[u8], again: bool) -> Vec<u8> {
    let (events, _) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(&[HELLO, PLAIN].concat()).await.unwrap();
    let mut answers = Vec::new();
    let talk = async {
        let (mut read, mut write) = client.split();
        let send = async {
            // until the connection is gone
            while write.write_all(sent).await.is_ok() && again {
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(send, read.read_to_end(&mut answers))
    };
    let (_, _reset) = tokio::time::timeout(Duration::from_secs(20), talk).await.unwrap();
    server.stop(Duration::from_secs(5)).await;
    answers
}

#[tokio::test]
async fn a_client_that_does_not_calm_down_is_told_and_dropped_even_if_it_falls_silent() {
    for (frame, goaway) in [(PING, MANY_PINGS), (PLAIN, MANY_SETTINGS), (LONG_HEADERS, LARGE_HEADERS)] {
        for (sent, again) in [(frame.to_vec(), true), (frame.repeat(100), false)] {
            let answers = answers_to(&sent, again).await;
            assert!(answers.ends_with(goaway) || again, "{answers:?}");
            let found = answers.windows(goaway.len()).position(|window| window == goaway);
            assert!(found.is_some(), "{} bytes without GOAWAY", answers.len());
        }
    }
}
