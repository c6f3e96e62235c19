//! Builds `preload/ptrace.rs`, a library of its own, for [`parts`] to carry.
//!
//! [`parts`]: src/parts.rs

use std::env::var_os;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=preload/ptrace.rs");
    let library = PathBuf::from(var_os("OUT_DIR").unwrap_or_default()).join("ptrace.so");
    let is = |name: &str, value: &str| var_os(name).is_some_and(|found| found == value);
    let wanted = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !wanted {
        // User Mode Linux runs on x86 only; and without it there is nothing to
        // preload.
        write_empty(&library);
        return;
    }
    let mut compiler = Command::new(var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort"]);
    compiler.args(["-C", "opt-level=2", "--crate-name", "ptrace", "preload/ptrace.rs", "-o"]);
    compiler.arg(&library);
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
        problem => panic!("can't build preload/ptrace.rs: {problem:?}"),
    }
}

fn write_empty(library: &std::path::Path) {
    if let Err(error) = std::fs::write(library, []) {
        panic!("{}: {error}", library.display());
    }
}
