//! Where homes reach this host, as given to `concentrator init`.

use braid_control::config::{Config, Endpoint, EndpointError, Host};
use std::path::{Path, PathBuf};

/// The file with the endpoints, beside the config.
pub fn file(config: &Path) -> PathBuf {
    config.with_extension("endpoints")
}

/// Parses its lines, with their numbers.
pub fn each(text: &str) -> impl Iterator<Item = (usize, Result<Endpoint, EndpointError>)> {
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    lines.map(|(index, line)| (index + 1, line.parse()))
}

/// The names and addresses, without ports; empty if none were given.
pub fn hosts(config: &Config) -> Vec<String> {
    let told = std::fs::read_to_string(file(&config.file)).unwrap_or_default();
    let told = each(&told).filter_map(|(_, endpoint)| endpoint.ok());
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
