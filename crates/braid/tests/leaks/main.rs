//! What leaves a home by its devices while everything around it fails: frames
//! are captured at the other end of each of them. Needs root.

mod capture;
mod dns;
mod kill_switch;
mod name_server;
mod network;
mod rules;
mod talk;
#[path = "../end_to_end/wrong_clock.rs"]
mod wrong_clock;

use std::time::Duration;

/// Far more than needed: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
