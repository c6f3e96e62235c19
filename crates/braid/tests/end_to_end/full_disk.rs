//! The disk with the daemon's files is full, or can't be written: the tunnel comes up, goes on,
//! follows the host's links, and goes down without a trace.

use crate::own_mounts::{in_own_mounts, mount};
use crate::traffic::Pings;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn a_home_comes_up_and_goes_down_while_its_disk_is_full() {
    with_small_disks(|world, disks| {
        let before = world.home.host_settings();
        disks.fill();
        world.write_configs(&carries_all());
        world.concentrator.start();
        world.home.braid_ok(&["up"]);
        world.home.wait_for_ping(INSIDE_V4);
        assert_ne!(world.home.host_settings(), before);
        world.home.braid_ok(&["down"]);
        assert_eq!(world.home.host_settings(), before, "nothing is left behind");
    });
}

#[test]
fn a_disk_that_fills_while_the_tunnel_runs_stops_nothing() {
    with_small_disks(|world, disks| {
        let before = world.home.host_settings();
        world.write_configs(&carries_all());
        world.concentrator.start();
        world.home.braid_ok(&["up"]);
        world.home.wait_for_active_paths(1);
        disks.fill();
        let threads = world.home.threads();
        move_link(world, "192.168.11.77");
        seen_from(world, "192.168.11.77");
        Pings::start(&world.home, INSIDE_V4, 3).none_is_lost();
        world.home.braid_ok(&["mode", "broadcast"]);
        world.home.braid_ok(&["reload"]);
        assert_eq!(world.home.threads(), threads, "no thread has ended");
        disks.free();
        move_link(world, "192.168.11.78");
        seen_from(world, "192.168.11.78");
        disks.fill();
        move_link_back(world);
        world.home.braid_ok(&["down"]);
        assert_eq!(world.home.host_settings(), before, "nothing is left behind");
    });
}

#[test]
fn a_disk_that_became_read_only_stops_nothing() {
    with_small_disks(|world, disks| {
        let before = world.home.host_settings();
        world.write_configs(&carries_all());
        world.concentrator.start();
        world.home.braid_ok(&["up"]);
        world.home.wait_for_active_paths(1);
        disks.set_read_only();
        move_link(world, "192.168.11.77");
        seen_from(world, "192.168.11.77");
        move_link_back(world);
        world.home.braid_ok(&["down"]);
        assert_eq!(world.home.host_settings(), before, "nothing is left behind");
        world.home.braid_ok(&["up"]);
        world.home.wait_for_active_paths(1);
        world.home.braid_ok(&["down"]);
        assert_eq!(world.home.host_settings(), before, "nothing is left behind");
    });
}

/// A crash while the journal could be written nowhere: what is ours is known by its marks.
#[test]
fn what_a_crash_leaves_is_taken_back_without_a_journal() {
    with_small_disks(|world, _| {
        world.write_configs(&carries_all());
        world.concentrator.start();
        for again in ["down", "up"] {
            let before = world.home.rules_and_tables();
            world.home.start();
            world.home.wait_for_active_paths(1);
            world.home.kill();
            assert!(world.home.forget_journals() > 0);
            assert_ne!(world.home.rules_and_tables(), before, "a crash leaves rules behind");
            world.home.braid_ok(&[again]);
            if again == "up" {
                world.home.wait_for_active_paths(1);
                world.home.braid_ok(&["down"]);
            }
            assert_eq!(world.home.rules_and_tables(), before, "nothing is left behind");
        }
    });
}

/// Somebody cut it off.
#[test]
fn a_damaged_journal_leaves_a_way_out() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    world.write_configs(&carries_all());
    world.concentrator.start();
    let before = world.home.rules_and_tables();
    let start_and_crash = |world: &mut World| {
        world.home.start();
        world.home.wait_for_active_paths(1);
        world.home.kill();
        let folder = world.home.socket().parent().unwrap().to_owned();
        world.home.sh(&format!("truncate -s 500 {}/*.journal.json", folder.display()));
    };
    start_and_crash(&mut world);
    let down = world.home.braid(&["down"]);
    let said = String::from_utf8_lossy(&down.stderr);
    assert_eq!(down.status.code(), Some(1), "{said}");
    for part in ["damaged", "EOF", "net.ipv4.ip_forward", ".journal.json.damaged-1"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(world.home.rules_and_tables(), before, "nothing with a mark is left behind");
    start_and_crash(&mut world);
    world.home.braid_ok(&["up"]);
    world.home.wait_for_active_paths(1);
    world.home.braid_ok(&["down"]);
    assert_eq!(world.home.rules_and_tables(), before, "nothing with a mark is left behind");
}

fn carries_all() -> Tunnel<'static> {
    Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() }
}

/// A world whose home writes to disks of some 100 KB.
fn with_small_disks(test: impl FnOnce(&mut World, &SmallDisks) + Send) {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    in_own_mounts(|| {
        let disks = SmallDisks(world.home.folders());
        disks.each(|folder| mount(&format!("-t tmpfs -o size=128k small {folder}")));
        test(&mut world, &disks);
    });
}

/// The one for state and that of the control socket.
struct SmallDisks([PathBuf; 2]);

impl SmallDisks {
    fn each(&self, run: impl Fn(std::path::Display<'_>)) {
        self.0.iter().for_each(|folder| run(folder.display()));
    }

    /// To the last byte.
    fn fill(&self) {
        for folder in &self.0 {
            let mut file = fs::File::create(folder.join("filler")).unwrap();
            while file.write_all(&[b'x'; 512]).is_ok() {}
            assert!(file.metadata().unwrap().size() > 0);
        }
    }

    fn free(&self) {
        self.each(|folder| sh(&format!("rm {folder}/filler")));
    }

    /// For what opens a file from now on.
    fn set_read_only(&self) {
        let folder = &self.0[0].display();
        sh(&format!("mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"));
    }
}

/// As DHCP does it.
fn move_link(world: &World, address: &str) {
    let gateway = world.topology.links()[0].addresses().gateway_v4;
    world.home.sh(&format!(
        "ip -4 addr flush dev cable && ip addr add {address}/24 dev cable && \
         ip route replace default via {gateway} dev cable"
    ));
}

fn move_link_back(world: &World) {
    move_link(world, &world.topology.links()[0].addresses().home_v4.to_string());
}

fn seen_from(world: &World, address: &str) {
    world.home.wait_until("the concentrator sees the new address", || {
        world.concentrator.paths().iter().any(|path| path["remote"].to_string().contains(address))
    });
}

fn sh(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
