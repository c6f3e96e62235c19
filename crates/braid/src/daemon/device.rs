use super::DaemonError;
use braid_control::config::{Interface, Layer};
use braid_linux::tun::{OffloadChoice, Tun};

/// Makes the tunnel's device with its MTU and sets it up. Its addresses are the
/// host routing's.
pub fn create(interface: &Interface) -> Result<Tun, DaemonError> {
    let name = interface.name.as_str();
    let doing = |what: &str| DaemonError::system(format!("{what} {name}"));
    let layer = match interface.layer {
        Layer::L3 => braid_inner::Layer::L3,
        Layer::L2 => braid_inner::Layer::L2,
    };
    let mut tun =
        Tun::open(name, layer, OffloadChoice::Best).map_err(doing("making the device"))?;
    tun.set_mtu(u32::from(interface.mtu)).map_err(doing("setting the MTU of"))?;
    tun.set_queue_length(QUEUE).map_err(doing("setting the queue of"))?;
    tun.bring_up().map_err(doing("setting up"))?;
    Ok(tun)
}

/// Packets that the kernel keeps while the data plane is busy. Its own queue is
/// where waiting belongs, so this one only bridges a moment of a Gbit/s.
const QUEUE: u32 = 1000;
