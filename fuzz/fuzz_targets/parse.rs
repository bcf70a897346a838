//! libFuzzer entry of the target `parse`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::parse::run(data));
