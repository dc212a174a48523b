//! See `onefold_fuzzing::ip6filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::ip6filter::run(input));
