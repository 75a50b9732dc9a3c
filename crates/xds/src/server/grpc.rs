//! The gRPC framing of requests and the status at the end of a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body::Body;

use super::limits::{Pace, Room};

#[cfg(test)]
mod tests;

/// Largest request: a first one lists names and versions, 100 bytes each for 50,000 clusters, beside 61 KB of node; three times that.
pub(super) const LARGEST_REQUEST: usize = 16 << 20;

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

/// Cuts a request body into messages.
pub(super) struct Frames<B> {
    body: B,
    pace: Option<Pace>,
    /// The pace allows the next message.
    is_time: bool,
    /// What a message that does not come in one piece takes until it is complete.
    room: Option<Room>,
    buffer: BytesMut,
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
        Self { body, pace: None, is_time: true, room: None, buffer: BytesMut::new() }
    }

    /// The next message; none at the end of the body.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if let Some(pace) = self.pace.as_mut().filter(|_| !self.is_time) {
            ready!(pace.poll_next(cx));
            self.is_time = true;
        }
        loop {
            match self.cut() {
                Ok(Cut::Message(message)) => {
                    self.pace.iter_mut().for_each(|pace| pace.charge_for(message.len()));
                    (self.is_time, self.room) = (false, None);
                    return Poll::Ready(Some(Ok(message)));
                }
                Ok(Cut::Begun(length)) if self.room.is_none() => {
                    if let Some(pace) = &mut self.pace {
                        self.room = Some(ready!(pace.poll_room(length, cx)));
                    }
                }
                Ok(Cut::Begun(_) | Cut::Nothing) => {}
                Err(broken) => return Poll::Ready(Some(Err(broken))),
            }
            if let Some(room) = &mut self.room
                && let Poll::Ready(broken) = room.poll_over(cx)
            {
                return Poll::Ready(Some(Err(broken)));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                        self.room.iter_mut().for_each(|room| room.have(self.buffer.len()));
                    }
                }
                Some(Err(_)) => return Poll::Ready(Some(Err(Broken(Code::Unavailable, "the connection broke")))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// Takes a whole message out of the buffer, if it holds one.
    fn cut(&mut self) -> Result<Cut, Broken> {
        let Some((head, rest)) = self.buffer.split_first_chunk::<5>() else { return Ok(Cut::Nothing) };
        let [compressed, length @ ..] = *head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if compressed != 0 {
            return Err(Broken(Code::Unimplemented, "compressed requests are not read"));
        }
        if length > LARGEST_REQUEST {
            return Err(Broken(Code::ResourceExhausted, "the request is larger than 16 MiB"));
        }
        if rest.len() < length {
            return Ok(Cut::Begun(length));
        }
        self.buffer.advance(5);
        let message = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            // the next message starts a small buffer of its own instead of keeping this one's memory
            self.buffer = BytesMut::new();
        }
        Ok(Cut::Message(message))
    }
}
