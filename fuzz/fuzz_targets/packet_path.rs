//! See `onefold_fuzzing::packet_path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::packet_path::run(input));
