//! See `onefold_fuzzing::click_parser`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::click_parser::run(input));
