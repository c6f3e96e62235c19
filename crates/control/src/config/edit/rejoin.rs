use super::{ConfigEditor, EditError, LinkChange, replace};
use toml_edit::{Array, ArrayOfTables, Item, Table, TableLike, Value, value};

/// What a new join changes in a config that has joined before. Texts are as in the config, and are
/// checked like there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedAnew {
    /// `interface.private_key_file`.
    pub private_key_file: String,
    /// `interface.addresses`.
    pub addresses: Vec<String>,
    /// `interface.mtu`.
    pub mtu: u16,
    /// `interface.layer`.
    pub layer: String,
    /// `peer.public_key`.
    pub public_key: String,
    /// `peer.preshared_key_file`.
    pub preshared_key_file: String,
    /// `peer.enrolment_key_file`.
    pub enrolment_key_file: String,
    /// `peer.endpoints`.
    pub endpoints: Vec<String>,
    /// `peer.fallback_port`; `None` if the new concentrator has none.
    pub fallback_port: Option<u16>,
    /// Replaces the links by these devices; empty keeps the links.
    pub interfaces: Vec<String>,
    /// `routing.default_route`, if it should change.
    pub default_route: Option<bool>,
    /// Whether to set `routing.when_concentrator_gone` to `block`.
    pub kill_switch: bool,
    /// Whether to add `[split_tcp]`.
    pub split_tcp: bool,
    /// Whether the private key stays the same, so that other concentrators still know this router
    /// by it.
    pub keeps_key: bool,
}

impl ConfigEditor {
    /// Joins another concentrator instead of the configured one, or the same one again. Everything
    /// else stays: links, rules, routing, comments. If the router gets a new key, stand-ins are
    /// removed, as they know it by the old key; returns their names.
    ///
    /// # Errors
    /// [`EditError::Form`] when there is no `[interface]`, or no `[[peer]]` with endpoints. What is
    /// wrong with the result is said by [`ConfigEditor::check`].
    pub fn rejoin(&mut self, anew: &JoinedAnew) -> Result<Vec<String>, EditError> {
        let form = |what, form| EditError::Form { file: self.file.clone(), what, form };
        let no_interface = form("interface", "[interface]");
        let no_peer = form("peer", "[[peer]]");
        let interface = self.document.get_mut("interface").and_then(Item::as_table_like_mut);
        let interface = interface.ok_or(no_interface)?;
        replace(interface, "private_key_file", value(&anew.private_key_file));
        replace(interface, "addresses", list(&anew.addresses));
        replace(interface, "mtu", value(i64::from(anew.mtu)));
        replace(interface, "layer", value(&anew.layer));

        let peers = self.document.get_mut("peer").and_then(Item::as_array_of_tables_mut);
        let Some(peers) = peers else { return Err(no_peer) };
        let gone = if anew.keeps_key { Vec::new() } else { take_stand_ins(peers) };
        let called = peers.iter_mut().find(|peer| peer.contains_key("endpoints"));
        let peer = called.ok_or(no_peer)?;
        replace(peer, "public_key", value(&anew.public_key));
        replace(peer, "preshared_key_file", value(&anew.preshared_key_file));
        replace(peer, "enrolment_key_file", value(&anew.enrolment_key_file));
        replace(peer, "endpoints", list(&anew.endpoints));
        match anew.fallback_port {
            Some(port) => replace(peer, "fallback_port", value(i64::from(port))),
            None => drop(peer.remove("fallback_port")),
        }

        self.take_links_by(&anew.interfaces)?;
        if anew.kill_switch || anew.default_route.is_some() {
            let routing = self.section("routing", "[routing]")?;
            if let Some(default_route) = anew.default_route {
                replace(routing, "default_route", value(default_route));
                if !default_route {
                    // It would have no meaning.
                    routing.remove("when_concentrator_gone");
                }
            }
            if anew.kill_switch {
                replace(routing, "when_concentrator_gone", value("block"));
            }
        }
        if anew.split_tcp {
            self.section("split_tcp", "[split_tcp]")?;
        }
        Ok(gone)
    }

    /// Keeps or adds only links on these devices; existing ones stay unchanged.
    fn take_links_by(&mut self, interfaces: &[String]) -> Result<(), EditError> {
        if interfaces.is_empty() {
            return Ok(());
        }
        let interface_of =
            |link: &Table| link.get("interface").and_then(Item::as_str).map(str::to_owned);
        let links = self.links()?;
        links.retain(|link| interface_of(link).is_some_and(|it| interfaces.contains(&it)));
        let there: Vec<String> = links.iter().filter_map(interface_of).collect();
        for interface in interfaces.iter().filter(|it| !there.contains(it)) {
            let change = LinkChange { interface: Some(interface.clone()), ..LinkChange::default() };
            self.add_link(interface, &change)?;
        }
        Ok(())
    }

    fn section(
        &mut self,
        what: &'static str,
        form: &'static str,
    ) -> Result<&mut dyn TableLike, EditError> {
        let form = EditError::Form { file: self.file.clone(), what, form };
        let section = self.document.entry(what).or_insert_with(|| Item::Table(Table::new()));
        section.as_table_like_mut().ok_or(form)
    }
}

fn take_stand_ins(peers: &mut ArrayOfTables) -> Vec<String> {
    let stands_in = |peer: &Table| peer.contains_key("stands_in_for");
    let name = |peer: &Table| peer.get("name").and_then(Item::as_str).map(str::to_owned);
    let gone = peers.iter().filter(|peer| stands_in(peer)).filter_map(name).collect();
    peers.retain(|peer| !stands_in(peer));
    gone
}

fn list(texts: &[String]) -> Item {
    Item::Value(Value::Array(texts.iter().map(String::as_str).collect::<Array>()))
}
