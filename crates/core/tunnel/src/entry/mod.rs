//! The queue at the tunnel's entry: per-flow fair queueing with CoDel. The
//! modems' buffers stay nearly empty, so this is where packets wait.

mod account;
mod ack_filter;
mod codel;
mod fair_queue;
mod flow_places;
mod flow_queue;
mod queued;

pub use account::EntryStatus;
pub use ack_filter::AckFilter;
pub use codel::{CoDel, Verdict};
pub use fair_queue::{EntryQueue, FLOWS, Head};
pub use flow_places::FlowPlaces;
pub use flow_queue::Parameters;
pub use queued::Queued;
