//! libFuzzer entry of the target `did`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::did::run(data));
