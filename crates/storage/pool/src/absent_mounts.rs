//! Mounts of fstab that aren't mounted: whoever writes there fills the disk below.

use crate::fstab::{self, Entry};
use crate::observed::ObservedPool;
use crate::uuid::Uuid;

/// Where the pool's filesystem should be mounted by fstab, and isn't.
pub fn of_pool(pool: &ObservedPool, fstab: &str) -> Vec<String> {
    let is_its = |entry: &Entry<'_>| names(entry, pool);
    let is_there = |entry: &Entry<'_>| pool.mounts().iter().any(|mount| mount.at == entry.at);
    let all = fstab::entries(fstab).filter(at_boot).filter(is_its);
    all.filter(|entry| !is_there(entry)).map(|entry| entry.at).collect()
}

/// btrfs filesystems that fstab mounts but no disk of the host has: their UUIDs and mount points.
/// One that may be absent (`nofail`) doesn't count.
pub fn of_no_pool(pools: &[ObservedPool], fstab: &str) -> Vec<(Uuid, String)> {
    let needed =
        |entry: &Entry<'_>| at_boot(entry) && entry.kind == "btrfs" && !entry.has("nofail");
    let absent = |entry: Entry<'_>| {
        let uuid = uuid_of(&entry)?;
        let known = pools.iter().any(|pool| filesystem(pool) == Some(uuid));
        (!known).then_some((uuid, entry.at))
    };
    fstab::entries(fstab).filter(needed).filter_map(absent).collect()
}

/// And not only on request or at first use.
fn at_boot(entry: &Entry<'_>) -> bool {
    entry.at.starts_with('/') && !entry.has("noauto") && !entry.has("x-systemd.automount")
}

fn names(entry: &Entry<'_>, pool: &ObservedPool) -> bool {
    let label = entry.what.strip_prefix("LABEL=").map(|label| label.trim_matches('"'));
    match pool {
        _ if uuid_of(entry).is_some() => uuid_of(entry) == filesystem(pool),
        ObservedPool::Btrfs(btrfs) => {
            label.is_some_and(|label| btrfs.label.as_deref() == Some(label))
                || btrfs.members.iter().any(|member| member.path.as_ref() == Some(&entry.what))
        }
        ObservedPool::Md(md) => {
            let is_node = [md.path(), Some(format!("/dev/md/{}", md.short_name()))];
            is_node.contains(&Some(entry.what.clone()))
        }
    }
}

fn uuid_of(entry: &Entry<'_>) -> Option<Uuid> {
    entry.what.strip_prefix("UUID=")?.trim_matches('"').parse().ok()
}

fn filesystem(pool: &ObservedPool) -> Option<Uuid> {
    match pool {
        ObservedPool::Btrfs(btrfs) => Some(btrfs.uuid),
        ObservedPool::Md(md) => md.carries.as_ref()?.uuid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::layout::{MdLayout, Profile};

    #[test]
    fn each_place_of_fstab_where_it_is_not_mounted_is_told() {
        let mut btrfs =
            fixture::btrfs(Profile::Raid1, Profile::Raid1, "bc", fixture::GB, fixture::GB / 2);
        let uuid = btrfs.uuid;
        let fstab = format!(
            "UUID={uuid} /srv/data btrfs noatime 0 0\nLABEL=data /home btrfs subvol=home 0 0\n\
             /dev/sdc /by-hand btrfs noauto 0 0\n/dev/sdc /used btrfs x-systemd.automount 0 0\n\
             UUID=\"{uuid}\" none swap sw 0 0\n"
        );
        let of = |btrfs: &_| of_pool(&ObservedPool::Btrfs(Clone::clone(btrfs)), &fstab);
        assert_eq!(of(&btrfs), ["/home"]);
        btrfs.mounts.clear();
        assert_eq!(of(&btrfs), ["/srv/data", "/home"]);
        let mut md = fixture::md(MdLayout::Raid1, "de", fixture::GB);
        let on = md.carries.as_mut().unwrap();
        on.mounts.clear();
        let fstab = format!("UUID={} /srv/data ext4\n", on.uuid.unwrap());
        assert_eq!(of_pool(&ObservedPool::Md(md), &fstab), ["/srv/data"]);
    }

    #[test]
    fn a_filesystem_that_no_disk_has_is_told_unless_it_may_be_away() {
        let uuid = Uuid::from_bytes([7; 16]);
        let fstab = format!("UUID={uuid} /srv/gone btrfs noatime 0 0\n");
        assert_eq!(of_no_pool(&[], &fstab), [(uuid, "/srv/gone".to_owned())]);
        assert_eq!(of_no_pool(&[], &fstab.replace("noatime", "noatime,nofail")), []);
        assert_eq!(of_no_pool(&[], &fstab.replace("btrfs", "ext4")), []);
    }
}
