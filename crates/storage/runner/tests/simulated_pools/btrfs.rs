//! mkfs.btrfs and btrfs.

use super::World;
use braid_pool::disk::{Content, Disk, Family};
use braid_pool::layout::Profile;
use braid_pool::observed::{
    BtrfsMember, ExclusiveOperation, Mount, ObservedBtrfs, ObservedPool, Purpose, SpaceUse,
};

const GIB: u64 = 1 << 30;

pub fn make(world: &mut World, args: &[&str]) -> Result<(), String> {
    let [
        "--quiet",
        "--label",
        label,
        "--uuid",
        uuid,
        "--data",
        data,
        "--metadata",
        metadata,
        paths @ ..,
    ] = args
    else {
        return Err(format!("not simulated: {args:?}"));
    };
    let profile = |word: &str| Profile::from_word(word).ok_or(format!("no profile {word}"));
    let (data, metadata) = (profile(data)?, profile(metadata)?);
    let space =
        |purpose, profile| SpaceUse { purpose, profile, total_bytes: GIB, used_bytes: GIB / 2 };
    let mut pool = ObservedBtrfs {
        uuid: uuid.parse().map_err(|_| "uuid")?,
        label: Some((*label).into()),
        members: Vec::new(),
        space: vec![space(Purpose::Data, data), space(Purpose::Metadata, metadata)],
        profiles_on_disk: Vec::new(),
        exclusive_operation: ExclusiveOperation::None,
        scrub: Default::default(),
        quotas: false,
        mounts: Vec::new(),
        generation: 1,
        nodatacow: Vec::new(),
    };
    for path in paths {
        let disk = world.disk_mut(path)?;
        // As the real one, without --force.
        if !disk.contents.is_empty() {
            return Err(format!("{path} appears to contain something"));
        }
        join(&mut pool, disk);
    }
    world.pools.push(ObservedPool::Btrfs(pool));
    Ok(())
}

pub fn command(world: &mut World, args: &[&str]) -> Result<(), String> {
    let at = args.last().copied().unwrap_or_default();
    let mounted = |pool: &&ObservedPool| pool.mounts().iter().any(|mount| mount.at == at);
    let index = world.pools.iter().position(|pool| mounted(&pool)).ok_or("not mounted")?;
    let ObservedPool::Btrfs(mut pool) = world.pools[index].clone() else {
        return Err("no btrfs".to_owned());
    };
    match args {
        ["device", "add", path, _] => {
            let disk = world.disk_mut(path)?;
            if !disk.contents.is_empty() {
                return Err(format!("{path} appears to contain something"));
            }
            join(&mut pool, disk);
            disk.contents.push(Content::Mounted { at: at.to_owned() });
        }
        ["device", "remove", which, _] => {
            let gone = pool
                .members
                .iter()
                .position(|m| m.devid.to_string() == *which || m.path.as_deref() == Some(which))
                .ok_or("no such device")?;
            let gone = pool.members.remove(gone);
            if let Some(disk) = world.disks.iter_mut().find(|disk| Some(disk.id()) == gone.disk) {
                disk.contents.clear();
            }
        }
        ["replace", "start", "-B", devid, path, _] => {
            let disk = world.disk_mut(path)?;
            if !disk.contents.is_empty() {
                return Err(format!("{path} appears to contain something"));
            }
            join(&mut pool, disk);
            disk.contents.push(Content::Mounted { at: at.to_owned() });
            let mut new = pool.members.pop().ok_or("no member")?;
            let old = pool.members.iter_mut().find(|m| m.devid.to_string() == *devid);
            let old = old.ok_or("no such device")?;
            new.devid = old.devid;
            let old = std::mem::replace(old, new);
            if let Some(disk) = world.disks.iter_mut().find(|disk| Some(disk.id()) == old.disk) {
                disk.contents.clear();
            }
        }
        ["filesystem", "resize", ..] | ["scrub", "start", "-B", _] => {}
        ["balance", "start", filters @ .., _] => balance(&mut pool, filters)?,
        other => return Err(format!("not simulated: {other:?}")),
    }
    world.pools[index] = ObservedPool::Btrfs(pool);
    Ok(())
}

pub fn mount(world: &mut World, what: &str, mount: Mount) -> Result<(), String> {
    let has = |pool: &ObservedBtrfs| pool.present().any(|m| m.path.as_deref() == Some(what));
    let pool = world.pools.iter_mut().find_map(|pool| match pool {
        ObservedPool::Btrfs(pool) if has(pool) => Some(pool),
        _ => None,
    });
    let pool = pool.ok_or("nothing to mount")?;
    if pool.missing().next().is_some() && !mount.has("degraded") {
        return Err("devices are missing".to_owned());
    }
    let paths: Vec<String> = pool.present().filter_map(|member| member.path.clone()).collect();
    let at = mount.at.clone();
    pool.mounts.push(mount);
    for path in paths {
        world.disk_mut(&path)?.contents.push(Content::Mounted { at: at.clone() });
    }
    Ok(())
}

/// A device was wiped: a filesystem without any is no more.
pub fn forget(world: &mut World, path: &str) {
    for pool in &mut world.pools {
        if let ObservedPool::Btrfs(pool) = pool {
            pool.members.retain(|member| member.path.as_deref() != Some(path));
        }
    }
    world.pools.retain(|pool| !matches!(pool, ObservedPool::Btrfs(p) if p.members.is_empty()));
}

/// A degraded mount goes on with it, and writes some chunks with one copy.
pub fn lose(pool: &mut ObservedBtrfs, dead: &Disk) {
    for member in pool.members.iter_mut().filter(|member| member.disk == Some(dead.id())) {
        member.missing = true;
        member.path = None;
    }
    for purpose in [Purpose::Data, Purpose::Metadata] {
        let profile = Profile::Single;
        pool.space.push(SpaceUse { purpose, profile, total_bytes: GIB, used_bytes: 1 });
    }
    pool.mounts.iter_mut().for_each(|mount| mount.options.push("degraded".to_owned()));
}

fn join(pool: &mut ObservedBtrfs, disk: &mut Disk) {
    pool.members.push(BtrfsMember {
        devid: pool.members.iter().map(|member| member.devid).max().unwrap_or(0) + 1,
        uuid: None,
        path: Some(disk.path.clone()),
        disk: Some(disk.id()),
        size_bytes: disk.size_bytes,
        device_bytes: Some(disk.size_bytes),
        allocated_bytes: 2 * GIB,
        missing: false,
        fault: None,
        errors: Default::default(),
        uncorrectable: 0,
        generation: Some(1),
    });
    disk.contents.push(Content::Member {
        family: Family::Btrfs,
        name: pool.label.as_deref().map(str::to_owned),
        uuid: Some(pool.uuid.to_string()),
    });
}

fn balance(pool: &mut ObservedBtrfs, filters: &[&str]) -> Result<(), String> {
    for filter in filters {
        let (purpose, rest) = match filter.split_at_checked(2) {
            Some(("-d", rest)) => (Purpose::Data, rest),
            Some(("-m", rest)) => (Purpose::Metadata, rest),
            _ if *filter == "--force" => continue,
            _ => return Err(format!("not simulated: {filter}")),
        };
        let Some(word) = rest.strip_prefix("convert=") else { continue };
        let word = word.strip_suffix(",soft").unwrap_or(word);
        let profile = Profile::from_word(word).ok_or("no profile")?;
        if pool.present().count() < profile.min_disks() {
            return Err(format!("too few devices for {word}"));
        }
        pool.space.retain(|space| space.purpose != purpose);
        pool.space.push(SpaceUse { purpose, profile, total_bytes: GIB, used_bytes: GIB / 2 });
    }
    pool.space.sort_by_key(|space| space.purpose);
    Ok(())
}
