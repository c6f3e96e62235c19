//! The host's routing around a tunnel: each link has its own table, the rest goes through the
//! tunnel.
//!
//! [`HostRouting::desired`] plans (pure); the journal's
//! [`reconcile`](crate::journal::UndoJournal::reconcile) acts; [`Leftovers`] finds what a crash
//! left if there is no journal.

mod discover;
mod leftovers;
mod plan;

pub use discover::{accepts_router_advertisements, checks_reverse_path, discover_link, uplinks};
pub use leftovers::Leftovers;
pub use plan::{
    ANNOUNCED_PROTOCOL, Announced, DirectRouting, FIRST_PRIORITY, FIRST_TABLE, HostRouting,
    LinkRouting, Otherwise, RuledRouting, Through,
};
