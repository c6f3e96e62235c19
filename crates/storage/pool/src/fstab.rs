//! fstab(5): what is mounted where at boot.

/// A line for a filesystem or swap area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Line number in the file, from 1.
    pub line: usize,
    /// `UUID=…`, a device, …
    pub what: String,
    /// Where; `none` for swap.
    pub at: String,
    /// The same as written in the file: a blank is `\040`.
    pub at_as_written: &'a str,
    /// The filesystem's kind.
    pub kind: String,
    /// Between commas.
    pub options: String,
}

impl Entry<'_> {
    /// Whether it has this option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|each| each == option)
    }
}

/// The entries in the text; comments and invalid lines are skipped.
pub fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let mut words = line.split_ascii_whitespace();
        let what = words.next().filter(|what| !what.starts_with('#'))?;
        let at = words.next()?;
        Some(Entry {
            line: index + 1,
            what: decoded(what),
            at: decoded(at),
            at_as_written: at,
            kind: decoded(words.next().unwrap_or("auto")),
            options: decoded(words.next().unwrap_or("defaults")),
        })
    })
}

/// A field of fstab or of the kernel's tables of mounts: blanks and backslashes in it are written
/// as a backslash and three octal digits (proc(5), fstab(5)).
pub fn decoded(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match (first, after.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A field as written in fstab: its spaces are octal.
pub fn encoded(field: &str) -> String {
    field.replace('\\', "\\134").replace(' ', "\\040")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_backslashes_are_octal_numbers() {
        assert_eq!(decoded(r"/mnt/my\040disk\134x"), r"/mnt/my disk\x");
        // Broken ones stay as they are.
        assert_eq!(decoded(r"/mnt/\04"), r"/mnt/\04");
        assert_eq!(decoded(r"a\999b\134"), r"a\999b\");
        assert_eq!(encoded(r"/srv/my \disk"), r"/srv/my\040\134disk");
        assert_eq!(decoded(&encoded(r"a \040 b")), r"a \040 b");
    }

    #[test]
    fn lines_are_numbered_and_comments_passed_over() {
        let text = "# one\n\nLABEL=my\\040disk\t/srv/my\\040disk  ext4 ro,noatime 0 2\nonly-what\n\
                    UUID=1 /srv xfs\n";
        let all: Vec<Entry> = entries(text).collect();
        assert_eq!(all.len(), 2);
        let first = &all[0];
        assert_eq!((first.line, first.what.as_str()), (3, "LABEL=my disk"));
        assert_eq!((first.at.as_str(), first.at_as_written), ("/srv/my disk", r"/srv/my\040disk"));
        assert!(first.has("noatime") && !first.has("no"));
        assert_eq!((all[1].line, all[1].options.as_str()), (5, "defaults"));
    }
}
