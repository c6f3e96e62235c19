//! What the concentrators of a fleet know in common: the homes, each other, and who serves whom.
//!
//! The registry holds [records](Fleet), in a [store](Store) that all of them reach: an SQLite file
//! on one machine, or etcd. It makes no decisions at run time. Each concentrator
//! [computes](placement) from the records which concentrator a home is for and tells the home,
//! which then moves there. Only the home says who serves it, with an epoch, so that late writes are
//! [distinguished](claim) from current ones. So a fleet keeps working without its registry.

#![forbid(unsafe_code)]

pub mod claim;
mod etcd;
mod member;
pub mod placement;
mod records;
mod sqlite;
mod store;

pub use etcd::{Etcd, EtcdAccess, entries_in};
pub use member::{Known, Member, Own};
pub use records::{Alive, Concentrator, Fleet, Home, Served};
pub use sqlite::Sqlite;
pub use store::{Entry, Expected, Life, Store, StoreError, Written};

use std::time::Duration;

/// Records bound to a concentrator's lifetime disappear this long after it falls silent.
pub const LEASE: Duration = Duration::from_secs(10);
/// How often a concentrator renews its lease: two renewals may be lost.
pub const RENEW_EVERY: Duration = Duration::from_secs(3);
