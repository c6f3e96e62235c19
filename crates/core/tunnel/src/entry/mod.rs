//! The queue at the tunnel's entry: per-flow fair queueing with CoDel. The
//! modems' buffers stay nearly empty, so this is where packets wait.

mod ack_filter;
mod codel;
mod fair_queue;
mod flow_places;

pub use ack_filter::AckFilter;
pub use codel::{CoDel, Verdict};
pub use fair_queue::{EntryQueue, EntryStatus, FLOWS, Head, Parameters, Queued};
pub use flow_places::FlowPlaces;
