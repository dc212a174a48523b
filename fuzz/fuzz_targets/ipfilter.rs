//! See `onefold_fuzzing::ipfilter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::ipfilter::run(input));
