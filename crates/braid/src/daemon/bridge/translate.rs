//! The config's words in the core's types.

use super::quota::{Period, Quota, ResetDay};
use braid_control::config::{self, Class, Link, Peer, Protocol, QuotaPeriod, XorHash};
use braid_handshake::PresharedKey;
use braid_inner::{BondingHash, ClassIndex, ClassRule, ClassRules};
use braid_tunnel::{LinkConfig, Mode, PeerConfig};

/// Largest device MTU that is worth searching.
const LARGEST_MTU: u16 = 9000;

pub fn mode(mode: config::Mode, xor_hash: XorHash) -> Mode {
    match mode {
        config::Mode::Adaptive => Mode::Adaptive,
        config::Mode::Overflow => Mode::Overflow,
        config::Mode::BalanceRr => Mode::BalanceRr,
        config::Mode::BalanceXor => Mode::BalanceXor(match xor_hash {
            XorHash::Layer2 => BondingHash::Layer2,
            XorHash::Layer23 => BondingHash::Layer23,
            XorHash::Layer34 => BondingHash::Layer34,
        }),
        config::Mode::ActiveBackup => Mode::ActiveBackup,
        config::Mode::Broadcast => Mode::Broadcast,
    }
}

/// The rules, and the mode of each class by its index.
pub fn classes(classes: &[Class], xor_hash: XorHash) -> (ClassRules, Vec<Mode>) {
    let mut rules = Vec::new();
    for (index, class) in (0u16..).zip(classes) {
        let matches = &class.matches;
        let protocols: &[Option<u8>] = match matches.protocol {
            None => &[None],
            Some(Protocol::Tcp) => &[Some(6)],
            Some(Protocol::Udp) => &[Some(17)],
            Some(Protocol::Icmp) => &[Some(1), Some(58)],
        };
        for &protocol in protocols {
            let rule = ClassRule {
                dscp: matches.dscp.map(|d| d.value()),
                protocol,
                src: matches.from.map(|prefix| prefix.net()),
                dst: matches.to.map(|prefix| prefix.net()),
                ..ClassRule::any(ClassIndex(index))
            };
            match &matches.ports {
                None => rules.push(rule),
                // Either port: two rules.
                Some(ports) => {
                    let range = Some(ports.0.clone());
                    rules.push(ClassRule { src_port: range.clone(), ..rule.clone() });
                    rules.push(ClassRule { dst_port: range, ..rule });
                }
            }
        }
    }
    let modes = classes.iter().map(|class| mode(class.mode, xor_hash)).collect();
    (ClassRules(rules), modes)
}

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
