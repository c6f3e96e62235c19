use super::DaemonError;
use super::egress::HostNetwork;
use braid_control::config::{DeviceName, Interface, Layer};
use braid_linux::netlink::Netlink;
use braid_linux::tun::{OffloadChoice, Tun};
use std::io;
use std::num::NonZeroU8;
use std::os::fd::OwnedFd;

/// How many workers are possible: a device created for one has no second queue.
pub fn workers(wanted: NonZeroU8, handed_on: &[OwnedFd]) -> NonZeroU8 {
    let single = handed_on.first().is_some_and(|it| !Tun::is_multi_queue(it).unwrap_or(true));
    if single && wanted > NonZeroU8::MIN {
        tracing::warn!("interface.workers takes effect after the next `braid down` and `braid up`");
    }
    if single { NonZeroU8::MIN } else { wanted }
}

/// Creates the tunnel's device with its MTU, or takes over the one that was handed on, sets it up
/// and adds it to its bridge, if it has one. Host routing sets its addresses. All of that
/// disappears with the device. It has one queue per worker.
pub fn create(
    interface: &Interface,
    workers: NonZeroU8,
    handed_on: Vec<OwnedFd>,
) -> Result<Vec<Tun>, DaemonError> {
    let name = interface.name.as_str();
    let doing = |what: &str| DaemonError::system(format!("{what} {name}"));
    let layer = match interface.layer {
        Layer::L3 => braid_inner::Layer::L3,
        Layer::L2 => braid_inner::Layer::L2,
    };
    let mut queues = Vec::with_capacity(usize::from(workers.get()));
    for queue in handed_on.into_iter().take(usize::from(workers.get())) {
        let queue = Tun::adopt(queue, layer, OffloadChoice::Best);
        queues.push(queue.map_err(doing("continuing with the device"))?);
    }
    while queues.len() < usize::from(workers.get()) {
        let queue = match queues.first() {
            Some(first) => first.another_queue(),
            None if workers > NonZeroU8::MIN => {
                Tun::open_multi_queue(name, layer, OffloadChoice::Best)
            }
            None => Tun::open(name, layer, OffloadChoice::Best),
        };
        queues.push(queue.map_err(doing("making the device"))?);
    }
    let [tun, ..] = &mut queues[..] else {
        return Err(doing("making the device")(io::ErrorKind::InvalidInput.into()));
    };
    tun.set_mtu(u32::from(interface.mtu)).map_err(doing("setting the MTU of"))?;
    tun.set_queue_length(QUEUE).map_err(doing("setting the queue of"))?;
    if let Some(bridge) = &interface.bridge {
        Netlink::open()
            .and_then(|mut netlink| join_bridge(&mut netlink, name, bridge))
            .map_err(DaemonError::system(format!("making {name} a port of {bridge}")))?;
    }
    tun.bring_up().map_err(doing("setting up"))?;
    Ok(queues)
}

/// Whether the device exists; sets it up again if somebody set it down, which removes its routes.
pub fn is_there(netlink: &mut Netlink, host: &HostNetwork, name: &str) -> bool {
    let listed = host.links.iter().find(|link| link.name == name).cloned();
    let link = match listed {
        Some(link) => link,
        // A list read during a change may lack it.
        None => match netlink.link(name) {
            Ok(link) => link,
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        },
    };
    if !link.up {
        match netlink.set_up(name) {
            Ok(()) => tracing::warn!("{name}: somebody set it down; it is set up again"),
            Err(error) => tracing::warn!(%error, "{name} is down, and can't be set up"),
        }
    }
    true
}

/// Keeps the device a port of its bridge, which may be recreated.
#[derive(Default)]
pub struct BridgePort {
    /// Why it isn't one, as last reported.
    trouble: Option<String>,
}

impl BridgePort {
    /// Makes it one again, if it has a bridge and isn't its port.
    pub fn follow(&mut self, netlink: &mut Netlink, interface: &Interface) {
        let outcome = rejoin_bridge(netlink, interface);
        let trouble = outcome.as_ref().err().map(ToString::to_string);
        match outcome {
            Ok(true) => tracing::info!("a port of its bridge again"),
            Ok(false) => {}
            Err(error) if trouble == self.trouble => tracing::debug!(%error, "no bridge"),
            Err(error) => tracing::warn!(%error, "no port of its bridge"),
        }
        self.trouble = trouble;
    }
}

/// Makes the device a port of its bridge again, after the bridge was recreated or the device
/// removed from it. A port of another bridge is left alone. Returns whether something was done.
fn rejoin_bridge(netlink: &mut Netlink, interface: &Interface) -> io::Result<bool> {
    let name = interface.name.as_str();
    let Some(bridge) = &interface.bridge else { return Ok(false) };
    if netlink.link(name)?.master.is_some() {
        return Ok(false);
    }
    join_bridge(netlink, name, bridge).map(|()| true)
}

/// The bridge belongs to the host: it is neither created nor set up here.
fn join_bridge(netlink: &mut Netlink, name: &str, bridge: &DeviceName) -> io::Result<()> {
    let found = netlink.link(bridge.as_str()).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no such device; create it first: `ip link add {bridge} type bridge`"),
        ),
        _ => error,
    })?;
    if found.kind.as_deref() != Some("bridge") {
        let what = "it is not a bridge; correct interface.bridge in the config";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    netlink.set_bridge(name, bridge.as_str())
}

/// Packets that the kernel holds while the data plane is busy. Packets should wait in the data
/// plane's own queue, so this one only bridges a moment at a Gbit/s.
const QUEUE: u32 = 1000;
