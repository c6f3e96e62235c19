//! The tunnel's exit: chunks become inner packets again, in order per flow.

mod assembly;
mod holes;
mod order;
mod sequence_map;

pub use assembly::{Assembly, Rejected};
pub use order::{ExitStatus, FlowOrder, Patience, Reordering};
