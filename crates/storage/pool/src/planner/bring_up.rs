//! A pool that exists, but isn't mounted, or wouldn't be after the next boot.

use super::{Refused, encrypt, host_files};
use crate::mount_options::MountOptions;
use crate::observed::{ObservedHost, ObservedMd, ObservedPool};
use crate::step::{Plan, Step};

/// The steps after which `pool` is mounted at `at`, now and after every boot; none when it already
/// is.
pub(super) fn plan(pool: &ObservedPool, at: &str, host: &ObservedHost) -> Result<Plan, Refused> {
    super::refused::absolute(at)?;
    let name = pool.name();
    let (kind, uuid, device, options) = match pool {
        ObservedPool::Btrfs(btrfs) => {
            let mut paths = btrfs.present().filter_map(|member| member.path.clone());
            let first = paths.next().ok_or_else(|| Refused::NotMounted { pool: name.clone() })?;
            let others = paths.map(|path| format!("device={path}")).collect();
            ("btrfs", btrfs.uuid, first, others)
        }
        ObservedPool::Md(md) => {
            let device = md.path().ok_or_else(|| Refused::NotAssembled { pool: name.clone() })?;
            let on = md.carries.as_ref().and_then(|on| Some((on.kind.as_str(), on.uuid?)));
            let (kind, uuid) = on.ok_or_else(|| Refused::Impossible {
                what: format!("on array {name} there is no filesystem that Braid knows"),
                instead: "make one, or create the pool anew".to_owned(),
            })?;
            (kind, uuid, device, Vec::new())
        }
    };
    let mut steps: Vec<Step> = Vec::new();
    if let ObservedPool::Md(md) = pool {
        steps.extend(named_at_boot(md, host));
    }
    match host_files::fstab_place(host, uuid) {
        Some(place) if place == at => {}
        Some(place) => {
            return Err(Refused::Impossible {
                what: format!("/etc/fstab mounts pool {name} at {place}, not at {at}"),
                instead: "change one of the two".to_owned(),
            });
        }
        None => {
            host_files::check_mount_point_free(host, at)?;
            let (own, at_boot) = (MountOptions::default(), encrypt::opened_at_boot(pool, host));
            steps.push(host_files::fstab(uuid, kind, at, &own, at_boot));
        }
    }
    if !pool.mounts().iter().any(|mount| mount.at == at) {
        steps.push(host_files::mount_point(at));
        steps.push(host_files::mount_again(host, &device, kind, &options, uuid, at));
    }
    let title = format!("mount pool {name} at {at}, now and at boot");
    Ok(Plan {
        title,
        pool: name,
        claims: Vec::new(),
        warnings: Vec::new(),
        steps,
        after: Vec::new(),
        dispensable: Vec::new(),
    })
}

fn named_at_boot(md: &ObservedMd, host: &ObservedHost) -> Vec<Step> {
    if host.array_line(md.uuid).is_some() {
        return Vec::new();
    }
    let line = host_files::mdadm_conf(host, md.short_name(), md.uuid);
    std::iter::once(line).chain(host_files::initramfs(host)).collect()
}
