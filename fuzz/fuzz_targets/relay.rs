//! libFuzzer entry of the target `relay`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::relay::run(data));
