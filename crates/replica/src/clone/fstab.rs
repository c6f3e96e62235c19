//! fstab(5) of a system that moved to another filesystem.

use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;

/// The text with the new filesystem's UUID and subvolumes' numbers in the lines
/// that name the old one, and what couldn't be settled. Nothing else changes.
pub fn moved(
    text: &str,
    (from, to): (Uuid, Uuid),
    ids: &BTreeMap<u64, u64>,
) -> (String, Vec<String>) {
    let mut warnings = vec![];
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_start();
        let device = content.split_ascii_whitespace().next().unwrap_or_default();
        if content.starts_with('#') || device.is_empty() {
            out.push_str(line);
        } else if names(device, from) {
            out.push_str(&with_new_ids(&line.replace(&from.to_string(), &to.to_string()), ids));
        } else {
            if is_local(device) && content.split_ascii_whitespace().nth(2) == Some("btrfs") {
                warnings.push(format!(
                    "etc/fstab mounts {device}: if that is the old filesystem, write UUID={to}"
                ));
            }
            out.push_str(line);
        }
    }
    (out, warnings)
}

fn names(device: &str, filesystem: Uuid) -> bool {
    let bare = device.trim_matches('"');
    let value = bare.strip_prefix("UUID=").or_else(|| bare.strip_prefix("/dev/disk/by-uuid/"));
    value.is_some_and(|value| value.trim_matches('"') == filesystem.to_string())
}

fn is_local(device: &str) -> bool {
    device.starts_with("/dev/") || device.starts_with("LABEL=") || device.starts_with("PARTUUID=")
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
        let from: Uuid = "3aaa0122-2982-7cfa-5331-ad66ca767371".parse().unwrap();
        let to: Uuid = "11112222-3333-4444-5555-666677778888".parse().unwrap();
        let ids = BTreeMap::from([(256, 300), (257, 301)]);
        let text = format!(
            "# UUID={from} was here\n\
             UUID={from}  /      btrfs  defaults,subvolid=256,subvol=/@ 0 0\n\
             UUID={from}  /home  btrfs  subvol=/@/my\\040home,subvolid=999  0 0\n\
             /dev/disk/by-uuid/{from} /var btrfs subvolid=257 0 0\n\
             UUID=AAAA-BBBB /boot/efi vfat umask=0077 0 2\n\
             /dev/sda2 /data btrfs defaults 0 0"
        );
        let (new, warnings) = moved(&text, (from, to), &ids);
        let expected = format!(
            "# UUID={from} was here\n\
             UUID={to}  /      btrfs  defaults,subvolid=300,subvol=/@ 0 0\n\
             UUID={to}  /home  btrfs  subvol=/@/my\\040home,subvolid=999  0 0\n\
             /dev/disk/by-uuid/{to} /var btrfs subvolid=301 0 0\n\
             UUID=AAAA-BBBB /boot/efi vfat umask=0077 0 2\n\
             /dev/sda2 /data btrfs defaults 0 0"
        );
        assert_eq!(new, expected);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("/dev/sda2"));
    }
}
