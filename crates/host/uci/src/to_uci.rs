//! TOML to UCI.

use crate::ConversionError;
use crate::file::{self, Section};
use crate::keys::{self, EMPTY, Kind, kind_of};
use toml_edit::{Document, Item, TableLike, Value};

/// The config in UCI. Comments are dropped, and so are empty lists without a meaning.
///
/// # Errors
///
/// The text isn't TOML, or contains something that UCI can't express; with its line.
pub fn to_uci(toml: &str) -> Result<String, ConversionError> {
    let line_at = |offset: usize| toml[..offset.min(toml.len())].matches('\n').count() + 1;
    let document = Document::parse(toml).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(span.start));
        ConversionError::new(line, format!("not TOML: {}", error.message()))
    })?;
    let mut writer = Writer { sections: Vec::new(), line_at: &line_at };
    for (name, item) in document.iter() {
        writer.outer(name, item)?;
    }
    Ok(file::write(&writer.sections))
}

struct Writer<'a> {
    sections: Vec<Section>,
    line_at: &'a dyn Fn(usize) -> usize,
}

impl Writer<'_> {
    fn outer(&mut self, name: &str, item: &Item) -> Result<(), ConversionError> {
        if keys::SINGLE.contains(&name) {
            let Some(table) = item.as_table_like() else {
                return self.none(item, format!("{name} is not a table"));
            };
            return self.section(name, Some(name), name, table);
        }
        if keys::MANY.contains(&name) {
            return self.many(name, name, item);
        }
        self.none(item, format!("unknown section {name}"))
    }

    /// `[[kind]]`, or a list of tables in braces.
    fn many(&mut self, kind: &str, path: &str, item: &Item) -> Result<(), ConversionError> {
        if let Some(tables) = item.as_array_of_tables() {
            return tables.iter().try_for_each(|table| self.section(kind, None, path, table));
        }
        let Some(array) = item.as_array() else {
            return self.none(item, format!("{path} is not a list of tables"));
        };
        for value in array {
            match value.as_inline_table() {
                Some(table) => self.section(kind, None, path, table)?,
                None => return self.none(item, format!("{path} is not a list of tables")),
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        kind: &str,
        name: Option<&str>,
        path: &str,
        table: &dyn TableLike,
    ) -> Result<(), ConversionError> {
        let name = name.map(str::to_owned);
        let at = self.sections.len();
        self.sections.push(Section { kind: kind.to_owned(), name, ..Section::default() });
        for (key, item) in table.iter() {
            if keys::INNER_MANY.contains(&(path, key)) {
                self.many(key, &format!("{path}.{key}"), item)?;
            } else if keys::INNER.contains(&(path, key)) {
                let Some(inner) = item.as_table_like() else {
                    return self.none(item, format!("{path}.{key} is not a table"));
                };
                if inner.is_empty() {
                    self.sections[at].set(key, "1".into(), 0);
                }
                for (inner_key, item) in inner.iter() {
                    let option = format!("{key}_{inner_key}");
                    self.entry(at, &format!("{path}.{key}"), inner_key, &option, item)?;
                }
            } else {
                self.entry(at, path, key, key, item)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        at: usize,
        path: &str,
        key: &str,
        option: &str,
        item: &Item,
    ) -> Result<(), ConversionError> {
        if key.is_empty() || !file::is_name(option) {
            return self.none(item, format!("UCI has no key {option:?}"));
        }
        if let Some(array) = item.as_array() {
            if array.is_empty() && keys::MAY_BE_EMPTY.contains(&(path, key)) {
                self.sections[at].set(option, EMPTY.into(), 0);
            }
            for value in array {
                match value.as_str() {
                    Some(text) => self.sections[at].add(option, text.to_owned(), 0),
                    None => {
                        return self.none(item, format!("{path}.{key} has values other than text"));
                    }
                }
            }
            return Ok(());
        }
        let expected = kind_of(path, key);
        let text = match (item.as_value(), expected) {
            (Some(Value::String(text)), Kind::Text | Kind::NumberOrWord) => text.value().clone(),
            (Some(Value::Boolean(flag)), Kind::Boolean) => {
                if *flag.value() { "1" } else { "0" }.to_owned()
            }
            (Some(Value::Integer(number)), Kind::Number | Kind::NumberOrWord) => {
                number.value().to_string()
            }
            (Some(Value::Float(number)), Kind::Number) if number.value().is_finite() => {
                // Turns a negative zero into zero.
                (number.value() + 0.0).to_string()
            }
            _ => {
                let wanted = match expected {
                    Kind::Text => "text",
                    Kind::Boolean => "true or false",
                    Kind::Number => "a number",
                    Kind::NumberOrWord => "a number or a word",
                };
                return self.none(item, format!("{path}.{key} isn't {wanted}"));
            }
        };
        self.sections[at].set(option, text, 0);
        Ok(())
    }

    /// The error that something can't be expressed in UCI.
    fn none<T>(&self, item: &Item, what: String) -> Result<T, ConversionError> {
        let offset = item.span().map_or(0, |span| span.start);
        let error = ConversionError::new((self.line_at)(offset), what);
        Err(error.with_hint("`braid config check` says what is wrong"))
    }
}
