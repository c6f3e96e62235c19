//! How a disk is recognised after a reboot, on another port, in another computer.

use crate::block_device::BlockDevice;
use crate::host_root::HostRoot;
use braid_pool::disk::{DiskKind, Identity};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

/// Who each device is. Serial numbers come from sysfs and, where udev runs, from its database;
/// never from SMART, which a sleeping disk doesn't report: an identity must not depend on that.
pub struct Identities<'a> {
    host: &'a HostRoot,
    links: BTreeMap<String, String>,
    /// With the nodes of the disks that have it.
    shared_serials: BTreeMap<String, Vec<String>>,
}

impl<'a> Identities<'a> {
    /// For all devices of the host. A serial number that several whole disks claim (cheap USB
    /// bridges do that) identifies nothing: none of them gets it, so that what the user names is
    /// one disk.
    pub fn of(host: &'a HostRoot, devices: &[BlockDevice]) -> Self {
        let links = best_links(host);
        let mut all = Identities { host, links, shared_serials: BTreeMap::new() };
        let mut by_serial: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for device in devices.iter().filter(|device| device.partition.is_none()) {
            let Some(serial) = all.identity(device).serial else { continue };
            by_serial.entry(serial).or_default().push(device.path());
        }
        by_serial.retain(|_, nodes| nodes.len() > 1);
        all.shared_serials = by_serial;
        all
    }

    /// Serial numbers that several disks claim, with those disks' nodes.
    pub fn shared_serials(&self) -> &BTreeMap<String, Vec<String>> {
        &self.shared_serials
    }

    /// Who this device is; for a partition, serial, WWN and model are the whole disk's.
    pub fn identity(&self, device: &BlockDevice) -> Identity {
        let disk = format!("sys/block/{}", device.whole_disk());
        let word = |file: &str| self.host.word(format!("{disk}/{file}"));
        let udev = self.udev(&disk);
        let from_udev = |key: &str| udev.get(key).cloned();
        let makers = word("serial")
            .or_else(|| word("device/serial"))
            .or_else(|| self.vital_product_data(&disk))
            .or_else(|| from_udev("ID_SERIAL_SHORT"));
        let serial = loop_serial(self.host, &disk)
            .or(makers.map(one_word).filter(|serial| says_something(serial)))
            .filter(|serial| !self.shared_serials.contains_key(serial));
        let wwn = [word("wwid"), word("device/wwid"), from_udev("ID_WWN_WITH_EXTENSION")];
        Identity {
            serial,
            wwn: wwn.into_iter().flatten().find(|wwn| is_world_wide(wwn)),
            by_id: self.links.get(&device.path()).cloned(),
            model: word("device/model").or_else(|| word("device/name")).map(one_word),
        }
    }

    /// Unit serial number page of SCSI and ATA disks (SPC-5, 7.7.16): four bytes of header, then
    /// text.
    fn vital_product_data(&self, disk: &str) -> Option<String> {
        let page = self.host.bytes(format!("{disk}/device/vpd_pg80")).ok()?;
        let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
        let text = page.get(4..)?;
        let text = text.get(..length).unwrap_or(text);
        let text: String =
            text.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| *byte as char).collect();
        Some(text).filter(|text| !text.is_empty())
    }

    /// What udev knows: lines `E:KEY=value` in `/run/udev/data/b8:0`.
    fn udev(&self, disk: &str) -> HashMap<String, String> {
        let Some(number) = self.host.word(format!("{disk}/dev")) else { return HashMap::new() };
        let text = self.host.text(format!("run/udev/data/b{number}")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.strip_prefix("E:")?.split_once('='))
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

/// What a whole disk is made of.
pub fn kind(host: &HostRoot, device: &BlockDevice) -> DiskKind {
    let name = device.whole_disk();
    let is_scsi = name.starts_with("sd") || name.starts_with("hd");
    match () {
        () if name.starts_with("nvme") => DiskKind::Nvme,
        // Virtual machines' disks claim to rotate, or not, without knowing.
        () if is_scsi && !is_virtual(host, name) && device.rotational => DiskKind::Hdd,
        () if is_scsi && !is_virtual(host, name) => DiskKind::Ssd,
        () => DiskKind::Other,
    }
}

fn is_virtual(host: &HostRoot, disk: &str) -> bool {
    let vendor = host.word(format!("sys/block/{disk}/device/vendor")).unwrap_or_default();
    ["QEMU", "VMware", "VBOX", "Msft", "Google"].iter().any(|maker| vendor.starts_with(maker))
}

/// A loop device is identified by its file and the offset in it: `loop:/var/disk.img`,
/// `loop:/var/disk.img+1048576`.
fn loop_serial(host: &HostRoot, disk: &str) -> Option<String> {
    let file = host.word(format!("{disk}/loop/backing_file"))?;
    let offset: u64 = host.number(format!("{disk}/loop/offset")).unwrap_or(0);
    Some(match offset {
        0 => format!("loop:{file}"),
        _ => format!("loop:{file}+{offset}"),
    })
}

/// `t10.` names are made from vendor and serial; the others are globally unique numbers.
fn is_world_wide(wwn: &str) -> bool {
    ["0x", "naa.", "eui.", "nvme.", "uuid."].iter().any(|prefix| wwn.starts_with(prefix))
}

/// Firmware and drivers without one report `(null)`, `None`, `00000000`…
fn says_something(serial: &str) -> bool {
    let letters: String = serial.chars().filter(char::is_ascii_alphanumeric).collect();
    let is_word = ["null", "none", "unknown"].iter().any(|word| letters.eq_ignore_ascii_case(word));
    !is_word && letters.chars().any(|letter| letter != '0')
}

fn one_word(text: String) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// For each node the most telling link: maker, model and serial before bare numbers. Links derived
/// from a disk's *contents* (`lvm-pv-uuid-…`, `md-uuid-…`) don't name the disk.
fn best_links(host: &HostRoot) -> BTreeMap<String, String> {
    const BY_ID: &str = "/dev/disk/by-id";
    let mut best: BTreeMap<String, (u8, String)> = BTreeMap::new();
    for link in host.names(BY_ID) {
        let Some(rank) = link_rank(&link) else { continue };
        let Ok(target) = fs::read_link(host.path(format!("{BY_ID}/{link}"))) else { continue };
        let Some(node) = target_node(&target) else { continue };
        let entry = (rank, format!("{BY_ID}/{link}"));
        best.entry(node).and_modify(|old| *old = old.clone().min(entry.clone())).or_insert(entry);
    }
    best.into_iter().map(|(node, (_, link))| (node, link)).collect()
}

fn link_rank(link: &str) -> Option<u8> {
    const ORDER: [&str; 10] =
        ["ata-", "nvme-", "scsi-S", "virtio-", "mmc-", "usb-", "scsi-", "ieee1394-", "wwn-", "dm-"];
    if link.starts_with("nvme-eui.") || link.starts_with("nvme-nvme.") {
        return Some(ORDER.len() as u8);
    }
    ORDER.iter().position(|prefix| link.starts_with(prefix)).map(|place| place as u8)
}

/// `../../sda` is `/dev/sda`.
fn target_node(target: &Path) -> Option<String> {
    let mut rest = target;
    while let Ok(inner) = rest.strip_prefix("..") {
        rest = inner;
    }
    let rest = rest.to_str()?;
    Some(if rest.starts_with('/') { rest.to_owned() } else { format!("/dev/{rest}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_device;
    use std::os::unix::fs::symlink;

    fn host_with(files: &[(&str, &str)], links: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        let place = |path: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for (path, text) in files {
            fs::write(place(path), text).unwrap();
        }
        for (path, target) in links {
            symlink(target, place(path)).unwrap();
        }
        let host = HostRoot::at(dir.path());
        (dir, host)
    }

    fn identities(host: &HostRoot) -> Vec<Identity> {
        let devices = block_device::all(host);
        let identities = Identities::of(host, &devices);
        devices.iter().map(|device| identities.identity(device)).collect()
    }

    #[test]
    fn a_sata_disk_and_its_partition() {
        let (_dir, host) = host_with(
            &[
                ("sys/block/sda/dev", "8:0\n"),
                ("sys/block/sda/size", "1000\n"),
                ("sys/block/sda/device/model", "WDC WD40EFRX   \n"),
                ("sys/block/sda/device/vpd_pg80", "\0\u{1}\0\u{8}  WD-X1 \0"),
                ("sys/block/sda/device/wwid", "naa.50014ee2\n"),
                ("sys/block/sda/sda5/partition", "5\n"),
                ("sys/block/sda/sda5/start", "2048\n"),
                ("sys/block/sda/sda5/dev", "8:5\n"),
            ],
            &[
                ("dev/disk/by-id/wwn-0x50014ee2", "../../sda"),
                ("dev/disk/by-id/ata-WDC_WD40EFRX_WD-X1", "../../sda"),
                ("dev/disk/by-id/lvm-pv-uuid-abc", "../../sda"),
                ("dev/disk/by-id/ata-WDC_WD40EFRX_WD-X1-part5", "../../sda5"),
            ],
        );
        let all = identities(&host);
        assert_eq!(all[0].serial.as_deref(), Some("WD-X1"));
        assert_eq!(all[0].wwn.as_deref(), Some("naa.50014ee2"));
        assert_eq!(all[0].model.as_deref(), Some("WDC WD40EFRX"));
        assert_eq!(all[0].by_id.as_deref(), Some("/dev/disk/by-id/ata-WDC_WD40EFRX_WD-X1"));
        assert_eq!(all[1].serial, all[0].serial);
        assert_eq!(all[1].by_id.as_deref(), Some("/dev/disk/by-id/ata-WDC_WD40EFRX_WD-X1-part5"));
    }

    #[test]
    fn a_serial_that_two_disks_have_or_that_says_nothing_is_none() {
        let (_dir, host) = host_with(
            &[
                ("sys/block/sda/dev", "8:0"),
                ("sys/block/sda/serial", "SAME"),
                ("sys/block/sdb/dev", "8:16"),
                ("sys/block/sdb/serial", "SAME"),
                ("sys/block/sdc/dev", "8:32"),
                ("sys/block/sdc/serial", "(null)"),
                ("sys/block/sdd/dev", "8:48"),
                ("sys/block/sdd/serial", "00000000"),
                ("sys/block/sde/dev", "8:64"),
                ("run/udev/data/b8:64", "S:disk/by-id/x\nE:ID_SERIAL_SHORT=Z9\nE:ID_MODEL="),
            ],
            &[],
        );
        let serials: Vec<_> =
            identities(&host).into_iter().map(|identity| identity.serial).collect();
        assert_eq!(serials, [None, None, None, None, Some("Z9".to_owned())]);
        let devices = block_device::all(&host);
        let shared = Identities::of(&host, &devices);
        assert_eq!(shared.shared_serials().keys().collect::<Vec<_>>(), ["SAME"]);
    }

    #[test]
    fn kinds_of_disks() {
        let (_dir, host) = host_with(
            &[
                ("sys/block/nvme0n1/dev", "259:0"),
                ("sys/block/sda/dev", "8:0"),
                ("sys/block/sda/queue/rotational", "1"),
                ("sys/block/sdb/dev", "8:16"),
                ("sys/block/sdb/queue/rotational", "0"),
                ("sys/block/sdc/dev", "8:32"),
                ("sys/block/sdc/queue/rotational", "1"),
                ("sys/block/sdc/device/vendor", "QEMU    "),
                ("sys/block/vda/dev", "254:0"),
                ("sys/block/vda/queue/rotational", "1"),
                ("sys/block/zram0/dev", "253:0"),
                ("sys/block/loop7/dev", "7:7"),
            ],
            &[],
        );
        let kinds: Vec<_> =
            block_device::all(&host).iter().map(|device| kind(&host, device)).collect();
        use DiskKind::{Hdd, Nvme, Other, Ssd};
        assert_eq!(kinds, [Nvme, Hdd, Ssd, Other, Other]);
    }
}
