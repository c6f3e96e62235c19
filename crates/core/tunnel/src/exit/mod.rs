//! The tunnel's exit: chunks become inner packets again, in order per flow.

mod ack_aggregator;
mod assembly;
mod delivery;
mod flow_order;
mod holes;
mod order;
mod policer;
mod sender_pacing;
mod sequence_map;

pub use ack_aggregator::{AckAggregator, StreamId};
pub use assembly::{Assembly, Rejected};
pub use delivery::{Delivered, ExitStatus};
pub use order::{Patience, Reordering};
pub use policer::Policer;
