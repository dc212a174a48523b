//! See `onefold_fuzzing::capture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::capture::run(input));
