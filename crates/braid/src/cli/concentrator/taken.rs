//! Names and addresses of a fleet's homes, from its registry, as this concentrator's knowledge is
//! some seconds old or missing.

use super::super::failure::Failure;
use braid_control::config::{Config, Endpoint};
use braid_handshake::PublicKey;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Addresses by home name.
#[derive(Debug, Default)]
pub struct Taken(BTreeMap<String, Vec<IpNet>>);

impl Taken {
    /// Those of the config's fleet; empty if it is in none.
    ///
    /// # Errors
    /// The registry doesn't answer, or refuses.
    #[cfg(feature = "fleet")]
    pub fn in_fleet(config: &Config) -> Result<Taken, Failure> {
        if config.fleet.is_none() {
            return Ok(Taken::default());
        }
        Ok(Taken::by(&super::fleet::Registry::of(config)?.read()?))
    }

    #[cfg(feature = "fleet")]
    fn by(fleet: &braid_registry::Fleet) -> Taken {
        let nets = |texts: &[String]| texts.iter().filter_map(|net| net.parse().ok()).collect();
        let homes = fleet.homes.iter();
        Taken(homes.map(|(name, (home, _))| (name.clone(), nets(&home.addresses))).collect())
    }

    /// Empty: this build doesn't support fleets.
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

/// The right to add to a fleet: until it is dropped, nobody else adds a home or a concentrator, as
/// two who look at the same time would find the same names and addresses free. Without a registry
/// it has no effect.
#[derive(Default)]
pub struct Adding {
    /// What is taken.
    pub taken: Taken,
    #[cfg(feature = "fleet")]
    registry: Option<super::fleet::Registry>,
    #[cfg(feature = "fleet")]
    fleet: braid_registry::Fleet,
}

#[cfg(feature = "fleet")]
impl Adding {
    /// Acquires it for the config's fleet, if it is in one.
    ///
    /// # Errors
    /// The registry doesn't answer, or refuses; or others keep adding.
    pub fn to_fleet(config: &Config) -> Result<Adding, Failure> {
        let mut adding = Adding::default();
        if config.fleet.is_none() {
            return Ok(adding);
        }
        let mut registry = super::fleet::Registry::of(config)?;
        registry.begin_to_add()?;
        // From here on it is released in any case.
        adding.fleet = adding.registry.insert(registry).read()?;
        adding.taken = Taken::by(&adding.fleet);
        Ok(adding)
    }

    /// Registers a home that is now in the config, so that nobody takes its name and addresses
    /// before the tunnel registers it.
    pub fn home(&mut self, name: &str, addresses: &[IpNet]) {
        let Some(registry) = &mut self.registry else { return };
        if let Err(failure) = registry.write_home(name, addresses) {
            super::super::failure::tell(&format!(
                "the fleet's registry doesn't know {name} yet; the running tunnel will register \
                 it: {failure}"
            ));
        }
    }

    /// Registers this concentrator in the fleet under a unique name.
    ///
    /// # Errors
    /// Another one has the name; the registry doesn't answer, or refuses.
    pub fn concentrator(
        &mut self,
        config: &Config,
        public_key: &PublicKey,
        endpoints: &[Endpoint],
    ) -> Result<(), Failure> {
        match (&mut self.registry, &config.fleet) {
            (Some(registry), Some(fleet)) => {
                registry.write_concentrator(&self.fleet, fleet, public_key, endpoints)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "fleet")]
impl Drop for Adding {
    fn drop(&mut self) {
        if let Some(registry) = &mut self.registry {
            registry.end_to_add();
        }
    }
}

#[cfg(not(feature = "fleet"))]
impl Adding {
    /// No effect: this build doesn't support fleets.
    ///
    /// # Errors
    /// None.
    pub fn to_fleet(_: &Config) -> Result<Adding, Failure> {
        Ok(Adding::default())
    }

    /// Nothing.
    pub fn home(&mut self, _: &str, _: &[IpNet]) {}

    /// Nothing.
    ///
    /// # Errors
    /// None.
    pub fn concentrator(
        &mut self,
        _: &Config,
        _: &PublicKey,
        _: &[Endpoint],
    ) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(test)]
impl Taken {
    pub fn of(name: &str, nets: &[&str]) -> Taken {
        let nets = nets.iter().map(|net| net.parse().unwrap()).collect();
        Taken(BTreeMap::from([(name.to_owned(), nets)]))
    }
}
