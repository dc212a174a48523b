//! See `onefold_fuzzing::chain_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::chain_file::run(input));
