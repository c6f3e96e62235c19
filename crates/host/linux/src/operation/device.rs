//! What is done to devices: their modules, ports, state.

use super::absence::{found, gone};
use crate::netlink::Netlink;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a device may take to appear or vanish with its program or module.
const PATIENCE: Duration = Duration::from_secs(5);
const UP: &str = "up";
const DOWN: &str = "down";

/// Makes a device a port of another one.
pub(super) fn enslave(device: &str, master: &str, netlink: &mut Netlink) -> io::Result<()> {
    // First, since routes by a device go when it is set down.
    netlink.link(master)?;
    let was_up = netlink.link(device)?.up;
    netlink.set_down(device)?;
    match netlink.set_bridge(device, master) {
        Ok(()) => netlink.set_up(device),
        Err(error) => {
            if was_up {
                netlink.set_up(device)?;
            }
            Err(error)
        }
    }
}

/// Undoes [`enslave`].
pub(super) fn release(device: &str, prior: Option<&str>, netlink: &mut Netlink) -> io::Result<()> {
    let Some(link) = found(netlink.link(device))? else { return Ok(()) };
    if link.master.is_some() {
        gone(netlink.release_port(device))?;
    }
    restore_state(device, prior, netlink)
}

/// Whether it is up, for [`restore_state`].
pub(super) fn state(device: &str, netlink: &mut Netlink) -> io::Result<String> {
    let up = netlink.link(device)?.up;
    Ok(if up { UP } else { DOWN }.to_owned())
}

/// Sets it up or down, as it was.
pub(super) fn restore_state(
    device: &str,
    prior: Option<&str>,
    netlink: &mut Netlink,
) -> io::Result<()> {
    let Some(link) = found(netlink.link(device))? else { return Ok(()) };
    match prior {
        Some(UP) if !link.up => gone(netlink.set_up(device)),
        Some(DOWN) if link.up => gone(netlink.set_down(device)),
        _ => Ok(()),
    }
}

/// Sets the MTU that was before, unless somebody has set another one since.
pub(super) fn restore_mtu(
    device: &str,
    mtu: u32,
    prior: Option<&str>,
    netlink: &mut Netlink,
) -> io::Result<()> {
    let now = found(netlink.link(device))?;
    match (now.filter(|link| link.mtu == mtu), prior.and_then(|mtu| mtu.parse().ok())) {
        (Some(_), Some(before)) => gone(netlink.set_mtu(device, before)),
        _ => Ok(()),
    }
}

/// Takes a TEQL device's queueing discipline away, if it is still there.
pub(super) fn remove_teql(device: &str, teql: &str, netlink: &mut Netlink) -> io::Result<()> {
    let Some(link) = found(netlink.link(device))? else { return Ok(()) };
    match netlink.root_qdisc(link.index)? {
        Some(kind) if kind == teql => gone(netlink.delete_root_qdisc(link.index)),
        _ => Ok(()),
    }
}

/// Loads a kernel module.
pub(super) fn load(name: &str) -> io::Result<()> {
    let mut command = Command::new("modprobe");
    command.arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

/// Waits until it is there.
pub(super) fn wait_for(device: &str, netlink: &mut Netlink) -> io::Result<()> {
    wait(|| Ok(found(netlink.link(device))?.is_some())).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::NotFound,
            format!("the device {device} did not appear (it can only be in the first network namespace, if it is TEQL's)"),
        ),
        _ => error,
    })
}

/// Waits until it isn't there any more.
pub(super) fn wait_until_gone(device: &str, netlink: &mut Netlink) -> io::Result<()> {
    wait(|| Ok(found(netlink.link(device))?.is_none()))
}

fn wait(mut until: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let give_up = Instant::now() + PATIENCE;
    while !until()? {
        if Instant::now() >= give_up {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
