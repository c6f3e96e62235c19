//! The process may open no more files: the tunnel goes on, follows its links with those that it
//! has, answers, and goes down without a trace.

use crate::traffic::Pings;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use std::fs;

#[test]
fn without_a_file_to_open_the_tunnel_goes_on_and_goes_down_in_order() {
    let Some(mut world) = World::new(&[link("cable"), link("dsl")]) else { return };
    let before = world.home.host_settings();
    world.start(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });
    let pid = world.home.status()["pid"].as_u64().unwrap();
    let limit = |files: usize| world.home.sh(&format!("prlimit --pid {pid} --nofile={files}:4096"));
    limit(open_files(pid));
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
    world.home.wait_for_active_paths(2);
    limit(open_files(pid));
    world.home.stop();
    assert_eq!(world.home.host_settings(), before, "nothing is left behind");
}

/// So many that no number below is free.
fn open_files(pid: u64) -> usize {
    let numbers = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let number = |file: fs::DirEntry| file.file_name().to_str().unwrap().parse::<usize>().unwrap();
    let numbers: Vec<usize> = numbers.map(|file| number(file.unwrap())).collect();
    // The lowest number that is free: from it on nothing can be opened.
    (0..).find(|number| !numbers.contains(number)).unwrap()
}
