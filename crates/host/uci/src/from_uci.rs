//! UCI to TOML.

use crate::ConversionError;
use crate::file::{self, Entry, Section, Value};
use crate::keys::{self, EMPTY, Kind, kind_of};
use std::fmt::Write;
use toml_edit::{Array, InlineTable};

/// The config in TOML. Unknown keys are kept as they are: the config's reader reports them.
///
/// # Errors
///
/// The text isn't valid UCI, or a section, a number or a switch is invalid; with its line.
pub fn from_uci(uci: &str) -> Result<String, ConversionError> {
    let sections = file::parse(uci)?;
    let mut once = Vec::new();
    let mut text = String::new();
    for section in &sections {
        let kind = section.kind.as_str();
        if kind == keys::OF_THE_SCRIPTS || inner_of(kind).is_some() {
            continue;
        }
        let single = keys::SINGLE.contains(&kind);
        if !single && !keys::MANY.contains(&kind) {
            let what = format!("unknown config {kind}");
            let known = keys::SINGLE.iter().chain(&keys::MANY).copied().collect::<Vec<_>>();
            let hint = format!("known: {}", known.join(", "));
            return Err(ConversionError::new(section.line, what).with_hint(hint));
        }
        if single && once.contains(&kind) {
            let what = format!("there are two {kind} sections");
            return Err(ConversionError::new(section.line, what).with_hint("merge them"));
        }
        once.push(kind);
        head(&mut text, kind, single);
        body(&mut text, section)?;
        lists_of_tables(&mut text, kind, &sections)?;
    }
    // They need no options of the section around them.
    for (outer, inner) in keys::INNER_MANY {
        if !once.contains(&outer) && sections.iter().any(|section| section.kind == inner) {
            once.push(outer);
            head(&mut text, outer, true);
            lists_of_tables(&mut text, outer, &sections)?;
        }
    }
    Ok(text)
}

/// The section that a list of tables belongs to.
fn inner_of(kind: &str) -> Option<&'static str> {
    keys::INNER_MANY.iter().find(|(_, inner)| *inner == kind).map(|(outer, _)| *outer)
}

fn head(text: &mut String, kind: &str, single: bool) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&if single { format!("[{kind}]\n") } else { format!("[[{kind}]]\n") });
}

fn body(text: &mut String, section: &Section) -> Result<(), ConversionError> {
    let kind = section.kind.as_str();
    let mut tables: Vec<(&str, InlineTable)> = Vec::new();
    for entry in &section.options {
        let Some((table, key)) = within(kind, &entry.key) else {
            let value = value(kind, &entry.key, entry)?;
            let _ = writeln!(text, "{} = {value}", entry.key);
            continue;
        };
        let at = tables.iter().position(|(name, _)| *name == table).unwrap_or_else(|| {
            tables.push((table, InlineTable::new()));
            tables.len() - 1
        });
        if let Some(key) = key {
            tables[at].1.insert(key, value(&format!("{kind}.{table}"), key, entry)?);
        }
    }
    for (name, table) in tables {
        let _ = writeln!(text, "{name} = {table}");
    }
    Ok(())
}

/// Of `cap_down` in a link: the table `cap` and its key `down`; of `scrub` in a pool: the table
/// alone, with all its defaults.
fn within<'k>(kind: &str, option: &'k str) -> Option<(&'static str, Option<&'k str>)> {
    keys::INNER.iter().filter(|(outer, _)| *outer == kind).find_map(|(_, table)| {
        let rest = option.strip_prefix(table)?;
        match rest.strip_prefix('_') {
            Some(key) => (!key.is_empty()).then_some((*table, Some(key))),
            None => rest.is_empty().then_some((*table, None)),
        }
    })
}

fn lists_of_tables(
    text: &mut String,
    outer: &str,
    sections: &[Section],
) -> Result<(), ConversionError> {
    for (_, inner) in keys::INNER_MANY.iter().filter(|(name, _)| *name == outer) {
        let mut array = Array::new();
        for section in sections.iter().filter(|section| section.kind == *inner) {
            let mut table = InlineTable::new();
            for entry in &section.options {
                let value = value(&format!("{outer}.{inner}"), &entry.key, entry)?;
                table.insert(&entry.key, value);
            }
            array.push(table);
        }
        if !array.is_empty() {
            let _ = writeln!(text, "{inner} = {array}");
        }
    }
    Ok(())
}

fn value(path: &str, key: &str, entry: &Entry) -> Result<toml_edit::Value, ConversionError> {
    let wrong = |wanted: &str, text: &str| {
        let what = format!("{} must be {wanted}, not {text:?}", entry.key);
        Err(ConversionError::new(entry.line, what))
    };
    match (&entry.value, kind_of(path, key)) {
        (Value::List(values), Kind::Text) => {
            Ok(values.iter().map(String::as_str).collect::<Array>().into())
        }
        (Value::One(text), Kind::Text)
            if text == EMPTY && keys::MAY_BE_EMPTY.contains(&(path, key)) =>
        {
            Ok(Array::new().into())
        }
        (Value::One(text), Kind::Text) => Ok(text.as_str().into()),
        // As config_get_bool of OpenWrt's /lib/functions.sh.
        (Value::One(text), Kind::Boolean) => match text.as_str() {
            "1" | "on" | "true" | "yes" | "enabled" => Ok(true.into()),
            "0" | "off" | "false" | "no" | "disabled" => Ok(false.into()),
            other => wrong("1 or 0", other),
        },
        (Value::One(text), Kind::Number) => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => Ok(whole.into()),
            (_, Ok(fraction)) if fraction.is_finite() => Ok(fraction.into()),
            _ => wrong("a number", text),
        },
        (Value::One(text), Kind::NumberOrWord) => Ok(match text.parse::<i64>() {
            Ok(whole) => whole.into(),
            Err(_) => text.as_str().into(),
        }),
        (Value::List(_), Kind::Boolean | Kind::Number | Kind::NumberOrWord) => {
            let what = format!("{} is not a list", entry.key);
            Err(ConversionError::new(entry.line, what).with_hint("write option, not list"))
        }
    }
}
