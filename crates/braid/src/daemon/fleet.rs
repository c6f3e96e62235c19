//! This concentrator's part in its fleet: a thread that synchronises the registry's records and
//! this host's. Without the registry everything continues with the last known records.

#[cfg(feature = "fleet")]
mod member;

use super::data_channel::DataPlaneHandle;
use super::reconciler::Yields;
use super::tunnel::Tunnel;
use braid_control::config::Config;
use braid_control::status::FleetStatus;
use braid_handshake::PublicKey;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is known about the fleet, for other parts of the daemon.
pub struct FleetPart {
    public_key: PublicKey,
    yields: Yields,
    status: Arc<Mutex<Option<FleetStatus>>>,
}

impl FleetPart {
    /// For the concentrator with this key.
    pub fn new(public_key: PublicKey, yields: Yields) -> FleetPart {
        FleetPart { public_key, yields, status: Arc::default() }
    }

    /// The registry's status, if this concentrator is in a fleet.
    pub fn status(&self) -> Option<FleetStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Joins the fleet, if the config says so.
    #[cfg(feature = "fleet")]
    pub fn start(
        &self,
        config: &Config,
        tunnel: Weak<dyn Tunnel>,
        data_plane: &Arc<DataPlaneHandle>,
    ) {
        let Some(fleet) = &config.fleet else { return };
        let part = member::Part {
            fleet: fleet.clone(),
            public_key: self.public_key,
            yields: self.yields.clone(),
            status: self.status.clone(),
            tunnel,
            data_plane: data_plane.clone(),
        };
        if let Err(error) = part.start() {
            tracing::error!(%error, "it can't join the fleet: its thread can't be started");
        }
    }

    /// A small build has no registry.
    #[cfg(not(feature = "fleet"))]
    pub fn start(&self, config: &Config, _: Weak<dyn Tunnel>, _: &Arc<DataPlaneHandle>) {
        let _ = (&self.public_key, &self.yields);
        if config.fleet.is_some() {
            tracing::error!(
                "this build of braid has no fleet support: [fleet] in the config has no effect"
            );
        }
    }
}
