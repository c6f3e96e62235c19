//! The links in a home's first config.

use super::super::uplinks::Uplink;
use crate::daemon::hardware::{CLASS_NET, Hardware};
use braid_control::config::LinkKind;
use braid_linux::network_manager;
use std::fs;
use std::path::Path;

/// Links of a laptop: its interfaces come and go, with changing names.
const OF_A_LAPTOP: [(LinkKind, &str); 3] =
    [(LinkKind::Ethernet, "ethernet"), (LinkKind::Wifi, "wifi"), (LinkKind::Tether, "phone")];

/// A link to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// Its name, which may not be valid in a config yet.
    pub name: String,
    /// How the config selects its interface.
    pub by: By,
}

/// How a link's interface is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// By its name.
    Interface(String),
    /// By its kind.
    Kind(LinkKind),
}

impl Proposed {
    fn named(interface: &str) -> Proposed {
        Proposed { name: interface.to_owned(), by: By::Interface(interface.to_owned()) }
    }
}

/// A link for each of these, by name.
pub fn by_name(uplinks: &[Uplink]) -> Vec<Proposed> {
    uplinks.iter().map(|uplink| Proposed::named(&uplink.interface)).collect()
}

/// A laptop's usual links by kind, whether they exist now or not; other uplinks by name.
pub fn by_kind(uplinks: &[Uplink]) -> Vec<Proposed> {
    let kind = |uplink: &Uplink| {
        let class_net = Path::new(CLASS_NET);
        let address = fs::read_to_string(class_net.join(&uplink.interface).join("address"));
        let address = address.ok().and_then(|text| hardware_address(text.trim()));
        Hardware::of(class_net, &uplink.interface, address).kind
    };
    let kinds: Vec<Option<LinkKind>> = uplinks.iter().map(kind).collect();
    with_kinds(uplinks, &kinds)
}

fn with_kinds(uplinks: &[Uplink], kinds: &[Option<LinkKind>]) -> Vec<Proposed> {
    let mut found: Vec<Proposed> = OF_A_LAPTOP
        .into_iter()
        .map(|(kind, name)| Proposed { name: name.to_owned(), by: By::Kind(kind) })
        .collect();
    if kinds.contains(&Some(LinkKind::Wwan)) {
        found.push(Proposed { name: "modem".to_owned(), by: By::Kind(LinkKind::Wwan) });
    }
    for (at, (uplink, kind)) in uplinks.iter().zip(kinds).enumerate() {
        // The link by kind covers only one of them.
        if kind.is_none() || kinds[..at].contains(kind) {
            found.push(Proposed::named(&uplink.interface));
        }
    }
    found
}

fn hardware_address(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// Whether this is a portable computer: it has a battery, or Wi-Fi managed by NetworkManager.
pub fn is_laptop() -> bool {
    has_battery(Path::new("/sys/class/power_supply"))
        || network_manager::runs() && has_wifi(Path::new(CLASS_NET))
}

/// Batteries of mice and the like have the scope `Device` (sysfs-class-power in Linux' ABI
/// documentation).
fn has_battery(power_supply: &Path) -> bool {
    let says = |folder: &Path, file: &str, word: &str| {
        fs::read_to_string(folder.join(file)).is_ok_and(|text| text.trim() == word)
    };
    let mut supplies = fs::read_dir(power_supply).into_iter().flatten().flatten();
    supplies.any(|supply| {
        let folder = supply.path();
        says(&folder, "type", "Battery") && !says(&folder, "scope", "Device")
    })
}

fn has_wifi(class_net: &Path) -> bool {
    let mut interfaces = fs::read_dir(class_net).into_iter().flatten().flatten();
    interfaces.any(|interface| {
        let name = interface.file_name();
        Hardware::of(class_net, &name.to_string_lossy(), None).kind == Some(LinkKind::Wifi)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uplinks(names: &[&str]) -> Vec<Uplink> {
        let uplink = |name: &&str| Uplink { interface: (*name).into(), gateways: Vec::new() };
        names.iter().map(uplink).collect()
    }

    fn words(proposed: &[Proposed]) -> Vec<String> {
        let word = |link: &Proposed| match &link.by {
            By::Interface(interface) => format!("{} by name {interface}", link.name),
            By::Kind(kind) => format!("{} by kind {kind}", link.name),
        };
        proposed.iter().map(word).collect()
    }

    #[test]
    fn a_laptop_has_the_usual_links_and_what_else_is_there() {
        let usual = ["ethernet by kind ethernet", "wifi by kind wifi", "phone by kind tether"];
        let (wifi, ethernet) = (Some(LinkKind::Wifi), Some(LinkKind::Ethernet));
        for (names, kinds, more) in [
            (&["wlp1"][..], &[wifi][..], &[][..]),
            (&["wlp1", "wlx2"], &[wifi, wifi], &["wlx2 by name wlx2"]),
            (&["ppp0", "eth0"], &[None, ethernet], &["ppp0 by name ppp0"]),
            (&["br0", "br1"], &[None, None], &["br0 by name br0", "br1 by name br1"]),
            (&["wwan0"], &[Some(LinkKind::Wwan)], &["modem by kind wwan"]),
        ] {
            let proposed = words(&with_kinds(&uplinks(names), kinds));
            assert_eq!(proposed, [&usual[..], more].concat(), "{names:?}");
        }
        assert_eq!(words(&by_name(&uplinks(&["eth0"]))), ["eth0 by name eth0"]);
    }

    #[test]
    fn a_battery_of_a_mouse_makes_no_laptop() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("AC/type", "Mains\n");
        write("hidpp_battery_0/type", "Battery\n");
        write("hidpp_battery_0/scope", "Device\n");
        assert!(!has_battery(folder.path()) && !has_battery(&folder.path().join("gone")));
        write("BAT0/type", "Battery\n");
        assert!(has_battery(folder.path()));
    }

    #[test]
    fn an_address_is_six_bytes() {
        assert_eq!(hardware_address("02:00:5e:10:00:ff"), Some([2, 0, 0x5e, 0x10, 0, 0xff]));
        for text in ["", "02:00:5e:10:00", "02:00:5e:10:00:ff:01", "02:00:5e:10:00:xx"] {
            assert_eq!(hardware_address(text), None, "{text}");
        }
    }
}
