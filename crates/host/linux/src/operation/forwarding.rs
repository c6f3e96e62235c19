//! Switches forwarding on without losing what the kernel drops or resets along with it, and
//! restores the previous state.
//!
//! A router ignores router advertisements (`accept_ra` 1), and switching forwarding on deletes the
//! default routes learnt from them on every device (`rt6_purge_dflt_routers`), unless it is set to
//! accept them nevertheless (2). The switch also overwrites each device's own setting, and IPv4's
//! `accept_redirects` (Documentation/networking/ip-sysctl.rst).

use super::absence::found;
use super::sysctl;
use braid_engines::{Family, forwarding_switch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;

/// Previous values of the settings that the switch changes, by path below `/proc/sys`.
#[derive(Default, Serialize, Deserialize)]
struct Before(BTreeMap<String, String>);

/// The previous state to record, for [`unset`].
pub(super) fn prior(family: Family) -> io::Result<String> {
    Ok(serde_json::to_string(&Before::now(family)?)?)
}

/// Switches it on. Called again, it repairs what has changed since.
pub(super) fn set(family: Family, prior: Option<&str>) -> io::Result<()> {
    let before = Before::read(family, prior)?;
    for device in before.to_believe(family)? {
        // The device may vanish at any time.
        found(sysctl::write(&accept_ra(&device), "2"))?;
    }
    sysctl::write(forwarding_switch(family), "1")
}

/// Whether it is on, and no device ignores advertisements because of it.
pub(super) fn is_set(family: Family, prior: Option<&str>) -> io::Result<bool> {
    if sysctl::read(forwarding_switch(family))? != "1" {
        return Ok(false);
    }
    match prior {
        // Switched on by somebody else, who is responsible for advertisements.
        None => Ok(true),
        Some(_) => Ok(Before::read(family, prior)?.to_believe(family)?.is_empty()),
    }
}

/// Switches it off, and only then restores the other settings.
pub(super) fn unset(family: Family, prior: Option<&str>) -> io::Result<()> {
    let before = Before::read(family, prior)?;
    let was_on = before.0.get(forwarding_switch(family)).is_some_and(|value| value == "1");
    if !was_on && sysctl::read(forwarding_switch(family))? == "1" {
        sysctl::write(forwarding_switch(family), "0")?;
        before.restore_what_the_switch_wrote(family)?;
    }
    for device in devices(family)? {
        let now = found(sysctl::read(&accept_ra(&device)))?;
        if family == Family::V6 && now.as_deref() == Some("2") && before.believed(&device) {
            found(sysctl::write(&accept_ra(&device), "1"))?;
        }
    }
    Ok(())
}

impl Before {
    fn now(family: Family) -> io::Result<Before> {
        let mut keys = vec![forwarding_switch(family).to_owned()];
        for device in devices(family)? {
            keys.push(forwarding(family, &device));
            keys.extend((family == Family::V6).then(|| accept_ra(&device)));
        }
        keys.extend((family == Family::V4).then(|| REDIRECTS.to_owned()));
        let mut before = Before::default();
        for key in keys {
            if let Some(value) = found(sysctl::read(&key))? {
                before.0.insert(key, value);
            }
        }
        Ok(before)
    }

    fn read(family: Family, prior: Option<&str>) -> io::Result<Before> {
        match prior {
            Some(text) => Ok(serde_json::from_str(text)?),
            None => Before::now(family),
        }
    }

    /// Whether a device accepted advertisements; a device added since had the default.
    fn believed(&self, device: &str) -> bool {
        let known = self.0.contains_key(&accept_ra(device));
        let device = if known { device } else { DEFAULT };
        let is = |key: String, value| self.0.get(&key).is_some_and(|found| found == value);
        is(accept_ra(device), "1") && !is(forwarding(Family::V6, device), "1")
    }

    /// Devices that accepted advertisements and would ignore them when forwarding.
    fn to_believe(&self, family: Family) -> io::Result<Vec<String>> {
        if family == Family::V4 {
            return Ok(Vec::new());
        }
        let mut devices = devices(family)?;
        let doubts = |device: &String| {
            Ok::<_, io::Error>(found(sysctl::read(&accept_ra(device)))?.as_deref() == Some("1"))
        };
        let mut failed = None;
        devices.retain(|device| {
            self.believed(device)
                && doubts(device).unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
        });
        failed.map_or(Ok(devices), Err)
    }

    fn restore_what_the_switch_wrote(&self, family: Family) -> io::Result<()> {
        for device in devices(family)? {
            let key = forwarding(family, &device);
            let new = self.0.get(&forwarding(family, DEFAULT));
            if let Some(value) = self.0.get(&key).or(new) {
                restore(&key, value)?;
            }
        }
        match self.0.get(REDIRECTS) {
            Some(value) => restore(REDIRECTS, value),
            None => Ok(()),
        }
    }
}

/// The settings of devices added later.
const DEFAULT: &str = "default";
const REDIRECTS: &str = "net/ipv4/conf/all/accept_redirects";

fn forwarding(family: Family, device: &str) -> String {
    match family {
        Family::V4 => format!("net/ipv4/conf/{device}/forwarding"),
        Family::V6 => format!("net/ipv6/conf/{device}/forwarding"),
    }
}

fn accept_ra(device: &str) -> String {
    format!("net/ipv6/conf/{device}/accept_ra")
}

/// All devices with their own settings, and [`DEFAULT`], which is first so that a device added
/// meanwhile isn't missed.
fn devices(family: Family) -> io::Result<Vec<String>> {
    let directory = match family {
        Family::V4 => "/proc/sys/net/ipv4/conf",
        Family::V6 => "/proc/sys/net/ipv6/conf",
    };
    let mut names = vec![DEFAULT.to_owned()];
    // Without IPv6 the folder doesn't exist.
    for entry in found(fs::read_dir(directory))?.into_iter().flatten() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !["all", DEFAULT].contains(&name.as_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes only if it differs, as a write has side effects.
fn restore(key: &str, value: &str) -> io::Result<()> {
    match found(sysctl::read(key))? {
        Some(now) if now != value => found(sysctl::write(key, value)).map(drop),
        _ => Ok(()),
    }
}
