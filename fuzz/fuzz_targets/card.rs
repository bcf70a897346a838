//! libFuzzer entry of the target `card`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::card::run(data));
