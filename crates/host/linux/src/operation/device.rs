//! Operations on devices: modules, ports, state.

use super::absence::{found, gone};
use super::process;
use crate::netlink::Netlink;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a device may take to appear with its module, or to vanish with its program.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a running program may take to create its device: on a busy host teamd takes seconds.
const PATIENCE_WITH_PROGRAM: Duration = Duration::from_secs(30);
const UP: &str = "up";
const DOWN: &str = "down";

/// Makes a device a port of another one.
pub(super) fn enslave(device: &str, master: &str, netlink: &mut Netlink) -> io::Result<()> {
    // Checked first, since setting a device down removes its routes.
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

/// Restores its up or down state.
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

/// Restores the previous MTU, unless somebody has set another one since.
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

/// Removes a TEQL device's queueing discipline, if it still exists.
pub(super) fn remove_teql(device: &str, teql: &str, netlink: &mut Netlink) -> io::Result<()> {
    let Some(link) = found(netlink.link(device))? else { return Ok(()) };
    match netlink.root_qdisc(link.index)? {
        Some(kind) if kind == teql => gone(netlink.delete_root_qdisc(link.index)),
        _ => Ok(()),
    }
}

/// Waits until its module has created it.
pub(super) fn wait_for(device: &str, netlink: &mut Netlink) -> io::Result<()> {
    wait(PATIENCE, || Ok(found(netlink.link(device))?.is_some())).map_err(|error| {
        match error.kind() {
            io::ErrorKind::TimedOut => {
                missing(device, "TEQL devices exist only in the first network namespace")
            }
            _ => error,
        }
    })
}

/// Waits until the program with this name has created it, as long as that runs.
pub(super) fn wait_for_program(
    device: &str,
    name: &str,
    pid_file: &Path,
    netlink: &mut Netlink,
) -> io::Result<()> {
    let mut runs = true;
    let made = wait(PATIENCE_WITH_PROGRAM, || {
        runs = process::is_running(name, pid_file)?;
        Ok(!runs || found(netlink.link(device))?.is_some())
    });
    let log = process::log_of(pid_file);
    match made {
        Ok(()) if !runs => {
            Err(missing(device, &format!("{name} has ended: see {}", log.display())))
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let seconds = PATIENCE_WITH_PROGRAM.as_secs();
            let why = format!("{name} has run for {seconds} s: see {}", log.display());
            Err(missing(device, &why))
        }
        outcome => outcome,
    }
}

fn missing(device: &str, why: &str) -> io::Error {
    let told = format!("the device {device} did not appear ({why})");
    io::Error::new(io::ErrorKind::NotFound, told)
}

/// Waits until it no longer exists.
pub(super) fn wait_until_gone(device: &str, netlink: &mut Netlink) -> io::Result<()> {
    wait(PATIENCE, || Ok(found(netlink.link(device))?.is_none()))
}

fn wait(within: Duration, mut until: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let give_up = Instant::now() + within;
    while !until()? {
        if Instant::now() >= give_up {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
