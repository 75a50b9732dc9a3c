//! The gRPC framing of requests and the status at the end of a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body::Body;

use super::limits::{Pace, Room};

#[cfg(test)]
mod tests;

/// How long a request may be, in bytes, and the words for one that is longer.
pub(super) type Largest = (usize, &'static str);

/// Largest request: a first one lists names and versions, 100 bytes each for 50,000 clusters, beside 61 KB of node; three times that.
pub(super) const LARGEST_REQUEST: Largest = (16 << 20, "the request is larger than 16 MiB");

/// The codes that a stream can end with, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Ok = 0,
    InvalidArgument = 3,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
    Unauthenticated = 16,
}

impl Code {
    /// The trailers that end a stream.
    pub(super) fn headers(self, message: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::from(self as u16));
        let plain: String =
            message.chars().map(|c| if c.is_ascii_graphic() && c != '%' || c == ' ' { c } else { '?' }).collect();
        if let Ok(message) = HeaderValue::from_str(&plain) {
            headers.insert("grpc-message", message);
        }
        headers
    }
}

/// A message, and what it took where it did not come in one piece.
pub(super) type InRoom = (Bytes, Option<Room>);

/// Cuts a request body into messages.
pub(super) struct Frames<B> {
    body: B,
    largest: Largest,
    pace: Option<Pace>,
    /// The pace allows the next message.
    is_time: bool,
    /// What a message that does not come in one piece takes until it is complete.
    room: Option<Room>,
    /// What of a message's head came, as a number, and how many bytes that are.
    head: (u64, usize),
    /// The rest of the frame that came last. A message that lies in it is a slice of it.
    frame: Bytes,
    /// What came of a message that does not lie in one frame.
    begun: BytesMut,
}

/// What is at the beginning of the bytes that came.
enum Cut {
    Message(Bytes),
    /// A message of this length, not all of it yet.
    Begun(usize),
    Nothing,
}

/// Why no more messages are read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) Code, pub(super) &'static str);

impl<B: Body<Data = Bytes> + Unpin> Frames<B> {
    /// The messages of a body, as fast as its caller may send them.
    pub(super) fn paced(body: B, pace: Pace) -> Self {
        Self { pace: Some(pace), is_time: false, ..Self::new(body) }
    }

    /// The messages of a body, as fast as they come.
    pub(super) fn new(body: B) -> Self {
        let (frame, begun) = (Bytes::new(), BytesMut::new());
        Self { body, largest: LARGEST_REQUEST, pace: None, is_time: true, room: None, head: (0, 0), frame, begun }
    }

    /// The same, none of which is larger than this.
    pub(super) fn at_most(self, largest: Largest) -> Self {
        Self { largest, ..self }
    }

    /// The next message; none at the end of the body.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        self.poll_next_in_room(cx).map_ok(|(message, _)| message)
    }

    /// The same with what it took until it was complete, for who does not look at it at once.
    pub(super) fn poll_next_in_room(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<InRoom, Broken>>> {
        if let Some(pace) = self.pace.as_mut().filter(|_| !self.is_time) {
            ready!(pace.poll_next(cx));
            self.is_time = true;
        }
        loop {
            match self.cut() {
                Ok(Cut::Message(message)) => {
                    self.pace.iter_mut().for_each(|pace| pace.charge_for(message.len()));
                    self.is_time = false;
                    return Poll::Ready(Some(Ok((message, self.room.take()))));
                }
                Ok(Cut::Begun(length)) => {
                    if let Some(pace) = self.pace.as_mut().filter(|_| self.room.is_none()) {
                        self.room = Some(ready!(pace.poll_room(length, cx)));
                    }
                    self.put_together(length);
                }
                Ok(Cut::Nothing) => {}
                Err(broken) => return Poll::Ready(Some(Err(self.told(broken)))),
            }
            let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(cx) else {
                let Some(room) = &mut self.room else { return Poll::Pending };
                return room.poll_over(cx).map(|broken| Some(Err(broken)));
            };
            match next {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.frame = data;
                        let have = self.begun.len() + self.frame.len();
                        self.room.iter_mut().for_each(|room| room.have(have));
                    }
                }
                Some(Err(_)) => return Poll::Ready(Some(Err(Broken(Code::Unavailable, "the connection broke")))),
                None if self.head.1 > 0 => {
                    let broken = Broken(Code::InvalidArgument, "the body ends in the middle of a request");
                    return Poll::Ready(Some(Err(self.told(broken))));
                }
                None => return Poll::Ready(None),
            }
        }
    }

    /// Logs a refusal.
    fn told(&self, broken: Broken) -> Broken {
        self.pace.iter().for_each(|pace| pace.tell(&broken));
        broken
    }

    /// Takes a whole message out of what came, if it is there.
    fn cut(&mut self) -> Result<Cut, Broken> {
        let (mut head, mut have) = self.head;
        while have < 5 {
            let Ok(byte) = self.frame.try_get_u8() else {
                (self.head, self.frame) = ((head, have), Bytes::new());
                return Ok(Cut::Nothing);
            };
            (head, have) = ((head << 8) | u64::from(byte), have + 1);
        }
        self.head = (head, have);
        let length = usize::try_from(head & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        if head >> 32 != 0 {
            return Err(Broken(Code::Unimplemented, "compressed requests are not read"));
        }
        let (largest, words) = self.largest;
        if length > largest {
            return Err(Broken(Code::ResourceExhausted, words));
        }
        let missing = length - self.begun.len();
        if self.frame.len() < missing {
            return Ok(Cut::Begun(length));
        }
        self.head = (0, 0);
        let last = self.frame.split_to(missing);
        if self.begun.is_empty() {
            return Ok(Cut::Message(last));
        }
        self.begun.extend_from_slice(&last);
        Ok(Cut::Message(std::mem::take(&mut self.begun).freeze()))
    }

    /// A message of this length goes on in the next frame, so that this one is not kept for it.
    fn put_together(&mut self, length: usize) {
        let part = std::mem::take(&mut self.frame);
        if self.begun.is_empty() && !part.is_empty() {
            self.begun = BytesMut::with_capacity(length);
        }
        self.begun.extend_from_slice(&part);
    }
}
