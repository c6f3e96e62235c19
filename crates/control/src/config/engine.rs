//! `[engine]`: the settings of the kernel's engine that joins a group's links.

use super::credential::key_path;
use super::section::{Placed, Places, Section};
use braid_engines::{
    Bonding, Ecmp, End, Engine, EngineKind, LinkWatch, Monitor, Mptcp, MptcpRole, Over, Pcc, Pppoe,
    Resilient, Team, WireGuard,
};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

/// `[engine]`.
pub(super) struct Settings {
    pub(super) engine: Engine,
    pub(super) over: Over,
    pub(super) routes: Vec<IpNet>,
    pub(super) gateway: Option<IpAddr>,
    pub(super) watch: Option<Watch>,
    pub(super) proxy: Option<MptcpProxy>,
}

/// `engine.proxy` of MPTCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MptcpProxy {
    /// Its port, at both ends.
    pub port: u16,
    /// Which end this is.
    pub end: ProxyEnd,
}

/// The ends of the MPTCP proxy, as their roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyEnd {
    /// Takes TCP connections of this host and its LAN (role initiator).
    Home {
        /// The other proxy's address; `None` if each server runs one itself.
        far_end: Option<IpAddr>,
        /// Only connections to these networks are redirected; all if empty.
        toward: Vec<IpNet>,
    },
    /// Connects to the servers (role responder).
    Far {
        /// Addresses that homes come from.
        homes: Vec<IpNet>,
        /// Where they may go.
        servers: Vec<IpNet>,
    },
}

/// `engine.watch`: a link over which this host doesn't answer pings is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Each link's own router (RouterOS' `check-gateway=ping`).
    Gateway,
    /// One host behind all links.
    Host(IpAddr),
}

/// Default ports: RFC 7348's, and the one after WireGuard's.
const VXLAN_PORT: u16 = 4789;
const WIREGUARD_PORT: u16 = 51_821;
/// The MPTCP proxy's, at both ends.
const PROXY_PORT: u16 = 51_902;
/// Default of a resilient group, from the example in the kernel's documentation.
const BUCKETS: u16 = 128;
const IDLE_TIMER: Duration = Duration::from_secs(120);

/// The settings without `[engine]`.
pub(super) fn default(kind: EngineKind) -> Placed<Settings> {
    let engine = match kind {
        EngineKind::Bonding => Engine::Bonding(Bonding::default()),
        EngineKind::Team => Engine::Team(Team::default()),
        EngineKind::Teql => Engine::Teql,
        EngineKind::Ecmp => Engine::Ecmp(Ecmp::default()),
        EngineKind::Mptcp => Engine::Mptcp(Mptcp::default()),
        EngineKind::PppoeMultilink => Engine::PppoeMultilink(Pppoe::default()),
        EngineKind::Pcc => Engine::Pcc(Pcc::default()),
    };
    let (routes, gateway, watch) = (Vec::new(), None, None);
    let value = Settings { engine, over: Over::Direct, routes, gateway, watch, proxy: None };
    Placed { value, places: Places::default() }
}

pub(super) fn read(
    mut section: Section<'_, '_>,
    kind: EngineKind,
    base: &Path,
) -> Option<Placed<Settings>> {
    let routes = section.list::<IpNet>("routes").unwrap_or_default();
    let over = read_over(&mut section, base);
    let mut gateway = None;
    let mut proxy = None;
    let mut watch = None;
    match kind.routes() {
        true => watch = read_watch(&mut section),
        false => gateway = section.parsed("gateway"),
    }
    let engine = match kind {
        EngineKind::Bonding => Engine::Bonding(read_bonding(&mut section)),
        EngineKind::Team => Engine::Team(read_team(&mut section)),
        EngineKind::Teql => Engine::Teql,
        EngineKind::Ecmp => Engine::Ecmp(read_ecmp(&mut section)),
        EngineKind::Mptcp => {
            let mptcp = read_mptcp(&mut section);
            proxy = read_proxy(&mut section, mptcp.role);
            Engine::Mptcp(mptcp)
        }
        EngineKind::PppoeMultilink => Engine::PppoeMultilink(read_pppoe(&mut section)),
        EngineKind::Pcc => Engine::Pcc(read_pcc(&mut section)),
    };
    let places = section.finish();
    Some(Placed { value: Settings { engine, over: over?, routes, gateway, watch, proxy }, places })
}

fn read_over(section: &mut Section<'_, '_>, base: &Path) -> Option<Over> {
    let word = section.parsed_by("over", |word| match word {
        "ethernet" | "gretap" | "vxlan" | "wireguard" => Ok(word.to_owned()),
        other => Err(format!("{other:?} is none of ethernet, gretap, vxlan, wireguard")),
    });
    let word = word.as_deref().unwrap_or("ethernet");
    if word == "ethernet" {
        return Some(Over::Direct);
    }
    let end = section.parsed("end").unwrap_or(End::First);
    match word {
        "gretap" => Some(Over::Gretap { end }),
        "vxlan" => Some(Over::Vxlan {
            end,
            port: section.integer("port", 1..=65535).unwrap_or(VXLAN_PORT),
        }),
        _ => {
            let private_key_file =
                section.parsed_by("private_key_file", |text| key_path(text, base));
            let peer_public_key = section.parsed::<String>("peer_public_key");
            let port = section.integer("port", 1..=65000).unwrap_or(WIREGUARD_PORT);
            for (key, there) in [
                ("private_key_file", private_key_file.is_some()),
                ("peer_public_key", peer_public_key.is_some()),
            ] {
                if !there {
                    section.missing(
                        key,
                        "over = \"wireguard\" needs both keys (`wg genkey`, `wg pubkey`)",
                    );
                }
            }
            let private_key_file = private_key_file?;
            let settings = WireGuard { private_key_file, peer_public_key: peer_public_key?, port };
            Some(Over::WireGuard { end, settings })
        }
    }
}

fn read_watch(section: &mut Section<'_, '_>) -> Option<Watch> {
    section.parsed_by("watch", |word| match word {
        "gateway" => Ok(Watch::Gateway),
        other => other.parse().map(Watch::Host).map_err(|_| {
            format!("{other:?} is neither \"gateway\" nor the address of a host to ping")
        }),
    })
}

fn read_bonding(section: &mut Section<'_, '_>) -> Bonding {
    let default = Bonding::default();
    let interval = milliseconds(section, "monitor_interval").unwrap_or(100);
    let targets = section.list::<Ipv4Addr>("arp_targets");
    let monitor = match targets {
        Some(targets) => {
            let validate = section.boolean("arp_validate").unwrap_or(false);
            Monitor::Arp { interval_ms: interval, targets, validate }
        }
        None => Monitor::Carrier {
            interval_ms: interval,
            up_delay_ms: milliseconds(section, "up_delay").unwrap_or(0),
            down_delay_ms: milliseconds(section, "down_delay").unwrap_or(0),
        },
    };
    Bonding {
        mode: section.parsed("mode").unwrap_or(default.mode),
        hash: section.parsed("hash").unwrap_or(default.hash),
        monitor,
        primary: section.parsed("primary"),
        primary_reselect: section.parsed("primary_reselect").unwrap_or(default.primary_reselect),
        lacp_rate: section.parsed("lacp_rate").unwrap_or(default.lacp_rate),
        min_links: section.integer("min_links", 0..=255).unwrap_or(default.min_links),
        packets_per_port: section
            .integer("packets_per_link", 0..=65535)
            .unwrap_or(default.packets_per_port),
        resend_igmp: section.integer("resend_igmp", 0..=255).unwrap_or(default.resend_igmp),
        peer_notifications: section
            .integer("peer_notifications", 0..=255)
            .unwrap_or(default.peer_notifications),
    }
}

fn read_team(section: &mut Section<'_, '_>) -> Team {
    let default = Team::default();
    let watch = match section.parsed::<Ipv4Addr>("arp_target") {
        Some(target) => LinkWatch::ArpPing {
            interval_ms: milliseconds(section, "monitor_interval").unwrap_or(100),
            target,
        },
        None => default.watch,
    };
    Team {
        runner: section.parsed("mode").unwrap_or(default.runner),
        hash: section.parsed("hash").unwrap_or(default.hash),
        watch,
    }
}

fn read_ecmp(section: &mut Section<'_, '_>) -> Ecmp {
    let default = Ecmp::default();
    let seconds = |duration: Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    let resilient = section.boolean("resilient").unwrap_or(false).then(|| Resilient {
        buckets: section.integer("buckets", 1..=16384).unwrap_or(BUCKETS),
        idle_timer_s: seconds(section.duration("idle_timer").unwrap_or(IDLE_TIMER)),
        unbalanced_timer_s: section.duration("unbalanced_timer").map_or(0, seconds),
    });
    Ecmp {
        hash: section.parsed("hash").unwrap_or(default.hash),
        resilient,
        masquerade: section.boolean("masquerade").unwrap_or(default.masquerade),
    }
}

fn read_pcc(section: &mut Section<'_, '_>) -> Pcc {
    let default = Pcc::default();
    Pcc {
        classifier: section.parsed("classifier").unwrap_or(default.classifier),
        masquerade: section.boolean("masquerade").unwrap_or(default.masquerade),
    }
}

fn read_mptcp(section: &mut Section<'_, '_>) -> Mptcp {
    let default = Mptcp::default();
    Mptcp {
        role: section.parsed("role").unwrap_or(default.role),
        subflows: section.integer("subflows", 0..=255).unwrap_or(default.subflows),
        add_addr_accepted: section
            .integer("add_addr_accepted", 0..=255)
            .unwrap_or(default.add_addr_accepted),
        fullmesh: section.boolean("fullmesh").unwrap_or(default.fullmesh),
    }
}

fn read_proxy(section: &mut Section<'_, '_>, role: MptcpRole) -> Option<MptcpProxy> {
    if !section.boolean("proxy").unwrap_or(false) {
        return None;
    }
    let port = section.integer("proxy_port", 1..=65535).unwrap_or(PROXY_PORT);
    let end = match role {
        MptcpRole::Initiator => ProxyEnd::Home {
            far_end: section.parsed("proxy_far_end"),
            toward: section.list("proxy_toward").unwrap_or_default(),
        },
        MptcpRole::Responder => {
            let homes = section.list::<IpNet>("proxy_homes").unwrap_or_default();
            let servers = section.list::<IpNet>("proxy_servers").unwrap_or_default();
            for (key, list) in [("proxy_homes", &homes), ("proxy_servers", &servers)] {
                if list.is_empty() {
                    let hint =
                        "name the networks: without them it would relay for nobody or for anybody";
                    section.missing(key, hint);
                }
            }
            ProxyEnd::Far { homes, servers }
        }
    };
    Some(MptcpProxy { port, end })
}

fn read_pppoe(section: &mut Section<'_, '_>) -> Pppoe {
    let default = Pppoe::default();
    Pppoe {
        role: section.parsed("role").unwrap_or(default.role),
        mrru: section.integer("mrru", 128..=16384).unwrap_or(default.mrru),
        server: section.parsed("server"),
        client: section.parsed("client"),
        user: section.parsed("user"),
    }
}

fn milliseconds(section: &mut Section<'_, '_>, key: &'static str) -> Option<u32> {
    section.duration(key).map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1))
}
