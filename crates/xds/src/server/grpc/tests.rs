//! Messages out of bytes that come in pieces.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::task::Waker;

use http_body::Frame;

use super::*;

struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
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
fn a_request_that_is_too_large_or_compressed_ends_the_reading() {
    assert_eq!(read(&[0, 1, 0, 0, 1], 5), [Err(Broken(Code::ResourceExhausted, "the request is larger than 16 MiB"))]);
    assert_eq!(read(&[1, 0, 0, 0, 0], 5), [Err(Broken(Code::Unimplemented, "compressed requests are not read"))]);
}
