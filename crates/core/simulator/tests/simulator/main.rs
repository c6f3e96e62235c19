//! The tunnel core in the simulator.

mod calls;
mod failures;
mod half_working;
mod hard;
mod hostile;
mod modes;
mod overhead;
mod points;
mod random;
mod sessions;
mod steady;
mod support;
mod treatments;
mod weather;
