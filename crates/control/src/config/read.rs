use super::contradiction::{self, Sections};
use super::credential::Credentials;
use super::diagnostic::{ConfigErrors, Diagnostics};
use super::section::Section;
use super::{
    Config, Diagnostic, Interface, Peer, Ui, alert, fleet, history, interface, link, peer, pool,
    routing, rule, split_tcp, ui,
};
use std::cell::RefCell;
use std::path::Path;
use toml::de::DeTable;

/// Reads every section, then checks them against each other. Every error found
/// on the way is reported.
pub(super) fn read(text: &str, file: &Path) -> Result<Config, ConfigErrors> {
    let diagnostics = RefCell::new(Diagnostics::new(text));
    let (table, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        let offset = error.span().map_or(0, |span| span.start);
        diagnostics.borrow_mut().add(offset, format!("not TOML: {}", error.message()));
    }
    let base = file.parent().unwrap_or(Path::new(""));
    let mut sections = read_sections(Section::new("", table, &diagnostics), base, &diagnostics);
    let interface = sections.interface.take();
    let diagnostics = diagnostics.into_inner();
    match interface {
        Some(interface) if diagnostics.is_empty() => {
            Ok(sections.into_config(interface.value, file))
        }
        _ => Err(diagnostics.into_errors(file)),
    }
}

fn read_sections<'t>(
    mut root: Section<'t, '_>,
    base: &Path,
    diagnostics: &RefCell<Diagnostics>,
) -> Sections {
    let interface = root.table("interface");
    if interface.is_none() {
        root.missing("[interface]", "start with [interface] and its private_key_file");
    }
    let links = root.tables("link");
    let rules = root.tables("rule").into_iter();
    let rules = rules.filter_map(|section| rule::read(section, base)).collect();
    let classes = root.tables("class").into_iter();
    let classes = classes.filter_map(|section| rule::read_class(section, base)).collect();
    let sections = Sections {
        interface: interface.and_then(|section| interface::read(section, base)),
        rules,
        classes,
        has_links: root.has("link"),
        links: links.into_iter().filter_map(link::read).collect(),
        peers: root
            .tables("peer")
            .into_iter()
            .filter_map(|section| peer::read(section, base))
            .collect(),
        routing: root.table("routing").map(|section| routing::read(section, base)),
        history: root.table("history").map(|section| history::read(section, base)),
        ui: match root.table("ui") {
            Some(section) => ui::read(section, base),
            None => Ui::usual(base),
        },
        alerts: alert::read_all(&mut root, base, diagnostics),
        split_tcp: root.table("split_tcp").map(split_tcp::read),
        fleet: root.table("fleet").and_then(|section| fleet::read(section, base)),
    };
    // For `braid pool apply`; invalid ones are errors of this config, too.
    pool::read_all(&mut root, diagnostics);
    root.finish();
    contradiction::check(&sections, &mut diagnostics.borrow_mut());
    sections
}

impl Sections {
    fn into_config(self, mut interface: Interface, file: &Path) -> Config {
        let routing = self.routing.map(|placed| placed.routing.value).unwrap_or_default();
        let mut peers: Vec<Peer> = self.peers.into_iter().map(|peer| peer.value).collect();
        for public in &routing.public_prefixes {
            if let Some(peer) = peers.iter_mut().find(|peer| peer.name == public.peer)
                && !peer.allowed_ips.contains(&public.prefix)
            {
                peer.allowed_ips.push(public.prefix);
            }
        }
        let (credentials, base) = (Credentials::of(file), file.parent().unwrap_or(Path::new("")));
        credentials.place(interface.private_key_file.path_mut(), base);
        for key in peers.iter_mut().filter_map(|peer| peer.preshared_key_file.as_mut()) {
            credentials.place(key.path_mut(), base);
        }
        Config {
            file: file.to_owned(),
            interface,
            advice: self
                .classes
                .first()
                .map(|class| advice(class.value.line))
                .into_iter()
                .collect(),
            rules: self.rules.into_iter().chain(self.classes).map(|rule| rule.value).collect(),
            links: self.links.into_iter().map(|link| link.value).collect(),
            peers,
            routing,
            history: self.history.unwrap_or_default(),
            ui: self.ui,
            alerts: self.alerts,
            split_tcp: self.split_tcp.and_then(|placed| placed.value),
            fleet: self.fleet.map(|placed| placed.value),
        }
    }
}

fn advice(line: usize) -> Diagnostic {
    Diagnostic {
        line,
        what: "[[class]] is now [[rule]]; the old word is still understood, after all rules".into(),
        hint: Some("write [[rule]] and do = \"tunnel\"".into()),
    }
}
