//! The history of what links and peers carried and of events, over years in a bounded file.
//!
//! [`RollUp`] adds up samples (sans-IO), [`Store`] keeps the sums in SQLite, and [`Recorder`] runs
//! both on a thread of its own, so that reporting samples never waits for a disk. [`Periods`] turns
//! the sums into hours, days and months.

#![forbid(unsafe_code)]

mod bucket;
mod clock;
mod event;
mod level;
mod periods;
mod recorder;
mod roll_up;
mod series;
mod store;

pub use bucket::{Bucket, Sample};
pub use clock::unix_now;
pub use event::{Event, EventKind, Severity, Topic};
pub use level::Level;
pub use periods::{By, Period, Periods};
pub use recorder::{Health, Points, Recorder, Settings, Unanswered};
pub use roll_up::RollUp;
pub use series::{BadSeries, Series};
pub use store::{Store, StoreError};
