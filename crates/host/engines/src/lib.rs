//! The kernel's own ways to use several links as one: what fits, how it is set
//! up, how it is undone. Pure: nothing here touches a system.
//!
//! An [`Operation`] is one change to the host, for an engine or a tunnel. A [`Group`] states which
//! links are joined by which [`Engine`]; [`Group::setup`] turns it into ordered [`Operation`]s,
//! each of which knows its undo; [`export`] writes the same for other tools; [`plan`] ranks the
//! engines for given links and a wish.

#![forbid(unsafe_code)]

mod carrier;
mod check;
mod engine;
pub mod export;
mod family;
mod feature;
mod group;
mod name;
mod numbers;
mod operation;
pub mod plan;
mod policy;
mod port;
mod setup;
mod words;

pub use carrier::{End, Over, WireGuard};
pub use engine::bonding::{BondMode, Bonding, LacpRate, Monitor, PrimaryReselect, XmitHash};
pub use engine::ecmp::{Ecmp, EcmpHash, Resilient};
pub use engine::mptcp::{Mptcp, MptcpRole};
pub use engine::pcc::{Classifier, Pcc};
pub use engine::pppoe::{Pppoe, PppoeRole};
pub use engine::team::{LinkWatch, Runner, Team};
pub use engine::{Engine, EngineKind};
pub use family::Family;
pub use feature::Feature;
pub use group::{Egress, Group, GroupLink, Trouble};
pub use name::{Device, DeviceError, MacAddress, MacAddressError};
pub use numbers::{Numbers, slot};
pub use operation::{
    DeviceKind, FirewallTable, MAIN_TABLE, Member, NamedRules, Operation, Route, RouteKind, Rule,
    RuleAction, Undo, forwarding_switch, iptables, nft_table,
};
pub use setup::Setup;
pub use words::UnknownWord;
