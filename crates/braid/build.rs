//! Says to `braid --version` which commit it is of.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=BRAID_COMMIT");
    println!("cargo::rustc-env=BRAID_COMMIT={}", commit());
    pack_relocations();
    need_no_relocations();
}

/// Some 280 kB less of a static program: DT_RELR, which musl's start code reads since 1.2.4.
fn pack_relocations() {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|it| it == value);
    if is("CARGO_CFG_TARGET_ENV", "musl") && is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// In a debug build 250,000 words are relocated at each start, on half of all pages that a short
/// command touches: in a machine of the tests 0.1 s. One that is linked for a place of its own has
/// none; a release is loaded anywhere.
fn need_no_relocations() {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|it| it == value);
    let is_x86_linux = is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_OS", "linux");
    if is("PROFILE", "debug") && is_x86_linux && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// As the packager says; else what git does. Debug builds aren't asked for it: each commit would
/// build all of it anew.
fn commit() -> String {
    if let Ok(given) = std::env::var("BRAID_COMMIT") {
        return given;
    }
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::rerun-if-changed=build.rs");
        return "debug build".to_owned();
    }
    for file in ["HEAD", "logs/HEAD"] {
        println!("cargo::rerun-if-changed=../../.git/{file}");
    }
    let asked = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let told = asked.ok().filter(|told| told.status.success());
    let commit = told.and_then(|told| String::from_utf8(told.stdout).ok());
    commit.map_or_else(|| "unknown commit".to_owned(), |it| format!("commit {}", it.trim()))
}
