//! The queue at the tunnel's entry: fair queueing by device and flow, with CoDel. The
//! modems' buffers stay nearly empty, so this is where packets wait.

mod account;
mod ack_filter;
mod codel;
mod device_loads;
mod fair_queue;
mod flow_places;
mod flow_queue;
mod queued;
mod shaper;
mod treatment;

pub use account::EntryStatus;
pub use ack_filter::AckFilter;
pub use codel::{CoDel, Judgement};
pub use fair_queue::{EntryQueue, FLOWS, Head};
pub use flow_places::FlowPlaces;
pub use flow_queue::Parameters;
pub use queued::Queued;
pub use shaper::Shaper;
pub use treatment::{FlowRedundancy, LimitId, LimitRate, Priority, Treatment, TreatmentTable};
