//! The host's routing around a tunnel: each link by its own table, the rest
//! through the tunnel, and every change remembered so that it can be undone.
//!
//! [`HostRouting::desired`] plans (pure), [`Journal::reconcile`] acts,
//! [`Journal::undo`] takes back.

mod discover;
mod docker_user;
mod forwarding;
pub(crate) mod item;
mod journal;
mod leftovers;
mod plan;
mod preview;

pub use discover::{accepts_router_advertisements, checks_reverse_path, discover_link, uplinks};
pub use item::{Item, PROTOCOL, RouteItem};
pub use journal::{Failure, Journal};
pub use leftovers::Leftovers;
pub use plan::{FIRST_PRIORITY, FIRST_TABLE, HostRouting, LinkRouting, Otherwise, Through};
pub use preview::Before;
