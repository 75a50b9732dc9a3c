//! As much of HTTP/2 and gRPC as one stream of a client needs, sans-io: frames are cut by hand and headers are never read, so that the
//! clients of a crowd cost little beside the server that they measure. RFC 9113 has the frames.

/// A connection with its only stream.
#[derive(Default)]
pub(super) struct Connection {
    /// Bytes for the server.
    pub(super) out: Vec<u8>,
    /// Bytes of the request body that wait for room.
    body: Vec<u8>,
    /// Room that the server gives the connection and the stream, and what it said it gives each stream.
    connection_room: i64,
    stream_room: i64,
    first_room: i64,
    head: Vec<u8>,
    /// The frame that is being read.
    kind: u8,
    flags: u8,
    stream: u8,
    /// Its bytes that are still to come.
    left: usize,
    /// What came of it, if it is no DATA.
    payload: Vec<u8>,
    message: Vec<u8>,
}

/// The server has ended the stream or the connection, or says what cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the server ended the stream with a frame of type {kind}: {payload:?}")]
pub(super) struct Ended {
    kind: u8,
    payload: Vec<u8>,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// What HTTP/2 gives where nothing is said.
const DEFAULT_ROOM: i64 = 65_535;

/// Room for the server: all that a window can be, so that no WINDOW_UPDATE is ever due (2 GiB on one connection).
const ALL_ROOM: u32 = (1 << 31) - 1;

/// Largest DATA frame that every server takes.
const FRAME: usize = 16_384;

/// Bytes of a buffer that is kept while nothing is in it.
const KEPT: usize = 1 << 10;

impl Connection {
    /// A connection that opens a gRPC stream at this path, with this value of `authorization`.
    pub(super) fn open(path: &str, authorization: Option<&str>) -> Self {
        let mut new = Self {
            connection_room: DEFAULT_ROOM,
            stream_room: DEFAULT_ROOM,
            first_room: DEFAULT_ROOM,
            ..Self::default()
        };
        new.out.extend_from_slice(PREFACE);
        // INITIAL_WINDOW_SIZE
        let window = [&[0, 4][..], &ALL_ROOM.to_be_bytes()].concat();
        new.frame(SETTINGS, 0, 0, &window);
        let more = ALL_ROOM - u32::try_from(DEFAULT_ROOM).unwrap_or_default();
        new.frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "bench"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let mut block = Vec::new();
        for (name, value) in headers.into_iter().chain(authorization.map(|value| ("authorization", value))) {
            // a literal that is not indexed, with a new name (RFC 7541, 6.2.2); all are shorter than 127 bytes
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).unwrap_or(126));
                block.extend_from_slice(text.as_bytes());
            }
        }
        new.frame(HEADERS, END_HEADERS, 1, &block);
        new
    }

    /// Puts a gRPC message on its way.
    pub(super) fn send(&mut self, message: &[u8]) {
        self.body.push(0);
        self.body.extend_from_slice(&u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
        self.body.extend_from_slice(message);
        self.pump();
    }

    /// Takes bytes of the server in; `each` gets every gRPC message.
    pub(super) fn receive(&mut self, mut bytes: &[u8], mut each: impl FnMut(&mut Self, &[u8])) -> Result<(), Ended> {
        while !bytes.is_empty() {
            if self.left == 0 && self.head.len() < 9 {
                let (head, rest) = bytes.split_at(bytes.len().min(9 - self.head.len()));
                self.head.extend_from_slice(head);
                bytes = rest;
                self.begin_frame();
            }
            let (part, rest) = bytes.split_at(bytes.len().min(self.left));
            bytes = rest;
            self.left -= part.len();
            let is_whole = self.head.len() == 9 && self.left == 0;
            if self.kind == DATA && self.head.len() == 9 {
                self.take_data(part, &mut each);
            } else {
                self.payload.extend_from_slice(part);
            }
            if is_whole {
                self.head.clear();
                self.end_frame()?;
            }
        }
        Ok(())
    }

    fn begin_frame(&mut self) {
        if let [a, b, c, kind, flags, _, _, _, stream] = *self.head.as_slice() {
            self.left = u32::from_be_bytes([0, a, b, c]) as usize;
            (self.kind, self.flags, self.stream) = (kind, flags, stream);
        }
    }

    fn take_data(&mut self, part: &[u8], each: &mut impl FnMut(&mut Self, &[u8])) {
        if self.message.is_empty()
            && let Some((message, [])) = cut(part)
        {
            return each(self, message);
        }
        let mut message = std::mem::take(&mut self.message);
        message.extend_from_slice(part);
        let mut rest = message.as_slice();
        while let Some((one, more)) = cut(rest) {
            each(self, one);
            rest = more;
        }
        if rest.len() < message.len() {
            message = rest.to_vec();
        }
        self.message = message;
    }

    fn end_frame(&mut self) -> Result<(), Ended> {
        let payload = std::mem::take(&mut self.payload);
        let number = |at: usize| payload.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes);
        let is_ended = self.flags & END_STREAM != 0;
        match self.kind {
            DATA | HEADERS if is_ended => return Err(Ended { kind: self.kind, payload }),
            DATA if self.flags & PADDED != 0 => return Err(Ended { kind: self.kind, payload }),
            RESET | GOAWAY => return Err(Ended { kind: self.kind, payload }),
            SETTINGS if self.flags & ACK == 0 => {
                for (at, _) in payload.chunks_exact(6).enumerate().filter(|(_, setting)| setting.starts_with(&[0, 4])) {
                    let room = i64::from(number(at * 6 + 2).unwrap_or_default());
                    self.stream_room += room - std::mem::replace(&mut self.first_room, room);
                }
                self.frame(SETTINGS, ACK, 0, &[]);
                self.pump();
            }
            PING if self.flags & ACK == 0 => self.frame(PING, ACK, 0, &payload),
            WINDOW_UPDATE => {
                let room = i64::from(number(0).unwrap_or_default());
                match self.stream {
                    0 => self.connection_room += room,
                    _ => self.stream_room += room,
                }
                self.pump();
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends as much of the body as there is room for.
    fn pump(&mut self) {
        let room = self.connection_room.min(self.stream_room);
        let fits = usize::try_from(room).unwrap_or_default().min(self.body.len());
        let rest = self.body.split_off(fits);
        let body = std::mem::replace(&mut self.body, rest);
        for part in body.chunks(FRAME) {
            self.frame(DATA, 0, 1, part);
        }
        let sent = i64::try_from(fits).unwrap_or_default();
        (self.connection_room, self.stream_room) = (self.connection_room - sent, self.stream_room - sent);
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let [_, a, b, c] = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
        self.out.extend_from_slice(&[a, b, c, kind, flags, 0, 0, 0, stream]);
        self.out.extend_from_slice(payload);
    }

    /// What was in `out` has been written.
    pub(super) fn written(&mut self) {
        self.out.clear();
        self.out.shrink_to(KEPT);
    }
}

/// The first gRPC message of some bytes, and what is behind it.
fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let [_, length @ ..] = *head;
    rest.split_at_checked(u32::from_be_bytes(length) as usize)
}
