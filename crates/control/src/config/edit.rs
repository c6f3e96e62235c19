mod rejoin;

pub use rejoin::JoinedAnew;

use super::rule::{Action, Rule};
use super::{Cap, Config, ConfigErrors, Mode, read_text};
use braid_durable::OTHERS;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

/// Changes a config file in place, keeping comments and order. Nothing is written unless the result
/// is valid.
#[derive(Clone, Debug)]
pub struct ConfigEditor {
    file: PathBuf,
    document: DocumentMut,
    /// Keeps others from changing it.
    kept: Option<Arc<File>>,
}

/// Why a config could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file has errors, or would have after the change.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// No link has this name.
    #[error("there is no link {name:?}; the links are: {known}")]
    NoSuchLink {
        /// The name asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// A rule sends connections over the link to be removed.
    #[error(
        "rule {rule} is for link {link}: change its links, or `braid rule remove {rule}` first"
    )]
    LinkOfRule {
        /// The rule.
        rule: String,
        /// The link.
        link: String,
    },
    /// No rule has this name.
    #[error("there is no rule {name:?}; the rules are: {known}")]
    NoSuchRule {
        /// The name asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// A part is not written as tables (`[[link]]`), so it can't be edited.
    #[error("{}: {what} is written in a form that can't be edited; write it as {form}", file.display())]
    Form {
        /// The config.
        file: PathBuf,
        /// The section.
        what: &'static str,
        /// The form that can be edited.
        form: &'static str,
    },
    /// The system refused.
    #[error("{}: can't write the config: {error}", file.display())]
    Io {
        /// The config.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

/// What `link add` and `link set` change; `None` leaves it as it is. Texts are
/// as in the config, and are checked as there.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkChange {
    /// `link.interface`.
    pub interface: Option<String>,
    /// `link.match.kind`; `none` removes it, as with the other two.
    pub kind: Option<String>,
    /// `link.match.usb`.
    pub usb: Option<String>,
    /// `link.match.connection`.
    pub connection: Option<String>,
    /// `link.source`.
    pub source: Option<String>,
    /// `link.gateway`.
    pub gateway: Option<String>,
    /// `link.fwmark`.
    pub fwmark: Option<u32>,
    /// `link.tier`.
    pub tier: Option<u8>,
    /// `link.metered`.
    pub metered: Option<bool>,
    /// `link.standby`.
    pub standby: Option<bool>,
    /// `link.price`.
    pub price: Option<f64>,
    /// `link.transport`.
    pub transport: Option<String>,
    /// `link.proxy`; `none` removes it.
    pub proxy: Option<String>,
    /// `link.cap.down`; `none` removes it.
    pub cap_down: Option<String>,
    /// `link.cap.up`; `none` removes it.
    pub cap_up: Option<String>,
    /// `link.quota`, as `20GB/month` or `1GB/day`; `none` removes it.
    pub quota: Option<String>,
}

/// The parts of a join line in a concentrator's config. Texts are as in the config, and are checked
/// like there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLine {
    /// `peer.enrolment_key`.
    pub enrolment_key: String,
    /// `peer.enrol_until`.
    pub enrol_until: String,
    /// `peer.preshared_key_file`.
    pub preshared_key_file: String,
}

/// A `[[rule]]` to write. Texts are as in the config, and are checked like there; an empty list
/// means an absent key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRule {
    /// `rule.name`.
    pub name: String,
    /// `rule.do`.
    pub does: String,
    /// `rule.match`, by key.
    pub matches: Vec<(&'static str, Vec<String>)>,
    /// Other settings, by key.
    pub settings: Vec<(&'static str, Vec<String>)>,
    /// `rule.rate`, by its keys.
    pub rate: Vec<(&'static str, String)>,
    /// `rule.end_on_recovery`.
    pub end_on_recovery: bool,
}

impl NewRule {
    fn table(&self) -> Table {
        let mut table = Table::new();
        table.insert("name", value(&self.name));
        let mut matches = InlineTable::new();
        for (key, texts) in self.matches.iter().filter(|(_, texts)| !texts.is_empty()) {
            matches.insert(*key, one_or_list(texts));
        }
        if !matches.is_empty() {
            table.insert("match", value(matches));
        }
        table.insert("do", value(&self.does));
        for (key, texts) in self.settings.iter().filter(|(_, texts)| !texts.is_empty()) {
            table.insert(key, value(one_or_list(texts)));
        }
        if !self.rate.is_empty() {
            let rate = self.rate.iter().map(|(way, rate)| (*way, rate.as_str()));
            table.insert("rate", value(InlineTable::from_iter(rate)));
        }
        if self.end_on_recovery {
            table.insert("end_on_recovery", value(true));
        }
        table
    }
}

fn one_or_list(texts: &[String]) -> Value {
    match texts {
        [one] => Value::from(one.as_str()),
        all => Value::from_iter(all.iter().map(String::as_str)),
    }
}

/// A file's mode; for a new file, the mode of new secrets.
fn mode_of(file: &Path) -> u32 {
    std::fs::metadata(file).map_or(0o600, |about| about.mode() & 0o777)
}

impl ConfigEditor {
    /// Opens a config that has no errors.
    ///
    /// # Errors
    /// [`EditError::Config`] when the config can't be read or has errors.
    pub fn open(file: &Path) -> Result<ConfigEditor, EditError> {
        ConfigEditor::from_text(&read_text(file)?, file)
    }

    /// Opens a config that has no errors, to change it: another program that does so waits until
    /// this editor is gone, so that neither undoes what the other one has changed.
    ///
    /// # Errors
    /// As [`ConfigEditor::open`]; [`EditError::Io`] when another program holds it for too long.
    pub fn open_alone(file: &Path) -> Result<ConfigEditor, EditError> {
        let kept = match braid_durable::keep(file) {
            Ok(kept) => Some(Arc::new(kept)),
            // Other errors of reading the file are reported below.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(EditError::Io { file: file.to_owned(), error });
            }
            Err(_) => None,
        };
        Ok(ConfigEditor { kept, ..ConfigEditor::open(file)? })
    }

    /// Takes `text` for the contents of `file`.
    ///
    /// # Errors
    /// [`EditError::Config`] with all that is wrong in it.
    pub fn from_text(text: &str, file: &Path) -> Result<ConfigEditor, EditError> {
        Config::parse(text, file)?;
        let document = text.parse::<DocumentMut>().map_err(|error| ConfigErrors {
            file: file.to_owned(),
            errors: vec![super::Diagnostic {
                line: 0,
                what: format!("not TOML: {error}"),
                hint: None,
            }],
        })?;
        Ok(ConfigEditor { file: file.to_owned(), document, kept: None })
    }

    /// Adds `[[link]]`.
    ///
    /// # Errors
    /// [`EditError::Form`] when the links aren't written as `[[link]]`. What is wrong with the
    /// new one is said by [`ConfigEditor::check`].
    pub fn add_link(&mut self, name: &str, change: &LinkChange) -> Result<(), EditError> {
        let mut table = Table::new();
        table.insert("name", value(name));
        apply(&mut table, change);
        self.links()?.push(table);
        Ok(())
    }

    /// Changes a link.
    ///
    /// # Errors
    /// [`EditError::NoSuchLink`], or [`EditError::Form`] when the links aren't written as
    /// `[[link]]`. What is wrong with the change is said by [`ConfigEditor::check`].
    pub fn set_link(&mut self, name: &str, change: &LinkChange) -> Result<(), EditError> {
        let index = self.link_index(name)?;
        if let Some(table) = self.links()?.get_mut(index) {
            apply(table, change);
        }
        Ok(())
    }

    /// Removes a link.
    ///
    /// # Errors
    /// [`EditError::NoSuchLink`], [`EditError::LinkOfRule`], or [`EditError::Form`] when the links
    /// aren't written as `[[link]]`.
    pub fn remove_link(&mut self, name: &str) -> Result<(), EditError> {
        let index = self.link_index(name)?;
        let used = |rule: &Rule| match &rule.action {
            Action::Direct(direct) => direct.links.iter().any(|link| link.as_str() == name),
            Action::Tunnel(_) | Action::Block => false,
        };
        // Report the rule, rather than a line that isn't in the file.
        let rules = self.check().map(|config| config.rules).unwrap_or_default();
        if let Some(rule) = rules.iter().find(|rule| used(rule)) {
            let (rule, link) = (rule.name.to_string(), name.to_owned());
            return Err(EditError::LinkOfRule { rule, link });
        }
        self.links()?.remove(index);
        Ok(())
    }

    /// Adds a `[[rule]]`, as the last or before another one. What is wrong with it is said by
    /// [`ConfigEditor::check`].
    ///
    /// # Errors
    /// [`EditError::NoSuchRule`], or [`EditError::Form`] when the rules aren't written as
    /// `[[rule]]`.
    pub fn add_rule(&mut self, new: &NewRule, before: Option<&str>) -> Result<(), EditError> {
        let at = before.map(|name| self.rule_index(name)).transpose()?;
        let rules = self.rules()?;
        let mut tables: Vec<Table> = rules.iter().cloned().collect();
        let at = at.unwrap_or(tables.len());
        tables.insert(at, new.table());
        rules.clear();
        for mut table in tables {
            // Otherwise it would be written at its old position.
            table.set_position(None);
            rules.push(table);
        }
        Ok(())
    }

    /// Removes a `[[rule]]`.
    ///
    /// # Errors
    /// As [`ConfigEditor::add_rule`].
    pub fn remove_rule(&mut self, name: &str) -> Result<(), EditError> {
        let index = self.rule_index(name)?;
        self.rules()?.remove(index);
        Ok(())
    }

    /// Changes the tunnel's mode.
    ///
    /// # Errors
    /// [`EditError::Form`] when there is no table `[interface]`.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), EditError> {
        let form =
            EditError::Form { file: self.file.clone(), what: "interface", form: "[interface]" };
        let interface = self.document.get_mut("interface").and_then(Item::as_table_like_mut);
        replace(interface.ok_or(form)?, "mode", value(mode.as_str()));
        Ok(())
    }

    /// Sets whether this concentrator is draining.
    ///
    /// # Errors
    /// [`EditError::Form`] when there is no table `[interface]`.
    pub fn set_draining(&mut self, draining: bool) -> Result<(), EditError> {
        let form =
            EditError::Form { file: self.file.clone(), what: "interface", form: "[interface]" };
        let interface = self.document.get_mut("interface").and_then(Item::as_table_like_mut);
        let interface = interface.ok_or(form)?;
        match draining {
            true => replace(interface, "draining", value(true)),
            false => drop(interface.remove("draining")),
        }
        Ok(())
    }

    /// Appends TOML text, such as a `[[peer]]`.
    ///
    /// # Errors
    /// [`EditError::Config`] with all that would be wrong; nothing is changed then.
    pub fn append(&mut self, toml: &str) -> Result<(), EditError> {
        let text = format!("{}\n{toml}", self.document.to_string().trim_end_matches('\n'));
        self.document = ConfigEditor::from_text(&text, &self.file)?.document;
        Ok(())
    }

    /// Gives the `[[peer]]` with this name a new join line. Everything else stays, including
    /// comments; its previous key is removed.
    ///
    /// # Errors
    /// [`EditError::Form`] when there is no `[[peer]]` of this name. What is wrong with the line
    /// is said by [`ConfigEditor::check`].
    pub fn renew_peer(&mut self, name: &str, line: &PeerLine) -> Result<(), EditError> {
        let peer = self.peer_mut(name)?;
        for (key, text) in [
            ("enrolment_key", &line.enrolment_key),
            ("enrol_until", &line.enrol_until),
            ("preshared_key_file", &line.preshared_key_file),
        ] {
            replace(peer, key, value(text));
        }
        peer.remove("public_key");
        Ok(())
    }

    /// Sets or removes the limit of the `[[peer]]` with this name.
    ///
    /// # Errors
    /// [`EditError::Form`] when there is no `[[peer]]` of this name.
    pub fn set_peer_limit(&mut self, name: &str, limit: Cap) -> Result<(), EditError> {
        let peer = self.peer_mut(name)?;
        let rates = [("down", limit.down), ("up", limit.up)];
        let table: InlineTable = rates
            .into_iter()
            .filter_map(|(key, rate)| Some((key, Value::from(rate?.to_string()))))
            .collect();
        match table.is_empty() {
            true => drop(peer.remove("limit")),
            false => replace(peer, "limit", Item::Value(table.into())),
        }
        Ok(())
    }

    fn peer_mut(&mut self, name: &str) -> Result<&mut Table, EditError> {
        let form = EditError::Form { file: self.file.clone(), what: "peer", form: "[[peer]]" };
        let peers = self.document.get_mut("peer").and_then(Item::as_array_of_tables_mut);
        peers
            .into_iter()
            .flat_map(ArrayOfTables::iter_mut)
            .find(|peer| peer.get("name").and_then(Item::as_str) == Some(name))
            .ok_or(form)
    }

    /// Removes the `[[peer]]` with this name; returns whether there was one.
    pub fn remove_peer(&mut self, name: &str) -> bool {
        let Some(peers) = self.document.get_mut("peer").and_then(Item::as_array_of_tables_mut)
        else {
            return false;
        };
        let before = peers.len();
        peers.retain(|peer| peer.get("name").and_then(Item::as_str) != Some(name));
        peers.len() < before
    }

    /// The resulting config, or its errors.
    ///
    /// # Errors
    /// All that would be wrong in it, each with its line.
    pub fn check(&self) -> Result<Config, ConfigErrors> {
        Config::parse(&self.document.to_string(), &self.file)
    }

    /// Checks the result and replaces the file atomically (write, sync, rename), keeping its
    /// permissions.
    ///
    /// # Errors
    /// [`EditError::Config`] with all that would be wrong, [`EditError::Io`] when the file can't be
    /// replaced. The file then stays unchanged.
    pub fn save(&mut self) -> Result<Config, EditError> {
        let config = self.check()?;
        let text = self.document.to_string();
        // Otherwise it keeps its mode.
        let mode = config.has_secrets().then(|| mode_of(&self.file) & !OTHERS);
        let written =
            braid_durable::replace_with(&self.file, mode, |new| new.write_all(text.as_bytes()));
        let written = written.map_err(|error| EditError::Io { file: self.file.clone(), error })?;
        self.kept = self.kept.take().map(|_| Arc::new(written));
        Ok(config)
    }

    /// Where a `[[link]]`, `[[rule]]` or `[[peer]]` of this name begins, as `FILE:LINE`; only the
    /// file when there is none.
    pub fn place_of(&self, section: &str, name: &str) -> String {
        let text = self.document.to_string();
        let (table, _) = DeTable::parse_recoverable(&text);
        let all = table.get_ref().get(section).and_then(|it| it.get_ref().as_array());
        let is_it = |one: &&Spanned<DeValue<'_>>| {
            let table = one.get_ref().as_table();
            table.and_then(|it| it.get("name")).and_then(|it| it.get_ref().as_str()) == Some(name)
        };
        let found = all.and_then(|all| all.iter().find(is_it));
        let file = self.file.display();
        match found.and_then(|one| text.get(..one.span().start)) {
            Some(before) => format!("{file}:{}", 1 + before.matches('\n').count()),
            None => file.to_string(),
        }
    }

    fn links(&mut self) -> Result<&mut ArrayOfTables, EditError> {
        let form = EditError::Form { file: self.file.clone(), what: "link", form: "[[link]]" };
        self.document
            .entry("link")
            .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()))
            .as_array_of_tables_mut()
            .ok_or(form)
    }

    fn rules(&mut self) -> Result<&mut ArrayOfTables, EditError> {
        let form = EditError::Form { file: self.file.clone(), what: "rule", form: "[[rule]]" };
        self.document
            .entry("rule")
            .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()))
            .as_array_of_tables_mut()
            .ok_or(form)
    }

    fn rule_index(&mut self, name: &str) -> Result<usize, EditError> {
        let rules = self.rules()?;
        let names: Vec<&str> =
            rules.iter().filter_map(|rule| rule.get("name").and_then(Item::as_str)).collect();
        names
            .iter()
            .position(|known| *known == name)
            .ok_or_else(|| EditError::NoSuchRule { name: name.to_owned(), known: names.join(", ") })
    }

    fn link_index(&mut self, name: &str) -> Result<usize, EditError> {
        let links = self.links()?;
        let names: Vec<&str> =
            links.iter().filter_map(|link| link.get("name").and_then(Item::as_str)).collect();
        names
            .iter()
            .position(|known| *known == name)
            .ok_or_else(|| EditError::NoSuchLink { name: name.to_owned(), known: names.join(", ") })
    }
}

impl std::fmt::Display for ConfigEditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.document.fmt(f)
    }
}

fn apply(table: &mut Table, change: &LinkChange) {
    let texts = [
        ("interface", &change.interface),
        ("source", &change.source),
        ("gateway", &change.gateway),
        ("transport", &change.transport),
        ("proxy", &change.proxy),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            set_or_remove(table, key, text, |text| value(text));
        }
    }
    let matches =
        [("kind", &change.kind), ("usb", &change.usb), ("connection", &change.connection)];
    for (key, text) in matches {
        if let Some(text) = text {
            set_inner(table, "match", key, text);
        }
    }
    if let Some(fwmark) = change.fwmark {
        replace(table, "fwmark", value(i64::from(fwmark)));
    }
    if let Some(tier) = change.tier {
        replace(table, "tier", value(i64::from(tier)));
    }
    if let Some(metered) = change.metered {
        replace(table, "metered", value(metered));
    }
    if let Some(standby) = change.standby {
        replace(table, "standby", value(standby));
    }
    if let Some(price) = change.price {
        replace(table, "price", value(price));
    }
    for (key, rate) in [("down", &change.cap_down), ("up", &change.cap_up)] {
        if let Some(rate) = rate {
            set_inner(table, "cap", key, rate);
        }
    }
    if let Some(quota) = &change.quota {
        set_or_remove(table, "quota", quota, quota_item);
    }
}

/// The word that removes a setting.
const NONE: &str = "none";

fn set_or_remove(table: &mut Table, key: &str, text: &str, item: impl Fn(&str) -> Item) {
    if text == NONE {
        table.remove(key);
    } else {
        replace(table, key, item(text));
    }
}

/// Sets `key` in the table `name` of a link; an empty one is removed.
fn set_inner(table: &mut Table, name: &str, key: &str, text: &str) {
    let inner = table.entry(name).or_insert_with(|| value(InlineTable::new()));
    let Some(inner) = inner.as_table_like_mut() else {
        return;
    };
    if text == NONE {
        inner.remove(key);
    } else {
        inner.insert(key, value(text));
    }
    if inner.is_empty() {
        table.remove(name);
    }
}

fn quota_item(text: &str) -> Item {
    let (bytes, per) = text.split_once('/').unwrap_or((text, "month"));
    let mut quota = InlineTable::new();
    quota.insert("bytes", Value::from(bytes));
    quota.insert("per", Value::from(per));
    value(quota)
}

/// Sets `key`, keeping a comment that follows the old value.
fn replace(table: &mut dyn toml_edit::TableLike, key: &str, mut item: Item) {
    let old = table.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
    if let (Some(decor), Some(new)) = (old, item.as_value_mut()) {
        *new.decor_mut() = decor;
    }
    table.insert(key, item);
}
