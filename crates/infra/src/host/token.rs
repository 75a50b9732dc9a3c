//! Secrets that programs on this machine share with Chancery: they prove who calls, however the call came. A Unix socket alone does not: an Envoy connects to
//! every one that its user may open, for the requests of others.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
mod tests;

/// A token of 128 random bits, as 32 hexadecimal digits. It is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

/// The length of a token in digits: a guess is right once in 2^128.
const DIGITS: usize = 32;

impl Token {
    /// Draws a token.
    pub(crate) fn new() -> Self {
        Self(random().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }

    /// Reads the token of an earlier process; none if the file holds no token.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == DIGITS && text.bytes().all(is_digit)).then(|| Self(text.into()))
    }

    /// Returns a name for a socket that only readers of the token know, and that does not give the token away.
    pub(crate) fn socket_name(&self) -> String {
        format!("{:016x}", xxh3_64(self.0.as_bytes()))
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// 16 bytes of the system's randomness. Early in a boot the call waits until the system has enough of it (getrandom(2)).
///
/// # Errors
/// The system has none to give.
pub(crate) fn try_random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(16) => return Ok(bytes),
            // So few bytes come whole unless a signal comes first.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The same where [`try_random`] has succeeded before: what the system gave once it goes on to give.
pub(crate) fn random() -> [u8; 16] {
    loop {
        if let Ok(bytes) = try_random() {
            return bytes;
        }
    }
}
