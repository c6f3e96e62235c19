//! Files as they are given: plain or gzip, text, Markdown or man page, told by looking.

use crate::model::Format;
use crate::site::Input;
use crate::{man, markdown, text};
use flate2::read::MultiGzDecoder;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A manual isn't larger, also unpacked: a small file can unpack to any size.
const LARGEST: u64 = 64 << 20;

/// How files are to be read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Instead of what looking at each file tells.
    pub format: Option<Format>,
    /// Instead of what each manual says itself.
    pub version: Option<String>,
}

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system's word.
    #[error("{path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// Too large.
    #[error("{0}: larger than {LARGEST} bytes when unpacked; no manual is")]
    TooLarge(PathBuf),
    /// A man page needs mandoc.
    #[error("{path}: {error}")]
    Man {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        error: man::ManError,
    },
    /// A folder without a manual.
    #[error("{0}: no file in this folder ends with .md, .txt or .1 to .9, plain or .gz")]
    Nothing(PathBuf),
}

/// The manuals in `files`; of a folder all in it and below, with its name before theirs.
///
/// # Errors
/// See [`InputError`]; the first file that can't be read.
pub fn read(files: &[PathBuf], reading: &Reading) -> Result<Vec<Input>, InputError> {
    let mut inputs = Vec::new();
    for file in files {
        if !file.is_dir() {
            let name = name_of(Path::new(file.file_name().unwrap_or(file.as_os_str())));
            inputs.push(read_file(file, name, reading)?);
            continue;
        }
        let mut found = Vec::new();
        manuals_below(file, &mut found)?;
        if found.is_empty() {
            return Err(InputError::Nothing(file.clone()));
        }
        found.sort();
        let own = file.file_name().map(PathBuf::from).unwrap_or_default();
        for path in found {
            let name = name_of(&own.join(path.strip_prefix(file).unwrap_or(&path)));
            inputs.push(read_file(&path, name, reading)?);
        }
    }
    Ok(inputs)
}

fn read_file(path: &Path, name: String, reading: &Reading) -> Result<Input, InputError> {
    let io = |error| InputError::Io { path: path.to_owned(), error };
    let bytes = fs::read(path).map_err(io)?;
    let mut unpacked = Vec::new();
    let mut limited: Box<dyn Read + '_> = match bytes.starts_with(&GZIP) {
        true => Box::new(MultiGzDecoder::new(bytes.as_slice()).take(LARGEST + 1)),
        false => Box::new(bytes.as_slice().take(LARGEST + 1)),
    };
    limited.read_to_end(&mut unpacked).map_err(io)?;
    if unpacked.len() as u64 > LARGEST {
        return Err(InputError::TooLarge(path.to_owned()));
    }
    let text = decode(&unpacked);
    let format = reading.format.unwrap_or_else(|| format_of(path, &text));
    let mut document = match format {
        Format::Text => text::parse(&name, &text),
        Format::Markdown => markdown::parse(&name, &text),
        Format::Man => man::parse(&name, &text)
            .map_err(|error| InputError::Man { path: path.to_owned(), error })?,
    };
    if reading.version.is_some() {
        document.version.clone_from(&reading.version);
    }
    Ok(Input { document, file: path.to_owned() })
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// UTF-8, or else Latin-1, as old manuals are; characters that no HTML can have are replaced.
fn decode(bytes: &[u8]) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|b| char::from(*b)).collect(),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r' | '\u{c}');
    text.chars().map(|c| if allowed(c) { c } else { '\u{fffd}' }).collect()
}

/// What a manual is written in, by its name's ending and its first lines.
#[must_use]
pub fn format_of(path: &Path, text: &str) -> Format {
    let plain = path.with_extension("");
    let unpacked = if ending(path) == "gz" { plain.as_path() } else { path };
    let roff = text.lines().take(100).any(|line| {
        let request = line.get(..3).unwrap_or_default();
        matches!(request, ".TH" | ".Dd")
    });
    match ending(unpacked).as_str() {
        "md" | "markdown" => Format::Markdown,
        _ if roff => Format::Man,
        "txt" => Format::Text,
        _ if text::is_numbered(text) => Format::Text,
        _ if text.lines().any(|line| line.starts_with("# ") || line.starts_with("```")) => {
            Format::Markdown
        }
        _ => Format::Text,
    }
}

fn ending(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// `guide/home` of `guide/home.md.gz`.
fn name_of(path: &Path) -> String {
    let mut path = path.to_owned();
    for _ in 0..2 {
        if ENDINGS.contains(&ending(&path).as_str()) {
            path.set_extension("");
        }
    }
    let parts = path.iter().map(|part| crate::slug::slug(&part.to_string_lossy()));
    let name = parts.filter(|part| part.chars().any(|c| c != '.')).collect::<Vec<_>>().join("/");
    if name.is_empty() { "manual".into() } else { name }
}

const ENDINGS: [&str; 4] = ["gz", "txt", "md", "markdown"];

fn manuals_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), InputError> {
    let io = |error| InputError::Io { path: folder.to_owned(), error };
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(io)?);
        if kind.is_dir() {
            manuals_below(&path, found)?;
        } else if is_manual(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_manual(path: &Path) -> bool {
    let plain = path.with_extension("");
    let unpacked = if ending(path) == "gz" { plain.as_path() } else { path };
    let ending = ending(unpacked);
    let man = ending.len() == 1 && ending.bytes().all(|b| (b'1'..=b'9').contains(&b));
    man || matches!(ending.as_str(), "md" | "markdown" | "txt")
}
