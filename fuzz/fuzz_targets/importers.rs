//! See `onefold_fuzzing::importers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::importers::run(input));
