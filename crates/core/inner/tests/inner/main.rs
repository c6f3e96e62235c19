//! Tests of braid-inner against naive models, and against this kernel.

mod build;

mod checksum;
mod clamp;
mod class;
mod coalesce;
mod ecn;
mod flow;
mod hostile;
mod kernel;
mod segment;
mod ticks;
mod tun;
mod validate;
