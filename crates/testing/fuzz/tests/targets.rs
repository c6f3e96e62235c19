//! Every target survives its seeds and a bounded number of mutated ones.

use braid_fuzz::{Failure, Fuzzer, TARGETS, Target, seeds, seeds_folder};

/// The run's seed; `BRAID_FUZZ_SEED` sets another.
fn seed() -> u64 {
    std::env::var("BRAID_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn survives(name: &str, count: u64) {
    let target = Target::named(name).unwrap();
    let seeds = seeds(&seeds_folder(&target)).unwrap();
    if let Err(failure) = Fuzzer::new(target, seeds, seed()).run_count(count) {
        panic!("{name}, seed {}: {}\ninput: {:02x?}", seed(), failure.message, failure.input);
    }
}

#[test]
fn wire() {
    survives("wire", 100_000);
}

#[test]
fn framing() {
    survives("framing", 10_000);
}

#[test]
fn handshake() {
    survives("handshake", 1_500);
}

#[test]
fn config() {
    survives("config", 6_000);
}

#[test]
fn join_line() {
    survives("join_line", 3_000);
}

#[test]
fn enrolled() {
    survives("enrolled", 10_000);
}

#[test]
fn send_stream() {
    survives("send_stream", 10_000);
}

#[test]
fn replica_frame() {
    survives("replica_frame", 10_000);
}

#[test]
fn superblock() {
    survives("superblock", 10_000);
}

#[test]
fn manual() {
    survives("manual", 1_500);
}

#[test]
fn scenario() {
    survives("scenario", 6_000);
}

#[test]
fn trace() {
    survives("trace", 20_000);
}

#[test]
fn inner() {
    survives("inner", 30_000);
}

#[test]
fn tunnel() {
    survives("tunnel", 300);
}

#[test]
fn history() {
    survives("history", 300);
}

#[test]
fn link_change() {
    survives("link_change", 3_000);
}

#[test]
fn page() {
    survives("page", 3_000);
}

#[test]
fn portal() {
    survives("portal", 10_000);
}

#[test]
fn proxy_header() {
    survives("proxy_header", 30_000);
}

#[test]
fn tool_output() {
    survives("tool_output", 6_000);
}

#[test]
fn names() {
    survives("names", 8_000);
}

#[test]
fn words() {
    survives("words", 20_000);
}

#[test]
fn luks() {
    survives("luks", 5_000);
}

#[test]
fn neighbour() {
    survives("neighbour", 50_000);
}

#[test]
fn registry() {
    survives("registry", 10_000);
}

#[test]
fn uci() {
    survives("uci", 10_000);
}

#[test]
fn web() {
    survives("web", 20_000);
}

/// A target that isn't tested here would be forgotten.
#[test]
fn every_target_is_tested_and_has_a_libfuzzer_program() {
    let source = include_str!("targets.rs");
    let manifest = include_str!("../../../../fuzz/Cargo.toml");
    for target in TARGETS {
        assert!(source.contains(&format!("survives(\"{}\"", target.name)), "{}", target.name);
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}

#[test]
fn a_failure_is_found_and_made_short() {
    fn dislikes_zz(data: &[u8]) {
        assert!(!data.windows(2).any(|pair| pair == b"zz"), "it has zz");
    }
    let target = Target { name: "zz", run: dislikes_zz, max_len: 100 };
    let mut fuzzer = Fuzzer::new(target, vec![b"some fuzzy text".to_vec()], 1);
    let failure = fuzzer.run_count(10).unwrap_err();
    assert_eq!(failure, Failure { input: b"zz".to_vec(), message: "it has zz".to_owned() });
}
