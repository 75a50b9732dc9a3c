//! `fuzz::messages_round_trip` with what the fuzzer makes up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::messages_round_trip::run(data));
