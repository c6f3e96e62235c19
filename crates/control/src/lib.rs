//! The control side: config, status, control socket, metrics, quota counters,
//! join lines. No packet passes here.

#![forbid(unsafe_code)]

pub mod client;
pub mod config;
mod config_of_request;
pub mod enrolled;
mod error_answer;
pub mod finding;
pub mod fleet_homes;
pub mod group_metrics;
pub mod group_server;
pub mod group_status;
pub mod join_line;
pub mod measured;
pub mod metrics;
mod own_thread;
pub mod qr_code;
pub mod quota_file;
pub mod referred_peers;
pub mod request;
pub mod server;
pub mod status;
pub mod traffic;
