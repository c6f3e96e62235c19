//! PPP multilink (RFC 1990) over PPP over Ethernet (RFC 2516): one PPP session per link, bundled by
//! both ends.

use crate::group::{Group, Trouble};
use crate::operation::Operation;
use crate::port::Port;
use crate::words::words;
use crate::{Feature, GroupLink};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Settings of a PPPoE bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pppoe {
    /// Which end this is.
    pub role: PppoeRole,
    /// Largest packet that the bundle carries, bytes (MRRU, RFC 1990, 5.1.1).
    pub mrru: u16,
    /// The server's inner address, if this end determines it.
    pub server: Option<Ipv4Addr>,
    /// The client's inner address, if this end determines it.
    pub client: Option<Ipv4Addr>,
    /// User name, if the server asks for one; its secret is in pppd's files.
    pub user: Option<String>,
}

words! {
    /// The ends of PPPoE.
    PppoeRole {
        /// Connects (a home).
        Client = "client",
        /// Accepts connections (an access concentrator).
        Server = "server",
    }
}

/// Overhead of PPPoE and PPP in an Ethernet frame, bytes (RFC 2516, section 7).
const PPPOE_OVERHEAD: u32 = 8;
/// Seconds between LCP echoes, and how many may be lost.
const ECHO: (u32, u32) = (1, 4);

impl Default for Pppoe {
    fn default() -> Pppoe {
        Pppoe { role: PppoeRole::Client, mrru: 1500, server: None, client: None, user: None }
    }
}

pub(crate) fn check(pppoe: &Pppoe, group: &Group, found: &mut Vec<Trouble>) {
    if pppoe.mrru < 128 {
        found.push(Trouble::new("mrru", "an MRRU below 128 bytes", "write 1500"));
    }
    if !group.addresses.is_empty() {
        found.push(Trouble::new(
            "addresses",
            "PPP negotiates the addresses itself",
            "remove addresses; write server = and client = in [engine]",
        ));
    }
    let settles = pppoe.role == PppoeRole::Server;
    if settles && (pppoe.server.is_none() || pppoe.client.is_none()) {
        found.push(Trouble::new(
            "server",
            "a PPPoE server must set both addresses",
            "write server = \"10.0.0.1\" and client = \"10.0.0.2\" in [engine]",
        ));
    }
    if let Some(user) = &pppoe.user
        && !user.chars().all(|c| c.is_ascii_alphanumeric() || "._-@+".contains(c))
    {
        found.push(Trouble::new(
            "user",
            "a user name with spaces or quotes",
            "use letters, digits, '.', '_', '-', '@' and '+'",
        ));
    }
}

pub(crate) fn needs(pppoe: &Pppoe, group: &Group) -> Vec<Feature> {
    let mut needs = vec![Feature::Pppoe, Feature::Multilink, Feature::Pppd];
    if pppoe.role == PppoeRole::Server && !settled(group) {
        needs.push(Feature::PppoeServer);
    }
    needs
}

pub(crate) fn operations(pppoe: &Pppoe, group: &Group, ports: &[Port]) -> Vec<Operation> {
    let mut operations: Vec<Operation> =
        ports.iter().map(|port| Operation::Up { device: port.device.clone() }).collect();
    match pppoe.role {
        PppoeRole::Server if !settled(group) => operations.extend(server(pppoe, group, ports)),
        PppoeRole::Server | PppoeRole::Client => {
            operations.extend(ports.iter().map(|port| session(pppoe, group, port)));
        }
    }
    operations
}

/// Whether sessions are configured at both ends: then the kernel carries them without discovery
/// (and without pppoe-server's user-space relay).
fn settled(group: &Group) -> bool {
    group.links.iter().all(|link| link.peer_mac.is_some())
}

/// The pppd of a link.
fn session(pppoe: &Pppoe, group: &Group, port: &Port) -> Operation {
    let mut argv: Vec<String> = ["pppd", "plugin", "rp-pppoe.so", &format!("nic-{}", port.device)]
        .map(str::to_owned)
        .into();
    if settled(group)
        && let Some(mac) = group.link(port.number).and_then(|link: &GroupLink| link.peer_mac)
    {
        argv.extend(["rp_pppoe_sess".into(), format!("{}:{mac}", port.number)]);
    }
    argv.extend(options(pppoe, group, port.mtu).concat());
    // Without `persist`, since a pppd that reconnects doesn't rejoin the bundle (2.4.9): it exits
    // with its link and is started again. The pppd whose link created the bundle must keep it; with
    // `master_detach` another process does, which exits after the last link. Never with `linkname`:
    // an exiting process writes that to pppd's database together with its own pid as the bundle's
    // owner, sometimes after its successor did, so that later members find a dead owner.
    argv.extend(["nodetach", "master_detach"].map(str::to_owned));
    Operation::Process {
        name: "pppd".into(),
        argv,
        pid_file: group.state_file(&format!("pppd-{}.pid", port.number)),
        provides: None,
    }
}

/// The pppoe-server for all links.
fn server(pppoe: &Pppoe, group: &Group, ports: &[Port]) -> [Operation; 2] {
    let file = group.state_file("pppoe-server.options");
    let mtu = ports.iter().map(|port| port.mtu).min().unwrap_or(1500);
    let lines = options(pppoe, group, mtu).into_iter().map(|option| option.join(" ") + "\n");
    let contents: String = lines.collect();
    let mut argv: Vec<String> = ["pppoe-server", "-F", "-O"].map(str::to_owned).into();
    argv.push(file.display().to_string());
    for port in ports {
        argv.extend(["-I".to_owned(), port.device.to_string()]);
    }
    for (flag, address) in [("-L", pppoe.server), ("-R", pppoe.client)] {
        argv.extend(address.into_iter().flat_map(|ip| [flag.to_owned(), ip.to_string()]));
    }
    [
        Operation::File { path: file, contents, mode: 0o644 },
        Operation::Process {
            name: "pppoe-server".into(),
            argv,
            pid_file: group.state_file("pppoe-server.pid"),
            provides: None,
        },
    ]
}

/// Options that both ends' pppds have, each with its value.
fn options(pppoe: &Pppoe, group: &Group, mtu: u32) -> Vec<Vec<String>> {
    let frame = mtu.saturating_sub(PPPOE_OVERHEAD).to_string();
    let flag = |word: &str| vec![word.to_owned()];
    let set = |word: &str, value: String| vec![word.to_owned(), value];
    let mut options = vec![
        flag("noauth"),
        flag("multilink"),
        set("mrru", pppoe.mrru.to_string()),
        set("bundle", format!("braid-{}", group.name)),
        set("mtu", frame.clone()),
        set("mru", frame),
        set("ifname", group.name.to_string()),
        flag("nodeflate"),
        flag("nobsdcomp"),
        flag("novj"),
        set("lcp-echo-interval", ECHO.0.to_string()),
        set("lcp-echo-failure", ECHO.1.to_string()),
    ];
    let shown = |ip: Option<Ipv4Addr>| ip.map_or_else(String::new, |ip| ip.to_string());
    let (local, remote) = match pppoe.role {
        PppoeRole::Client => (pppoe.client, pppoe.server),
        PppoeRole::Server => (pppoe.server, pppoe.client),
    };
    options.push(match (local, remote) {
        (None, None) => flag("noipdefault"),
        _ => vec![format!("{}:{}", shown(local), shown(remote))],
    });
    options.extend(pppoe.user.clone().map(|user| set("user", user)));
    options
}
