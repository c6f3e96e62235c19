//! Creating a btrfs pool on real disks, killed (kill -9) at every moment.

mod ground;

use braid_loop_disks::in_private_mounts;
use braid_pool::layout::Profile;
use braid_pool::observed::Purpose;
use ground::{Death, Ground, sh};

const MIB: [u64; 2] = [160, 128];

#[test]
fn killed_at_any_moment_it_is_resumed() {
    in_private_mounts("killed_at_any_moment_it_is_resumed", || {
        let mut moments = 0;
        loop {
            let ground = Ground::new(&MIB);
            let plan = ground.create_plan("btrfs-raid1", &[0, 1]).unwrap();
            if !ground.run_killed(&plan, Death::AtMoment(moments)) {
                break;
            }
            // Killed after its last line it is ended, and there is nothing to resume.
            if let Err(error) = ground.resume() {
                assert!(
                    error.to_string().contains("nothing was interrupted"),
                    "{moments}: {error}"
                );
            }
            let btrfs = ground.btrfs();
            assert_eq!(btrfs.profiles(Purpose::Data), [Profile::Raid1], "moment {moments}");
            assert!(ground.is_mounted(), "moment {moments}");
            assert!(ground.fstab().contains(&btrfs.uuid.to_string()), "moment {moments}");
            moments += 1;
        }
        assert!(moments > 15, "only {moments} moments");
    });
}

#[test]
fn killed_at_any_moment_it_is_abandoned() {
    in_private_mounts("killed_at_any_moment_it_is_abandoned", || {
        let ground = Ground::new(&MIB);
        for moment in 0.. {
            // No signature stays of what is abandoned, but other bytes do.
            ground.blank_disks();
            let plan = ground.create_plan("btrfs-raid1", &[0, 1]).unwrap();
            assert!(ground.run_killed(&plan, Death::AtMoment(moment)), "moment {moment}");
            match ground.abandon() {
                Ok(remains) => assert_eq!(remains, [], "moment {moment}"),
                Err(error) => {
                    // Its last line was written.
                    assert!(error.to_string().contains("nothing was interrupted"), "{error}");
                    assert!(ground.is_mounted() && moment > 15, "moment {moment}");
                    break;
                }
            }
            ground.assert_untouched(&format!("moment {moment}"));
        }
    });
}

#[test]
fn after_a_reboot_it_is_mounted_again_before_it_goes_on() {
    in_private_mounts("after_a_reboot_it_is_mounted_again_before_it_goes_on", || {
        let ground = Ground::new(&MIB);
        let plan = ground.create_plan("btrfs-raid1", &[0, 1]).unwrap();
        let steps = plan.steps.len() as u32;
        assert!(ground.run_killed(&plan, Death::AtMoment(4 * steps - 2)));
        assert!(ground.is_mounted());
        ground.unmount();
        ground.resume().unwrap();
        assert!(ground.is_mounted());
    });
}

#[test]
fn what_a_boot_mounted_by_the_new_line_in_fstab_is_abandoned_too() {
    in_private_mounts("what_a_boot_mounted_by_the_new_line_in_fstab_is_abandoned_too", || {
        let ground = Ground::new(&MIB);
        let plan = ground.create_plan("btrfs-raid1", &[0, 1]).unwrap();
        let before_the_last = plan.steps.len() as u32 - 1;
        assert!(ground.run_killed(&plan, Death::AtMoment(4 * before_the_last)));
        assert!(ground.fstab().contains("UUID=") && !ground.is_mounted());
        sh(&format!("mount {} {}", ground.disks[0].path(), ground.mount_point().display()));
        assert_eq!(ground.abandon().unwrap(), []);
        ground.assert_untouched("a boot mounted it");
    });
}

#[test]
fn half_of_a_filesystem_is_cleared_away() {
    in_private_mounts("half_of_a_filesystem_is_cleared_away", || {
        let ground = Ground::new(&MIB);
        let plan = ground.create_plan("btrfs-raid1", &[0, 1]).unwrap();
        // After the journal says that mkfs is begun, before it is.
        assert!(ground.run_killed(&plan, Death::AtMoment(1)));
        let make = plan.step("mkfs").unwrap().action.to_string();
        let uuid = make.split("--uuid ").nth(1).unwrap().split(' ').next().unwrap();
        sh(&format!("mkfs.btrfs --quiet --uuid {uuid} {}", ground.disks[0].path()));
        ground.resume().unwrap();
        assert_eq!(ground.btrfs().members.len(), 2);
    });
}

#[test]
fn what_somebody_else_put_on_the_disk_meanwhile_stays() {
    in_private_mounts("what_somebody_else_put_on_the_disk_meanwhile_stays", || {
        let ground = Ground::new(&MIB);
        let plan = ground.create_plan("btrfs-raid1", &[0, 1]).unwrap();
        assert!(ground.run_killed(&plan, Death::AtMoment(1)));
        sh(&format!("mkfs.ext4 -q -L photos {}", ground.disks[1].path()));
        let error = ground.resume().unwrap_err().to_string();
        assert!(error.contains("ext4") && error.contains("photos"), "{error}");
        let remains = ground.abandon().unwrap();
        assert!(remains[0].why.contains("photos"), "{remains:?}");
        assert!(ground.contents(1)[0].to_string().contains("photos"));
    });
}
