//! Replicas through the tunnel, to a listener inside it.

use crate::PATIENCE;
use crate::side::Side;
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::LinkChange;
use braid_loop_disks::{Btrfs, fill, in_private_mounts};
use braid_units::ByteSize;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

const BRAID: &str = env!("CARGO_BIN_EXE_braid");
const BIG: usize = 14_000_000;

/// A program, ended with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `braid pool` on a side.
fn pool(side: &Side, arguments: &[&str], key: &Path) -> Process {
    let mut command = side.namespace.command(BRAID);
    command.arg("pool").args(arguments).arg("--key").arg(key);
    Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
}

/// What it reports once it has succeeded.
fn report(process: Process) -> Value {
    let mut process = process;
    let out = std::io::read_to_string(process.0.stdout.take().unwrap()).unwrap();
    assert!(process.0.wait().unwrap().success(), "{out}");
    serde_json::from_str(&out).unwrap()
}

/// Waits until so many bytes of the big file have arrived below `folder`.
fn wait_for(folder: &Path, bytes: u64) {
    let part = folder.join(".braid-replica.part/big");
    let give_up = Instant::now() + PATIENCE;
    while fs::metadata(&part).map_or(0, |about| about.len()) < bytes {
        assert!(Instant::now() < give_up, "it doesn't get on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Each link goes silent once: in mid-push the first, in mid-pull the second. The connection
/// inside never breaks, and what has arrived is the same.
#[test]
fn a_replication_through_the_tunnel_outlives_its_links() {
    let name = "replication::a_replication_through_the_tunnel_outlives_its_links";
    in_private_mounts(name, || {
        let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
        world.start(&Tunnel::default());
        let folder = tempfile::tempdir().unwrap();
        let disk = |name| Btrfs::new(folder.path(), name, ByteSize::from_bytes(1 << 30));
        let (here, there) = (disk("here"), disk("there"));
        let data = here.subvolume("data");
        fill(&data, 1, BIG);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (snapshots, replicas, back) =
            (here.path.join("snapshots"), there.path.join("replicas"), here.path.join("back"));
        let key = folder.path().join("key");
        let mut take = world.home.namespace.command(BRAID);
        take.args(["pool", "snapshot", "--into"]).args([&snapshots, &data]);
        assert!(take.status().unwrap().success());

        // Whoever listens makes the key; nobody outside the tunnel is heard.
        let listen = |direction, folder: &Path, port| {
            let address = format!("{INSIDE_V4}:{port}");
            let listener = pool(
                &world.concentrator,
                &["replicate", "--serve", &address, direction, &text(folder)],
                &key,
            );
            world.home.wait_until("somebody listens", || {
                let mut shell = world.home.namespace.command("bash");
                let probe = format!("exec 3<>/dev/tcp/{INSIDE_V4}/{port}");
                shell.args(["-c", &probe]).stderr(Stdio::null()).status().unwrap().success()
            });
            (listener, format!("tcp://{address}"))
        };
        let (_into, to) = listen("--into", &replicas, 7000);
        let push = pool(&world.home, &["replicate", "--json", &text(&snapshots), &to], &key);
        wait_for(&replicas, 3_000_000);
        world.change(0, &LinkChange::Blackout(true));
        let pushed = report(push);
        assert_eq!(pushed["reconnects"], 0, "{pushed}");
        world.change(0, &LinkChange::Blackout(false));
        world.home.wait_for_active_paths(2);

        let (_offer, from) = listen("--offer", &replicas, 7001);
        let pull = pool(&world.home, &["replicate", "--json", &from, &text(&back)], &key);
        wait_for(&back, 3_000_000);
        world.change(1, &LinkChange::Blackout(true));
        let pulled = report(pull);
        assert_eq!(pulled["reconnects"], 0, "{pulled}");

        for copy in [to, text(&back)] {
            let verify = ["verify", "--json", &text(&snapshots), &copy];
            assert_eq!(report(pool(&world.home, &verify, &key))["same"], true, "{copy}");
        }
    });
}
