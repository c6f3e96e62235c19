//! Where homes reach this host, as `concentrator init` was told.

use braid_control::config::{Config, Endpoint, Host};
use std::path::{Path, PathBuf};

/// The file that has it, beside the config.
pub fn file(config: &Path) -> PathBuf {
    config.with_extension("endpoints")
}

/// The names and addresses, without ports; none where nobody has said.
pub fn hosts(config: &Config) -> Vec<String> {
    let told = std::fs::read_to_string(file(&config.file)).unwrap_or_default();
    let told = told.lines().filter_map(|line| line.trim().parse::<Endpoint>().ok());
    let of_fleet = config.fleet.iter().flat_map(|fleet| fleet.endpoints.clone());
    let mut hosts: Vec<String> = Vec::new();
    for endpoint in of_fleet.chain(told) {
        let host = match endpoint.host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name,
        };
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}
