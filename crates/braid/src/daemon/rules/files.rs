//! The files that rules name, reread when they change.

use braid_control::config::Config;
use braid_control::status::{Trouble, TroubleKind};
use braid_rules::{
    DomainPattern, DomainTable, Lease, Origin, WrongLine, read_domains, read_leases, read_networks,
    read_origins,
};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The last contents of the files.
#[derive(Default)]
pub struct Files {
    leases: BTreeMap<PathBuf, Cached<Vec<Lease>>>,
    networks: BTreeMap<PathBuf, Cached<Vec<IpNet>>>,
    origins: BTreeMap<PathBuf, Cached<Vec<Origin>>>,
    domains: BTreeMap<PathBuf, Cached<Vec<DomainPattern>>>,
}

struct Cached<T> {
    changed: Option<(SystemTime, u64)>,
    read: Result<T, String>,
}

/// dnsmasq's default lease files on Debian, OpenWrt, Fedora.
const LEASES: [&str; 3] =
    ["/var/lib/misc/dnsmasq.leases", "/tmp/dhcp.leases", "/var/lib/dnsmasq/dnsmasq.leases"];
/// Tables of all networks of the Internet have some 40 MB.
const LARGEST: u64 = 128 << 20;

impl Files {
    /// Devices' names. A server without leases has no file yet.
    pub fn leases(&mut self, config: &Config) -> Vec<Lease> {
        let files: Vec<PathBuf> = match &config.routing.leases {
            Some(file) => vec![file.clone()],
            None => LEASES.iter().map(PathBuf::from).collect(),
        };
        self.leases.retain(|file, _| files.contains(file));
        let read = |text: &str| Ok(read_leases(text));
        let mut leases = Vec::new();
        for file in files {
            leases.extend(cached(&mut self.leases, &file, read).iter().flatten().cloned());
        }
        leases
    }

    /// Networks by file; empty for one that can't be read.
    pub fn networks(
        &mut self,
        config: &Config,
        troubles: &mut Vec<Trouble>,
    ) -> BTreeMap<PathBuf, Vec<IpNet>> {
        let files = config.rules.iter().flat_map(|rule| &rule.matches.to.files);
        let files: Vec<PathBuf> = files.cloned().collect();
        self.networks.retain(|file, _| files.contains(file));
        let mut found = BTreeMap::new();
        for file in files {
            let what = "one network per line";
            let read = |text: &str| read_networks(text).map_err(|wrong| told(&file, &wrong, what));
            match cached(&mut self.networks, &file, read) {
                Ok(networks) => drop(found.insert(file.clone(), networks.clone())),
                Err(trouble) => troubles.push(of_file(trouble)),
            }
        }
        found
    }

    /// Which names belong to which rules.
    pub fn domains(&mut self, config: &Config, troubles: &mut Vec<Trouble>) -> DomainTable<String> {
        let mut table = DomainTable::default();
        let named = config.rules.iter().flat_map(|rule| &rule.matches.to.domain_files);
        let named: Vec<PathBuf> = named.cloned().collect();
        self.domains.retain(|file, _| named.contains(file));
        for rule in &config.rules {
            let owner = rule.name.to_string();
            for pattern in &rule.matches.to.domains {
                table.insert(pattern.clone(), owner.clone());
            }
            for file in &rule.matches.to.domain_files {
                let what = "one name per line";
                let read =
                    |text: &str| read_domains(text).map_err(|wrong| told(file, &wrong, what));
                match cached(&mut self.domains, file, read) {
                    Ok(patterns) => {
                        for pattern in patterns {
                            table.insert(pattern.clone(), owner.clone());
                        }
                    }
                    Err(trouble) => troubles.push(of_file(trouble)),
                }
            }
        }
        table
    }

    /// The table, if rules need it.
    pub fn origins(&mut self, config: &Config, troubles: &mut Vec<Trouble>) -> &[Origin] {
        let needed = config.rules.iter().any(|rule| rule.matches.to.by_origin());
        let Some(file) = config.routing.origins.as_ref().filter(|_| needed) else {
            self.origins.clear();
            return &[];
        };
        self.origins.retain(|known, _| known == file);
        let what = "first address, last address, AS number and country, with tabs or commas";
        let read = |text: &str| read_origins(text).map_err(|wrong| told(file, &wrong, what));
        match cached(&mut self.origins, file, read) {
            Ok(origins) => origins,
            Err(trouble) => {
                troubles.push(of_file(trouble));
                &[]
            }
        }
    }
}

fn of_file(text: &str) -> Trouble {
    Trouble { kind: TroubleKind::RuleFile, text: text.to_owned(), mend: None }
}

fn told(file: &Path, wrong: &WrongLine, what: &str) -> String {
    let WrongLine { line, text } = wrong;
    format!("{}:{line}: {text:?} is not {what}; the whole file is ignored", file.display())
}

fn cached<'c, T>(
    files: &'c mut BTreeMap<PathBuf, Cached<T>>,
    file: &Path,
    read: impl Fn(&str) -> Result<T, String>,
) -> &'c Result<T, String> {
    let changed = fs::metadata(file).and_then(|it| Ok((it.modified()?, it.len()))).ok();
    let fresh = files.get(file).is_some_and(|known| known.changed == changed);
    if !fresh {
        let text = braid_durable::read_text(file, LARGEST)
            .map_err(|error| format!("{}: can't read it: {error}; it is ignored", file.display()));
        let read = text.and_then(|text| read(&text));
        files.insert(file.to_owned(), Cached { changed, read });
    }
    // It was inserted just now.
    &files
        .entry(file.to_owned())
        .or_insert_with(|| Cached { changed, read: Err(String::new()) })
        .read
}
