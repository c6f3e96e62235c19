//! The host's routing around a tunnel: each link by its own table, the rest
//! through the tunnel.
//!
//! [`HostRouting::desired`] plans (pure); the journal's
//! [`reconcile`](crate::journal::UndoJournal::reconcile) acts; [`Leftovers`] finds what a
//! crash left that no journal has.

mod discover;
mod leftovers;
mod plan;

pub use discover::{accepts_router_advertisements, checks_reverse_path, discover_link, uplinks};
pub use leftovers::Leftovers;
pub use plan::{
    ANNOUNCED_PROTOCOL, Announced, DirectRouting, FIRST_PRIORITY, FIRST_TABLE, HostRouting,
    LinkRouting, Otherwise, RuledRouting, Through,
};
