//! Builds the site from docs/ and packs it: each file separately, so that browsers get the bytes as
//! they are in the program.

use braid_manual::input::{Reading, read};
use braid_manual::site::{Input, Options, build};
use flate2::{Compression, GzBuilder};
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The documents to read first.
const ORDER: [&str; 8] = [
    "README.md",
    "guide",
    "reference",
    "architecture.md",
    "protocol.md",
    "design",
    "measurements",
    "experiments",
];

fn main() -> Result<(), Box<dyn Error>> {
    // Read when it runs: a target folder that several worktrees share may hold another's program.
    let this = env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets CARGO_MANIFEST_DIR")?;
    let docs = Path::new(&this).join("../../../docs").canonicalize()?;
    println!("cargo::rerun-if-changed={}", docs.display());
    let files: Vec<PathBuf> = ORDER.iter().map(|name| docs.join(name)).collect();
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    let inputs: Vec<Input> = read(&files, &Reading { version, ..Reading::default() })?;
    let options = Options { title: "Braid's manual".into(), base_url: None };
    let site = build(&inputs, &options, |_, _| {})?;

    let mut pack = Vec::new();
    let mut table = String::from("&[\n");
    // Programs that want the model as JSON can generate it themselves.
    for (path, content) in site.files.iter().filter(|(path, _)| !path.ends_with(".json")) {
        let begin = pack.len();
        // Without a file name or time: the same docs give the same bytes.
        let mut packer = GzBuilder::new().write(&mut pack, Compression::best());
        packer.write_all(content)?;
        packer.finish()?;
        writeln!(table, "    ({path:?}, {begin}..{}),", pack.len())?;
    }
    table.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("pack"), pack)?;
    fs::write(out.join("table.rs"), table)?;
    Ok(())
}
