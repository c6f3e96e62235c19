//! Translates the config into the core's types.

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
        // The home determines how both directions are spread.
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
