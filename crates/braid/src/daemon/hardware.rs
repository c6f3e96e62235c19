//! The hardware behind an interface, from sysfs.

use braid_control::config::{LinkKind, UsbId};
use std::fs;
use std::path::{Path, PathBuf};

/// Where Linux lists them (sysfs-class-net in its ABI documents).
pub const CLASS_NET: &str = "/sys/class/net";

/// The hardware of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// `None` for virtual interfaces (veth, bridges, tunnels) and other kinds of hardware.
    pub kind: Option<LinkKind>,
    /// The USB device that it belongs to.
    pub usb: Option<UsbId>,
}

/// `ARPHRD_ETHER` of linux/if_arp.h.
const ETHERNET: &str = "1";
/// Drivers for a computer at the other end of the cable (`FLAG_POINTTOPOINT` in Linux'
/// drivers/net/usb): phones, but also some adapters.
const HOST_TO_HOST: [&str; 5] = ["rndis_host", "cdc_ether", "cdc_ncm", "cdc_eem", "cdc_subset"];
/// The driver of iPhones only.
const IPHONE: &str = "ipheth";
/// An interface of a USB device is one folder below it; behind a hub the device has a folder of
/// its own as well.
const UP_TO_USB: usize = 3;

impl Hardware {
    /// Reads it below `class_net`; `address` is the interface's MAC address.
    pub fn of(class_net: &Path, interface: &str, address: Option<[u8; 6]>) -> Hardware {
        let folder = class_net.join(interface);
        let usb = usb(&folder);
        Hardware { kind: kind(&folder, usb.is_some(), address), usb }
    }
}

fn kind(folder: &Path, is_usb: bool, address: Option<[u8; 6]>) -> Option<LinkKind> {
    match device_type(folder).as_deref() {
        Some("wlan") => return Some(LinkKind::Wifi),
        Some("wwan") => return Some(LinkKind::Wwan),
        Some("bluetooth") => return Some(LinkKind::Tether),
        // A bridge, a VLAN, a bond.
        Some(_) => return None,
        None => {}
    }
    // Out-of-tree drivers have no type.
    if folder.join("phy80211").exists() || folder.join("wireless").exists() {
        return Some(LinkKind::Wifi);
    }
    let is_ethernet = text(&folder.join("type")).as_deref() == Some(ETHERNET);
    if !folder.join("device").exists() || !is_ethernet {
        return None;
    }
    let driver = fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.as_ref().and_then(|driver| driver.file_name()?.to_str());
    let is_phone = match driver {
        Some(IPHONE) => true,
        // Like usbnet_probe in Linux' usbnet.c (which names them usb0 or eth0): a locally
        // administered address belongs to another computer.
        Some(driver) if is_usb && HOST_TO_HOST.contains(&driver) => {
            address.is_some_and(|address| address[0] & 2 != 0)
        }
        _ => false,
    };
    Some(if is_phone { LinkKind::Tether } else { LinkKind::Ethernet })
}

/// `DEVTYPE` of its uevent.
fn device_type(folder: &Path) -> Option<String> {
    let uevent = fs::read_to_string(folder.join("uevent")).ok()?;
    uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
}

fn usb(folder: &Path) -> Option<UsbId> {
    let device: PathBuf = fs::canonicalize(folder.join("device")).ok()?;
    device.ancestors().take(UP_TO_USB).find_map(|folder| {
        let number = |file: &str| u16::from_str_radix(&text(&folder.join(file))?, 16).ok();
        Some(UsbId { vendor: number("idVendor")?, product: Some(number("idProduct")?) })
    })
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A sysfs with what is asked for, deleted at the end.
    struct Sysfs(tempfile::TempDir);

    impl Sysfs {
        fn new() -> Sysfs {
            Sysfs(tempfile::tempdir().unwrap())
        }

        fn write(&self, file: &str, text: &str) {
            let file = self.0.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        /// An interface of a device that has this driver.
        fn interface(&self, name: &str, device: &str, driver: &str, uevent: &str) {
            self.write(&format!("class/net/{name}/type"), "1\n");
            self.write(&format!("class/net/{name}/uevent"), uevent);
            self.write(&format!("devices/{device}/uevent"), "");
            let device = self.0.path().join("devices").join(device);
            symlink(&device, self.0.path().join("class/net").join(name).join("device")).unwrap();
            symlink(Path::new("/sys/bus/drivers").join(driver), device.join("driver")).unwrap();
        }

        fn look(&self, name: &str, first: u8) -> (Option<LinkKind>, Option<String>) {
            let address = Some([first, 1, 2, 3, 4, 5]);
            let found = Hardware::of(&self.0.path().join("class/net"), name, address);
            (found.kind, found.usb.map(|usb| usb.to_string()))
        }
    }

    #[test]
    fn each_kind_is_told_by_what_its_driver_shows() {
        let sysfs = Sysfs::new();
        sysfs.interface("eth0", "pci0/1", "e1000e", "INTERFACE=eth0\n");
        sysfs.interface("wlan0", "pci0/2", "iwlwifi", "DEVTYPE=wlan\nINTERFACE=wlan0\n");
        sysfs.interface("wlan1", "pci0/3", "vendors_own", "");
        sysfs.write("class/net/wlan1/phy80211/name", "phy1");
        for (number, (vendor, product)) in
            [("18d1", "4eeb"), ("05ac", "12a8"), ("0bda", "8153"), ("1199", "9071")]
                .into_iter()
                .enumerate()
        {
            sysfs.write(&format!("devices/usb1/1-{number}/idVendor"), &format!("{vendor}\n"));
            sysfs.write(&format!("devices/usb1/1-{number}/idProduct"), &format!("{product}\n"));
        }
        sysfs.interface("usb0", "usb1/1-0/1-0:1.0", "rndis_host", "");
        sysfs.interface("eth1", "usb1/1-1/1-1:4.2", "ipheth", "");
        sysfs.interface("eth2", "usb1/1-2/1-2:2.0", "cdc_ncm", "");
        sysfs.interface("wwan0", "usb1/1-3/1-3:1.8", "qmi_wwan", "DEVTYPE=wwan\n");
        sysfs.interface("bnep0", "hci0", "none", "DEVTYPE=bluetooth\n");
        sysfs.write("class/net/br0/type", "1\n");
        sysfs.write("class/net/br0/uevent", "DEVTYPE=bridge\n");
        sysfs.write("class/net/veth0/type", "1\n");
        let usb = |id: &str| Some(id.to_owned());
        let (makers, random) = (0x00, 0x02);
        for (name, first, expected) in [
            ("eth0", makers, (Some(LinkKind::Ethernet), None)),
            // A virtual machine's address is random as well.
            ("eth0", random, (Some(LinkKind::Ethernet), None)),
            ("wlan0", makers, (Some(LinkKind::Wifi), None)),
            ("wlan1", makers, (Some(LinkKind::Wifi), None)),
            ("usb0", random, (Some(LinkKind::Tether), usb("18d1:4eeb"))),
            ("eth1", makers, (Some(LinkKind::Tether), usb("05ac:12a8"))),
            ("eth2", makers, (Some(LinkKind::Ethernet), usb("0bda:8153"))),
            ("wwan0", random, (Some(LinkKind::Wwan), usb("1199:9071"))),
            ("bnep0", makers, (Some(LinkKind::Tether), None)),
            ("br0", random, (None, None)),
            ("veth0", random, (None, None)),
            ("gone", random, (None, None)),
        ] {
            assert_eq!(sysfs.look(name, first), expected, "{name}");
        }
    }
}
