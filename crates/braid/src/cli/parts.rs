//! The parts that this build has, which are cargo features. Commands of a missing part say how to
//! get it.

use super::failure::Failure;
use clap::Args;
use std::ffi::OsString;
use std::sync::LazyLock;

/// The name of each part, and whether it is included.
const PARTS: [(&str, bool); 7] = [
    ("backup", cfg!(feature = "backup")),
    ("bench", cfg!(feature = "bench")),
    ("fleet", cfg!(feature = "fleet")),
    ("lab", cfg!(feature = "lab")),
    ("manual", cfg!(feature = "manual")),
    ("page", cfg!(feature = "page")),
    ("pools", cfg!(feature = "pools")),
];

/// For `braid --version`.
pub fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(version_text);
    &TEXT
}

fn version_text() -> String {
    let named = |there: bool| {
        let parts = PARTS.iter().filter(|(_, is)| *is == there).map(|(name, _)| *name);
        parts.collect::<Vec<_>>().join(" ")
    };
    let mut text = format!(
        "{} ({})\nsystem: {}-{}\nparts: {}",
        env!("CARGO_PKG_VERSION"),
        env!("BRAID_COMMIT"),
        std::env::consts::ARCH,
        if cfg!(target_env = "musl") { "linux-musl" } else { "linux-gnu" },
        named(true),
    );
    let missing = named(false);
    if !missing.is_empty() {
        text.push_str(&format!("\nnot in this build: {missing}"));
    }
    text
}

/// Stands for a command that this build doesn't have, whatever follows it.
#[allow(dead_code, reason = "a build with all parts has no use for it")]
#[derive(Args)]
pub struct Missing {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _given: Vec<OsString>,
}

#[allow(dead_code, reason = "a build with all parts has no use for it")]
impl Missing {
    /// Fails, and says how to get the part.
    pub fn run(&self, part: &str) -> Result<(), Failure> {
        Err(Failure::failed(format!(
            "this build of braid has no {part} (see `braid --version`): \
             on Debian and Ubuntu the package braid has it, or build it by \
             `cargo build --release -p braid`"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_named_once() {
        let text = long_version();
        for (part, there) in PARTS {
            let line = if there { "parts: " } else { "not in this build: " };
            let line = text.lines().find_map(|it| it.strip_prefix(line)).unwrap();
            assert_eq!(line.split(' ').filter(|name| *name == part).count(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_missing_says_where_it_is() {
        let told = Missing { _given: Vec::new() }.run("lab").unwrap_err().to_string();
        assert!(told.contains("no lab") && told.contains("package braid "), "{told}");
    }
}
