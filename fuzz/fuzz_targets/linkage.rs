//! libFuzzer entry of the target `linkage`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::linkage::run(data));
