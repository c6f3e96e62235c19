//! The tunnel's exit: chunks become inner packets again, in order per flow.

mod assembly;
mod order;

pub use assembly::{Assembly, Rejected};
pub use order::{ExitStatus, FlowOrder, Patience, Reordering};
