//! The program at both ends of emulated links, in network namespaces: what a
//! tunnel must live through, seen from the traffic in it. Needs root.

mod alerts;
mod clocks;
mod confinement;
mod doctor;
mod ends;
mod ethernet;
mod failures;
mod faults;
mod fleet;
mod fleet_figures;
mod full_disk;
mod half_working;
mod homes;
mod ip_versions;
mod limits;
mod matched;
mod members;
mod modes;
mod moving_addresses;
mod open_files;
mod own_mounts;
mod page;
mod past;
mod planted;
mod prometheus;
mod public_prefix;
mod replication;
mod resolver;
mod restart;
mod scarcity;
mod side;
mod stand_in;
mod stuck_tools;
mod traffic;
mod translating;
mod transports;
mod two_concentrators;
mod unread_log;
mod wake_latency;
mod workers;
mod world;
mod wrong_clock;

use std::time::Duration;

/// Far more than needed: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
