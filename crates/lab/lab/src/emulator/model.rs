use braid_link_model::{DirectionChange, DirectionModel};

/// A link between the home and the provider, as the emulator plays it.
#[derive(Clone, Debug)]
pub struct LinkModel {
    /// The link's name in scenarios and reports.
    pub name: String,
    /// Towards the home.
    pub down: DirectionModel,
    /// Towards the concentrator.
    pub up: DirectionModel,
    /// The largest IP packet that passes, in bytes. Larger ones vanish silently,
    /// whether or not they may be fragmented: the hard case for a tunnel.
    pub mtu: u16,
    /// Whether the provider translates IPv4 addresses on the way.
    pub nat: bool,
}

/// What happens to a link while it is emulated.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a scenario has a handful of them")]
pub enum LinkChange {
    /// A silent blackout of both directions begins (`true`) or ends (`false`):
    /// packets vanish, the device stays up. Packets already serialised still
    /// arrive; those in the queues are lost.
    Blackout(bool),
    /// The device at home loses or regains its carrier; without it nothing
    /// passes.
    Carrier(Carrier),
    /// The provider's NAT forgets every mapping and moves the link to another public address, as
    /// when a modem reconnects.
    Rebind,
    /// The link's figures change.
    Set {
        /// Towards the home.
        down: Option<DirectionChange>,
        /// Towards the concentrator.
        up: Option<DirectionChange>,
        /// The largest packet that passes. The device at home keeps its original MTU: the path
        /// behind it narrows.
        mtu: Option<u16>,
    },
}

/// Whether a device has a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The cable is plugged in.
    Up,
    /// The cable is unplugged.
    Down,
}
