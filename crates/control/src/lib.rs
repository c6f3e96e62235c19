//! The control side: config, status, control socket, metrics, quota counters,
//! join lines. No packet passes here.

pub mod config;
pub mod status;
