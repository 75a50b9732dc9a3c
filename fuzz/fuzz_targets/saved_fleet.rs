//! `fuzz::saved_fleet` with what the fuzzer makes up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::saved_fleet::run(data));
