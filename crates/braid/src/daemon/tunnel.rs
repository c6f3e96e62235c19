//! The running tunnel's interface for its own parts.

use braid_control::config::Config;
use braid_control::request::Controlled;

/// A tunnel that is up.
pub trait Tunnel: Controlled {
    /// The current config.
    fn config_now(&self) -> Config;
}
