//! Percent-encoded authorities of requests over a Unix socket.
//!
//! gRPC's C core names the socket in `:authority`, percent-encoded (`tmp%2Fxds.sock`). That is a valid host name (RFC 3986, `reg-name`), but the HTTP
//! library takes none with a percent sign and resets the stream without a word. Nothing here depends on the authority of a request: on its
//! way in each percent sign in it becomes a hyphen. The value keeps its length, so that all that HPACK counts stays as it was, and later
//! requests that refer to it find it changed. Values in the Huffman code are left alone: clients that use it send `localhost`.

#[cfg(test)]
mod tests;

/// Length of what a client sends before its first frame.
const PREFACE: usize = 24;

/// The kinds of frames with parts of a header block (RFC 9113, 6).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// Flags of HEADERS: a byte with the length of the padding, and five of priority, come first.
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
const PRIORITY_LENGTH: usize = 5;

/// The place of `:authority` in HPACK's static table (RFC 7541, appendix A), and its name, which C-core spells out.
const AUTHORITY: usize = 1;
const NAME: &[u8] = b":authority";

/// Larger numbers in a header block are none of a client that means well: far beyond what a block may hold ([`super::connection::HEADER_LIST`]).
const LARGEST: usize = 1 << 24;

/// A byte stream of a client, whose frames and header fields are followed.
pub(super) struct Authorities {
    /// Bytes until the next head of a frame, of a block or not.
    skip: usize,
    head: [u8; 9],
    /// How much of the head there is.
    have: usize,
    /// Bytes of the frame that belong to a header block.
    block: usize,
    /// Bytes of padding behind them.
    padding: usize,
    /// What the next bytes of the frame are.
    part: Part,
    field: Field,
    /// Something was no HPACK: the library is going to say so.
    lost: bool,
}

/// The parts of a frame with a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    PadLength,
    Priority(usize),
    Block,
}

/// A place in a header block (RFC 7541, 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Before the first byte of a field.
    Start,
    /// In a number that says nothing of interest: an index, or a size.
    Number,
    /// In the index of a name, whose value follows.
    Index { so_far: usize, shift: u32 },
    /// Before the first byte of a length.
    Length(Text),
    /// In a length.
    Longer { of: Text, coded: bool, so_far: usize, shift: u32 },
    /// In a text of so many more bytes.
    Text { of: Text, coded: bool, left: usize },
}

/// A text in a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    /// A name, whose value follows, and that this is `:authority` as far as it is known.
    Name(bool),
    Value,
    /// The value of `:authority`.
    Authority,
}

impl Authorities {
    /// Those of a client that has said nothing.
    pub(super) fn new() -> Self {
        Self {
            skip: PREFACE,
            head: [0; 9],
            have: 0,
            block: 0,
            padding: 0,
            part: Part::Block,
            field: Field::Start,
            lost: false,
        }
    }

    /// Takes the next bytes of the stream, and changes them where it has to.
    pub(super) fn pass(&mut self, mut bytes: &mut [u8]) {
        while !self.lost && !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            let Some((byte, rest)) = bytes.split_at_mut(skipped).1.split_first_mut() else { return };
            if self.block > 0 {
                self.block -= 1;
                self.pass_part(byte);
                if self.block == 0 {
                    self.skip = std::mem::take(&mut self.padding);
                }
            } else {
                self.pass_head(*byte);
            }
            bytes = rest;
        }
    }

    fn pass_head(&mut self, byte: u8) {
        if let Some(place) = self.head.get_mut(self.have) {
            *place = byte;
        }
        self.have += 1;
        if self.have < self.head.len() {
            return;
        }
        self.have = 0;
        let [a, b, c, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if !matches!(kind, HEADERS | CONTINUATION) {
            self.skip = length;
            return;
        }
        (self.block, self.padding) = (length, 0);
        let with = |flag: u8| kind == HEADERS && flags & flag != 0;
        self.part = match (with(PADDED), with(PRIORITY)) {
            (true, _) => Part::PadLength,
            (false, true) => Part::Priority(PRIORITY_LENGTH),
            (false, false) => Part::Block,
        };
        if kind == HEADERS {
            self.field = Field::Start;
        }
    }

    /// A byte of a frame with a header block.
    fn pass_part(&mut self, byte: &mut u8) {
        match self.part {
            Part::PadLength => {
                self.padding = usize::from(*byte);
                self.lost |= self.padding > self.block;
                self.block = self.block.saturating_sub(self.padding);
                let [_, _, _, _, flags, ..] = self.head;
                self.part = if flags & PRIORITY != 0 { Part::Priority(PRIORITY_LENGTH) } else { Part::Block };
            }
            Part::Priority(1) => self.part = Part::Block,
            Part::Priority(left) => self.part = Part::Priority(left - 1),
            Part::Block => match self.pass_field(byte) {
                Some(field) => self.field = field,
                None => self.lost = true,
            },
        }
    }

    /// A byte of a header block. None: it is none.
    fn pass_field(&self, byte: &mut u8) -> Option<Field> {
        let value = *byte;
        let more = value & 0x80 != 0;
        let bits = usize::from(value & 0x7f);
        Some(match self.field {
            Field::Start => begin(value),
            Field::Number => {
                if more {
                    Field::Number
                } else {
                    Field::Start
                }
            }
            Field::Index { so_far, shift } => {
                let so_far = add(so_far, bits, shift)?;
                if more { Field::Index { so_far, shift: shift + 7 } } else { named(so_far) }
            }
            Field::Length(of) => match bits {
                0x7f => Field::Longer { of, coded: more, so_far: bits, shift: 0 },
                _ => begin_text(of, more, bits),
            },
            Field::Longer { of, coded, so_far, shift } => {
                let so_far = add(so_far, bits, shift)?;
                if more { Field::Longer { of, coded, so_far, shift: shift + 7 } } else { begin_text(of, coded, so_far) }
            }
            Field::Text { of: Text::Name(is), coded, left } => {
                let place = NAME.len().checked_sub(left);
                let is = is && !coded && place.and_then(|place| NAME.get(place)) == Some(&value);
                text(Text::Name(is), coded, left - 1)
            }
            Field::Text { of, coded, left } => {
                if of == Text::Authority && !coded && value == b'%' {
                    *byte = b'-';
                }
                text(of, coded, left - 1)
            }
        })
    }
}

/// The first byte of a field.
fn begin(byte: u8) -> Field {
    let (mask, literal) = match byte {
        0x80.. => (0x7f, false),
        0x40.. => (0x3f, true),
        0x20.. => (0x1f, false),
        _ => (0x0f, true),
    };
    let index = byte & mask;
    match (index == mask, literal) {
        (true, true) => Field::Index { so_far: usize::from(index), shift: 0 },
        (true, false) => Field::Number,
        (false, true) => named(usize::from(index)),
        (false, false) => Field::Start,
    }
}

/// The index of a name is known: 0 is none, and the name follows.
fn named(index: usize) -> Field {
    Field::Length(match index {
        0 => Text::Name(true),
        AUTHORITY => Text::Authority,
        _ => Text::Value,
    })
}

/// The length of a text is known.
fn begin_text(of: Text, coded: bool, length: usize) -> Field {
    let of = if matches!(of, Text::Name(_)) { Text::Name(length == NAME.len()) } else { of };
    text(of, coded, length)
}

/// So many more bytes of a text.
fn text(of: Text, coded: bool, left: usize) -> Field {
    match (left, of) {
        (0, Text::Name(true)) => Field::Length(Text::Authority),
        (0, Text::Name(false)) => Field::Length(Text::Value),
        (0, _) => Field::Start,
        _ => Field::Text { of, coded, left },
    }
}

/// The next seven bits of a number.
fn add(so_far: usize, bits: usize, shift: u32) -> Option<usize> {
    let number = so_far.checked_add(bits.checked_shl(shift).filter(|_| shift < 28)?)?;
    (number <= LARGEST).then_some(number)
}
