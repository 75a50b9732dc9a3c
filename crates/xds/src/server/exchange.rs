//! Calls that answer each request with one message: health, reflection, client status.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream as _;
use http_body::Frame;
use hyper::body::Incoming;
use prost::Message;
use tokio_stream::wrappers::WatchStream;

use super::call::Call;
use super::gate::Caller;
use super::grpc::{Broken, Code, Frames};

/// How many requests a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    /// One, answered once.
    One,
    /// One, whose answer stays true until the call ends.
    Watch,
    /// As many as the client likes.
    Many,
}

/// Gives the answer to one request, as bytes of a message.
pub(super) type Answer = Box<dyn FnMut(&Caller, Bytes) -> Result<Bytes, Broken> + Send>;

pub(super) struct Exchange {
    turns: Turns,
    caller: Caller,
    answer: Answer,
    requests: Frames<Incoming>,
    stop: WatchStream<bool>,
    answered: bool,
    done: bool,
}

impl Exchange {
    pub(super) fn new(call: Call, turns: Turns, answer: Answer) -> Box<Self> {
        let Call { caller, requests, stop, .. } = call;
        let stop = WatchStream::new(stop);
        Box::new(Self { turns, caller, answer, requests, stop, answered: false, done: false })
    }

    /// The next part of the body.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if self.done {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_next(cx));
        Poll::Ready(Some(match next {
            Ok(message) => Frame::data(framed(&message)),
            Err(Broken(code, words)) => {
                self.done = true;
                Frame::trailers(code.headers(words))
            }
        }))
    }

    /// The next answer; or the status that the call ends with.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Broken>> {
        if self.is_told_to_stop(cx) {
            return Poll::Ready(Err(Broken(Code::Unavailable, "the server is stopping")));
        }
        match self.turns {
            Turns::One if self.answered => return Poll::Ready(Err(Broken(Code::Ok, ""))),
            Turns::Watch if self.answered => return Poll::Pending,
            _ => {}
        }
        let answer = match ready!(self.requests.poll_next(cx)) {
            Some(request) => request.and_then(|request| (self.answer)(&self.caller, request)),
            None if self.turns == Turns::Many => Err(Broken(Code::Ok, "")),
            None => Err(Broken(Code::InvalidArgument, "no request")),
        };
        self.answered = true;
        Poll::Ready(answer)
    }

    fn is_told_to_stop(&mut self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(stop) = Pin::new(&mut self.stop).poll_next(cx) {
            if stop.unwrap_or(true) {
                return true;
            }
        }
        false
    }
}

/// A request as its message.
pub(super) fn read<M: Message + Default>(request: Bytes) -> Result<M, Broken> {
    M::decode(request).map_err(|_| Broken(Code::InvalidArgument, "the request cannot be read"))
}

/// A message with its gRPC head.
fn framed(message: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.extend_from_slice(message);
    frame.freeze()
}
