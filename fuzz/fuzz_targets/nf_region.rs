//! See `onefold_fuzzing::nf_region`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::nf_region::run(input));
