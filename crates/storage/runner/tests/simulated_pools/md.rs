//! mdadm, and filesystems on arrays.

use super::World;
use braid_pool::capacity::member_bytes;
use braid_pool::disk::{Content, Disk, Family};
use braid_pool::layout::{MdLayout, Spread};
use braid_pool::observed::{MdMember, MdMemberState, ObservedMd, ObservedPool, OnArray};

/// The array that runs under this path.
pub fn of<'a>(world: &'a mut World, device: &str) -> Result<&'a mut ObservedMd, String> {
    let name = device.strip_prefix("/dev/md/").ok_or(format!("no array {device}"))?;
    let found = world.pools.iter_mut().find_map(|pool| match pool {
        ObservedPool::Md(pool) if pool.short_name() == name => Some(pool),
        _ => None,
    });
    found.ok_or_else(|| format!("no array {device}"))
}

pub fn command(world: &mut World, args: &[&str]) -> Result<(), String> {
    match args {
        ["--create", device, options @ ..] => create(world, device, options),
        ["--stop", device] => stop(world, device),
        ["--zero-superblock", path] => {
            world.disk_mut(path)?.contents.clear();
            Ok(())
        }
        ["--grow", device, rest @ ..] => grow(world, device, rest),
        [device, "--add", path] => {
            let disk = taken(world, path)?;
            add(of(world, device)?, &disk);
            occupy(world, device, path)
        }
        [device, "--replace", old, "--with", new] => {
            let pool = of(world, device)?;
            let slot = member(pool, old)?.slot;
            let new = member(pool, new)?;
            (new.state, new.slot) = (MdMemberState::InSync, slot);
            let old = member(pool, old)?;
            (old.state, old.slot) = (MdMemberState::Faulty, None);
            Ok(())
        }
        [device, "--fail", path, "--remove", _] => {
            member(of(world, device)?, path)?.state = MdMemberState::Faulty;
            remove(world, device, path)
        }
        [device, "--remove", path] => remove(world, device, path),
        other => Err(format!("not simulated: {other:?}")),
    }
}

pub fn make_filesystem(world: &mut World, kind: &str, args: &[&str]) -> Result<(), String> {
    let device = args.last().copied().unwrap_or_default();
    let uuid = args.iter().enumerate().find_map(|(index, word)| match *word {
        "-U" => args.get(index + 1).copied(),
        word => word.strip_prefix("uuid="),
    });
    let uuid = uuid.and_then(|text| text.parse().ok());
    of(world, device)?.carries = Some(OnArray {
        kind: kind.to_owned(),
        uuid,
        label: None,
        size_bytes: None,
        used_bytes: None,
        mounts: Vec::new(),
    });
    Ok(())
}

/// The array goes on without it.
pub fn lose(pool: &mut ObservedMd, dead: &Disk) {
    pool.members.retain(|member| member.disk != Some(dead.id()));
    settle(pool);
}

fn create(world: &mut World, device: &str, options: &[&str]) -> Result<(), String> {
    let option = |name: &str| options.iter().find_map(|word| word.strip_prefix(name));
    let level = option("--level=").ok_or("level")?;
    let layout: MdLayout = match option("--layout=") {
        Some(word) => format!("{level}-{word}").parse().map_err(|_| "layout")?,
        None => level.parse().map_err(|_| "level")?,
    };
    let paths: Vec<&str> = options.iter().copied().filter(|word| !word.starts_with("--")).collect();
    let host = option("--homehost=").unwrap_or("alpha");
    let mut pool = ObservedMd {
        uuid: option("--uuid=").and_then(|text| text.parse().ok()).ok_or("uuid")?,
        device: Some("md127".to_owned()),
        name: format!("{host}:{}", option("--name=").ok_or("name")?),
        metadata: "1.2".to_owned(),
        layout: Some(layout),
        chunk_bytes: 512 << 10,
        wants_disks: paths.len(),
        members: Vec::new(),
        degraded: 0,
        sync: None,
        size_bytes: 0,
        member_bytes: 0,
        bitmap: true,
        scrub: Default::default(),
        carries: None,
    };
    for path in &paths {
        let disk = taken(world, path)?;
        pool.member_bytes = member_bytes(layout, disk.size_bytes);
        add(&mut pool, &disk);
    }
    world.pools.push(ObservedPool::Md(pool));
    paths.iter().try_for_each(|path| occupy(world, device, path))
}

fn stop(world: &mut World, device: &str) -> Result<(), String> {
    let pool = of(world, device)?;
    if pool.carries.as_ref().is_some_and(|on| !on.mounts.is_empty()) {
        return Err("in use".to_owned());
    }
    let uuid = pool.uuid;
    let is_holder = |content: &Content| matches!(content, Content::Holder { .. });
    world.disks.iter_mut().for_each(|disk| disk.contents.retain(|content| !is_holder(content)));
    world.pools.retain(|pool| pool.uuid() != uuid);
    Ok(())
}

fn grow(world: &mut World, device: &str, rest: &[&str]) -> Result<(), String> {
    let (what, new) = rest.split_first().ok_or("nothing to grow")?;
    if let ["--add", paths @ ..] | [_, "--add", paths @ ..] = new {
        for path in paths {
            let disk = taken(world, path)?;
            add(of(world, device)?, &disk);
            occupy(world, device, path)?;
        }
    }
    let pool = of(world, device)?;
    if let Some(level) = what.strip_prefix("--level=") {
        pool.layout = Some(level.parse().map_err(|_| "level")?);
    }
    let devices = rest.iter().find_map(|word| word.strip_prefix("--raid-devices="));
    if let Some(disks) = devices {
        if matches!(pool.layout, Some(MdLayout::Raid10 { spread: Spread::Far, .. })) {
            return Err("Cannot reshape RAID10 in far-mode".to_owned());
        }
        pool.wants_disks = disks.parse().map_err(|_| "devices")?;
    }
    settle(pool);
    Ok(())
}

fn remove(world: &mut World, device: &str, path: &str) -> Result<(), String> {
    let pool = of(world, device)?;
    let state = member(pool, path)?.state;
    if !matches!(state, MdMemberState::Faulty | MdMemberState::Spare) {
        return Err(format!("{path} is in use"));
    }
    pool.members.retain(|member| member.path.as_deref() != Some(path));
    settle(pool);
    let is_holder = |content: &Content| matches!(content, Content::Holder { .. });
    world.disk_mut(path)?.contents.retain(|content| !is_holder(content));
    Ok(())
}

fn member<'a>(pool: &'a mut ObservedMd, path: &str) -> Result<&'a mut MdMember, String> {
    let found = pool.members.iter_mut().find(|member| member.path.as_deref() == Some(path));
    found.ok_or_else(|| format!("{path} is no member"))
}

/// An empty disk, or one that an earlier attempt left a superblock on: mdadm asks nothing.
fn taken(world: &mut World, path: &str) -> Result<Disk, String> {
    let disk = world.disk_mut(path)?;
    if disk.contents.iter().any(Content::is_in_use) {
        return Err(format!("{path} is busy"));
    }
    Ok(disk.clone())
}

fn occupy(world: &mut World, device: &str, path: &str) -> Result<(), String> {
    let pool = of(world, device)?;
    let (name, uuid) = (Some(pool.name.clone()), Some(pool.uuid.to_string()));
    world.disk_mut(path)?.contents = vec![
        Content::Member { family: Family::Md, name, uuid },
        Content::Holder { device: "md127".to_owned() },
    ];
    Ok(())
}

fn add(pool: &mut ObservedMd, disk: &Disk) {
    pool.members.push(MdMember {
        path: Some(disk.path.clone()),
        disk: Some(disk.id()),
        slot: None,
        state: MdMemberState::Spare,
        errors: 0,
        device_bytes: Some(disk.size_bytes),
        events: Some(1),
    });
    settle(pool);
}

/// Spares take the free places, and are filled at once.
fn settle(pool: &mut ObservedMd) {
    let wants = pool.wants_disks;
    let beyond = |slot: Option<usize>| slot.is_some_and(|slot| slot >= wants);
    let free: Vec<usize> =
        (0..wants).filter(|slot| !pool.members.iter().any(|m| m.slot == Some(*slot))).collect();
    let mut free = free.into_iter();
    for member in &mut pool.members {
        let waits = member.state == MdMemberState::Spare || beyond(member.slot);
        if waits && let Some(slot) = free.next() {
            (member.slot, member.state) = (Some(slot), MdMemberState::InSync);
        }
    }
    pool.members.sort_by_key(|member| member.slot.unwrap_or(usize::MAX));
    pool.degraded = wants.saturating_sub(pool.in_sync().count());
    let (n, member) = (wants as u64, pool.member_bytes);
    pool.size_bytes = match pool.layout {
        Some(MdLayout::Raid0) => n * member,
        Some(MdLayout::Raid10 { copies, .. }) => n * member / u64::from(copies),
        Some(MdLayout::Raid5) => (n - 1) * member,
        Some(MdLayout::Raid6) => (n - 2) * member,
        Some(MdLayout::Raid1) | None => member,
    };
}
