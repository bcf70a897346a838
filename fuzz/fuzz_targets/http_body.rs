//! libFuzzer entry of the target `http_body`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muretai_fuzz::targets::http_body::run(data));
