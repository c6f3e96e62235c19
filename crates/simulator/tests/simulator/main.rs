//! The tunnel core in the simulator.

mod failures;
mod hostile;
mod modes;
mod random;
mod sessions;
mod support;
