//! libFuzzer entry of the target `introduction`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::introduction::run(data));
