//! See `onefold_fuzzing::gen_inputs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| onefold_fuzzing::gen_inputs::run(input));
