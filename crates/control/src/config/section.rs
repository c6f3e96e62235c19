use super::diagnostic::Diagnostics;
use super::suggest::closest;
use braid_units::parse_duration;
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A section's values with their places in the file, for checks across sections.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) places: Places,
}

/// Byte offsets of a section's keys and of the elements of its lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub(super) section: usize,
    keys: Vec<(&'static str, usize, usize)>,
}

impl Places {
    /// Where the key's value is, if the file has this key.
    pub(super) fn key(&self, key: &str) -> Option<usize> {
        self.keys.iter().find(|(name, ..)| *name == key).map(|(.., offset)| *offset)
    }

    /// The offset of a list's element; otherwise of the list; otherwise of the section.
    pub(super) fn element(&self, key: &str, index: usize) -> usize {
        let element = self.keys.iter().rev().find(|(name, i, _)| *name == key && *i == index);
        element.map(|(.., offset)| *offset).or(self.key(key)).unwrap_or(self.section)
    }
}

/// A value and where it was written.
struct At<T> {
    value: T,
    offset: usize,
}

/// A TOML table whose keys are taken out one by one; keys left at the end are unknown. Errors are
/// collected while reading continues.
pub(super) struct Section<'t, 'd> {
    /// `interface`, `link`, `link.quota`: for messages.
    name: String,
    offset: usize,
    table: DeTable<'t>,
    known: Vec<&'static str>,
    places: Vec<(&'static str, usize, usize)>,
    diagnostics: &'d RefCell<Diagnostics>,
}

impl<'t, 'd> Section<'t, 'd> {
    pub(super) fn new(
        name: &str,
        table: Spanned<DeTable<'t>>,
        diagnostics: &'d RefCell<Diagnostics>,
    ) -> Self {
        let offset = table.span().start;
        Section {
            name: name.to_owned(),
            offset,
            table: table.into_inner(),
            known: Vec::new(),
            places: Vec::new(),
            diagnostics,
        }
    }

    /// A string that `T` can be parsed from.
    pub(super) fn parsed<T>(&mut self, key: &'static str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        self.parsed_by(key, |text| text.parse::<T>().map_err(|error| error.to_string()))
    }

    /// A string that `parse` takes.
    pub(super) fn parsed_by<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (offset, value) = self.take(key)?;
        self.parse_value(key, offset, value, &parse).map(|at| at.value)
    }

    /// A length of time with its unit (`"15s"`).
    pub(super) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.parsed_by(key, |text| parse_duration(text).map_err(|error| error.to_string()))
    }

    /// A list of strings that `T` can be parsed from. A single string is a list
    /// of one. Bad elements are reported and left out.
    pub(super) fn list<T>(&mut self, key: &'static str) -> Option<Vec<T>>
    where
        T: FromStr<Err: Display>,
    {
        self.list_by(key, |text| text.parse::<T>().map_err(|error| error.to_string()))
    }

    /// A list of strings that `parse` accepts, as [`Section::list`].
    pub(super) fn list_by<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let (offset, value) = self.take(key)?;
        let elements = match value {
            DeValue::Array(array) => array.into_iter().collect(),
            other => vec![Spanned::new(offset..offset, other)],
        };
        let mut values = Vec::new();
        for element in elements {
            let offset = element.span().start;
            if let Some(at) = self.parse_value(key, offset, element.into_inner(), &parse) {
                self.places.push((key, values.len(), at.offset));
                values.push(at.value);
            }
        }
        Some(values)
    }

    /// A whole number in `range`.
    pub(super) fn integer<T>(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Option<T>
    where
        T: TryFrom<i64>,
    {
        let (offset, value) = self.take(key)?;
        let DeValue::Integer(integer) = &value else {
            self.wrong_type(key, offset, "a whole number", &value);
            return None;
        };
        let number = i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix());
        let fitting = number.ok().filter(|number| range.contains(number));
        match fitting.and_then(|number| T::try_from(number).ok()) {
            Some(value) => Some(value),
            None => {
                let (low, high) = (range.start(), range.end());
                let what = format!("{} must be {low} to {high}, not {integer}", self.path(key));
                self.diagnostics.borrow_mut().add(offset, what);
                None
            }
        }
    }

    /// A whole number, or this word instead, which gives `None`.
    pub(super) fn integer_or_word<T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
        word: &str,
    ) -> Option<Option<T>>
    where
        T: TryFrom<i64>,
    {
        match self.table.get(key).map(|value| value.get_ref()) {
            Some(DeValue::Integer(_)) | None => self.integer(key, range).map(Some),
            Some(DeValue::String(text)) if text == word => self.take(key).map(|_| None),
            Some(_) => {
                let (offset, value) = self.take(key)?;
                self.wrong_type(key, offset, &format!("a whole number or \"{word}\""), &value);
                None
            }
        }
    }

    /// A number that is finite and not negative.
    pub(super) fn number(&mut self, key: &'static str) -> Option<f64> {
        let (offset, value) = self.take(key)?;
        let text = match &value {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            other => {
                self.wrong_type(key, offset, "a number", other);
                return None;
            }
        };
        match text.replace('_', "").parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Some(value),
            _ => {
                let what = format!("{} must be 0 or more, not {text}", self.path(key));
                self.diagnostics.borrow_mut().add(offset, what);
                None
            }
        }
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let (offset, value) = self.take(key)?;
        if let DeValue::Boolean(value) = value {
            return Some(value);
        }
        self.wrong_type(key, offset, "true or false", &value);
        None
    }

    /// A sub-table.
    pub(super) fn table(&mut self, key: &'static str) -> Option<Section<'t, 'd>> {
        let (offset, value) = self.take(key)?;
        let name = self.path(key);
        self.as_section(name, offset, value)
    }

    /// An array of tables (`[[key]]` or `key = [{…}]`); absent is empty.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<Section<'t, 'd>> {
        let Some((offset, value)) = self.take(key) else {
            return Vec::new();
        };
        let name = self.path(key);
        match value {
            DeValue::Array(array) => array
                .into_iter()
                .filter_map(|element| {
                    let offset = element.span().start;
                    self.as_section(name.clone(), offset, element.into_inner())
                })
                .collect(),
            other => {
                let found = describe(&other);
                self.diagnostics.borrow_mut().add_with_hint(
                    offset,
                    format!("{name} must be a list of tables, not {found}"),
                    format!("write [[{name}]]"),
                );
                Vec::new()
            }
        }
    }

    /// The line that it begins in, from 1.
    pub(super) fn line(&self) -> usize {
        self.diagnostics.borrow().line_at(self.offset)
    }

    /// The line that names `key`, from 1; else that of the section.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let place = self.places.iter().find(|(name, ..)| *name == key);
        self.diagnostics.borrow().line_at(place.map_or(self.offset, |(.., offset)| *offset))
    }

    /// Whether the file has this key, readable or not; once it was asked for.
    pub(super) fn has(&self, key: &str) -> bool {
        self.places.iter().any(|(name, ..)| *name == key)
    }

    /// Leaves `key` to another reader of the same file.
    pub(super) fn leave(&mut self, key: &'static str) {
        self.known.push(key);
        self.table.remove(key);
    }

    /// Reports that a required `key` is missing, unless it exists but is unreadable.
    pub(super) fn missing(&self, key: &str, hint: &str) {
        if self.has(key) {
            return;
        }
        let what = match self.name.as_str() {
            "" => format!("{key} is missing"),
            name => format!("[{name}] lacks {key}"),
        };
        self.diagnostics.borrow_mut().add_with_hint(self.offset, what, hint);
    }

    /// Reports what is wrong with `key`, or with the section when it has no such key.
    pub(super) fn wrong(&self, key: &str, what: impl Into<String>, hint: impl Into<String>) {
        let place = self.places.iter().find(|(name, ..)| *name == key);
        let offset = place.map_or(self.offset, |(.., offset)| *offset);
        self.diagnostics.borrow_mut().add_with_hint(offset, what, hint);
    }

    /// Reports `key`, which applies only `with` something else.
    pub(super) fn only_with(&mut self, key: &'static str, with: &str) {
        let Some(value) = self.table.remove(key) else { return };
        let what = format!("{} applies only with {with}", self.path(key));
        let hint = "remove it; settings of the kernel's engines are in [engine]";
        self.diagnostics.borrow_mut().add_with_hint(value.span().start, what, hint);
    }

    /// Reports every key that wasn't read; returns the places of the others.
    pub(super) fn finish(self) -> Places {
        for key in self.table.keys() {
            let word: &str = key.get_ref();
            let shown: String = word.chars().take(64).collect();
            let what = match self.name.as_str() {
                "" => format!("unknown section {shown:?}"),
                name => format!("unknown key {shown:?} in [{name}]"),
            };
            let hint = match closest(word, self.known.iter().copied()) {
                Some(close) => format!("did you mean {close:?}?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            self.diagnostics.borrow_mut().add_with_hint(key.span().start, what, hint);
        }
        Places { section: self.offset, keys: self.places }
    }

    fn take(&mut self, key: &'static str) -> Option<(usize, DeValue<'t>)> {
        self.known.push(key);
        let value = self.table.remove(key)?;
        let offset = value.span().start;
        self.places.push((key, 0, offset));
        Some((offset, value.into_inner()))
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn as_section(
        &self,
        name: String,
        offset: usize,
        value: DeValue<'t>,
    ) -> Option<Section<'t, 'd>> {
        if let DeValue::Table(table) = value {
            let table = Spanned::new(offset..offset, table);
            return Some(Section::new(&name, table, self.diagnostics));
        }
        let what = format!("{name} must be a table, not {}", describe(&value));
        self.diagnostics.borrow_mut().add(offset, what);
        None
    }

    fn parse_value<T>(
        &self,
        key: &str,
        offset: usize,
        value: DeValue<'t>,
        parse: &impl Fn(&str) -> Result<T, String>,
    ) -> Option<At<T>> {
        let DeValue::String(text) = &value else {
            self.wrong_type(key, offset, "a string in quotes", &value);
            return None;
        };
        match parse(text) {
            Ok(value) => Some(At { value, offset }),
            Err(error) => {
                let what = format!("{}: {error}", self.path(key));
                self.diagnostics.borrow_mut().add(offset, what);
                None
            }
        }
    }

    fn wrong_type(&self, key: &str, offset: usize, expected: &str, found: &DeValue<'_>) {
        let what = format!("{} must be {expected}, not {}", self.path(key), describe(found));
        self.diagnostics.borrow_mut().add(offset, what);
    }
}

fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
