//! The fuzz target as an ordinary test, on the stable toolchain, from the same body (`fuzz/src`).
#![expect(unreachable_pub, reason = "the body is public to the fuzz target, which is in a workspace of its own")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

use peak_alloc::PeakAlloc;

#[path = "../../../fuzz/src/messages.rs"]
mod messages;
#[path = "../../../fuzz/src/messages_round_trip.rs"]
mod messages_round_trip;

/// The inputs are bounded in the memory that they need.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

tests::fuzz_targets! {
    messages_round_trip: 4000, 4096, Vec::new();
}
