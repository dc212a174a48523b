//! See `onefold_fuzzing::program_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::program_text::run(input));
