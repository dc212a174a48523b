//! See `onefold_fuzzing::executor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::executor::run(input));
