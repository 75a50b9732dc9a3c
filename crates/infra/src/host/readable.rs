//! Waiting for a descriptor that is neither a socket nor a pipe.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime, for reading.
#[expect(
    deprecated,
    reason = "the successor is unsafe because a type may lie about its descriptor; an OwnedFd cannot, and unsafe code is forbidden here"
)]
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
