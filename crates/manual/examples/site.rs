//! Makes a site with the library alone, and says how long each step takes:
//! `cargo run --release -p braid-manual --example site -- FILE… DIR`

use braid_manual::input::{Reading, read};
use braid_manual::site::{Options, build};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let folder = files.pop().filter(|_| !files.is_empty()).ok_or("usage: site FILE… DIR")?;
    let begun = Instant::now();
    let inputs = read(&files, &Reading::default())?;
    println!("read    {:?}", begun.elapsed());
    let begun = Instant::now();
    let options = Options { title: inputs[0].document.title.clone(), base_url: None };
    let site = build(&inputs, &options, |_, _| {})?;
    println!("built   {:?}, {} pages", begun.elapsed(), site.summary.pages);
    let begun = Instant::now();
    site.write(Path::new(&folder))?;
    println!(
        "written {:?}, {} files, {} bytes",
        begun.elapsed(),
        site.files.len(),
        site.summary.bytes
    );
    Ok(())
}
