//! See `onefold_fuzzing::payload_filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::payload_filter::run(input));
