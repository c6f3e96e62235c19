//! Snapshots, and their replicas elsewhere.

pub mod agent;
pub mod archive;
mod beneath;
pub mod browse;
pub mod chain;
pub mod clone;
mod error;
pub mod exact_path;
mod files;
mod folder;
pub mod greeting;
pub mod listener;
pub mod manifest;
mod old_system;
pub mod register;
pub mod replicate;
pub mod restore;
pub mod retain;
mod shown;
pub mod sink;
pub mod snapshot;
pub mod source;
pub mod ssh_said;
pub mod stream;
mod stream_error;
pub mod subvolume;
pub mod timestamp;
pub mod verify;
mod watch;
pub mod wire;

pub use error::Error;
