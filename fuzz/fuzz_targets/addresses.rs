//! `fuzz::addresses` with what the fuzzer makes up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::addresses::run(data));
