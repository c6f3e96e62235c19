//! Text that somebody else chose: labels on disks, names of arrays and files. It may be crafted to
//! look like output of Braid, or to control the terminal.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use std::ops::Deref;

/// Such a text. When displayed, it is one line without terminal control characters or anything that
/// changes the reading order; as data (`--json`, [`Deref`]) it is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Untrusted<T = String>(pub T);

impl<T: AsRef<str>> fmt::Display for Untrusted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(self.0.as_ref(), |c| deceives(c) || c == '\\', f)
    }
}

impl Deref for Untrusted {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Untrusted(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Untrusted(text.to_owned())
    }
}

/// Text that may contain untrusted text, as one line: a finding, a table cell.
pub fn one_line(text: &str) -> String {
    written(text, deceives)
}

/// The same for multi-line text: only terminal controls are removed.
pub fn lines(text: &str) -> String {
    written(text, |c| deceives(c) && c != '\n' && c != '\t')
}

/// Control characters (C0, C1, DEL), line and paragraph separators, and the invisible ones that
/// change the reading order or join (Unicode's bidirectional controls, UAX #9; zero-width ones).
pub fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn written(text: &str, special: impl Fn(char) -> bool) -> String {
    if !text.contains(&special) {
        return text.to_owned();
    }
    struct Shown<'a, F>(&'a str, F);
    impl<F: Fn(char) -> bool> fmt::Display for Shown<'_, F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            escaped(self.0, &self.1, f)
        }
    }
    Shown(text, special).to_string()
}

/// As in JSON, so that a JSON text stays valid.
fn escaped(text: &str, special: impl Fn(char) -> bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.chars().try_for_each(|c| match c {
        '\\' if special(c) => f.write_str(r"\\"),
        '\n' if special(c) => f.write_str(r"\n"),
        '\t' if special(c) => f.write_str(r"\t"),
        _ if special(c) => write!(f, "\\u{:04x}", u32::from(c)),
        _ => f.write_char(c),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_label_is_one_line_that_no_terminal_obeys() {
        let evil = Untrusted::from("usb\nDANGER data: gone\n\x1b[2J\u{9b}31m\u{202e}x\\");
        assert_eq!(evil.to_string(), r"usb\nDANGER data: gone\n\u001b[2J\u009b31m\u202ex\\");
        assert_eq!(Untrusted::from("meine Fotos äöü 写真").to_string(), "meine Fotos äöü 写真");
        assert_eq!(
            serde_json::from_str::<Untrusted>(&serde_json::to_string(&evil).unwrap()).unwrap(),
            evil
        );
        assert_eq!(lines("a\n\x1bb\tc"), "a\n\\u001bb\tc");
        assert_eq!(one_line("a\nb"), r"a\nb");
    }

    proptest! {
        #[test]
        fn whatever_it_is_nothing_of_it_deceives_and_no_two_look_the_same(a: String, b: String) {
            let (shown, other) = (Untrusted(a.as_str()).to_string(), Untrusted(b.as_str()).to_string());
            prop_assert!(!shown.contains(deceives));
            prop_assert_eq!(shown == other, a == b);
        }

        /// What is JSON stays the same JSON.
        #[test]
        fn json_stays_what_it_is(text: String) {
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            prop_assert_eq!(serde_json::from_str::<[String; 1]>(&lines(&json)).unwrap(), [text]);
        }
    }
}
