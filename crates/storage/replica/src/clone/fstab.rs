//! fstab(5) of a system that moved to another filesystem.

use std::collections::BTreeMap;

/// A line that mounts something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// `UUID=…`, a device, …
    pub what: &'a str,
    /// Where.
    pub at: &'a str,
    /// The filesystem's kind.
    pub kind: &'a str,
    options: &'a str,
}

impl<'a> Entry<'a> {
    /// What a line says; nothing for comments and blank lines.
    pub fn of(line: &'a str) -> Option<Entry<'a>> {
        let mut words = line.split_ascii_whitespace();
        let what = words.next().filter(|what| !what.starts_with('#'))?;
        let (at, kind) = (words.next()?, words.next()?);
        Some(Entry { what, at, kind, options: words.next().unwrap_or_default() })
    }

    /// Whether it names the filesystem or partition with this UUID.
    pub fn names(&self, id: &str) -> bool {
        const KEYS: [&str; 4] =
            ["UUID=", "PARTUUID=", "/dev/disk/by-uuid/", "/dev/disk/by-partuuid/"];
        let value = KEYS.iter().find_map(|key| self.what.strip_prefix(key));
        value.is_some_and(|value| value.trim_matches('"').eq_ignore_ascii_case(id))
    }

    /// Whether a system without it waits for it in vain.
    pub fn is_waited_for(&self) -> bool {
        let is_local = self.what.starts_with("/dev/") || self.what.contains('=');
        let optional = |option: &str| matches!(option, "nofail" | "noauto");
        is_local && !self.options.split(',').any(optional)
    }
}

/// The text with new UUIDs in the lines that name old ones (the btrfs' own is first in `ids`) and
/// with its subvolumes' new numbers; and what couldn't be resolved. Nothing else changes.
pub fn moved(
    text: &str,
    ids: &[(String, String)],
    subvolumes: &BTreeMap<u64, u64>,
) -> (String, Vec<String>) {
    let mut warnings = vec![];
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let Some(entry) = Entry::of(line) else {
            out.push_str(line);
            continue;
        };
        match ids.iter().find(|(old, _)| entry.names(old)) {
            Some((old, new)) => {
                let moved = with_new_id(line, entry.what, old, new);
                out.push_str(&match entry.kind {
                    "btrfs" => with_new_ids(&moved, subvolumes),
                    _ => moved,
                });
            }
            None => {
                if entry.is_waited_for() {
                    warnings.push(stays_behind(&entry));
                }
                out.push_str(line);
            }
        }
    }
    (out, warnings)
}

/// The warning for a line whose filesystem isn't transferred.
pub fn stays_behind(entry: &Entry<'_>) -> String {
    format!(
        "etc/fstab names {} (for {}), which isn't part of the clone: where the old disk isn't, \
         give that line the option nofail, or take it out",
        entry.what, entry.at
    )
}

/// The line with another UUID in what it mounts, written in whatever case.
fn with_new_id(line: &str, what: &str, old: &str, new: &str) -> String {
    let key = what.trim_end_matches('"').len().saturating_sub(old.len());
    let (key, behind) = what.split_at_checked(key).unwrap_or((what, ""));
    let rest = behind.get(old.len()..).unwrap_or_default();
    line.replacen(what, &format!("{key}{new}{rest}"), 1)
}

/// `subvolid=` among the options, with the new number.
fn with_new_ids(line: &str, ids: &BTreeMap<u64, u64>) -> String {
    const KEY: &str = "subvolid=";
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(KEY) {
        let (before, after) = rest.split_at(at + KEY.len());
        out.push_str(before);
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, behind) = after.split_at(length);
        match digits.parse().ok().and_then(|id: u64| ids.get(&id)) {
            Some(id) => out.push_str(&id.to_string()),
            None => out.push_str(digits),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_old_filesystem_change() {
        let from = "3aaa0122-2982-7cfa-5331-ad66ca767371";
        let to = "11112222-3333-4444-5555-666677778888";
        let pairs = [(from, to), ("AAAA-BBBB", "CCCC-DDDD")];
        let pairs = pairs.map(|(old, new)| (old.to_owned(), new.to_owned()));
        let ids = BTreeMap::from([(256, 300), (257, 301)]);
        let text = format!(
            "# UUID={from} was here\n\
             UUID={from}  /      btrfs  defaults,subvolid=256,subvol=/@ 0 0\n\
             UUID={from}  /home  btrfs  subvol=/@/my\\040home,subvolid=999  0 0\n\
             /dev/disk/by-uuid/{from} /var btrfs subvolid=257 0 0\n\
             UUID=\"aaaa-bbbb\" /boot/efi vfat umask=0077 0 2\n\
             UUID=other none swap sw 0 0\n\
             UUID=third /backup ext4 nofail 0 0\n\
             tmpfs /tmp tmpfs defaults 0 0\n\
             /dev/sda2 /data btrfs defaults 0 0"
        );
        let (new, warnings) = moved(&text, &pairs, &ids);
        let expected = format!(
            "# UUID={from} was here\n\
             UUID={to}  /      btrfs  defaults,subvolid=300,subvol=/@ 0 0\n\
             UUID={to}  /home  btrfs  subvol=/@/my\\040home,subvolid=999  0 0\n\
             /dev/disk/by-uuid/{to} /var btrfs subvolid=301 0 0\n\
             UUID=\"CCCC-DDDD\" /boot/efi vfat umask=0077 0 2\n\
             UUID=other none swap sw 0 0\n\
             UUID=third /backup ext4 nofail 0 0\n\
             tmpfs /tmp tmpfs defaults 0 0\n\
             /dev/sda2 /data btrfs defaults 0 0"
        );
        assert_eq!(new, expected);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("UUID=other") && warnings[1].contains("/dev/sda2"));
    }
}
