use super::*;
use crate::observed::ObservedSystemd;

fn taken_back(plan: &Plan) -> Vec<bool> {
    plan.steps.iter().map(|step| !matches!(step.undo, Undo::Never(_))).collect()
}

#[test]
fn a_pool_is_out_of_the_host_before_its_first_disk_is_erased() {
    let pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    let mut host = host();
    let line = format!("UUID={} /srv/data btrfs noatime,nofail 0 0", pool.uuid);
    host.fstab += &format!("{line}\n");
    let timer = format!("braid-pool-scrub@{}.timer", pool.uuid);
    let units = [(timer.clone(), "[Timer]\nOnCalendar=monthly\n".to_owned())];
    host.systemd = Some(ObservedSystemd { units: units.into(), ..ObservedSystemd::default() });
    let plan = destroy(&ObservedPool::Btrfs(pool.clone()), &host).unwrap();
    let order = [&timer, &line, "umount /srv/data", "wipefs --all --quiet /dev/sdb", "/dev/sdc"];
    let places: Vec<usize> = order.iter().map(|word| position(&plan, word)).collect();
    assert!(places.is_sorted(), "{places:?} in {plan}");
    // Until then all can be taken back.
    assert!(taken_back(&plan).is_sorted_by(|a, b| a >= b), "{plan}");
    // Nothing of other lines, and a disk that somebody else's filesystem is on now is left alone.
    assert!(!commands(&plan).iter().any(|command| command.contains("/home")), "{plan}");
    let erase = &plan.steps[position(&plan, "/dev/sdb")];
    let own = Condition::Tagged {
        device: "/dev/sdb".into(),
        tag: "UUID".into(),
        value: pool.uuid.to_string(),
    };
    assert_eq!(erase.before, [own]);
}

#[test]
fn an_array_loses_its_filesystem_then_its_name_then_its_members() {
    let pool = md(MdLayout::Raid1, "bc", 500 * GB);
    let mut host = host();
    let line = crate::planner::array_line("data", pool.uuid);
    host.mdadm_conf = Some(("/etc/mdadm/mdadm.conf".into(), format!("{line}\n")));
    let plan = destroy(&ObservedPool::Md(pool), &host).unwrap();
    let order = ["umount", &line, "--quiet /dev/md127", "mdadm --stop", "/dev/sdb"];
    let places: Vec<usize> = order.iter().map(|word| position(&plan, word)).collect();
    assert!(places.is_sorted(), "{places:?} in {plan}");
}

#[test]
fn what_is_not_here_keeps_what_it_has_and_the_user_is_told() {
    let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
    (pool.members[1].missing, pool.members[1].path) = (true, None);
    let plan = destroy(&ObservedPool::Btrfs(pool), &host()).unwrap();
    assert!(plan.warnings[0].starts_with("1 of its 2 disks are not here"), "{plan}");
}

#[test]
fn the_system_is_no_pool_to_be_given_up() {
    for at in ["/", "/usr", "/var"] {
        let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 100 * GB);
        pool.mounts[0].at = at.into();
        let refused = destroy(&ObservedPool::Btrfs(pool), &host()).unwrap_err();
        assert!(matches!(refused, Refused::SystemFolder { .. }), "{refused}");
    }
}
