//! A config whose links an engine of the kernel joins: `interface.engine`.

use super::credential::Credentials;
use super::diagnostic::{ConfigErrors, Diagnostics};
use super::engine::{self, MptcpProxy, Watch};
use super::interface::STATE_DIR;
use super::network::device_address;
use super::path;
use super::pool;
use super::section::{Placed, Places, Section};
use super::suggest::closest;
use braid_engines::{Device, EngineKind, Group, GroupLink, MacAddress, Numbers, Over};
use ipnet::IpNet;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// The word of `interface.engine` for Braid's own tunnel.
pub(super) const TUNNEL: &str = "tunnel";

/// A group of links that an engine of the kernel joins, without contradictions.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupConfig {
    /// The file it was read from; relative paths inside are relative to it.
    pub file: PathBuf,
    /// The group; its links have no egresses yet, which the host tells.
    pub group: Group,
    /// The configured parts of each link's egress, in the order of the group's links.
    pub egresses: Vec<GivenEgress>,
    /// The control socket's path.
    pub control: PathBuf,
    /// Undo journal, files of programs.
    pub state_dir: PathBuf,
    /// TCP address that serves `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// How to check whether each link works.
    pub watch: Option<Watch>,
    /// The proxy that provides MPTCP to programs without support for it.
    pub proxy: Option<MptcpProxy>,
}

/// The configured parts of a link's egress; the rest comes from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenEgress {
    /// Leave from this address of the host.
    pub source: Option<IpAddr>,
    /// Leave through this router; by default the device's default gateway.
    pub gateway: Option<IpAddr>,
}

impl GroupConfig {
    /// Reads and checks `text`; `file` is named in errors and is the base of
    /// relative paths.
    pub(super) fn parse(text: &str, file: &Path) -> Result<GroupConfig, ConfigErrors> {
        let diagnostics = RefCell::new(Diagnostics::new(text));
        let (table, syntax_errors) = DeTable::parse_recoverable(text);
        for error in &syntax_errors {
            let offset = error.span().map_or(0, |span| span.start);
            diagnostics.borrow_mut().add(offset, format!("not TOML: {}", error.message()));
        }
        let config = read(Section::new("", table, &diagnostics), file, &diagnostics);
        let diagnostics = diagnostics.into_inner();
        match config {
            Some(config) if diagnostics.is_empty() => Ok(config),
            _ => Err(diagnostics.into_errors(file)),
        }
    }
}

/// The line where the text selects a kernel engine, if it does.
pub(super) fn asked_for(text: &str) -> Option<usize> {
    let (table, _) = DeTable::parse_recoverable(text);
    let interface = table.get_ref().get("interface").and_then(|value| value.get_ref().as_table());
    let engine = interface.and_then(|interface| interface.get("engine"))?;
    let kernels = engine.get_ref().as_str().is_some_and(|word| word != TUNNEL);
    kernels.then(|| Diagnostics::new(text).line_at(engine.span().start))
}

/// `[interface]` of a group.
struct Head {
    name: Device,
    kind: EngineKind,
    addresses: Vec<IpNet>,
    mtu: Option<u16>,
    control: PathBuf,
    state_dir: PathBuf,
    metrics: Option<SocketAddr>,
}

fn read<'t>(
    mut root: Section<'t, '_>,
    file: &Path,
    diagnostics: &RefCell<Diagnostics>,
) -> Option<GroupConfig> {
    let base = file.parent().unwrap_or(Path::new(""));
    let head = root.table("interface").and_then(|section| read_head(section, base));
    let links: Vec<Placed<(GroupLink, GivenEgress)>> = root
        .tables("link")
        .into_iter()
        .zip(1..)
        .filter_map(|(section, number)| read_link(section, number))
        .collect();
    let settings = match (&head, root.table("engine")) {
        (Some(head), Some(section)) => engine::read(section, head.value.kind, base),
        (Some(head), None) => Some(engine::default(head.value.kind)),
        // If the engine is unknown, so are its keys.
        (None, _) => None,
    };
    // For `braid pool apply`; invalid ones are errors of this config, too.
    pool::read_all(&mut root, diagnostics);
    root.finish();
    let (head, mut settings) = (head?, settings?);
    if let Over::WireGuard { settings, .. } = &mut settings.value.over {
        Credentials::of(file).place(&mut settings.private_key_file, base);
    }
    let link_places: Vec<Places> = links.iter().map(|link| link.places.clone()).collect();
    let (group_links, egresses) = links.into_iter().map(|link| link.value).unzip();
    let Head { name, addresses, mtu, control, state_dir, metrics, .. } = head.value;
    let group = Group {
        numbers: Numbers::of(name.as_str()),
        state_dir: state_dir.clone(),
        name,
        engine: settings.value.engine,
        over: settings.value.over,
        addresses,
        mtu,
        routes: settings.value.routes,
        gateway: settings.value.gateway,
        links: group_links,
    };
    let mut found = diagnostics.borrow_mut();
    let sections = [&head.places, &settings.places];
    check(&group, &sections, &link_places, &mut found);
    let (watch, proxy) = (settings.value.watch, settings.value.proxy);
    let file = file.to_owned();
    Some(GroupConfig { file, group, egresses, control, state_dir, metrics, watch, proxy })
}

fn read_head(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Head>> {
    let kind = section.parsed_by("engine", |word| {
        word.parse::<EngineKind>().map_err(|error| {
            let words = EngineKind::WORDS.iter().copied().chain([TUNNEL]);
            let close = closest(word, words).map(|word| format!("; did you mean {word:?}?"));
            format!("{error}, {TUNNEL}{}", close.unwrap_or_default())
        })
    });
    let name = section.parsed::<Device>("name");
    if name.is_none() {
        section.missing("name", "write name = \"bond0\": the device, or just the group's name");
    }
    let addresses = section.list_by("addresses", device_address).unwrap_or_default();
    let mtu = section.integer("mtu", 576..=65535);
    let metrics = section.parsed("metrics");
    let control = path::socket(&mut section, "control", base);
    let state_dir = path::place(&mut section, "state_dir", base);
    let state_dir = state_dir.unwrap_or_else(|| PathBuf::from(STATE_DIR));
    for key in ["private_key_file", "layer", "mode", "xor_hash", "listen", "bridge"] {
        section.only_with(key, "engine = \"tunnel\"");
    }
    let places = section.finish();
    let (name, kind) = (name?, kind?);
    let control = control.unwrap_or_else(|| PathBuf::from(format!("/run/braid/{name}.sock")));
    let value = Head { control, name, kind, addresses, mtu, state_dir, metrics };
    Some(Placed { value, places })
}

fn read_link(
    mut section: Section<'_, '_>,
    number: u32,
) -> Option<Placed<(GroupLink, GivenEgress)>> {
    let name = section.parsed::<super::Name>("name");
    if name.is_none() {
        section.missing("name", "write name = \"a\"");
    }
    let device = section.parsed::<Device>("interface");
    if device.is_none() {
        section.missing("interface", "write interface = \"eth1\"");
    }
    let egress =
        GivenEgress { source: section.parsed("source"), gateway: section.parsed("gateway") };
    let weight = section.integer("weight", 1..=255).and_then(NonZeroU8::new);
    let standby = section.boolean("standby").unwrap_or(false);
    let remote = section.parsed("remote");
    let peer_mac = section.parsed::<MacAddress>("peer_mac");
    let places = section.finish();
    let link = GroupLink {
        name: name?.to_string(),
        weight: weight.unwrap_or(NonZeroU8::MIN),
        standby,
        remote,
        peer_mac,
        ..GroupLink::new(number, device?)
    };
    Some(Placed { value: (link, egress), places })
}

/// Reports contradictions.
fn check(group: &Group, sections: &[&Places], links: &[Places], found: &mut Diagnostics) {
    for trouble in group.check() {
        let place = sections.iter().find_map(|places| places.key(trouble.key));
        let offset = place.or(sections.first().map(|places| places.section)).unwrap_or(0);
        found.add_with_hint(offset, trouble.what, trouble.hint);
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (link, places) in group.links.iter().zip(links) {
        for word in [format!("named {:?}", link.name), format!("by {}", link.device)] {
            match seen.get(&word) {
                Some(&first) => {
                    let line = found.line_at(first);
                    let hint = format!("line {line} has it first; change or remove one");
                    found.add_with_hint(places.section, format!("two links are {word}"), hint);
                }
                None => drop(seen.insert(word, places.section)),
            }
        }
    }
}
