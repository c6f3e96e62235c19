//! Copies elsewhere: encrypted, deduplicated, in the format of restic's repositories
//! (<https://restic.readthedocs.io/en/stable/100_references.html>), so that they can be read
//! without Braid. `rustic_core` knows the format; what carries its files is here.

#![forbid(unsafe_code)]

mod chosen;
mod courier;
mod drill;
mod error;
mod heard;
pub mod key;
mod lock;
mod lost;
mod pack;
mod parent;
mod quiet;
pub mod records;
mod repair;
mod restore;
mod run;
mod salvage;
pub mod secrets;
mod sheet;
mod short_id;
mod source;
mod store;
pub mod target;
mod target_options;
mod throttle;
mod time_limits;
mod vault;
mod walk;
mod watch;

pub use chosen::Series;
pub use courier::Delivery;
pub use drill::{Drill, Drilled, DrilledBackup};
pub use error::Error;
pub use lock::{Ends, LockPlan, Locked};
pub use repair::{Damage, DamagedPack, Lacking, Repair};
pub use restore::{Restoration, Restored};
pub use run::{Backup, Finished, Left};
pub use sheet::Sheet;
pub use short_id::short_id;
pub use source::{From, Ground};
pub use target::Target;
pub use target_options::TargetOptions;
pub use time_limits::TimeLimits;
pub use vault::{CheckReport, Entry, Forgotten, Present, Vault};
pub use walk::{Example, Lack};
pub use watch::Watch;
