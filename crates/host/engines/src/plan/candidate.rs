//! The engines to choose from.

use crate::{BondMode, EngineKind, Feature, Runner};
use std::fmt;

/// An engine with the mode that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// Braid's own tunnel.
    Tunnel,
    /// Only the best link.
    BestLink,
    /// A bond.
    Bonding(BondMode),
    /// A team.
    Team(Runner),
    /// TEQL.
    Teql,
    /// Multipath routing.
    Ecmp,
    /// Policy routing of connections.
    Pcc,
    /// Multipath TCP.
    Mptcp,
    /// PPPoE with PPP multilink.
    PppoeMultilink,
}

impl Candidate {
    /// All of them.
    pub fn all() -> Vec<Candidate> {
        let mut all = vec![Candidate::Tunnel, Candidate::BestLink];
        all.extend(BondMode::ALL.iter().map(|mode| Candidate::Bonding(*mode)));
        // Random is never better than round robin.
        let runners = Runner::ALL.iter().filter(|runner| **runner != Runner::Random);
        all.extend(runners.map(|runner| Candidate::Team(*runner)));
        all.extend([
            Candidate::Teql,
            Candidate::Ecmp,
            Candidate::Pcc,
            Candidate::Mptcp,
            Candidate::PppoeMultilink,
        ]);
        all
    }

    /// The engine of the kernel, if it is one.
    pub fn kind(self) -> Option<EngineKind> {
        match self {
            Candidate::Tunnel | Candidate::BestLink => None,
            Candidate::Bonding(_) => Some(EngineKind::Bonding),
            Candidate::Team(_) => Some(EngineKind::Team),
            Candidate::Teql => Some(EngineKind::Teql),
            Candidate::Ecmp => Some(EngineKind::Ecmp),
            Candidate::Pcc => Some(EngineKind::Pcc),
            Candidate::Mptcp => Some(EngineKind::Mptcp),
            Candidate::PppoeMultilink => Some(EngineKind::PppoeMultilink),
        }
    }

    /// What it needs of this host.
    pub(super) fn needs(self) -> &'static [Feature] {
        match self {
            Candidate::Tunnel | Candidate::BestLink => &[],
            Candidate::Bonding(_) => &[Feature::Bonding],
            Candidate::Team(_) => &[Feature::Team, Feature::Teamd],
            Candidate::Teql => &[Feature::Teql],
            Candidate::Ecmp => &[Feature::PolicyRouting, Feature::NextHops],
            Candidate::Pcc => {
                &[Feature::PolicyRouting, Feature::Nftables, Feature::NftNumgen, Feature::Nft]
            }
            Candidate::Mptcp => &[Feature::PolicyRouting, Feature::Mptcp],
            Candidate::PppoeMultilink => &[Feature::Pppoe, Feature::Multilink, Feature::Pppd],
        }
    }

    /// Whether it joins Ethernet devices, so that routed links need a tunnel each.
    pub(super) fn joins_ethernet(self) -> bool {
        matches!(
            self,
            Candidate::Bonding(_)
                | Candidate::Team(_)
                | Candidate::Teql
                | Candidate::PppoeMultilink
        )
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Candidate::Tunnel => "tunnel (Braid)".to_owned(),
            Candidate::BestLink => "best link alone".to_owned(),
            Candidate::Bonding(mode) => format!("bonding {mode}"),
            Candidate::Team(runner) => format!("team {runner}"),
            Candidate::Teql
            | Candidate::Ecmp
            | Candidate::Pcc
            | Candidate::Mptcp
            | Candidate::PppoeMultilink => {
                self.kind().map_or_else(String::new, |kind| kind.to_string())
            }
        };
        f.pad(&words)
    }
}
