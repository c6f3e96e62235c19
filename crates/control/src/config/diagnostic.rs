use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that is wrong with a config file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file that was read.
    pub file: PathBuf,
    /// Never empty.
    pub errors: Vec<Diagnostic>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line in the file, from 1; 0 when no line can be named.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for ConfigErrors {
    /// One `file:line: what; hint` a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.file.display())?;
            if error.line > 0 {
                write!(f, ":{}", error.line)?;
            }
            write!(f, ": {}", error.what)?;
            if let Some(hint) = &error.hint {
                write!(f, "; {hint}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects diagnostics while the rest of the file is still read, so that one
/// run shows all of them.
pub(super) struct Diagnostics {
    /// Where its lines end: each section asks for its own.
    newlines: Vec<usize>,
    found: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(super) fn new(text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Diagnostics { newlines: newlines.map(|(offset, _)| offset).collect(), found: Vec::new() }
    }

    pub(super) fn add(&mut self, offset: usize, what: impl Into<String>) {
        let line = self.line_at(offset);
        self.found.push(Diagnostic { line, what: what.into(), hint: None });
    }

    pub(super) fn add_with_hint(
        &mut self,
        offset: usize,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let line = self.line_at(offset);
        self.found.push(Diagnostic { line, what: what.into(), hint: Some(hint.into()) });
    }

    pub(super) fn line_at(&self, offset: usize) -> usize {
        1 + self.newlines.partition_point(|newline| *newline < offset)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn into_errors(mut self, file: &Path) -> ConfigErrors {
        self.found.sort_by_key(|diagnostic| diagnostic.line);
        ConfigErrors { file: file.to_owned(), errors: self.found }
    }
}
