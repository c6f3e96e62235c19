//! Builds the libraries in `preload/`, each separately, for [`parts`] to include.
//!
//! [`parts`]: src/parts.rs

use std::env::var_os;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let is = |name: &str, value: &str| var_os(name).is_some_and(|found| found == value);
    let wanted = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    for name in ["ptrace", "clock", "record"] {
        let source = format!("preload/{name}.rs");
        println!("cargo::rerun-if-changed={source}");
        let library =
            PathBuf::from(var_os("OUT_DIR").unwrap_or_default()).join(format!("{name}.so"));
        if wanted {
            build(name, &source, &library);
        } else {
            // User Mode Linux only runs on x86; without it there is nothing to preload.
            write_empty(&library);
        }
    }
}

fn build(name: &str, source: &str, library: &Path) {
    let mut compiler = Command::new(var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort"]);
    compiler.args(["-C", "opt-level=2", "--crate-name", name, source, "-o"]);
    compiler.arg(library);
    if let Some(target) = var_os("TARGET") {
        compiler.arg("--target").arg(target);
    }
    if let Some(linker) = var_os("RUSTC_LINKER") {
        compiler.arg("-C").arg({
            let mut option = std::ffi::OsString::from("linker=");
            option.push(linker);
            option
        });
    }
    match compiler.status() {
        Ok(status) if status.success() => {}
        problem => panic!("can't build {source}: {problem:?}"),
    }
}

fn write_empty(library: &Path) {
    if let Err(error) = std::fs::write(library, []) {
        panic!("{}: {error}", library.display());
    }
}
