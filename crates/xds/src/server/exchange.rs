//! Calls that answer each request with one message: health, reflection, client status.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream as _;
use http_body::Frame;
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::wrappers::WatchStream;

use super::call::Call;
use super::gate::Caller;
use super::grpc::{Broken, Code, Frames, InRoom, Largest};
use super::unread::PART;
use crate::session::LAGGING;

/// Largest request: Envoy's node (61 KB), and 16 matchers of 4 KiB.
const LARGEST_QUESTION: Largest = (256 << 10, "the request is larger than 256 KiB");

/// How long a client may take to read a large answer: 4 MiB at 0.6 Mbit/s.
const TAKEN: Duration = Duration::from_secs(60);

/// How many requests a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Questions {
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
    questions: Questions,
    caller: Caller,
    answer: Answer,
    requests: Frames<Incoming>,
    stop: WatchStream<bool>,
    /// It takes turns with others of its identity ([`super::limits::Account::turn_to_answer`]).
    in_turn: bool,
    /// A request for whose answer it is not its turn yet.
    waiting: Option<(InRoom, Turn)>,
    /// What of a large answer the client has not taken.
    rest: Option<Rest>,
    answered: bool,
    end: Option<Broken>,
    done: bool,
}

type Turn = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// What of an answer the client has not taken.
struct Rest {
    bytes: Bytes,
    _turn: Option<OwnedSemaphorePermit>,
    /// When the client has to have taken it: known once it was seen not to take it.
    until: Option<Duration>,
}

impl Rest {
    fn new(answer: Bytes, turn: Option<OwnedSemaphorePermit>) -> Self {
        Self { bytes: answer, _turn: turn, until: None }
    }

    /// The next part, as a copy, so that who does not read keeps no more than that ([`super::unread`]); and what is left, if anything.
    fn part(mut self) -> (Bytes, Option<Self>) {
        let part = self.bytes.split_to(self.bytes.len().min(PART as usize));
        (Bytes::copy_from_slice(&part), (!self.bytes.is_empty()).then_some(self))
    }

    /// When the client's time is over, which begins with the first look.
    fn until(&mut self, now: Duration) -> Duration {
        *self.until.get_or_insert(now + TAKEN)
    }
}

impl Exchange {
    pub(super) fn new(call: Call, questions: Questions, answer: Answer) -> Self {
        let Call { caller, requests, stop, .. } = call;
        let (requests, stop) = (requests.at_most(LARGEST_QUESTION), WatchStream::new(stop));
        Self {
            questions,
            caller,
            answer,
            requests,
            stop,
            in_turn: false,
            waiting: None,
            rest: None,
            answered: false,
            end: None,
            done: false,
        }
    }

    /// The same with answers that cost much or are large.
    pub(super) fn in_turn(self) -> Self {
        Self { in_turn: true, ..self }
    }

    /// The next part of the body.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Some(rest) = self.rest.take() {
            return Poll::Ready(Some(self.next_part(rest)));
        }
        if self.done {
            return Poll::Ready(None);
        }
        let next = match self.end.take() {
            Some(broken) => Err(broken),
            None => ready!(self.poll_next(cx)),
        };
        Poll::Ready(Some(match next {
            Ok((message, turn)) => self.next_part(Rest::new(framed(&message), turn)),
            Err(Broken(code, words)) => {
                self.done = true;
                Frame::trailers(code.headers(words))
            }
        }))
    }

    fn next_part(&mut self, rest: Rest) -> Frame<Bytes> {
        let (part, rest) = rest.part();
        self.rest = rest;
        Frame::data(part)
    }

    /// The client has not taken what was said: it keeps no turn for ever. Gives the time to look again.
    pub(super) fn look(&mut self, now: Duration) -> Option<Duration> {
        if self.waiting.is_some() {
            // it may have got its turn, and does not ask for it
            let turn = self.turn();
            self.waiting = self.waiting.take().map(|(request, _)| (request, turn));
            return Some(now + LAGGING);
        }
        let until = self.rest.as_mut()?.until(now);
        if until <= now {
            let late = Broken(Code::ResourceExhausted, "an answer was not taken within a minute");
            self.caller.tell(&late);
            (self.rest, self.end) = (None, Some(late));
            return None;
        }
        Some(until)
    }

    /// The next answer; or the status that the call ends with.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Bytes, Option<OwnedSemaphorePermit>), Broken>> {
        if self.is_told_to_stop(cx) {
            return Poll::Ready(Err(Broken(Code::Unavailable, "the server is stopping")));
        }
        match self.questions {
            Questions::One if self.answered => return Poll::Ready(Err(Broken(Code::Ok, ""))),
            Questions::Watch if self.answered => return Poll::Pending,
            _ => {}
        }
        let (request, mut turn) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match ready!(self.poll_request(cx)) {
                Ok(request) => (request, self.turn()),
                Err(broken) => return Poll::Ready(Err(broken)),
            },
        };
        let Poll::Ready(turn) = turn.as_mut().poll(cx) else {
            self.waiting = Some((request, turn));
            return Poll::Pending;
        };
        self.answered = true;
        let answer = (self.answer)(&self.caller, request.0).inspect_err(|broken| self.caller.tell(broken));
        Poll::Ready(answer.map(|answer| (answer, turn)))
    }

    /// Ready when the next answer may be made.
    fn turn(&self) -> Turn {
        if self.in_turn {
            Box::pin(Arc::clone(self.caller.account()).turn_to_answer())
        } else {
            Box::pin(std::future::ready(None))
        }
    }

    /// The next request; or the status that the call ends with.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<InRoom, Broken>> {
        let end = match ready!(self.requests.poll_next_in_room(cx)) {
            Some(request) => return Poll::Ready(request),
            None if self.questions == Questions::Many => Broken(Code::Ok, ""),
            None => Broken(Code::InvalidArgument, "no request"),
        };
        Poll::Ready(Err(end))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn a_large_answer_goes_in_parts_of_their_own_and_keeps_its_turn_to_the_last_and_its_time_from_the_first_look() {
        let turns = Arc::new(Semaphore::new(1));
        let answer: Bytes = (0..40_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut rest = Some(Rest::new(answer.clone(), Arc::clone(&turns).try_acquire_owned().ok()));
        let mut sent = Vec::new();
        while let Some(mut left) = rest {
            assert_eq!(turns.available_permits(), 0);
            assert_eq!(left.until(Duration::from_secs(sent.len() as u64)), TAKEN);
            let (part, after) = left.part();
            assert!(part.len() <= PART as usize && !answer.as_ptr_range().contains(&part.as_ptr()));
            sent.extend_from_slice(&part);
            rest = after;
        }
        assert_eq!((sent, turns.available_permits()), (answer.to_vec(), 1));
    }
}
