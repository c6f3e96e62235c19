//! fstab, mdadm.conf, initramfs, mount points: what brings a pool up after a reboot.

use super::Refused;
use crate::fstab;
use crate::mount_options::MountOptions;
use crate::observed::ObservedHost;
use crate::step::{Action, Argv, Condition, Step, Undo};
use crate::uuid::Uuid;

const FSTAB: &str = "/etc/fstab";
/// Its place in Debian and derivatives.
const MDADM_CONF: &str = "/etc/mdadm/mdadm.conf";
/// Pools' mount options: no write for each read, and a host that lacks a disk still boots.
const OPTIONS: &str = "noatime,nofail";

/// Whether a filesystem can be mounted at boot, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtBoot {
    /// As soon as its disks are there.
    Mounted,
    /// Once the network is up.
    MountedByNetwork,
    /// Only once somebody has opened it.
    Not,
}

/// Folders of the system's programs, devices and settings: nothing may be mounted there or below.
const SYSTEM: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr"];
/// Folders below these belong to the administrator, or to anybody.
const OPEN: [&str; 2] = ["/usr/local/", "/dev/shm/"];
/// Folders that many programs share: below them there may be mount points.
const SHARED: [&str; 5] = ["/", "/root", "/run", "/tmp", "/var"];

/// Checks that nothing else is to be mounted at `at`, and that it isn't a system folder.
pub(super) fn check_mount_point_free(host: &ObservedHost, at: &str) -> Result<(), Refused> {
    match fstab::entries(&host.fstab).find(|entry| entry.at == at) {
        Some(taken) => Err(Refused::MountPointTaken { at: at.to_owned(), line: taken.line }),
        None => check_not_systems(at),
    }
}

/// Checks that it isn't a system folder.
pub(super) fn check_not_systems(at: &str) -> Result<(), Refused> {
    let is_below = |folder: &str| {
        at.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_systems =
        SYSTEM.into_iter().any(is_below) && !OPEN.into_iter().any(|open| at.starts_with(open));
    if is_systems || SHARED.contains(&at) {
        return Err(Refused::SystemFolder { at: at.to_owned() });
    }
    Ok(())
}

/// Where fstab mounts the filesystem of this UUID.
pub fn fstab_place(host: &ObservedHost, uuid: Uuid) -> Option<String> {
    fstab_mount(host, uuid).map(|mount| mount.at)
}

/// Where and how fstab mounts it, at boot or only when told to.
pub fn fstab_mount(host: &ObservedHost, uuid: Uuid) -> Option<BootMount> {
    let found = fstab::entries(&host.fstab).find(|entry| is_uuid(&entry.what, uuid));
    found.map(|fstab::Entry { at, options, .. }| BootMount { at, options })
}

/// Where and how fstab mounts a filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootMount {
    /// The mount point.
    pub at: String,
    /// Its options, between commas.
    pub options: String,
}

/// How fstab mounts the filesystem of this UUID at boot; nothing if it does not, or only when told
/// to (`noauto`).
pub fn boot_mount(host: &ObservedHost, uuid: Uuid) -> Option<BootMount> {
    let is_meant = |entry: &fstab::Entry| {
        is_uuid(&entry.what, uuid) && entry.at.starts_with('/') && !entry.has("noauto")
    };
    let found = fstab::entries(&host.fstab).find(is_meant);
    found.map(|fstab::Entry { at, options, .. }| BootMount { at, options })
}

/// Whether fstab's first field names the filesystem by this UUID.
pub(super) fn is_uuid(what: &str, uuid: Uuid) -> bool {
    what.strip_prefix("UUID=")
        .is_some_and(|text| text.trim_matches('"').eq_ignore_ascii_case(&uuid.to_string()))
}

/// A line in fstab, by UUID.
pub(super) fn fstab(
    uuid: Uuid,
    kind: &str,
    at: &str,
    options: &MountOptions,
    at_boot: AtBoot,
) -> Step {
    let more = match at_boot {
        AtBoot::Mounted => "",
        // At boot Debian starts remote filesystems, but nothing that opens what is below them.
        AtBoot::MountedByNetwork => ",_netdev,x-systemd.requires=remote-cryptsetup.target",
        AtBoot::Not => ",noauto",
    };
    let pass = if kind == "btrfs" { 0 } else { 2 };
    let own: String = options.each().iter().map(|option| format!(",{option}")).collect();
    let place = fstab::encoded(at);
    let line = format!("UUID={uuid} {place} {kind} {OPTIONS}{own}{more} 0 {pass}");
    ensured(
        "fstab",
        match at_boot {
            AtBoot::Not => format!("`mount` knows that it belongs at {at}, by UUID"),
            _ => format!("mount it at {at} after every boot, by UUID"),
        },
        FSTAB,
        line,
        None,
        vec![],
    )
}

/// The array's line in mdadm.conf, by UUID, so that it keeps its name on this host.
pub(super) fn mdadm_conf(host: &ObservedHost, name: &str, uuid: Uuid) -> Step {
    let file = host.mdadm_conf.as_ref().map_or(MDADM_CONF, |(path, _)| path);
    let line = array_line(name, uuid);
    // Otherwise, undone in reverse order, the initramfs would be rebuilt before this line is gone.
    let again = host.initramfs_command.as_deref().and_then(run_initramfs);
    let says = format!("the array is /dev/md/{name} after every boot");
    ensured("mdadm.conf", says, file, line, Some(uuid.in_mdadm_form()), again.into_iter().collect())
}

/// An ARRAY line as mdadm.conf(5) has it.
pub(crate) fn array_line(name: &str, uuid: Uuid) -> String {
    format!("ARRAY /dev/md/{name} metadata=1.2 UUID={}", uuid.in_mdadm_form())
}

/// Puts the new mdadm.conf into the initramfs; `None` if there is none that would include it.
pub(super) fn initramfs(host: &ObservedHost) -> Option<Step> {
    let action = run_initramfs(host.initramfs_command.as_deref()?)?;
    Some(Step {
        name: "initramfs".to_owned(),
        says: "the initramfs knows the new mdadm.conf, so the array isn't renamed at boot"
            .to_owned(),
        before: vec![],
        action,
        after: vec![Condition::InitramfsFresh],
        undo: Undo::Nothing,
    })
}

fn run_initramfs(command: &[String]) -> Option<Action> {
    let (program, args) = command.split_first()?;
    Some(Action::Run(Argv::new(program, args.iter().cloned())))
}

/// Creates the mount point.
pub(super) fn mount_point(at: &str) -> Step {
    Step {
        name: "mount point".to_owned(),
        says: format!("there is a directory {at}"),
        before: vec![],
        action: Action::MakeDirectory { path: at.to_owned() },
        after: vec![Condition::Directory { path: at.to_owned() }],
        undo: Undo::By(vec![Action::RemoveDirectory { path: at.to_owned() }]),
    }
}

/// Mounts `what`, a device, where nothing has been mounted so far: files in a folder there would be
/// hidden.
pub(super) fn mount_anew(what: &str, kind: &str, options: &[String], uuid: Uuid, at: &str) -> Step {
    let mut step = mount(what, kind, options, uuid, at);
    step.before.push(Condition::HidesNothing { at: at.to_owned() });
    step
}

/// The same, if fstab may already mount it there: whoever wrote that line has decided.
pub(super) fn mount_again(
    host: &ObservedHost,
    what: &str,
    kind: &str,
    options: &[String],
    uuid: Uuid,
    at: &str,
) -> Step {
    let is_fstabs = fstab_place(host, uuid).is_some_and(|place| place == at);
    let mount = if is_fstabs { mount } else { mount_anew };
    mount(what, kind, options, uuid, at)
}

/// Mounts `what`, a device.
pub(super) fn mount(what: &str, kind: &str, options: &[String], uuid: Uuid, at: &str) -> Step {
    let mut all = vec!["noatime".to_owned()];
    all.extend(options.iter().cloned());
    let all = all.join(",");
    Step {
        name: "mount".to_owned(),
        says: format!("mount it at {at}"),
        before: vec![Condition::Directory { path: at.to_owned() }],
        action: Action::Run(Argv::new("mount", ["-t", kind, "-o", &all, what, at])),
        after: vec![Condition::Mounted { uuid, at: at.to_owned() }],
        undo: Undo::By(vec![Action::Run(Argv::new("umount", [at]))]),
    }
}

pub(super) fn ensured(
    name: &str,
    says: String,
    file: &str,
    line: String,
    instead_of: Option<String>,
    after_undo: Vec<Action>,
) -> Step {
    let file = file.to_owned();
    let mut undo = vec![Action::RemoveLine { file: file.clone(), line: line.clone() }];
    undo.extend(after_undo);
    Step {
        name: name.to_owned(),
        says,
        before: vec![],
        action: Action::EnsureLine { file: file.clone(), line: line.clone(), instead_of },
        after: vec![Condition::FileHasLine { file, line }],
        undo: Undo::By(undo),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_mounts_with_the_options_of_the_line_unless_it_says_noauto() {
        let uuid = Uuid::from_bytes([2; 16]);
        let boot = |rest: &str| {
            let fstab = format!(
                "# UUID={uuid} /no ext4 rw\nUUID=other /other ext4 rw\nUUID={uuid} {rest}\n"
            );
            let host = ObservedHost { fstab, ..ObservedHost::default() };
            boot_mount(&host, uuid).map(|found| (found.at, found.options))
        };
        let found = |at: &str, options: &str| Some((at.to_owned(), options.to_owned()));
        assert_eq!(boot("/srv/a\\040b ext4 ro,noexec 0 2"), found("/srv/a b", "ro,noexec"));
        assert_eq!(boot("/srv/data ext4"), found("/srv/data", "defaults"));
        assert_eq!(boot("/srv/data ext4 noatime,noauto 0 2"), None);
        assert_eq!(boot("none swap sw 0 0"), None);
    }
}
