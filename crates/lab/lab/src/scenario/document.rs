use super::ScenarioError;
use braid_units::parse_duration;
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a TOML file with its name for errors.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl<'a> Source<'a> {
    /// Parses the text as TOML, without interpreting it.
    pub(crate) fn parse(&self) -> Result<DeTable<'a>, ScenarioError> {
        match DeTable::parse(self.text) {
            Ok(table) => Ok(table.into_inner()),
            Err(error) => {
                let mut found = self.error(error.span().unwrap_or(0..0), "", error.message());
                found.key.clear();
                Err(found)
            }
        }
    }

    /// The whole document as the outermost section.
    pub(crate) fn root<'d>(&'d self, table: &'d DeTable<'a>) -> Section<'d> {
        Section { source: self, table, path: String::new(), span: 0..0, known: RefCell::default() }
    }

    fn error(&self, span: Range<usize>, key: &str, message: impl Into<String>) -> ScenarioError {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        ScenarioError {
            file: self.file.to_owned(),
            line: Some(1 + before.iter().filter(|&&b| b == b'\n').count()),
            key: key.to_owned(),
            message: message.into(),
            hint: None,
        }
    }
}

/// One table of the file. Each key is read by name; [`Section::finish`] then refuses the keys that
/// nobody read.
pub(crate) struct Section<'d> {
    source: &'d Source<'d>,
    table: &'d DeTable<'d>,
    path: String,
    span: Range<usize>,
    known: RefCell<Vec<&'static str>>,
}

/// A value in the file, with its place.
pub(crate) struct Field<'d, T> {
    source: &'d Source<'d>,
    path: String,
    span: Range<usize>,
    pub(crate) value: T,
}

impl<T> Field<'_, T> {
    /// An error that points at this value.
    pub(crate) fn error(&self, message: impl Into<String>) -> ScenarioError {
        self.source.error(self.span.clone(), &self.path, message)
    }
}

impl<'d> Section<'d> {
    /// The table's place, for errors that are only found after it has been read.
    pub(crate) fn place(&self) -> Field<'d, ()> {
        Field { source: self.source, path: self.path.clone(), span: self.span.clone(), value: () }
    }

    /// An error that points at the table as a whole.
    pub(crate) fn error(&self, message: impl Into<String>) -> ScenarioError {
        self.source.error(self.span.clone(), &self.path, message)
    }

    /// Refuses every key that wasn't read.
    pub(crate) fn finish(self) -> Result<(), ScenarioError> {
        let known = self.known.borrow();
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let error =
                self.source.error(key.span(), &join(&self.path, name), "there is no such key");
            return Err(match closest(name, &known) {
                Some(near) => error.hint(format!("did you mean {near:?}?")),
                None => error.hint(format!("the keys here are: {}", known.join(", "))),
            });
        }
        Ok(())
    }

    /// Whether the key exists, whatever its value.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    /// Whether the key's value is a table.
    pub(crate) fn is_table(&self, key: &'static str) -> bool {
        self.value(key).is_some_and(|value| value.get_ref().is_table())
    }

    pub(crate) fn text(
        &self,
        key: &'static str,
    ) -> Result<Option<Field<'d, &'d str>>, ScenarioError> {
        self.map(key, "a text in quotes", |value| value.as_str())
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<Option<Field<'d, bool>>, ScenarioError> {
        self.map(key, "true or false", |value| value.as_bool())
    }

    /// A whole number within `range`.
    pub(crate) fn count(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Field<'d, u64>>, ScenarioError> {
        let Some(field) = self.map(key, "a whole number without quotes", |v| v.as_integer())?
        else {
            return Ok(None);
        };
        let number = u64::from_str_radix(field.value.as_str(), field.value.radix());
        match number {
            Ok(number) if range.contains(&number) => Ok(Some(Field {
                source: field.source,
                path: field.path,
                span: field.span,
                value: number,
            })),
            _ => Err(field.error(format!(
                "{} is not between {} and {}",
                field.value.as_str(),
                range.start(),
                range.end()
            ))),
        }
    }

    /// A quantity with its unit (`"6Mbit"`, `"200KB"`, `"0.5%"`).
    pub(crate) fn quantity<T: FromStr<Err: Display>>(
        &self,
        key: &'static str,
    ) -> Result<Option<Field<'d, T>>, ScenarioError> {
        self.written(key, T::from_str)
    }

    /// A length of time with its unit (`"30ms"`).
    pub(crate) fn duration(
        &self,
        key: &'static str,
    ) -> Result<Option<Field<'d, Duration>>, ScenarioError> {
        self.written(key, parse_duration)
    }

    /// One of the words of `choices`.
    pub(crate) fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<Field<'d, T>>, ScenarioError> {
        let Some(field) = self.text(key)? else { return Ok(None) };
        match choices.iter().find(|(word, _)| *word == field.value) {
            Some((_, value)) => Ok(Some(Field {
                source: field.source,
                path: field.path,
                span: field.span,
                value: *value,
            })),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                Err(field
                    .error(format!("{:?} is not known here", field.value))
                    .hint(format!("write one of: {}", words.join(", "))))
            }
        }
    }

    /// A string or a list of strings.
    pub(crate) fn texts(
        &self,
        key: &'static str,
    ) -> Result<Option<Vec<Field<'d, &'d str>>>, ScenarioError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let path = join(&self.path, key);
        let items: Vec<&'d Spanned<DeValue<'d>>> = match value.get_ref() {
            DeValue::Array(array) => array.iter().collect(),
            _ => vec![value],
        };
        items
            .into_iter()
            .map(|item| match item.get_ref().as_str() {
                Some(text) => Ok(Field {
                    source: self.source,
                    path: path.clone(),
                    span: item.span(),
                    value: text,
                }),
                None => Err(self.wrong_type(item, &path, "a text in quotes")),
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Some)
    }

    /// A table inside this one.
    pub(crate) fn section(&self, key: &'static str) -> Result<Option<Section<'d>>, ScenarioError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        self.as_section(value, join(&self.path, key)).map(Some)
    }

    /// The tables written as `[[key]]`.
    pub(crate) fn sections(&self, key: &'static str) -> Result<Vec<Section<'d>>, ScenarioError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let path = join(&self.path, key);
        let Some(array) = value.get_ref().as_array() else {
            return Err(self
                .wrong_type(value, &path, "a list of tables")
                .hint(format!("write the table's head with two brackets: [[{key}]]")));
        };
        array
            .iter()
            .enumerate()
            .map(|(i, item)| self.as_section(item, format!("{path}[{}]", i + 1)))
            .collect()
    }

    /// The error for a missing required key.
    pub(crate) fn missing(&self, key: &str) -> ScenarioError {
        let mut error = self.error("this key is missing");
        error.key = join(&self.path, key);
        error
    }

    fn as_section(
        &self,
        value: &'d Spanned<DeValue<'d>>,
        path: String,
    ) -> Result<Section<'d>, ScenarioError> {
        match value.get_ref().as_table() {
            Some(table) => Ok(Section {
                source: self.source,
                table,
                path,
                span: value.span(),
                known: RefCell::default(),
            }),
            None => Err(self.wrong_type(value, &path, "a table")),
        }
    }

    /// A value that is a string, or by mistake a bare number, parsed by `parse`.
    fn written<T, E: Display>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<Field<'d, T>>, ScenarioError> {
        let Some(field) = self.as_written(key)? else { return Ok(None) };
        match parse(field.value) {
            Ok(value) => {
                Ok(Some(Field { source: field.source, path: field.path, span: field.span, value }))
            }
            Err(error) => Err(field.error(error.to_string())),
        }
    }

    /// A string, or a bare number as written.
    pub(crate) fn as_written(
        &self,
        key: &'static str,
    ) -> Result<Option<Field<'d, &'d str>>, ScenarioError> {
        self.map(key, "a text in quotes such as \"30ms\"", |value| match value {
            DeValue::String(text) => Some(text.as_ref()),
            DeValue::Integer(number) => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            _ => None,
        })
    }

    fn map<T>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&'d DeValue<'d>) -> Option<T>,
    ) -> Result<Option<Field<'d, T>>, ScenarioError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let path = join(&self.path, key);
        match read(value.get_ref()) {
            Some(read) => {
                Ok(Some(Field { source: self.source, path, span: value.span(), value: read }))
            }
            None => Err(self.wrong_type(value, &path, expected)),
        }
    }

    fn value(&self, key: &'static str) -> Option<&'d Spanned<DeValue<'d>>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn wrong_type(
        &self,
        value: &Spanned<DeValue<'_>>,
        path: &str,
        expected: &str,
    ) -> ScenarioError {
        self.source.error(
            value.span(),
            path,
            format!("expected {expected}, found {}", value.get_ref().type_str()),
        )
    }
}

/// The word of `words` that differs from `word` by at most two edits.
pub(crate) fn closest<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    words
        .iter()
        .map(|candidate| (edit_distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (to, above) in b.iter().zip(row.iter_mut().skip(1)) {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = *above;
            *above = substituted.min(diagonal + 1).min(left + 1);
            left = *above;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
