//! Which features this host has for engines: found by trying in a temporary network namespace, or
//! by looking for modules and programs.

use crate::netlink::{Generic, Netlink};
use crate::netns::NetNs;
use braid_engines::{Bonding, Device, DeviceKind, Feature, Member, Resilient};
use std::io;
use std::net::Ipv4Addr;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The features that this host lacks.
///
/// # Errors
/// `PermissionDenied` if no network namespace can be created for this.
pub fn lacking() -> io::Result<Vec<Feature>> {
    let namespace = NetNs::new()?;
    namespace.run(|| Feature::ALL.iter().copied().filter(|feature| !has(*feature)).collect())
}

/// Whether the host has it; tried in the thread's namespace.
fn has(feature: Feature) -> bool {
    if let Some(package) = feature.package() {
        let program = match package {
            "libteam-utils" => "teamd",
            "ppp" => "pppd",
            "pppoe" => "pppoe-server",
            _ => "nft",
        };
        return installed(program).is_some();
    }
    let address = |last| Ipv4Addr::new(192, 0, 2, last).into();
    match feature {
        Feature::Bonding => makes(&DeviceKind::Bond(Bonding::default())),
        Feature::Gretap => {
            makes(&DeviceKind::Gretap { local: address(1), remote: address(2), key: 1, via: None })
        }
        Feature::Vxlan => Device::try_from("lo".to_owned()).is_ok_and(|via| {
            makes(&DeviceKind::Vxlan {
                id: 1,
                local: address(1),
                remote: address(2),
                port: 4789,
                via,
            })
        }),
        Feature::WireGuard => makes_by_word("wireguard"),
        Feature::Team => makes_by_word("team"),
        Feature::NextHops => next_hop_group(None).is_ok(),
        Feature::ResilientNextHops => {
            next_hop_group(Some(Resilient { buckets: 8, idle_timer_s: 1, unbalanced_timer_s: 0 }))
                .is_ok()
        }
        Feature::Mptcp => Generic::mptcp().is_ok(),
        Feature::PolicyRouting => Netlink::open()
            .and_then(|mut netlink| netlink.rules())
            .is_ok_and(|rules| !rules.is_empty()),
        Feature::Nftables => nft_takes(""),
        Feature::NftNumgen => nft_takes("meta mark set numgen inc mod 2"),
        Feature::NftHash => nft_takes("meta mark set jhash ip saddr mod 2"),
        Feature::Teql | Feature::Pppoe => feature.module().is_some_and(has_module),
        // An option of ppp_generic, which each distribution's kernel sets.
        Feature::Multilink => has_module("ppp_generic"),
        Feature::Teamd | Feature::Pppd | Feature::PppoeServer | Feature::Nft => false,
    }
}

fn makes(kind: &DeviceKind) -> bool {
    let made = || -> io::Result<()> {
        let device = Device::try_from("braid-probe".to_owned()).map_err(io::Error::other)?;
        let mut netlink = Netlink::open()?;
        netlink.add_device(&device, kind)?;
        netlink.delete_link(device.as_str())
    };
    made().is_ok()
}

/// For kinds that need no settings when created.
fn makes_by_word(word: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["link", "add", "braid-probe", "type", word]);
    let made = quiet(&mut command);
    if made {
        // Otherwise the namespace removes it when it ends.
        let _ = Netlink::open().and_then(|mut netlink| netlink.delete_link("braid-probe"));
    }
    made
}

fn next_hop_group(resilient: Option<Resilient>) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let lo = netlink.link("lo")?.index;
    netlink.add_next_hop(1, lo, None, false, false)?;
    let members = [Member { id: 1, weight: NonZeroU8::MIN }];
    let made = netlink.set_next_hop_group(2, &members, resilient);
    netlink.delete_next_hop(1)?;
    made
}

fn nft_takes(rule: &str) -> bool {
    let script = format!(
        "add table inet probe; add chain inet probe c; {}",
        match rule {
            "" => String::new(),
            rule => format!("add rule inet probe c {rule}"),
        }
    );
    quiet(Command::new("nft").args(["-c", &script]))
}

/// Whether a module is available: loaded, built in, or loadable.
pub(crate) fn has_module(name: &str) -> bool {
    if Path::new("/sys/module").join(name).is_dir() {
        return true;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let folder = PathBuf::from("/lib/modules").join(release.trim());
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let text = std::fs::read_to_string(folder.join(list)).unwrap_or_default();
        text.lines().any(|line| {
            let path = line.split(':').next().unwrap_or(line);
            let file = path.rsplit('/').next().unwrap_or(path);
            file.split(".ko").next().is_some_and(|module| module.replace('-', "_") == name)
        })
    })
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn quiet(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_and_what_is_not_is_told_apart() {
        let lacking = match lacking() {
            Ok(lacking) => lacking,
            Err(error) => {
                eprintln!("SKIPPED: no network namespaces here: {error}");
                return;
            }
        };
        // The other tests here need these features, and no host has this module.
        for feature in [Feature::PolicyRouting, Feature::Nft, Feature::Nftables] {
            assert!(!lacking.contains(&feature), "{feature}: {lacking:?}");
        }
        assert!(!has_module("no_such_module_as_this"));
        assert!(installed("sh").is_some() && installed("no-such-program").is_none());
    }
}
