//! What this kernel or host lacks for an engine, found by trying.

use super::EngineName;
use crate::scenario::Scenario;
use crate::topology::{InKernel, has_netem};
use braid_engines::Feature;
use braid_linux::netns::NetNs;
use std::collections::HashMap;
use std::process::Stdio;

/// Answers about features, each tried once.
#[derive(Debug, Default)]
pub struct Host {
    found: HashMap<Feature, bool>,
    netem: Option<bool>,
}

impl Host {
    /// Why `engine` can't be measured here; `None` if it can, as far as can be known beforehand.
    pub fn lacks(&mut self, engine: &EngineName, scenario: &Scenario) -> Option<String> {
        let EngineName::Group(engine) = engine else { return None };
        let ethernet = scenario.links.iter().all(|link| link.ethernet);
        for feature in engine.needs(ethernet) {
            if !self.has(feature) {
                return Some(feature.to_string());
            }
        }
        // Slow, distant or lossy Ethernet devices require netem.
        let wants_devices = engine.needs_ethernet() && ethernet;
        if wants_devices && scenario.in_kernel != InKernel::All && !self.has_netem() {
            return Some("netem".to_owned());
        }
        None
    }

    /// Whether the kernel has netem.
    pub fn has_netem(&mut self) -> bool {
        *self.netem.get_or_insert_with(has_netem)
    }

    fn has(&mut self, feature: Feature) -> bool {
        *self.found.entry(feature).or_insert_with(|| works(feature))
    }
}

/// Tries a feature in a namespace of its own.
fn works(feature: Feature) -> bool {
    let text = match feature {
        Feature::Bonding => "ip link add probe0 type bond",
        Feature::Team => "ip link add probe0 type team",
        // Its devices belong to the machine, not to a namespace.
        Feature::Teql => "nsenter -t 1 -n ip link show teql0 || modprobe sch_teql max_equalizers=8",
        Feature::NextHops => "ip nexthop add id 1 blackhole",
        Feature::ResilientNextHops => {
            "ip nexthop add id 1 dev lo && ip nexthop add id 2 group 1 type resilient buckets 8"
        }
        Feature::Mptcp => "ip mptcp limits show",
        // A session with nobody.
        Feature::Pppoe => {
            "modprobe -q pppoe; grep -qw PPPOE /proc/net/protocols || test -e /proc/net/pppoe"
        }
        Feature::Multilink => "test -c /dev/ppp",
        Feature::Nftables => "nft add table inet probe",
        Feature::NftNumgen => {
            "nft 'table inet p { chain c { meta mark set numgen inc mod 2; } ; }'"
        }
        Feature::NftHash => {
            "nft 'table inet p { chain c { meta mark set jhash ip saddr mod 2; } ; }'"
        }
        Feature::PolicyRouting => "ip rule add fwmark 1 lookup 7",
        Feature::Gretap => "ip link add probe0 type gretap local 127.0.0.1 remote 127.0.0.2 key 1",
        Feature::Vxlan => "ip link add probe0 type vxlan id 1 remote 127.0.0.2 dstport 4789",
        Feature::WireGuard => "ip link add probe0 type wireguard",
        Feature::Teamd => "command -v teamd",
        Feature::Pppd => "command -v pppd",
        Feature::PppoeServer => "command -v pppoe-server",
        Feature::Nft => "command -v nft",
    };
    let Ok(namespace) = NetNs::new() else { return false };
    let mut command = super::process::shell(&namespace, text);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_engines_of_the_kernel_can_lack_something() {
        let scenario = crate::scenario::Shipped::named("six-3g").unwrap().load().unwrap();
        let mut host = Host::default();
        for engine in ["tunnel", "mptcp", "ecmp"] {
            assert_eq!(host.lacks(&engine.parse().unwrap(), &scenario), None);
        }
        // Whatever the kernel supports: asking twice gives the same answer.
        let bonding = "bonding:balance-rr".parse().unwrap();
        assert_eq!(host.lacks(&bonding, &scenario), host.lacks(&bonding, &scenario));
    }
}
