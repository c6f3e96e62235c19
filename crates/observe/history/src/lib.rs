//! What links and peers carried, and what happened, over years in a bounded file.
//!
//! [`RollUp`] adds up samples (sans-IO), [`Store`] keeps the sums in SQLite, and
//! [`Recorder`] runs both on a thread of its own: nobody who gives it samples waits
//! for a disk. [`Periods`] makes hours, days and months of the sums.

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
