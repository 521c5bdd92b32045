//! The program that libFuzzer drives: one for all targets, for linking costs more than choosing.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use unwedge_fuzz::{Target, mutate, target};

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("UNWEDGE_FUZZ").unwrap_or_default();
        target(&name).unwrap_or_else(|| panic!("UNWEDGE_FUZZ names no target: {name:?}"))
    })
}

fuzz_target!(|data: &[u8]| (chosen().run)(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    // Half of the time as bytes: what is no JSON must be survived too.
    let structured = if seed % 2 == 0 { mutate::json(&data[..size], max_size, seed) } else { None };
    match structured {
        Some(new) => {
            data[..new.len()].copy_from_slice(&new);
            new.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
