//! libFuzzer entry of the target `envelope`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::envelope::run(data));
