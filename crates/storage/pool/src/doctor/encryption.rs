//! Encrypted pools that can't be opened, may soon be impossible to open, or are too easy to open.

use super::{Code, Finding, NEW, Severity};
use crate::luks::{self, Header, LuksVolume, Unlock};
use crate::membership::Standing;
use crate::step::quoted;
use crate::untrusted::Untrusted;
use crate::uuid::Uuid;

/// What is known about one pool's encryption.
#[derive(Clone, Debug, Default)]
pub struct EncryptionState<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The volumes that are its members.
    pub volumes: Vec<&'a LuksVolume>,
    /// Volumes that have its label but aren't plainly members.
    pub strays: Vec<(&'a LuksVolume, Standing)>,
    /// Text of `/etc/crypttab`.
    pub crypttab: &'a str,
    /// The state of each volume's header backup.
    pub backups: Vec<(Uuid, HeaderBackup)>,
    /// The key file that crypttab names, if it names one.
    pub key_file: Option<KeyFile>,
    /// Paths of members that are not encrypted.
    pub plain_members: Vec<String>,
}

/// The state of a header's backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderBackup {
    /// As the header is now.
    Current,
    /// From an earlier or later state of the header.
    Outdated,
    /// There is none.
    Missing,
}

/// The state of a key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// Where.
    pub path: String,
    /// It is there.
    pub is_there: bool,
    /// Others than its owner can read it.
    pub is_exposed: bool,
    /// It is on the pool that it opens.
    pub is_on_the_pool: bool,
}

impl EncryptionState<'_> {
    /// What is wrong with it.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        self.closed(&mut found);
        found.extend(
            self.strays.iter().filter_map(|(volume, standing)| self.stray(volume, *standing)),
        );
        self.headers(&mut found);
        self.key_file(&mut found);
        self.keys(&mut found);
        for member in &self.plain_members {
            let what = format!(
                "{} is not encrypted, though other disks of the pool are",
                Untrusted(member)
            );
            let mend = format!(
                "braid pool replace {} {} {NEW} --encrypt",
                quoted(self.pool),
                quoted(member)
            );
            found.push(self.finding(Code::PartlyEncrypted, Severity::Attention, what, mend));
        }
        found
    }

    fn finding(&self, code: Code, severity: Severity, what: String, mend: String) -> Finding {
        Finding { code, severity, pool: Some(self.pool.to_owned()), what, mend }
    }

    fn closed(&self, found: &mut Vec<Finding>) {
        let closed: Vec<&str> = self
            .volumes
            .iter()
            .filter(|volume| volume.open.is_none())
            .map(|volume| volume.path.as_str())
            .collect();
        let mend = format!("braid pool open {}", quoted(self.pool));
        if closed.len() == self.volumes.len() && !closed.is_empty() {
            // A user who is asked for a passphrase knows that it is closed after a boot.
            let severity = match self.unlock() {
                Some(Unlock::Passphrase) => Severity::Attention,
                _ => Severity::Danger,
            };
            let what = "it is locked: nobody has opened its encrypted disks".to_owned();
            found.push(self.finding(Code::Locked, severity, what, mend));
        } else if !closed.is_empty() {
            let what = format!("{} is locked, and other disks of it are open", closed.join(", "));
            found.push(self.finding(Code::Locked, Severity::Danger, what, mend));
        }
        let is_named = |volume: &&&LuksVolume| {
            luks::crypttab(self.crypttab).any(|line| line.volume == Some(volume.uuid))
        };
        for volume in self.volumes.iter().filter(|volume| !is_named(volume)) {
            let what = format!(
                "{} is in no line of /etc/crypttab: after a boot it stays locked",
                volume.path
            );
            let line = format!("{} UUID={} none luks,noauto", volume.mapping_name(), volume.uuid);
            let key = luks::crypttab(self.crypttab)
                .filter(|line| line.name.starts_with(&format!("luks-{}-", self.pool)))
                .find_map(|line| line.key_file);
            let line = key.map_or(line, |key| {
                format!("{} UUID={} {key} luks,nofail", volume.mapping_name(), volume.uuid)
            });
            let mend = format!("echo {} >> /etc/crypttab", quoted(&line));
            found.push(self.finding(Code::NotInCrypttab, Severity::Attention, what, mend));
        }
    }

    /// A volume that would bring old data into the pool, or belongs to another one.
    fn stray(&self, volume: &LuksVolume, standing: Standing) -> Option<Finding> {
        let (path, pool) = (volume.path.as_str(), quoted(self.pool));
        let disk = quoted(volume.disk.as_str());
        let (code, severity, what, mend) = match standing {
            Standing::Member => return None,
            Standing::Former => {
                let what = match volume.pool_uuid {
                    Some(_) => format!(
                        "{path} has left the pool, and its keys are still on it: with a key of the \
                         pool, what it held can be read"
                    ),
                    None => format!(
                        "{path} has the pool's label, and the pool is complete without it: it has \
                         left the pool, or is of another one of that name"
                    ),
                };
                let mend = format!("braid pool key erase {pool} {disk}");
                (Code::FormerMember, Severity::Attention, what, mend)
            }
            Standing::Unknown => {
                let what = format!(
                    "{path} has the pool's label, and this computer has no record of it, as it has of \
                     other disks: it may have left the pool, so it isn't opened"
                );
                let mend = format!(
                    "braid pool open {pool} --disk {disk}  # if it is a member; else it is closed again"
                );
                (Code::UnknownMember, Severity::Attention, what, mend)
            }
            Standing::OfAnother => {
                let uuid = volume.pool_uuid.map_or_else(String::new, |uuid| uuid.to_string());
                let what = format!("{path} is of another pool of that name, {uuid}");
                let mend = format!("braid pool open {uuid}");
                (Code::SameName, Severity::Note, what, mend)
            }
        };
        Some(self.finding(code, severity, what, mend))
    }

    fn headers(&self, found: &mut Vec<Finding>) {
        let pool = quoted(self.pool);
        for volume in &self.volumes {
            let path = volume.path.as_str();
            let (severity, what) = match volume.header {
                Header::Gone => (
                    Severity::Danger,
                    format!(
                        "the LUKS header on {path} is destroyed: as soon as it is closed, nobody can read it"
                    ),
                ),
                Header::Damaged => (
                    Severity::Attention,
                    format!("one of the two copies of the LUKS header on {path} is damaged"),
                ),
                Header::Whole | Header::Old => continue,
            };
            let mend = format!("braid pool header restore {pool} {path}");
            found.push(self.finding(Code::DamagedHeader, severity, what, mend));
        }
        for line in self.lost_lines() {
            let what = format!(
                "the LUKS volume {} is on no disk: its disk is gone, or the header is destroyed",
                line.name
            );
            let mend = format!("braid pool header restore {pool} DISK");
            found.push(self.finding(Code::DamagedHeader, Severity::Danger, what, mend));
        }
        let lacks = |how| {
            let all = self.backups.iter().filter(move |(_, backup)| *backup == how);
            let paths: Vec<&str> = all
                .filter_map(|(uuid, _)| self.volumes.iter().find(|volume| volume.uuid == *uuid))
                .filter(|volume| volume.header == Header::Whole)
                .map(|volume| volume.path.as_str())
                .collect();
            (!paths.is_empty()).then(|| paths.join(", "))
        };
        let mend = || format!("braid pool header backup {pool}");
        if let Some(paths) = lacks(HeaderBackup::Missing) {
            let what =
                format!("no backup of the LUKS header on {paths}: once it is damaged, all is lost");
            found.push(self.finding(Code::HeaderNotBackedUp, Severity::Attention, what, mend()));
        }
        if let Some(paths) = lacks(HeaderBackup::Outdated) {
            let what = format!(
                "the backup of the LUKS header on {paths} has other keys than the disk: old ones may still open it"
            );
            found.push(self.finding(Code::HeaderNotBackedUp, Severity::Attention, what, mend()));
        }
    }

    /// Lines of crypttab that name the pool and a volume that isn't there.
    fn lost_lines(&self) -> impl Iterator<Item = luks::CrypttabLine<'_>> {
        luks::crypttab(self.crypttab).filter(|line| {
            line.volume.is_some_and(|uuid| {
                line.name == luks::mapping_name(self.pool, uuid)
                    && !self.volumes.iter().any(|volume| volume.uuid == uuid)
                    && !self.strays.iter().any(|(volume, _)| volume.uuid == uuid)
            })
        })
    }

    fn key_file(&self, found: &mut Vec<Finding>) {
        let Some(file) = &self.key_file else { return };
        let path = &file.path;
        let sheet = "the key of the recovery sheet";
        if !file.is_there {
            let what =
                format!("there is no key file {path}: at the next boot the pool stays locked");
            let mend = format!(
                "read -rs KEY; printf %s \"$KEY\" | install -D -m 400 /dev/stdin {}  # {sheet}",
                quoted(path)
            );
            found.push(self.finding(Code::MissingKeyFile, Severity::Danger, what, mend));
            return;
        }
        if file.is_exposed {
            let what = format!("others than root can read the key file {path}");
            let mend = format!("chown root: {0} && chmod 400 {0}", quoted(path));
            found.push(self.finding(Code::ExposedKeyFile, Severity::Danger, what, mend));
        }
        if file.is_on_the_pool {
            let what = format!("the key file {path} is on the pool that it opens");
            let name = path.rsplit('/').next().unwrap_or_default();
            let mend = format!(
                "install -D -m 400 {} {} && sed -i {} /etc/crypttab",
                quoted(path),
                quoted(&format!("/etc/braid/keys/{name}")),
                quoted(&format!("s|{path}|/etc/braid/keys/{name}|"))
            );
            found.push(self.finding(Code::KeyFileOnPool, Severity::Danger, what, mend));
        }
    }

    fn keys(&self, found: &mut Vec<Finding>) {
        let add = format!("braid pool key add {}", quoted(self.pool));
        let known = || self.volumes.iter().filter(|volume| !volume.slots.is_empty());
        let paths = |which: &dyn Fn(&LuksVolume) -> bool| {
            let all = known().filter(|volume| which(volume));
            let paths: Vec<&str> = all.map(|volume| volume.path.as_str()).collect();
            (!paths.is_empty()).then(|| paths.join(", "))
        };
        let of_people =
            |volume: &LuksVolume| volume.slots.iter().filter(|slot| slot.token.is_none()).count();
        if let Some(paths) = paths(&|volume| of_people(volume) == 0) {
            let what = format!(
                "only this computer or a server opens {paths}: should that be gone, nobody can read it"
            );
            found.push(self.finding(Code::NoSpareKey, Severity::Attention, what, add.clone()));
        } else if let Some(paths) = paths(&|volume| volume.slots.len() == 1) {
            let what = format!(
                "one key opens {paths}: if it is lost, so is the data; print the sheet, or add a second"
            );
            found.push(self.finding(Code::NoSpareKey, Severity::Note, what, add.clone()));
        }
        self.uneven(found, &add);
        // A random key needs no stretching. With a key file there is one; if crypttab says nothing
        // there may be one.
        let allowed = usize::from(matches!(self.unlock(), None | Some(Unlock::KeyFile)));
        let weak = |volume: &LuksVolume| {
            let slots = volume.slots.iter().filter(|slot| slot.token.is_none());
            slots.filter(|slot| slot.is_barely_stretched()).count() > allowed
        };
        if let Some(paths) = paths(&weak) {
            let what = format!(
                "a key of {paths} is hardly stretched: if it is a passphrase, it can be guessed quickly"
            );
            let mend = format!("braid pool key change {}", quoted(self.pool));
            found.push(self.finding(Code::WeakKey, Severity::Attention, what, mend));
        }
    }

    /// A disk added later has only the key needed to add it; an interrupted change of keys may have
    /// reached only some disks.
    fn uneven(&self, found: &mut Vec<Finding>, add: &str) {
        let with_keys = || self.volumes.iter().filter(|volume| !volume.slots.is_empty());
        let most = with_keys().map(|volume| volume.slots.len()).max().unwrap_or(0);
        let fewer: Vec<&str> = with_keys()
            .filter(|volume| volume.slots.len() < most)
            .map(|volume| volume.path.as_str())
            .collect();
        if fewer.is_empty() {
            return;
        }
        let what = format!(
            "{} has fewer keys than other disks of the pool: not every key opens it",
            fewer.join(", ")
        );
        let mend = format!("{add}  # with a key that the others have already");
        found.push(self.finding(Code::UnevenKeys, Severity::Attention, what, mend));
    }

    fn unlock(&self) -> Option<Unlock> {
        let is_its = |uuid: Option<Uuid>| self.volumes.iter().any(|each| Some(each.uuid) == uuid);
        luks::crypttab(self.crypttab).find(|line| is_its(line.volume)).map(|line| line.unlock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskId;
    use crate::luks::{KeySlot, Mapping};

    fn slot(number: u32, token: Option<&str>) -> KeySlot {
        let stretched_by = "argon2id".to_owned();
        KeySlot { number, stretched_by, iterations: 4, token: token.map(str::to_owned) }
    }

    fn volume(byte: u8, is_open: bool) -> LuksVolume {
        let uuid = Uuid::from_bytes([byte; 16]);
        let path = format!("/dev/sd{}", char::from(byte));
        let open = Mapping {
            name: luks::mapping_name("data", uuid),
            node: format!("/dev/dm-{byte}"),
            volume: uuid,
            over: path.clone(),
            disk: DiskId::new(format!("S{}", char::from(byte))),
            whole_disk: path.clone(),
        };
        LuksVolume {
            uuid,
            path,
            disk: open.disk.clone(),
            pool: Some("data".into()),
            pool_uuid: None,
            open: is_open.then_some(open),
            header: Header::Whole,
            slots: vec![slot(0, None), slot(1, None)],
            discards: false,
        }
    }

    fn crypttab(volumes: &[LuksVolume], key: &str, options: &str) -> String {
        let line = |volume: &LuksVolume| {
            format!("{} UUID={} {key} {options}\n", volume.mapping_name(), volume.uuid)
        };
        volumes.iter().map(line).collect()
    }

    fn state<'a>(volumes: &'a [LuksVolume], crypttab: &'a str) -> EncryptionState<'a> {
        EncryptionState {
            pool: "data",
            volumes: volumes.iter().collect(),
            crypttab,
            backups: volumes.iter().map(|each| (each.uuid, HeaderBackup::Current)).collect(),
            ..EncryptionState::default()
        }
    }

    fn codes(state: &EncryptionState<'_>) -> Vec<(Code, Severity)> {
        state.findings().into_iter().map(|finding| (finding.code, finding.severity)).collect()
    }

    #[test]
    fn a_pool_that_is_open_and_saved_is_well() {
        let volumes = [volume(b'b', true), volume(b'c', true)];
        let text = crypttab(&volumes, "none", "luks,noauto");
        assert_eq!(codes(&state(&volumes, &text)), []);
    }

    #[test]
    fn a_locked_pool_is_worse_where_boot_should_have_opened_it() {
        let volumes = [volume(b'b', false), volume(b'c', false)];
        let asked = crypttab(&volumes, "none", "luks,noauto");
        assert_eq!(codes(&state(&volumes, &asked)), [(Code::Locked, Severity::Attention)]);
        let by_file = crypttab(&volumes, "/etc/braid/keys/data.key", "luks,nofail");
        assert_eq!(codes(&state(&volumes, &by_file)), [(Code::Locked, Severity::Danger)]);
        let volumes = [volume(b'b', true), volume(b'c', false)];
        let found = state(&volumes, &asked).findings();
        assert_eq!((found[0].code, found[0].severity), (Code::Locked, Severity::Danger));
        assert!(found[0].what.starts_with("/dev/sdc is locked"), "{:?}", found[0]);
    }

    #[test]
    fn headers_and_their_backups_are_minded() {
        let mut volumes = [volume(b'b', true), volume(b'c', true), volume(b'd', true)];
        let text = crypttab(&volumes, "none", "luks,noauto");
        volumes[0].header = Header::Gone;
        volumes[1].header = Header::Damaged;
        let mut seen = state(&volumes, &text);
        let damaged =
            [(Code::DamagedHeader, Severity::Danger), (Code::DamagedHeader, Severity::Attention)];
        assert_eq!(codes(&seen), damaged);
        seen.volumes.drain(..2);
        let lost = codes(&seen);
        assert_eq!(lost, [(Code::DamagedHeader, Severity::Danger); 2]);
        for how in [HeaderBackup::Missing, HeaderBackup::Outdated] {
            let volumes = [volume(b'b', true)];
            let text = crypttab(&volumes, "none", "luks,noauto");
            let backups = vec![(volumes[0].uuid, how)];
            let seen = EncryptionState { backups, ..state(&volumes, &text) };
            assert_eq!(codes(&seen), [(Code::HeaderNotBackedUp, Severity::Attention)]);
        }
    }

    #[test]
    fn a_key_file_that_is_gone_or_seen_or_locked_in_is_told() {
        let volumes = [volume(b'b', true)];
        let text = crypttab(&volumes, "/etc/k", "luks,nofail");
        let path = "/etc/k".to_owned();
        let fine = KeyFile { path, is_there: true, is_exposed: false, is_on_the_pool: false };
        for (file, code) in [
            (KeyFile { is_there: false, ..fine.clone() }, Code::MissingKeyFile),
            (KeyFile { is_exposed: true, ..fine.clone() }, Code::ExposedKeyFile),
            (KeyFile { is_on_the_pool: true, ..fine.clone() }, Code::KeyFileOnPool),
        ] {
            let seen = EncryptionState { key_file: Some(file), ..state(&volumes, &text) };
            assert_eq!(codes(&seen), [(code, Severity::Danger)]);
        }
        let seen = EncryptionState { key_file: Some(fine), ..state(&volumes, &text) };
        assert_eq!(codes(&seen), []);
    }

    #[test]
    fn keys_that_are_too_few_or_too_weak_are_told() {
        let mut volumes = [volume(b'b', true)];
        let asked = crypttab(&volumes, "none", "luks,noauto");
        let by_file = crypttab(&volumes, "/etc/k", "luks,nofail");
        volumes[0].slots = vec![slot(0, None)];
        assert_eq!(codes(&state(&volumes, &asked)), [(Code::NoSpareKey, Severity::Note)]);
        volumes[0].slots = vec![slot(0, Some("systemd-tpm2"))];
        assert_eq!(codes(&state(&volumes, &asked)), [(Code::NoSpareKey, Severity::Attention)]);
        let weak = KeySlot { stretched_by: "pbkdf2".into(), iterations: 1000, ..slot(0, None) };
        volumes[0].slots = vec![weak, slot(1, None)];
        assert_eq!(codes(&state(&volumes, &asked)), [(Code::WeakKey, Severity::Attention)]);
        assert_eq!(codes(&state(&volumes, &by_file)), []);
    }

    #[test]
    fn a_disk_that_some_keys_do_not_open_is_told() {
        let mut volumes = [volume(b'b', true), volume(b'c', true)];
        volumes[1].slots.push(slot(2, None));
        let asked = crypttab(&volumes, "none", "luks,noauto");
        let found = state(&volumes, &asked).findings();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, Code::UnevenKeys);
        assert!(found[0].what.starts_with("/dev/sdb has fewer keys"), "{:?}", found[0]);
    }

    #[test]
    fn a_disk_that_left_is_told_and_never_to_be_opened() {
        let volumes = [volume(b'b', true), volume(b'c', true)];
        let text = crypttab(&volumes, "none", "luks,noauto");
        let mut left = volume(b'd', false);
        for (standing, code, mend) in [
            (Standing::Former, Code::FormerMember, "braid pool key erase data Sd"),
            (Standing::Unknown, Code::UnknownMember, "braid pool open data --disk Sd  # if"),
            (Standing::OfAnother, Code::SameName, "braid pool open 09090909-0909-"),
        ] {
            left.pool_uuid = Some(Uuid::from_bytes([9; 16]));
            let seen =
                EncryptionState { strays: vec![(&left, standing)], ..state(&volumes, &text) };
            let found = seen.findings();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].code, code);
            assert!(found[0].mend.starts_with(mend), "{found:?}");
            assert!(found[0].what.starts_with("/dev/sdd "), "{found:?}");
        }
    }

    #[test]
    fn a_volume_without_a_line_and_a_member_without_encryption_are_told() {
        let volumes = [volume(b'b', true), volume(b'c', true)];
        let text = crypttab(&volumes[..1], "/etc/k", "luks,nofail");
        let plain_members = vec!["/dev/sdd".to_owned()];
        let seen = EncryptionState { plain_members, ..state(&volumes, &text) };
        let found = seen.findings();
        let codes: Vec<Code> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::NotInCrypttab, Code::PartlyEncrypted]);
        assert!(found[0].mend.contains("/etc/k luks,nofail"), "{:?}", found[0]);
    }
}
