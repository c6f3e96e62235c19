//! UCI's files, as libuci reads them: `config TYPE ['NAME']`, `option KEY VALUE`, `list KEY VALUE`,
//! words bare or quoted, `#` starts a comment. Source:
//! <https://openwrt.org/docs/guide-user/base-system/uci>, "File syntax".

use crate::ConversionError;
use std::fmt::Write;

/// A section, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) options: Vec<Entry>,
    /// Its line number, from 1.
    pub(crate) line: usize,
}

/// An option, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    One(String),
    List(Vec<String>),
}

impl Section {
    /// Sets an option; the last of several applies.
    pub(crate) fn set(&mut self, key: &str, value: String, line: usize) {
        self.options.retain(|entry| entry.key != key);
        self.options.push(Entry { key: key.to_owned(), value: Value::One(value), line });
    }

    /// Adds to a list; an option of this name becomes its first element.
    pub(crate) fn add(&mut self, key: &str, value: String, line: usize) {
        let Some(entry) = self.options.iter_mut().find(|entry| entry.key == key) else {
            let value = Value::List(vec![value]);
            return self.options.push(Entry { key: key.to_owned(), value, line });
        };
        match &mut entry.value {
            Value::List(values) => values.push(value),
            Value::One(first) => {
                entry.value = Value::List(vec![std::mem::take(first), value]);
            }
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<Vec<Section>, ConversionError> {
    let mut sections: Vec<Section> = Vec::new();
    for Statement { line, words } in statements(text)? {
        let wrong = |what: String| Err(ConversionError::new(line, what));
        let mut words = words.into_iter();
        let verb = words.next().unwrap_or_default();
        let (first, second, more) = (words.next(), words.next(), words.next());
        if more.is_some() {
            return wrong(format!("too many words after {verb}"));
        }
        match (verb.as_str(), first, second) {
            ("package", Some(_), None) => {}
            ("config", Some(kind), name) => {
                let named = sections.iter_mut().find(|it| name.is_some() && it.name == name);
                if named.is_some() {
                    return wrong(format!("two sections named {:?}", name.unwrap_or_default()));
                }
                sections.push(Section { kind, name, options: Vec::new(), line });
            }
            ("option" | "list", Some(key), Some(_)) if !is_name(&key) => {
                let what = format!("{key:?} is not the name of an option");
                let hint = "letters, digits and _";
                return Err(ConversionError::new(line, what).with_hint(hint));
            }
            ("option" | "list", Some(key), Some(value)) => {
                let Some(section) = sections.last_mut() else {
                    return wrong(format!("{verb} {key} comes before any config line"));
                };
                match verb.as_str() {
                    "option" => section.set(&key, value, line),
                    _ => section.add(&key, value, line),
                }
            }
            ("option" | "list", key, _) => {
                return wrong(format!("{verb} {} has no value", key.unwrap_or_default()));
            }
            _ => {
                let error = format!("{verb:?} is none of config, option, list");
                return Err(
                    ConversionError::new(line, error).with_hint("quote a value with spaces")
                );
            }
        }
    }
    Ok(sections)
}

/// What libuci accepts as an option's name (`uci_validate_name`).
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// As `uci export` writes it.
pub(crate) fn write(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        if !text.is_empty() {
            text.push('\n');
        }
        let name = section.name.as_ref().map(|name| format!(" {}", quoted(name)));
        let _ = writeln!(text, "config {}{}", section.kind, name.unwrap_or_default());
        for Entry { key, value, .. } in &section.options {
            let (verb, values) = match value {
                Value::One(value) => ("option", std::slice::from_ref(value)),
                Value::List(values) => ("list", values.as_slice()),
            };
            for value in values {
                let _ = writeln!(text, "\t{verb} {key} {}", quoted(value));
            }
        }
    }
    text
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// The words up to the end of a line or `;`.
struct Statement {
    line: usize,
    words: Vec<String>,
}

fn statements(text: &str) -> Result<Vec<Statement>, ConversionError> {
    let mut statements = Vec::new();
    let mut line = 1;
    let mut current = Statement { line, words: Vec::new() };
    // A word that has begun, possibly with empty quotes.
    let mut word: Option<String> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' | ';' => {
                line += usize::from(letter == '\n');
                current.words.extend(word.take());
                let next = Statement { line, words: Vec::new() };
                let ended = std::mem::replace(&mut current, next);
                if !ended.words.is_empty() {
                    statements.push(ended);
                }
            }
            '#' if word.is_none() => while letters.next_if(|it| *it != '\n').is_some() {},
            ' ' | '\t' | '\r' => current.words.extend(word.take()),
            '\'' | '"' => {
                let begun = line;
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' => word.extend(letters.next()),
                        Some(inner) => {
                            line += usize::from(inner == '\n');
                            word.push(inner);
                        }
                        None => {
                            let what = format!("the {letter} that begins here is never closed");
                            return Err(ConversionError::new(begun, what));
                        }
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    current.words.extend(word);
    if !current.words.is_empty() {
        statements.push(current);
    }
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        statements(text).unwrap().into_iter().map(|statement| statement.words).collect()
    }

    #[test]
    fn words_are_those_of_libuci() {
        let text =
            "config  link 'a b'\t# told\n option name \"x\\\"y\"; list l ''\nx it\\'s'in'q#u\n";
        assert_eq!(
            words(text),
            [
                vec!["config", "link", "a b"],
                vec!["option", "name", "x\"y"],
                vec!["list", "l", ""],
                vec!["x", "it'sinq#u"],
            ]
        );
    }

    /// In UCI it would be a separate line.
    #[test]
    fn a_name_is_no_more_than_a_name() {
        for name in ["", "a\n[peer]", "a b", "a-b", "\u{1b}x", "ä"] {
            let error = parse(&format!("config link\n\toption '{name}' x\n")).unwrap_err();
            assert_eq!((error.line, error.hint.as_deref()), (2, Some("letters, digits and _")));
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, says) in [
            ("\n\noption a b", 3, "before any config"),
            ("config a\n\toption b", 2, "option b has no value"),
            ("config a\n\toption b c d", 2, "too many words"),
            ("config a\nfoo b", 2, "none of config, option, list"),
            ("config a\n\toption b 'c\n\n", 2, "never closed"),
            ("config a 'n'\nconfig b 'n'", 2, "two sections"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn the_last_option_counts_and_lists_grow() {
        let text =
            "config a\n option x 1\n option x 2\n list y 1\n list y 2\n option z 1\n list z 2\n";
        let section = &parse(text).unwrap()[0];
        let list = |values: [&str; 2]| Value::List(values.map(str::to_owned).to_vec());
        let values: Vec<_> = section.options.iter().map(|entry| &entry.value).collect();
        assert_eq!(values, [&Value::One("2".into()), &list(["1", "2"]), &list(["1", "2"])]);
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value in "(?s).{0,40}", name in "[a-z]{1,5}") {
            let mut section = Section { kind: "link".into(), name: Some(name), ..Section::default() };
            section.set("one", value.clone(), 2);
            section.add("many", value.clone(), 3);
            section.add("many", value, 4);
            let mut again = parse(&write(std::slice::from_ref(&section))).unwrap().remove(0);
            for (entry, was) in again.options.iter_mut().zip(&section.options) {
                entry.line = was.line;
            }
            again.line = 0;
            prop_assert_eq!(again, section);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(?s)[config lsto'\"\\\\\n#;x]{0,80}") {
            let _ = parse(&text);
        }
    }
}
