//! The config's words in the core's types.

use super::quota::{Period, Quota, ResetDay};
use braid_control::config::{self, Link, Peer, QuotaPeriod};
use braid_handshake::PresharedKey;
use braid_tunnel::{LinkConfig, PeerConfig};

/// Largest device MTU that is worth searching.
const LARGEST_MTU: u16 = 9000;

pub fn peer(peer: &Peer, preshared_key: Option<PresharedKey>) -> PeerConfig {
    PeerConfig {
        public_key: peer.public_key,
        preshared_key,
        endpoints: Vec::new(),
        allowed_ips: peer.allowed_ips.iter().map(|prefix| prefix.net()).collect(),
        keepalive: peer.keepalive,
        // The home says how both directions are spread.
        follow_mode: peer.endpoints.is_empty(),
    }
}

pub fn link(link: &Link, tier: u8, exhausted: bool, device_mtu: u16) -> LinkConfig {
    LinkConfig {
        tier,
        standby: link.standby || exhausted,
        cap_up: link.cap.up,
        cap_down: link.cap.down,
        device_mtu: device_mtu.min(LARGEST_MTU),
        ..LinkConfig::default()
    }
}

pub fn quota(quota: &config::Quota) -> Quota {
    Quota::new(quota.bytes, period(quota.period))
}

pub fn period(period: QuotaPeriod) -> Period {
    match period {
        QuotaPeriod::Day => Period::Daily,
        QuotaPeriod::Month { reset_day } => {
            Period::Monthly(ResetDay::new(reset_day).unwrap_or(ResetDay::FIRST))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::config::Config;
    use std::path::Path;

    #[test]
    fn only_rules_that_packets_in_the_tunnel_show_reach_the_core() {
        let text = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
            [[link]]\nname = \"a\"\ninterface = \"eth0\"\n\
            [[rule]]\nname = \"tv\"\ndo = \"direct\"\nmatch = { to = \"192.0.2.0/24\" }\n\
            [[rule]]\nname = \"tablet\"\ndo = \"tunnel\"\nmatch = { device = \"tablet\" }\n\
            [[rule]]\nname = \"usual\"\ndo = \"tunnel\"\nmatch = { to = [\"192.0.2.1\", \"::1\"] }\n\
            [[rule]]\nname = \"voice\"\ndo = \"tunnel\"\nmode = \"broadcast\"\n\
            match = { protocol = \"udp\", ports = \"5060\" }\n";
        let rules = |text: &str| Config::parse(text, Path::new("c.toml")).unwrap().rules;
        let (classes, modes) = classes(&rules(text), config::Mode::Adaptive, XorHash::Layer34);
        assert_eq!(modes, [Mode::Adaptive, Mode::Broadcast]);
        let index: Vec<u16> = classes.0.iter().map(|rule| rule.class.0).collect();
        assert_eq!(index, [0, 0, 1, 1]);
        let without = rules(text.split("[[rule]]\nname = \"voice\"").next().unwrap());
        let none = super::classes(&without, config::Mode::Adaptive, XorHash::Layer34);
        assert_eq!(none, (ClassRules::default(), Vec::new()));
    }
}
