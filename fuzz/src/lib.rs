//! What must hold for whatever bytes come in: no panic, spans inside the record, valid output, the laws of the behaviour page.
//!
//! Each target is a function over bytes that panics where something does not hold. They need no fuzzer: `cargo test` here
//! runs them over the inputs that once failed, and `fuzz/run` over what libFuzzer makes of the cases in `testdata/`.

pub mod mutate;

mod cut;
mod input;
mod journal;
mod json;
mod literal;
mod locate;
mod sizes;
mod skim;
mod slow;
mod splices;

/// One target.
pub struct Target {
    /// Its name, as `fuzz/run` takes it.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 8] = [
    Target { name: "json", run: json::run },
    Target { name: "literal", run: literal::run },
    Target { name: "cut", run: cut::run },
    Target { name: "splices", run: splices::run },
    Target { name: "skim", run: skim::run },
    Target { name: "locate", run: locate::run },
    Target { name: "sizes", run: sizes::run },
    Target { name: "journal", run: journal::run },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Inputs that once failed. They lie in `found/<target>/`.
    #[test]
    fn what_was_found_stays_fixed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
        let mut inputs = 0;
        for dir in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
            let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
            let target = super::target(&name).unwrap_or_else(|| panic!("found/{name} belongs to no target"));
            for input in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                println!("{}", input.display());
                (target.run)(&std::fs::read(input).unwrap());
                inputs += 1;
            }
        }
        assert!(inputs > 0);
    }
}
