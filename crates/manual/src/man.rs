//! Man pages become the model, by way of mandoc's HTML.

mod html;

use crate::model::{Document, Format, Section};
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::thread;

/// Why a man page can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ManError {
    /// Not installed.
    #[error("mandoc, which reads man pages, isn't installed: apt-get install mandoc")]
    NoMandoc,
    /// The system's word.
    #[error("running mandoc: {0}")]
    Io(io::Error),
    /// Mandoc's word.
    #[error("mandoc: {0}")]
    Refused(String),
}

/// Reads the man page `roff`, which addresses call `name`.
///
/// # Errors
/// See [`ManError`].
pub fn parse(name: &str, roff: &str) -> Result<Document, ManError> {
    Ok(document(name, &run_mandoc(roff)?))
}

/// The page of which mandoc made this HTML.
pub fn document(name: &str, html: &str) -> Document {
    let (head, opening, sections) = html::parse(html);
    let title = head.filter(|head| !head.is_empty()).unwrap_or_else(|| name.to_owned());
    Document {
        name: name.to_owned(),
        title,
        version: None,
        format: Format::Man,
        opening,
        sections: with_ids(sections),
    }
}

fn run_mandoc(roff: &str) -> Result<String, ManError> {
    let mut mandoc = Command::new("mandoc")
        .args(["-T", "html", "-O", "fragment", "-W", "unsupp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ManError::NoMandoc,
            _ => ManError::Io(error),
        })?;
    let mut stdin = mandoc.stdin.take();
    let output = thread::scope(|scope| {
        // Beside reading, as both pipes can be full. It stops reading where it gives up, which
        // its status tells.
        scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(roff.as_bytes())));
        mandoc.wait_with_output()
    });
    let output = output.map_err(ManError::Io)?;
    // Up to 2 are warnings (mandoc(1)).
    if output.status.code().is_none_or(|code| code > 2) {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(ManError::Refused(said.lines().next().unwrap_or("failed").to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Ids of headings, each once.
fn with_ids(mut sections: Vec<Section>) -> Vec<Section> {
    let mut known = std::collections::HashSet::new();
    for section in &mut sections {
        let wanted = match crate::slug::slug(&section.heading()) {
            slug if slug.is_empty() => "section".to_owned(),
            slug => slug,
        };
        let mut id = wanted.clone();
        let mut count = 1;
        while !known.insert(id.clone()) {
            count += 1;
            id = format!("{wanted}-{count}");
        }
        section.id = id;
    }
    sections
}
