//! The ways to lay data over disks, and their names.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A layout that a pool can have. Written `btrfs-raid1`, `md-raid10-f2`…
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Layout {
    /// A btrfs whose data has this profile.
    Btrfs(Profile),
    /// An md array with one filesystem on it.
    Md(MdLayout),
}

/// A btrfs block group profile (btrfs(5), "PROFILES").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// One copy.
    Single,
    /// Two copies, maybe on the same device.
    Dup,
    /// One copy, striped over all.
    Raid0,
    /// Two copies on two devices.
    Raid1,
    /// Three copies.
    Raid1c3,
    /// Four copies.
    Raid1c4,
    /// Two copies, striped.
    Raid10,
    /// One parity; unstable.
    Raid5,
    /// Two parities; unstable.
    Raid6,
}

/// An md personality with its layout (md(4)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum MdLayout {
    /// Striped, no copy.
    Raid0,
    /// Every device has everything.
    Raid1,
    /// Copies, striped.
    Raid10 {
        /// How the copies are spread.
        spread: Spread,
        /// How many copies there are: 2 or more.
        copies: u8,
    },
    /// One parity.
    Raid5,
    /// Two parities.
    Raid6,
}

/// How md's RAID10 spreads the copies of a chunk (md(4)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Copies beside each other, like RAID 1+0.
    Near,
    /// The second copy in the second half of the disks: reads like RAID0.
    Far,
    /// The second copy in the next stripe.
    Offset,
}

/// What carries files on an md array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MdFilesystem {
    /// ext4.
    #[default]
    Ext4,
    /// XFS.
    Xfs,
}

/// Not the name of a filesystem that Braid puts on an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an array carries ext4 or xfs")]
pub struct UnknownFilesystem;

/// Not the name of a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no layout; there are {all}", all = all_names())]
pub struct UnknownLayout {
    name: String,
}

impl Layout {
    /// Those that `plan` ranks, in the order to show them.
    pub const ALL: [Layout; 13] = [
        Layout::Btrfs(Profile::Single),
        Layout::Btrfs(Profile::Raid0),
        Layout::Btrfs(Profile::Raid1),
        Layout::Btrfs(Profile::Raid1c3),
        Layout::Btrfs(Profile::Raid1c4),
        Layout::Btrfs(Profile::Raid10),
        Layout::Md(MdLayout::Raid0),
        Layout::Md(MdLayout::Raid1),
        Layout::Md(MdLayout::NEAR2),
        Layout::Md(MdLayout::FAR2),
        Layout::Md(MdLayout::OFFSET2),
        Layout::Md(MdLayout::Raid5),
        Layout::Md(MdLayout::Raid6),
    ];

    /// The minimum number of disks. btrfs raid10 on two exists since Linux 5.15.
    pub const fn min_disks(self) -> usize {
        match self {
            Layout::Btrfs(profile) => profile.min_disks(),
            Layout::Md(MdLayout::Raid0 | MdLayout::Raid1) => 2,
            Layout::Md(MdLayout::Raid10 { copies, .. }) => copies as usize,
            Layout::Md(MdLayout::Raid5) => 3,
            Layout::Md(MdLayout::Raid6) => 4,
        }
    }

    /// btrfs' parity profiles are called unstable by their own manual (btrfs(5), "RAID56 STATUS").
    pub const fn is_unstable(self) -> bool {
        matches!(self, Layout::Btrfs(Profile::Raid5 | Profile::Raid6))
    }
}

impl Profile {
    /// As btrfs(8) writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Profile::Single => "single",
            Profile::Dup => "dup",
            Profile::Raid0 => "raid0",
            Profile::Raid1 => "raid1",
            Profile::Raid1c3 => "raid1c3",
            Profile::Raid1c4 => "raid1c4",
            Profile::Raid10 => "raid10",
            Profile::Raid5 => "raid5",
            Profile::Raid6 => "raid6",
        }
    }

    /// The minimum number of devices.
    pub const fn min_disks(self) -> usize {
        match self {
            Profile::Single | Profile::Dup | Profile::Raid0 => 1,
            Profile::Raid1 | Profile::Raid10 | Profile::Raid5 => 2,
            Profile::Raid1c3 | Profile::Raid6 => 3,
            Profile::Raid1c4 => 4,
        }
    }

    /// How often every byte is stored; parity isn't a copy.
    pub const fn copies(self) -> usize {
        match self {
            Profile::Single | Profile::Raid0 | Profile::Raid5 | Profile::Raid6 => 1,
            Profile::Dup | Profile::Raid1 | Profile::Raid10 => 2,
            Profile::Raid1c3 => 3,
            Profile::Raid1c4 => 4,
        }
    }

    /// How many devices can be lost, whichever they are.
    pub const fn losses_survived(self) -> usize {
        match self {
            Profile::Single | Profile::Dup | Profile::Raid0 => 0,
            Profile::Raid1 | Profile::Raid10 | Profile::Raid5 => 1,
            Profile::Raid1c3 | Profile::Raid6 => 2,
            Profile::Raid1c4 => 3,
        }
    }

    /// The metadata profile that Braid uses with data of this one on `disks` disks: never weaker
    /// than the data's, and never only one copy.
    pub const fn metadata_beside(self, disks: usize) -> Profile {
        match self {
            _ if disks < 2 => Profile::Dup,
            Profile::Single | Profile::Dup | Profile::Raid0 => Profile::Raid1,
            Profile::Raid1 | Profile::Raid10 | Profile::Raid5 => Profile::Raid1,
            Profile::Raid1c3 | Profile::Raid6 if disks >= 3 => Profile::Raid1c3,
            Profile::Raid1c4 if disks >= 4 => Profile::Raid1c4,
            _ => Profile::Raid1,
        }
    }

    /// Reads btrfs(8)'s word in any case.
    pub fn from_word(word: &str) -> Option<Profile> {
        const ALL: [Profile; 9] = [
            Profile::Single,
            Profile::Dup,
            Profile::Raid0,
            Profile::Raid1,
            Profile::Raid1c3,
            Profile::Raid1c4,
            Profile::Raid10,
            Profile::Raid5,
            Profile::Raid6,
        ];
        ALL.into_iter().find(|profile| profile.as_str().eq_ignore_ascii_case(word))
    }
}

impl MdLayout {
    /// RAID10 near2.
    pub const NEAR2: MdLayout = MdLayout::Raid10 { spread: Spread::Near, copies: 2 };
    /// RAID10 far2.
    pub const FAR2: MdLayout = MdLayout::Raid10 { spread: Spread::Far, copies: 2 };
    /// RAID10 offset2.
    pub const OFFSET2: MdLayout = MdLayout::Raid10 { spread: Spread::Offset, copies: 2 };

    /// mdadm's `--level`, and the kernel's in `md/level` (`raid10`).
    pub const fn level(self) -> &'static str {
        match self {
            MdLayout::Raid0 => "raid0",
            MdLayout::Raid1 => "raid1",
            MdLayout::Raid10 { .. } => "raid10",
            MdLayout::Raid5 => "raid5",
            MdLayout::Raid6 => "raid6",
        }
    }

    /// The number in `md/layout` for RAID10: near copies in the low byte, far copies in the next,
    /// bit 16 for offset (drivers/md/raid10.c, `setup_geo`).
    pub fn from_kernel(level: &str, layout: u32) -> Option<MdLayout> {
        Some(match level {
            "raid0" => MdLayout::Raid0,
            "raid1" => MdLayout::Raid1,
            "raid5" => MdLayout::Raid5,
            "raid6" => MdLayout::Raid6,
            "raid10" => {
                let (near, far) = ((layout & 0xff) as u8, (layout >> 8 & 0xff) as u8);
                match (near, far, layout >> 16 & 1) {
                    (copies, 1, _) if copies > 1 => {
                        MdLayout::Raid10 { spread: Spread::Near, copies }
                    }
                    (1, copies, 0) if copies > 1 => {
                        MdLayout::Raid10 { spread: Spread::Far, copies }
                    }
                    (1, copies, 1) if copies > 1 => {
                        MdLayout::Raid10 { spread: Spread::Offset, copies }
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// mdadm's `--layout`, where the level needs one: `n2`, `f2`, `o2`.
    pub fn layout_word(self) -> Option<String> {
        let MdLayout::Raid10 { spread, copies } = self else { return None };
        let letter = match spread {
            Spread::Near => 'n',
            Spread::Far => 'f',
            Spread::Offset => 'o',
        };
        Some(format!("{letter}{copies}"))
    }

    /// How many members can be lost whichever they are, of `disks`.
    pub const fn losses_survived(self, disks: usize) -> usize {
        match self {
            MdLayout::Raid0 => 0,
            MdLayout::Raid1 => disks.saturating_sub(1),
            MdLayout::Raid10 { copies, .. } => copies as usize - 1,
            MdLayout::Raid5 => 1,
            MdLayout::Raid6 => 2,
        }
    }
}

impl MdFilesystem {
    /// Its name, as mount(8) takes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            MdFilesystem::Ext4 => "ext4",
            MdFilesystem::Xfs => "xfs",
        }
    }
}

impl FromStr for MdFilesystem {
    type Err = UnknownFilesystem;
    fn from_str(name: &str) -> Result<Self, UnknownFilesystem> {
        match name {
            "ext4" => Ok(MdFilesystem::Ext4),
            "xfs" => Ok(MdFilesystem::Xfs),
            _ => Err(UnknownFilesystem),
        }
    }
}

impl FromStr for MdLayout {
    type Err = UnknownLayout;
    /// Reads `raid0`, `raid1`, `raid10-f2` (a bare `raid10` is near2, as mdadm means it), `raid5`,
    /// `raid6`.
    fn from_str(name: &str) -> Result<Self, UnknownLayout> {
        let unknown = || UnknownLayout { name: name.chars().take(40).collect() };
        Ok(match name {
            "raid0" => MdLayout::Raid0,
            "raid1" => MdLayout::Raid1,
            "raid5" => MdLayout::Raid5,
            "raid6" => MdLayout::Raid6,
            "raid10" => MdLayout::NEAR2,
            _ => {
                let word = name.strip_prefix("raid10-").ok_or_else(unknown)?;
                let spread = match word.chars().next() {
                    Some('n') => Spread::Near,
                    Some('f') => Spread::Far,
                    Some('o') => Spread::Offset,
                    _ => return Err(unknown()),
                };
                let copies = word[1..].parse().ok().filter(|copies| (2..=9).contains(copies));
                MdLayout::Raid10 { spread, copies: copies.ok_or_else(unknown)? }
            }
        })
    }
}

impl FromStr for Layout {
    type Err = UnknownLayout;
    fn from_str(name: &str) -> Result<Self, UnknownLayout> {
        let unknown = || UnknownLayout { name: name.chars().take(40).collect() };
        if let Some(profile) = name.strip_prefix("btrfs-") {
            let profile = Profile::from_word(profile).filter(|profile| *profile != Profile::Dup);
            return Ok(Layout::Btrfs(profile.ok_or_else(unknown)?));
        }
        let md = name.strip_prefix("md-").ok_or_else(unknown)?;
        Ok(Layout::Md(md.parse().map_err(|_| unknown())?))
    }
}

impl fmt::Display for MdLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layout_word() {
            Some(word) => f.pad(&format!("{}-{word}", self.level())),
            None => f.pad(self.level()),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Btrfs(profile) => f.pad(&format!("btrfs-{}", profile.as_str())),
            Layout::Md(md) => f.pad(&format!("md-{md}")),
        }
    }
}

impl From<Layout> for String {
    fn from(layout: Layout) -> String {
        layout.to_string()
    }
}

impl TryFrom<String> for Layout {
    type Error = UnknownLayout;
    fn try_from(name: String) -> Result<Self, UnknownLayout> {
        name.parse()
    }
}

impl From<MdLayout> for String {
    fn from(layout: MdLayout) -> String {
        layout.to_string()
    }
}

impl TryFrom<String> for MdLayout {
    type Error = UnknownLayout;
    fn try_from(name: String) -> Result<Self, UnknownLayout> {
        name.parse()
    }
}

fn all_names() -> String {
    Layout::ALL.map(|layout| layout.to_string()).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_again() {
        for layout in Layout::ALL {
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
        let far3 = Layout::Md(MdLayout::Raid10 { spread: Spread::Far, copies: 3 });
        assert_eq!("md-raid10-f3".parse(), Ok(far3));
        assert_eq!("md-raid10".parse(), Ok(Layout::Md(MdLayout::NEAR2)));
    }

    #[test]
    fn a_wrong_name_says_which_there_are() {
        for name in ["", "btrfs", "btrfs-dup", "md-raid10-", "md-raid10-é2", "md-raid10-f1", "md-x"]
        {
            let error = name.parse::<Layout>().unwrap_err().to_string();
            assert!(error.contains("md-raid10-f2"), "{error}");
        }
    }

    #[test]
    fn the_kernels_numbers_of_raid10_are_read() {
        assert_eq!(MdLayout::from_kernel("raid10", 0x102), Some(MdLayout::NEAR2));
        assert_eq!(MdLayout::from_kernel("raid10", 0x201), Some(MdLayout::FAR2));
        assert_eq!(MdLayout::from_kernel("raid10", 0x10201), Some(MdLayout::OFFSET2));
        assert_eq!(MdLayout::from_kernel("raid10", 0x202), None);
    }
}
