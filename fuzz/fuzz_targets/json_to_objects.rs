//! `fuzz::json_to_objects` with what the fuzzer makes up.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::json_to_objects::run(data));
