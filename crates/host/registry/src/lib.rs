//! What the concentrators of a fleet know in common: the homes, each other, and who serves whom.
//!
//! The registry holds [records](Fleet), in a [store](Store) that all of them reach: an SQLite file
//! on one machine, or etcd. It decides nothing at run time. Which concentrator a home is for
//! follows from the records by [arithmetic](placement) that each of them does for itself, the home
//! goes there by what they tell it, and the home alone says who serves it: with an epoch, so that
//! what is written down late is [told](claim) from what is so now. So a fleet whose registry is
//! gone goes on.

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
/// How often it says that it lives: two may be lost.
pub const RENEW_EVERY: Duration = Duration::from_secs(3);
