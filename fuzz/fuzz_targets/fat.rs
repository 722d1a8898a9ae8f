#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corank_fuzz::volume::run(data));
