//! The running tunnel as its own parts see it: what they ask of it, and nothing of how it is made.

use braid_control::config::Config;
use braid_control::request::Controlled;

/// A tunnel that is up.
pub trait Tunnel: Controlled {
    /// The config as it is now.
    fn config_now(&self) -> Config;
}
