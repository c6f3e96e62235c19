//! Nobody reads what the daemons log: a supervisor that stands still, a console that was stopped, a
//! journal whose disk does. The tunnel comes up, carries, follows its links, answers and goes down.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use braid_control::client::Client;
use braid_control::config::Mode;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

#[test]
fn a_log_that_nobody_reads_holds_up_neither_packets_nor_commands_nor_the_end() {
    let Some(mut world) = World::new(&[link("cable"), link("dsl")]) else { return };
    let before = world.home.host_settings();
    world.write_configs(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });
    let [mut near, _unread] = [&mut world.home, &mut world.concentrator].map(|side| {
        let (read, write) = full_pipe();
        side.begin_with(&[], "trace", Stdio::null(), write.into());
        read
    });
    let answers = || world.home.braid(&["status", "--json"]).status.success();
    world.home.wait_until("the daemon answers", answers);
    world.home.wait_for_active_paths(2);
    for direction in [Direction::Up, Direction::Down] {
        let (home, far) = (&world.home, &world.concentrator);
        Transfer::start(home, far, INSIDE_V4, direction, 5_000_000).finish();
    }
    // Each leaves a line; more of them than wait for a reader.
    let client = Client::new(&world.home.socket());
    for number in 0..5000 {
        client.set_mode(if number % 2 == 0 { Mode::Broadcast } else { Mode::Overflow }).unwrap();
    }
    world.home.sh("ip link set dsl down");
    world.home.wait_for_active_paths(1);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    world.home.sh("ip link set dsl up");
    // Somebody reads again.
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        while near.read_line(&mut said).is_ok_and(|length| length > 0) {}
        said
    });
    world.home.braid_ok(&["mode", "broadcast"]);
    world.home.stop();
    let said = reader.join().unwrap();
    let lost = |line: &str| line.strip_prefix('(')?.split_once(" log lines lost").map(|_| ());
    assert!(said.lines().any(|line| lost(line).is_some()), "{}", said.trim_start());
    assert_eq!(world.home.host_settings(), before, "nothing is left behind");
    world.concentrator.stop();
}

/// Its reading end, and the other one, which takes nothing.
fn full_pipe() -> (BufReader<File>, OwnedFd) {
    let (read, mut write) = std::io::pipe().unwrap();
    let blocking = rustix::fs::fcntl_getfl(&write).unwrap();
    rustix::fs::fcntl_setfl(&write, blocking | rustix::fs::OFlags::NONBLOCK).unwrap();
    while write.write(&[b'\n'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&write, blocking).unwrap();
    (BufReader::new(File::from(OwnedFd::from(read))), write.into())
}
