//! The tunnel's exit: chunks become inner packets again, in order per flow.

mod assembly;
mod delivery;
mod flow_order;
mod holes;
mod order;
mod policer;
mod sequence_map;

pub use assembly::{Assembly, Rejected};
pub use delivery::{Delivered, ExitStatus};
pub use order::{Patience, Reordering};
pub use policer::Policer;
