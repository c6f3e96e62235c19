use super::name::Name;
use super::network::Endpoint;
use super::path;
use super::section::{Placed, Section};
use std::path::{Path, PathBuf};

/// `[fleet]`: this concentrator is one of several that share their homes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Its name among them.
    pub name: Name,
    /// The fleet's registry.
    pub registry: Registry,
    /// Where homes reach this one.
    pub endpoints: Vec<Endpoint>,
    /// How many homes it can serve.
    pub capacity: u32,
    /// Its failure domain, such as a rack.
    pub site: Option<Name>,
}

/// Where a fleet's records are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registry {
    /// An SQLite file, for several tunnels of one machine.
    File(PathBuf),
    /// etcd.
    Etcd(Etcd),
}

/// How to reach etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// Its members, `http://HOST:PORT` or `https://HOST:PORT`.
    pub members: Vec<String>,
    /// What all keys begin with.
    pub prefix: String,
    /// PEM file with the CA to trust.
    pub ca_file: Option<PathBuf>,
    /// PEM files of this host's certificate and key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// User, and the file of the password.
    pub user: Option<(String, PathBuf)>,
}

impl Registry {
    /// Reads it; files are relative to `base`.
    ///
    /// # Errors
    /// What is wrong with it, and how to write it.
    pub fn parse(text: &str, base: &Path) -> Result<Registry, String> {
        registry_of(text, base).map_err(|what| format!("{what}; {FORM}"))
    }

    /// The members of etcd that are reached without TLS.
    pub fn plain_members(&self) -> impl Iterator<Item = &str> {
        let members = match self {
            Registry::File(_) => &[][..],
            Registry::Etcd(etcd) => etcd.members.as_slice(),
        };
        members.iter().filter_map(|member| member.strip_prefix("http://"))
    }
}

const USUAL_CAPACITY: u32 = 1000;
const FORM: &str = "write \"etcds://HOST:2379,HOST:2379/braid/\", \"etcd://…\" without TLS, or \
                    \"sqlite:/var/lib/braid/fleet.db\"";

pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Fleet>> {
    let name = section.parsed("name");
    if name.is_none() {
        section.missing("name", "give this concentrator a name that is unique in the fleet");
    }
    let registry: Option<String> = section.parsed("registry");
    if registry.is_none() {
        section.missing("registry", FORM);
    }
    let endpoints = section.list::<Endpoint>("endpoints").unwrap_or_default();
    if endpoints.is_empty() {
        section.missing("endpoints", "write where homes reach it: [\"vpn1.example.org:51900\"]");
    }
    let capacity = section.integer("capacity", 1..=1_000_000).unwrap_or(USUAL_CAPACITY);
    let site = section.parsed("site");
    let mut file = |key| path::file(&mut section, key, base);
    let ca_file = file("ca_file");
    let pair = (file("certificate_file"), file("key_file"));
    let password_file = file("password_file");
    let user: Option<String> = section.parsed("user");
    if pair.0.is_some() != pair.1.is_some() {
        section.wrong(
            "certificate_file",
            "fleet.certificate_file and key_file go together",
            "write both, or none",
        );
    }
    if user.is_some() != password_file.is_some() {
        section.wrong("user", "fleet.user and password_file go together", "write both, or none");
    }
    let registry = registry.and_then(|text| {
        let read = registry_of(&text, base);
        if let Err(what) = &read {
            section.wrong("registry", what.clone(), FORM);
        }
        read.ok()
    });
    let registry = registry.map(|registry| match registry {
        Registry::Etcd(etcd) => Registry::Etcd(Etcd {
            ca_file,
            certificate: pair.0.zip(pair.1),
            user: user.zip(password_file),
            ..etcd
        }),
        file @ Registry::File(_) => file,
    });
    if let Some(Registry::Etcd(etcd)) = &registry {
        let tls = etcd.members.iter().any(|member| member.starts_with("https:"));
        if tls && etcd.ca_file.is_none() {
            section
                .missing("ca_file", "name the PEM file of the CA that signed etcd's certificates");
        }
        if !tls && etcd.user.is_some() {
            section.wrong(
                "user",
                "fleet.user without TLS: the password would cross the network unencrypted",
                "write registry = \"etcds://…\" and ca_file",
            );
        }
    }
    let places = section.finish();
    let value = Fleet { name: name?, registry: registry?, endpoints, capacity, site };
    Some(Placed { value, places })
}

fn registry_of(text: &str, base: &Path) -> Result<Registry, String> {
    if let Some(file) = text.strip_prefix("sqlite:").filter(|file| !file.is_empty()) {
        return Ok(Registry::File(path::file_path(file, base)?));
    }
    let schemes = [("etcds://", "https"), ("etcd://", "http")];
    let found = schemes.iter().find_map(|(scheme, by)| Some((text.strip_prefix(scheme)?, by)));
    let Some((rest, by)) = found else { return Err(format!("{text:?} is not a registry")) };
    let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let members: Result<Vec<String>, String> = members
        .split(',')
        .map(|member| {
            member
                .parse::<Endpoint>()
                .map(|endpoint| format!("{by}://{endpoint}"))
                .map_err(|_| format!("{member:?} in fleet.registry is not HOST:PORT"))
        })
        .collect();
    let prefix = if prefix.is_empty() { "braid/".to_owned() } else { prefix.to_owned() };
    Ok(Registry::Etcd(Etcd {
        members: members?,
        prefix,
        ca_file: None,
        certificate: None,
        user: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_a_file_or_etcd() {
        let read = |text: &str| registry_of(text, Path::new("/etc/braid"));
        assert_eq!(read("sqlite:f.db"), Ok(Registry::File("/etc/braid/f.db".into())));
        let Ok(Registry::Etcd(etcd)) = read("etcds://a:2379,[2001:db8::1]:2379/x/") else {
            panic!("no etcd")
        };
        assert_eq!(etcd.members, ["https://a:2379", "https://[2001:db8::1]:2379"]);
        assert_eq!(etcd.prefix, "x/");
        let Ok(Registry::Etcd(etcd)) = read("etcd://10.0.0.1:2379") else { panic!("no etcd") };
        assert_eq!(
            (etcd.prefix.as_str(), etcd.members[0].as_str()),
            ("braid/", "http://10.0.0.1:2379")
        );
        for wrong in ["", "sqlite:", "etcd://", "etcd://a", "redis://a:1", "etcd://a:1,,b:2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
