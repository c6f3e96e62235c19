//! The program at both ends of emulated links, in network namespaces: what a
//! tunnel must live through, seen from the traffic in it. Needs root.

mod clocks;
mod confinement;
mod ethernet;
mod failures;
mod full_disk;
mod half_working;
mod homes;
mod ip_versions;
mod limits;
mod modes;
mod open_files;
mod own_mounts;
mod page;
mod past;
mod public_prefix;
mod replication;
mod restart;
mod side;
mod stuck_tools;
mod traffic;
mod wake_latency;
mod world;

use std::time::Duration;

/// Far more than needed: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
