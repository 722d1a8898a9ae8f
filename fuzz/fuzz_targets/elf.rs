#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| corank_fuzz::program::run(data));
