//! The page of a live tunnel in a real browser: each view with traffic, a link cut and back,
//! a change made there. Skipped with a word without Chromium. Needs root.
//!
//! With `BRAID_PICTURES=FOLDER` each view is written there as a picture.

mod axe;
mod homes;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../pools/host.rs"]
mod host;
mod nas;
mod reports;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../pools/served.rs"]
mod served;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../end_to_end/side.rs"]
mod side;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../end_to_end/traffic.rs"]
mod traffic;
mod views;
mod way;
#[allow(dead_code, reason = "other tests need more of it")]
#[path = "../end_to_end/world.rs"]
mod world;

use std::time::Duration;

/// Far more than needed: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");
