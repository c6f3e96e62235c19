//! Waits until both ends have every link in the group: a figure measured with half of the links
//! would be wrong. The signs are:
//! * a bond's ports: the kernel reports them as up, and under 802.3ad both partners as collecting
//!   and distributing (IEEE 802.1AX-2020, 6.4.2.3);
//! * a team's ports: teamd has enabled them (option `enabled`);
//! * PPP's links: each pppd reports that its link is in the bundle.

use super::super::process::Side;
use super::super::{Bench, EngineError, Running};
use super::apply::namespace;
use braid_engines::{BondMode, Engine, Group, Runner};
use braid_linux::netns::NetNs;
use serde::Deserialize;
use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

/// Long enough for a busy machine: LCP retries every 3 s, and a failed session is started again.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Messages of pppd 2.4 and 2.5 when a link has joined a bundle: for the first link, and for the
/// others.
const IN_THE_BUNDLE: [&str; 2] = ["New bundle ", "Link attached to "];

/// Synchronised, collecting and distributing: a partner's or an actor's state.
const CARRIES: u16 = 0x08 | 0x10 | 0x20;

/// Waits for the engine of `groups`, one per end.
pub(super) fn settle(
    groups: &[(Side, Group)],
    bench: &Bench<'_>,
    running: &mut Running,
) -> Result<(), EngineError> {
    running.wait_until(SETTLED_WITHIN, bench, |running| first_missing(groups, bench, running))
}

/// What isn't in its group yet; `None` if everything is.
fn first_missing(
    groups: &[(Side, Group)],
    bench: &Bench<'_>,
    running: &Running,
) -> Result<Option<String>, EngineError> {
    for (side, group) in groups {
        let missing = match &group.engine {
            Engine::Bonding(bonding) => {
                let lacp = bonding.mode == BondMode::Ieee8023ad;
                let ports = ports(namespace(*side, bench), group)?;
                let up = ports.iter().filter(|port| port.carries(lacp)).count();
                short_of("ports that carry traffic", up, group.links.len())
            }
            Engine::Team(team) => {
                let namespace = namespace(*side, bench);
                let mut enabled = 0;
                for port in ports(namespace, group)? {
                    enabled += usize::from(is_enabled(namespace, group, &port.ifname)?);
                }
                // Backup ports aren't enabled.
                let one = team.runner == Runner::ActiveBackup;
                let wanted = if one { 1 } else { group.links.len() };
                short_of("ports that teamd has enabled", enabled, wanted)
            }
            Engine::PppoeMultilink(_) => {
                let own = running.processes.iter().filter(|process| process.side() == *side);
                let joined = own.filter(|process| process.has_said(&IN_THE_BUNDLE)).count();
                short_of("PPP sessions in the bundle", joined, group.links.len())
            }
            Engine::Teql | Engine::Ecmp(_) | Engine::Mptcp(_) | Engine::Pcc(_) => None,
        };
        if let Some(missing) = missing {
            return Ok(Some(format!("{side}: {} has {missing}", group.name)));
        }
    }
    Ok(None)
}

fn short_of(what: &str, found: usize, wanted: usize) -> Option<String> {
    (found < wanted).then(|| format!("{found} of {wanted} {what}"))
}

/// A port, as `ip -json -details link` shows it.
#[derive(Deserialize)]
struct Port {
    ifname: String,
    linkinfo: LinkInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LinkInfo {
    info_slave_data: BondPort,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BondPort {
    mii_status: String,
    ad_actor_oper_port_state: u16,
    ad_partner_oper_port_state: u16,
}

impl Port {
    /// Whether it carries as a bond's port; under LACP only if both partners agree.
    fn carries(&self, lacp: bool) -> bool {
        let port = &self.linkinfo.info_slave_data;
        let states = [port.ad_actor_oper_port_state, port.ad_partner_oper_port_state];
        port.mii_status == "UP" && (!lacp || states.iter().all(|state| state & CARRIES == CARRIES))
    }
}

fn ports(namespace: &NetNs, group: &Group) -> Result<Vec<Port>, EngineError> {
    let show = ["-json", "-details", "link", "show", "master", group.name.as_str()];
    let output = ask(namespace, "ip", &show)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| EngineError::io("ip link show: not as expected")(error.into()))
}

fn is_enabled(namespace: &NetNs, group: &Group, port: &str) -> Result<bool, EngineError> {
    let port = format!("--port_name={port}");
    let output = ask(namespace, "teamnl", &[group.name.as_str(), "getoption", "enabled", &port])?;
    Ok(String::from_utf8_lossy(&output.stdout).trim() == "true")
}

fn ask(namespace: &NetNs, program: &str, args: &[&str]) -> Result<Output, EngineError> {
    let mut command = namespace.command(program);
    command.args(args).stdin(Stdio::null());
    command
        .output()
        .map_err(|error: io::Error| EngineError::io(format!("can't start {program}"))(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_up_is_not_yet_one_that_lacp_has_let_in() {
        let text = |state: u16, status: &str| {
            format!(
                r#"{{"ifname":"one","mtu":1500,"linkinfo":{{"info_slave_kind":"bond",
                "info_slave_data":{{"state":"ACTIVE","mii_status":"{status}",
                "ad_actor_oper_port_state":63,"ad_partner_oper_port_state":{state}}}}}}}"#
            )
        };
        let port = |state, status| serde_json::from_str::<Port>(&text(state, status)).unwrap();
        assert!(port(1, "UP").carries(false) && !port(1, "UP").carries(true));
        assert!(port(61, "UP").carries(true));
        assert!(!port(63, "DOWN").carries(false) && !port(63, "GOING_DOWN").carries(true));
        // A team's port has no such data.
        let team = r#"{"ifname":"one","linkinfo":{"info_slave_kind":"team"}}"#;
        assert!(!serde_json::from_str::<Port>(team).unwrap().carries(false));
    }
}
