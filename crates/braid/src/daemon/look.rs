//! Collects the facts about host and tunnel that `braid_doctor` judges: twice, with a moment in
//! between, as rates come from counters. What can't be found out is left out.

#[cfg(feature = "page")]
pub mod line;
mod load;
mod network;

use super::egress::HostNetwork;
use braid_control::config::{Config, Host};
use braid_control::status::Status;
use braid_doctor::{Counters, Facts, HostFacts, Measured};
use braid_history::Event;
use braid_linux::netlink::Netlink;
use load::Times;
use std::fs;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Counters at the first look.
pub struct FirstLook {
    at: Instant,
    status: Option<Status>,
    counters: Counters,
    times: Option<Times>,
}

impl FirstLook {
    /// Looks for the first time.
    pub fn now(config: &Config, status: Option<Status>) -> FirstLook {
        let network = observe(config);
        let times = Times::now(status.as_ref().map(|status| status.pid));
        FirstLook { at: Instant::now(), counters: counters(config, &network), times, status }
    }

    /// Looks again.
    pub fn then(
        self,
        config: &Config,
        status: Option<Status>,
        events: Vec<Event>,
        measured: Option<Measured>,
    ) -> Facts {
        let network = observe(config);
        let pid = status.as_ref().map(|status| status.pid);
        let between = self.at.elapsed();
        let load = self.times.zip(Times::now(pid)).map(|(before, now)| now.since(&before, between));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let instead = status.as_ref().is_some_and(|status| !status.dns.instead.is_empty());
        let host = HostFacts {
            has_tun: Path::new("/dev/net/tun").exists(),
            has_nft: has_program("nft"),
            kernel: kernel(),
            links: network::links(config, &network),
            routes: network::routes(config, &network, instead),
            unknown_endpoints: unknown_endpoints(config),
            forwarding: network::forwarding(),
            clock_synchronized: braid_linux::clock::is_synchronized().ok(),
            conntrack: conntrack(),
            state_free_bytes: free_bytes(&config.interface.state_dir),
            counters: counters(config, &network),
            earlier_counters: self.counters,
            load,
        };
        Facts {
            config: config.clone(),
            status,
            earlier: self.status,
            between,
            host,
            events,
            measured,
            now: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        }
    }
}

fn observe(config: &Config) -> HostNetwork {
    let look = || HostNetwork::look(&mut Netlink::open()?, config);
    look().unwrap_or_default()
}

fn counters(config: &Config, network: &HostNetwork) -> Counters {
    Counters {
        udp_receive_buffer: udp_receive_buffer().unwrap_or(0),
        card_errors: network::card_errors(config, network),
    }
}

/// `RcvbufErrors` of this network namespace: names in one line of `Udp:`, values in the next.
fn udp_receive_buffer() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/net/snmp").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == "RcvbufErrors")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

fn conntrack() -> Option<(u64, u64)> {
    let read = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/proc/sys/net/netfilter/{name}")).ok()?.trim().parse().ok()
    };
    Some((read("nf_conntrack_count")?, read("nf_conntrack_max")?))
}

fn kernel() -> Option<(u32, u32)> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// Searches where our daemon does.
fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).any(|file| file.is_file())
}

/// Asks the host's name servers, which may take some seconds.
fn unknown_endpoints(config: &Config) -> Vec<String> {
    let endpoints = config.peers.iter().flat_map(|peer| &peer.endpoints);
    let mut names: Vec<&String> = endpoints
        .filter_map(|endpoint| match &endpoint.host {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        })
        .collect();
    names.dedup();
    let is_unknown = |name: &&String| {
        !(name.as_str(), 1).to_socket_addrs().is_ok_and(|mut it| it.next().is_some())
    };
    names.into_iter().filter(is_unknown).cloned().collect()
}
