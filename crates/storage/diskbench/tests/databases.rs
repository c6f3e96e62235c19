//! Real database servers on ext4 and btrfs: the fourth article's walk.

use braid_diskbench::BenchError;
use braid_diskbench::database::{Running, Server};
use braid_disks::tool::ToolError;
use braid_loop_disks::{LoopDisk, in_private_mounts, run};
use braid_units::ByteSize;
use std::path::Path;
use std::process::Command;

const TRANSACTIONS: u32 = 60;

#[test]
fn mariadb_on_ext4_btrfs_nocow_and_nobarrier() {
    in_private_mounts("mariadb_on_ext4_btrfs_nocow_and_nobarrier", || {
        let mut seconds = Vec::new();
        for (name, filesystem, option, nocow) in [
            ("ext4", "ext4", "defaults", false),
            ("btrfs", "btrfs", "defaults", false),
            ("btrfs nocow", "btrfs", "defaults", true),
            ("btrfs nobarrier, never for real", "btrfs", "nobarrier", false),
        ] {
            let Some(time) = on(Server::MariaDb, filesystem, option, nocow) else { return };
            println!("{name}: {time:.2} s for {TRANSACTIONS} transactions");
            seconds.push(time);
        }
        assert_eq!(seconds.len(), 4);
    });
}

#[test]
fn postgresql_does_the_same_work() {
    in_private_mounts("postgresql_does_the_same_work", || {
        if let Some(time) = on(Server::PostgreSql, "ext4", "defaults", false) {
            println!("PostgreSQL on ext4: {time:.2} s");
        }
    });
}

/// Seconds of the fixed work; `None` when the server isn't installed.
fn on(server: Server, filesystem: &str, option: &str, nocow: bool) -> Option<f64> {
    // Not in memory, where fsync would cost nothing.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = LoopDisk::new(folder.path(), "disk", ByteSize::from_bytes(700 << 20)).unwrap();
    let mount = folder.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    // Servers run as users of their own.
    run("chmod", &["755", &folder.path().to_string_lossy()]);
    run(&format!("mkfs.{filesystem}"), &["-q", disk.path()]);
    run("mount", &["-o", option, disk.path(), &mount.to_string_lossy()]);
    let result = work(server, &mount, nocow);
    run("umount", &[&mount.to_string_lossy()]);
    match result {
        Ok(seconds) => Some(seconds),
        Err(BenchError::Tool(ToolError::Missing(program))) => {
            println!("{server}: skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{server} on {filesystem} ({option}): {error}"),
    }
}

fn work(server: Server, mount: &Path, nocow: bool) -> Result<f64, BenchError> {
    let folder = mount.join("data");
    std::fs::create_dir(&folder).unwrap();
    if nocow {
        run("chattr", &["+C", &folder.to_string_lossy()]);
    }
    let running = Running::start(server, &folder)?;
    if nocow {
        let listed = Command::new("lsattr").arg("-d").arg(&folder).output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains('C'));
    }
    let time = running.transact(TRANSACTIONS)?;
    assert_eq!(running.totals()?, (u64::from(TRANSACTIONS) * 4, u64::from(TRANSACTIONS) * 4));
    running.stop()?;
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "its data is gone");
    Ok(time.as_secs_f64())
}
