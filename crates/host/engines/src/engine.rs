//! The engines and their settings; each engine's file also contains its set-up.

pub mod bonding;
pub mod ecmp;
pub mod mptcp;
pub mod pcc;
pub mod pppoe;
pub mod team;
pub(crate) mod teql;

use crate::words::words;
use crate::{Bonding, Ecmp, Mptcp, Pcc, Pppoe, Team};
use serde::{Deserialize, Serialize};

/// A kernel mechanism that uses several links as one, with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "engine")]
pub enum Engine {
    /// The bonding driver: Ethernet frames, no program needed.
    Bonding(Bonding),
    /// The team driver, led by the program teamd.
    Team(Team),
    /// The "true link equalizer", a queueing discipline: IP packets in turn.
    Teql,
    /// Equal-cost multipath routing: flows by hash.
    Ecmp(Ecmp),
    /// Multipath TCP: each TCP connection over all links.
    Mptcp(Mptcp),
    /// PPP multilink over PPP-over-Ethernet: fragments, reordered at the other end.
    PppoeMultilink(Pppoe),
    /// Policy routing of new connections by nftables ("per-connection
    /// classifier").
    Pcc(Pcc),
}

words! {
    /// An engine without its settings.
    EngineKind {
        /// [`Engine::Bonding`].
        Bonding = "bonding",
        /// [`Engine::Team`].
        Team = "team",
        /// [`Engine::Teql`].
        Teql = "teql",
        /// [`Engine::Ecmp`].
        Ecmp = "ecmp",
        /// [`Engine::Mptcp`].
        Mptcp = "mptcp",
        /// [`Engine::PppoeMultilink`].
        PppoeMultilink = "pppoe-multilink",
        /// [`Engine::Pcc`].
        Pcc = "pcc",
    }
}

impl Engine {
    /// Which it is.
    pub fn kind(&self) -> EngineKind {
        match self {
            Engine::Bonding(_) => EngineKind::Bonding,
            Engine::Team(_) => EngineKind::Team,
            Engine::Teql => EngineKind::Teql,
            Engine::Ecmp(_) => EngineKind::Ecmp,
            Engine::Mptcp(_) => EngineKind::Mptcp,
            Engine::PppoeMultilink(_) => EngineKind::PppoeMultilink,
            Engine::Pcc(_) => EngineKind::Pcc,
        }
    }
}

impl EngineKind {
    /// Whether its links are Ethernet devices that become ports, and so have no
    /// addresses of their own.
    pub fn takes_ports(self) -> bool {
        matches!(self, EngineKind::Bonding | EngineKind::Team)
    }

    /// Whether it routes IP between links that have addresses of their own.
    pub fn routes(self) -> bool {
        matches!(self, EngineKind::Ecmp | EngineKind::Mptcp | EngineKind::Pcc)
    }

    /// Whether it makes (or, for TEQL, takes) a network device of the group's name.
    pub fn has_device(self) -> bool {
        !self.routes()
    }
}
