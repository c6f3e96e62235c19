use braid_diskbench::fio_answer::FioAnswer;
use braid_disks::mount_table::{MountTable, active_swaps};
use braid_disks::signature::{blkid, wipefs};
use braid_disks::{HostRoot, btrfs, smart};
use braid_linux::network_manager::{MOST, connections_in};
use braid_linux::nft::refusing_in;
use braid_linux::resolv_conf::servers_in;
use braid_pool::fstab;
use braid_pool::luks::crypttab;
use braid_pool::untrusted::{deceives, lines, one_line};
use braid_pool::uuid::Uuid;
use braid_replica::ssh_said::ssh_failure;
use std::fs;
use std::path::Path;

/// Output or files of other programs; the first byte says which. Labels in it may be chosen by
/// whoever made the disk, paths by whoever mounts something.
///
/// # Panics
/// If something can't cope with it, or it could deceive a terminal: this is what the fuzzer looks
/// for.
pub fn tool_output(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind % 16 {
        0 => drop(blkid::parse(&text)),
        1 => drop(wipefs::parse(&text)),
        2 => {
            let status = rest.first().map_or(0, |byte| i32::from(*byte));
            let _ = smart::parse("/dev/sda", &text, status);
            let _ = smart::parse_by_sat("/dev/sda", &text, status);
        }
        3 => {
            if let Ok(answer) = FioAnswer::parse(&text) {
                for transfer in [answer.read, answer.written] {
                    let _ = (transfer.bytes_per_second(), transfer.requests_per_second());
                }
            }
        }
        4 => drop(refusing_in(&text, "braid0")),
        5 => fstab::entries(&text).for_each(|entry| {
            let _ = (entry.has("noauto"), fstab::decoded(&entry.at));
        }),
        6 => of_host(&text),
        8 => crypttab(&text).for_each(|line| {
            let _ = (line.has("_netdev"), line.unlock());
        }),
        9 => {
            let found = connections_in(&text);
            assert!(found.len() <= MOST && found.iter().all(|it| !it.uuid.is_empty()));
        }
        10 => drop(servers_in(&text)),
        11 => drop(ssh_failure(&text)),
        _ => {
            assert!(!one_line(&text).chars().any(|c| deceives(c) || c == '\n'));
            assert!(!lines(&text).chars().any(|c| deceives(c) && c != '\n' && c != '\t'));
        }
    }
}

/// Tables of the kernel, and the scrub records of btrfs-progs.
fn of_host(text: &str) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let write = |file: &str| {
        let file = folder.path().join(file);
        let made = fs::create_dir_all(file.parent().unwrap_or(Path::new("/")));
        made.and_then(|()| fs::write(file, text)).expect("room for some KB");
    };
    let uuid: Uuid = UUID.parse().expect("it is one");
    let record = format!("var/lib/btrfs/scrub.status.{UUID}");
    for file in ["proc/self/mountinfo", "proc/swaps", &record] {
        write(file);
    }
    let host = HostRoot::at(folder.path());
    let mounts = MountTable::read(&host);
    for mounted in mounts.of_kind("btrfs") {
        let _ = (mounted.to_model(), mounts.is_mount_point(&mounted.reach));
    }
    let _ = active_swaps(&host);
    let _ = btrfs::scrub_record::uncorrectable(&host, uuid);
    let _ = btrfs::scrub_record::read(&host, uuid, &[1, 2]);
}

/// The UUID of the filesystem in the seeds.
const UUID: &str = "6f0c2a3e-1d8b-4b7e-9c55-0a1b2c3d4e5f";
