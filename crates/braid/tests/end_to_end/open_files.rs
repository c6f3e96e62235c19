//! The process may open no more files: the tunnel goes on, follows its links with those that it
//! has, answers, and goes down without a trace.

use crate::traffic::Pings;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

#[test]
fn without_a_file_to_open_the_tunnel_goes_on_and_goes_down_in_order() {
    let Some(mut world) = World::new(&[link("cable"), link("dsl")]) else { return };
    let before = world.home.host_settings();
    world.start(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });
    let pid = world.home.status()["pid"].as_u64().unwrap();
    let limit = |files: usize| world.home.sh(&format!("prlimit --pid {pid} --nofile={files}:4096"));
    let held = without_gaps(pid, &world.home.socket());
    limit(lowest_free(pid));
    Pings::start(&world.home, INSIDE_V4, 3).none_is_lost();
    let addresses = *world.topology.links()[0].addresses();
    let (old, gateway) = (addresses.home_v4, addresses.gateway_v4);
    let moves = |from: &str, to: &str| {
        world.home.sh(&format!(
            "ip addr del {from}/24 dev cable && ip addr add {to}/24 dev cable && \
             ip route replace default via {gateway} dev cable && \
             ip route replace default via {gateway} dev cable table 7001"
        ));
    };
    moves(&old.to_string(), "192.168.11.77");
    world.home.wait_until("the new address is used", || {
        world.concentrator.paths().iter().any(|path| path["remote"].to_string().contains(".11.77"))
    });
    moves("192.168.11.77", &old.to_string());
    limit(1024);
    drop(held);
    world.home.wait_for_active_paths(2);
    let _held = without_gaps(pid, &world.home.socket());
    limit(lowest_free(pid));
    world.home.stop();
    assert_eq!(world.home.host_settings(), before, "nothing is left behind");
}

/// From this number on nothing can be opened if it is the limit.
fn lowest_free(pid: u64) -> usize {
    let taken = numbers(pid);
    (0..).find(|number| !taken.contains(number)).unwrap()
}

/// Connections to the daemon that take each number below its highest: with one that is free below
/// the limit and all others above it, files that it gives up would make no room, which doesn't
/// happen to a process whose limit stays as it was.
fn without_gaps(pid: u64, socket: &Path) -> Vec<UnixStream> {
    let mut connections = Vec::new();
    for _ in 0..MOST {
        let before = numbers(pid).len();
        if lowest_free(pid) == before {
            break;
        }
        connections.push(UnixStream::connect(socket).unwrap());
        // Taken, or it goes on with what it has just closed.
        for _ in 0..20 {
            if numbers(pid).len() > before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    connections
}

/// So many connections are taken at a time, and the commands need some.
const MOST: usize = 40;

fn numbers(pid: u64) -> Vec<usize> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    // One may be closed while this looks.
    files.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok()).collect()
}
