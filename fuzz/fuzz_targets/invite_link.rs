//! libFuzzer entry of the target `invite_link`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::invite_link::run(data));
