//! Conditions on disks and pools, answered from an observation; pure.

use crate::system::{Answer, LeftBehind};
use braid_pool::disk::{Claim, Content, Disk, DiskId};
use braid_pool::layout::{MdLayout, Profile};
use braid_pool::observed::{
    BtrfsMember, ExclusiveOperation, MdMember, MdMemberState, ObservedBtrfs, ObservedMd,
    ObservedPool, Purpose, SyncAction,
};
use braid_pool::step::{Condition, SyncWanted, quoted};
use braid_pool::uuid::Uuid;

/// btrfs leaves the last bytes of a device unused if they don't fill 64 KiB; less than a MiB isn't
/// worth a resize.
const ROUNDING_BYTES: u64 = 1 << 20;

/// The host's disks and pools at one moment.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Every disk and partition.
    pub disks: Vec<Disk>,
    /// Every pool, also those that aren't mounted or assembled.
    pub pools: Vec<ObservedPool>,
}

impl Observation {
    /// The answer, or nothing for a condition that isn't about disks and pools.
    #[expect(clippy::too_many_lines, reason = "an arm for each")]
    pub fn check(&self, condition: &Condition, left: &LeftBehind) -> Option<Answer> {
        use Condition as C;
        Some(match condition {
            C::AsClaimed(claim) => self.as_claimed(claim, left),
            C::Empty { disk } => self.with_disk(disk, |disk| {
                let is_ours = only(disk, &[], left);
                Answer::when(is_ours, || format!("on {} there is {}", disk.path, contents_of(disk)))
            }),
            C::Filesystem { device, kind, uuid } => self.filesystem(device, kind, *uuid),
            C::Mounted { uuid, at } => self.mounted(*uuid, at),
            C::BtrfsMember { uuid, disk } => self.with_btrfs(*uuid, |btrfs| {
                let is_it = |member: &BtrfsMember| member.disk.as_ref() == Some(disk);
                Answer::when(btrfs.present().any(is_it), || members_of(btrfs))
            }),
            C::BtrfsDevid { uuid, devid } => self.with_btrfs(*uuid, |btrfs| {
                let known = btrfs.members.iter().any(|member| member.devid == *devid);
                Answer::when(known, || members_of(btrfs))
            }),
            C::BtrfsComplete { uuid } => self.with_btrfs(*uuid, |btrfs| {
                Answer::when(btrfs.missing().next().is_none(), || members_of(btrfs))
            }),
            C::BtrfsProfiles { uuid, data, metadata } => {
                self.with_btrfs(*uuid, |btrfs| profiles(btrfs, *data, *metadata))
            }
            C::BtrfsIdle { uuid } => self.with_btrfs(*uuid, |btrfs| {
                let idle = btrfs.exclusive_operation == ExclusiveOperation::None;
                Answer::when(idle, || format!("it is at: {:?}", btrfs.exclusive_operation))
            }),
            C::BtrfsReplacing { uuid, .. } => self.with_btrfs(*uuid, |btrfs| {
                let replacing = btrfs.exclusive_operation == ExclusiveOperation::DeviceReplace;
                Answer::when(replacing, || "nothing is being replaced".to_owned())
            }),
            C::BtrfsUnmixed { uuid } => self.with_btrfs(*uuid, unmixed),
            C::MountedWithout { uuid, at, option } => match self.mounted(*uuid, at) {
                Answer::Holds => {
                    let with = |pool: &ObservedPool| {
                        pool.mounts().iter().any(|mount| mount.at == *at && mount.has(option))
                    };
                    Answer::when(!self.pools.iter().any(with), || format!("it is, with {option}"))
                }
                fails => fails,
            },
            C::BtrfsTookAll { uuid, refused_before } => {
                self.with_btrfs(*uuid, |btrfs| took_all(btrfs, refused_before))
            }
            C::BtrfsUnallocated { uuid, at_least_bytes } => self.with_btrfs(*uuid, |btrfs| {
                let free = btrfs.present().map(BtrfsMember::unallocated_bytes).sum::<u64>();
                Answer::when(free >= *at_least_bytes, || {
                    format!("only {} are unallocated", braid_units::ByteSize::from_bytes(free))
                })
            }),
            C::BtrfsFillsDisk { uuid, disk } => self.with_btrfs(*uuid, |btrfs| {
                let is_it = |member: &&BtrfsMember| member.disk.as_ref() == Some(disk);
                let Some(member) = btrfs.members.iter().find(is_it) else {
                    return Answer::Fails(members_of(btrfs));
                };
                let unused = member.device_bytes.unwrap_or(0).saturating_sub(member.size_bytes);
                Answer::when(unused < ROUNDING_BYTES, || format!("{unused} bytes of it are unused"))
            }),
            C::ArrayIs { uuid, layout, disks } => {
                self.with_array(*uuid, |md| shape(md, *layout, *disks))
            }
            C::ArrayGone { uuid } => {
                let running = self.array(*uuid).and_then(|md| md.device.as_ref());
                Answer::when(running.is_none(), || {
                    format!("it runs as {}", running.map_or("", |d| d))
                })
            }
            C::ArrayMember { uuid, disk } => self.with_array(*uuid, |md| member(md, disk)),
            C::ArrayLists { uuid, disk } => self.with_array(*uuid, |md| {
                let is_it = |member: &MdMember| {
                    member.disk.as_ref() == Some(disk) && member.state != MdMemberState::Missing
                };
                Answer::when(md.members.iter().any(is_it), || "it is not listed".to_owned())
            }),
            C::ArrayComplete { uuid } => self.with_array(*uuid, complete),
            C::ArrayIdle { uuid, of } => self.with_array(*uuid, |md| idle(md, *of)),
            C::ArraySize { uuid, at_least_bytes } => self.with_array(*uuid, |md| {
                Answer::when(md.size_bytes >= *at_least_bytes, || {
                    format!("it has {} bytes, not {at_least_bytes}", md.size_bytes)
                })
            }),
            C::Open { name, uuid } => {
                let found = self.mapping(name, *uuid).is_some();
                Answer::when(found, || "it isn't".to_owned())
            }
            C::OpenAndEmpty { name, uuid, anew } => match self.mapping(name, *uuid) {
                Some(disk) => Answer::when(only(disk, &[], left), || {
                    format!("on {name} there is {}", contents_of(disk))
                }),
                None => {
                    let is_ours = *anew && *left != LeftBehind::Nothing && self.has_volume(*uuid);
                    Answer::when(is_ours, || "it isn't open".to_owned())
                }
            },
            C::KeyFile { .. }
            | C::LuksKey { .. }
            | C::Luks { .. }
            | C::LuksToken { .. }
            | C::HeaderBackedUp { .. }
            | C::FilesystemFillsDevice { .. }
            | C::Tagged { .. }
            | C::NotMounted { .. }
            | C::HidesNothing { .. }
            | C::Directory { .. }
            | C::FileHasLine { .. }
            | C::FileHolds { .. }
            | C::KernelHas { .. }
            | C::InitramfsFresh
            | C::Not(_)
            | C::Any(_) => return None,
        })
    }

    /// Whether the disk is as it was, or carries what an interrupted step may have left.
    fn as_claimed(&self, claim: &Claim, left: &LeftBehind) -> Answer {
        let Some(disk) = self.disks.iter().find(|disk| disk.id() == *claim.id()) else {
            return Answer::Fails(format!("disk {} is not there", claim.id()));
        };
        let Err(changed) = claim.still_holds(disk) else { return Answer::Holds };
        let same_size = disk.size_bytes == claim.size_bytes();
        Answer::when(
            *left != LeftBehind::Nothing && same_size && only(disk, claim.contents(), left),
            || changed,
        )
    }

    fn has_volume(&self, volume: Uuid) -> bool {
        let is_it = |content: &Content| match content {
            Content::Filesystem { kind, uuid: Some(uuid), .. } => {
                kind == "crypto_LUKS" && uuid.parse() == Ok(volume)
            }
            _ => false,
        };
        self.disks.iter().any(|disk| disk.contents.iter().any(is_it))
    }

    fn mapping(&self, name: &str, volume: Uuid) -> Option<&Disk> {
        self.disks.iter().find(|disk| {
            let open = disk.mapping.as_ref();
            open.is_some_and(|open| open.name == name && open.volume == volume)
        })
    }

    fn filesystem(&self, device: &str, kind: &str, uuid: Uuid) -> Answer {
        let real = std::fs::canonicalize(device).ok();
        let real = real.as_ref().and_then(|path| path.to_str()).unwrap_or(device);
        for pool in &self.pools {
            let ObservedPool::Md(md) = pool else { continue };
            if md.path().as_deref() == Some(real) {
                let on = md.carries.as_ref();
                let is_it = on.is_some_and(|on| on.kind == kind && on.uuid == Some(uuid));
                return Answer::when(is_it, || match on {
                    Some(on) => format!("on it is {}", on.kind),
                    None => "there is nothing on it".to_owned(),
                });
            }
        }
        let Some(disk) = self.disks.iter().find(|disk| disk.path == real) else {
            return Answer::Fails(format!("{device} is not there"));
        };
        let is_it = |content: &Content| {
            let kind_of = match content {
                Content::Filesystem { kind, .. } => kind.as_str(),
                Content::Member { family, .. } => family.as_str(),
                _ => return false,
            };
            kind_of == kind && content_uuid(content) == Some(uuid)
        };
        Answer::when(disk.contents.iter().any(is_it), || format!("on it is {}", contents_of(disk)))
    }

    fn mounted(&self, uuid: Uuid, at: &str) -> Answer {
        let is_it = |pool: &&ObservedPool| match pool {
            ObservedPool::Btrfs(btrfs) => btrfs.uuid == uuid,
            ObservedPool::Md(md) => md.carries.as_ref().is_some_and(|on| on.uuid == Some(uuid)),
        };
        let mut mounts = self.pools.iter().filter(is_it).flat_map(|pool| pool.mounts());
        Answer::when(mounts.any(|mount| mount.at == at), || "it isn't mounted there".to_owned())
    }

    /// The btrfs of this UUID.
    pub fn btrfs(&self, uuid: Uuid) -> Option<&ObservedBtrfs> {
        self.pools.iter().find_map(|pool| match pool {
            ObservedPool::Btrfs(btrfs) if btrfs.uuid == uuid => Some(btrfs),
            _ => None,
        })
    }

    /// The array of this UUID.
    pub fn array(&self, uuid: Uuid) -> Option<&ObservedMd> {
        self.pools.iter().find_map(|pool| match pool {
            ObservedPool::Md(md) if md.uuid == uuid => Some(md),
            _ => None,
        })
    }

    fn with_disk(&self, id: &DiskId, check: impl FnOnce(&Disk) -> Answer) -> Answer {
        match self.disks.iter().find(|disk| disk.id() == *id) {
            Some(disk) => check(disk),
            None => Answer::Fails(format!("disk {id} is not there")),
        }
    }

    fn with_btrfs(&self, uuid: Uuid, check: impl FnOnce(&ObservedBtrfs) -> Answer) -> Answer {
        match self.btrfs(uuid) {
            Some(btrfs) => check(btrfs),
            None => Answer::Fails(format!("there is no btrfs {uuid}")),
        }
    }

    fn with_array(&self, uuid: Uuid, check: impl FnOnce(&ObservedMd) -> Answer) -> Answer {
        match self.array(uuid) {
            Some(md) if md.device.is_some() => check(md),
            Some(_) => Answer::Fails("it isn't assembled".to_owned()),
            None => Answer::Fails(format!("there is no array {}", uuid.in_mdadm_form())),
        }
    }
}

/// Whether the disk carries only these contents and what the step may have left.
fn only(disk: &Disk, contents: &[Content], left: &LeftBehind) -> bool {
    let (made, in_use_allowed): (&[Uuid], bool) = match left {
        LeftBehind::Nothing => (&[], false),
        LeftBehind::Half(made) => (made, false),
        LeftBehind::InUse(made) => (made, true),
    };
    let is_ours =
        |content: &Content| content_uuid(content).is_some_and(|uuid| made.contains(&uuid));
    let carries_ours = disk.contents.iter().any(is_ours);
    // Partitions of our own table hold what we put there, or what was at that place before the
    // table.
    let in_our_table = |content: &Content| {
        matches!(content, Content::OnPartition { .. })
            && disk.contents.iter().any(|content| {
                matches!(content, Content::PartitionTable { .. }) && is_ours(content)
            })
    };
    disk.contents.iter().all(|content| {
        contents.contains(content)
            || is_ours(content)
            || in_our_table(content)
            || (in_use_allowed && carries_ours && content.is_in_use())
    })
}

fn unmixed(btrfs: &ObservedBtrfs) -> Answer {
    let purposes = [Purpose::Data, Purpose::Metadata, Purpose::System];
    let mixed = purposes.into_iter().find(|purpose| btrfs.profiles(*purpose).len() > 1);
    let Some((purpose, (data, _))) = mixed.zip(btrfs.meant_profiles()) else {
        return Answer::Holds;
    };
    let words: Vec<&str> = btrfs.profiles(purpose).iter().map(|p| p.as_str()).collect();
    let name = quoted(&ObservedPool::Btrfs(btrfs.clone()).name());
    Answer::Fails(format!(
        "{} is {}. What remains to be done: `braid pool abandon {name}`, then `braid pool convert {name} --layout btrfs-{}`",
        format!("{purpose:?}").to_lowercase(),
        words.join(" and "),
        data.as_str()
    ))
}

/// The first that refused writes, and how to continue.
fn took_all(btrfs: &ObservedBtrfs, before: &[(DiskId, u64)]) -> Answer {
    let refused = |member: &BtrfsMember| -> Option<u64> {
        let (_, before) = before.iter().find(|(disk, _)| member.disk.as_ref() == Some(disk))?;
        let refused = member.errors.refused();
        // Less than before: the counters were reset meanwhile.
        Some(if refused < *before { refused } else { refused - before })
    };
    let found = btrfs.members.iter().find_map(|member| {
        let refused = refused(member).filter(|refused| *refused > 0)?;
        Some((member, refused))
    });
    let Some((member, refused)) = found else { return Answer::Holds };
    let name = quoted(&ObservedPool::Btrfs(btrfs.clone()).name());
    let path = member.path.as_deref().unwrap_or("a disk that is gone");
    let at = btrfs.mounts.first().map_or("ITS_MOUNT_POINT".to_owned(), |mount| quoted(&mount.at));
    Answer::Fails(format!(
        "{path} (devid {devid}) refused {refused} writes, so it lacks data. If the disk is bad: \
         `braid pool abandon {name}`, then `braid pool replace {name} {devid} OTHER_DISK`. If only its \
         cable was: `braid pool scrub start --wait {name}; btrfs device stats --reset {at}`, then \
         `braid pool resume {name}`",
        devid = member.devid
    ))
}

fn profiles(btrfs: &ObservedBtrfs, data: Profile, metadata: Profile) -> Answer {
    if btrfs.mounts.is_empty() {
        return Answer::Fails("it isn't mounted, so nobody knows".to_owned());
    }
    let wanted = |purpose: Purpose| match purpose {
        Purpose::Data | Purpose::Mixed => data,
        Purpose::Metadata | Purpose::System => metadata,
    };
    let others: Vec<String> = btrfs
        .space
        .iter()
        .filter(|space| space.total_bytes > 0 && space.profile != wanted(space.purpose))
        .map(|space| {
            let bytes = braid_units::ByteSize::from_bytes(space.total_bytes);
            format!("{bytes} of {:?} are {}", space.purpose, space.profile.as_str()).to_lowercase()
        })
        .collect();
    Answer::when(others.is_empty(), || others.join(", "))
}

fn shape(md: &ObservedMd, layout: MdLayout, disks: usize) -> Answer {
    Answer::when(md.layout == Some(layout) && md.wants_disks == disks, || {
        let is = md.layout.map_or("something else".to_owned(), |layout| layout.to_string());
        format!("it is {is} of {} disks", md.wants_disks)
    })
}

fn member(md: &ObservedMd, disk: &DiskId) -> Answer {
    let found = md.members.iter().find(|member| member.disk.as_ref() == Some(disk));
    let state = found.map(|member| member.state);
    let there = matches!(
        state,
        Some(MdMemberState::InSync | MdMemberState::Recovering | MdMemberState::Spare)
    );
    Answer::when(there, || match state {
        Some(state) => format!("there it is {state:?}").to_lowercase(),
        None => "it isn't".to_owned(),
    })
}

fn complete(md: &ObservedMd) -> Answer {
    let rebuilding = md.sync.filter(|sync| !is_check(sync.action));
    Answer::when(md.degraded == 0 && rebuilding.is_none(), || match rebuilding {
        Some(sync) => format!("{:?} is at {:.1} %", sync.action, sync.done * 100.0).to_lowercase(),
        None => format!("{} of {} members are missing", md.degraded, md.wants_disks),
    })
}

fn idle(md: &ObservedMd, of: SyncWanted) -> Answer {
    let counts = |action: SyncAction| match of {
        SyncWanted::Anything => true,
        SyncWanted::Reshape => action == SyncAction::Reshape,
    };
    let running = md.sync.filter(|sync| counts(sync.action));
    Answer::when(running.is_none(), || {
        running.map_or(String::new(), |sync| format!("it is at: {:?}", sync.action).to_lowercase())
    })
}

fn is_check(action: SyncAction) -> bool {
    matches!(action, SyncAction::Check | SyncAction::Repair)
}

fn content_uuid(content: &Content) -> Option<Uuid> {
    match content {
        Content::Filesystem { uuid, .. }
        | Content::Member { uuid, .. }
        | Content::PartitionTable { uuid, .. } => uuid.as_ref().and_then(|uuid| uuid.parse().ok()),
        _ => None,
    }
}

fn contents_of(disk: &Disk) -> String {
    let all: Vec<String> = disk.contents.iter().map(Content::to_string).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

fn members_of(btrfs: &ObservedBtrfs) -> String {
    let all: Vec<String> = btrfs
        .members
        .iter()
        .map(|member| match (&member.disk, &member.path) {
            (Some(disk), _) if !member.missing => format!("{} is {disk}", member.devid),
            (None, Some(path)) if !member.missing => format!("{} is {path}", member.devid),
            _ => format!("{} is missing", member.devid),
        })
        .collect();
    format!("of its members {}", all.join(", "))
}
