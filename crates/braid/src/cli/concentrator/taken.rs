//! Names and addresses that the homes of a fleet have, by its registry: what this concentrator
//! knows of them is some seconds old, or nothing yet.

use super::super::failure::Failure;
use braid_control::config::Config;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// By the homes' names.
#[derive(Debug, Default)]
pub struct Taken(BTreeMap<String, Vec<IpNet>>);

impl Taken {
    /// Those of the config's fleet; none where it is in none.
    ///
    /// # Errors
    /// The registry doesn't answer, or refuses.
    #[cfg(feature = "fleet")]
    pub fn in_fleet(config: &Config) -> Result<Taken, Failure> {
        if config.fleet.is_none() {
            return Ok(Taken::default());
        }
        let fleet = super::fleet::Registry::of(config)?.read()?;
        let nets = |texts: Vec<String>| texts.iter().filter_map(|net| net.parse().ok()).collect();
        let homes = fleet.homes.into_iter();
        Ok(Taken(homes.map(|(name, (home, _))| (name, nets(home.addresses))).collect()))
    }

    /// None: this build knows no fleets.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "fleet"))]
    pub fn in_fleet(_: &Config) -> Result<Taken, Failure> {
        Ok(Taken::default())
    }

    /// How many homes there are.
    pub fn homes(&self) -> usize {
        self.0.len()
    }

    /// Whether a home has this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The home that has this address.
    pub fn home_at(&self, address: IpAddr) -> Option<&str> {
        let has = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
        self.0.iter().find(|(_, nets)| has(nets)).map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
impl Taken {
    pub fn by(name: &str, nets: &[&str]) -> Taken {
        let nets = nets.iter().map(|net| net.parse().unwrap()).collect();
        Taken(BTreeMap::from([(name.to_owned(), nets)]))
    }
}
