//! Either end's program ends and comes back; nobody tells the other.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_concentrator_that_crashed_is_found_again() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.wait_for_ping(INSIDE_V4);
    world.concentrator.kill();
    world.concentrator.start();
    world.home.wait_for_ping(INSIDE_V4);
    world.home.wait_for_active_paths(2);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
}

#[test]
fn a_home_that_starts_anew_is_let_in_again() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.wait_for_ping(INSIDE_V4);
    world.home.kill();
    world.home.start();
    world.home.wait_for_ping(INSIDE_V4);
    world.home.stop();
    world.home.start();
    world.home.wait_for_active_paths(2);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
}

/// `braid restart`, at either end, under a download.
#[test]
fn another_program_goes_on_and_so_do_routes_and_connections() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let clean = world.home.host_settings();
    // Which name servers answer is found out anew, and nobody does here.
    let home_routing = &format!("{CARRIES_ALL}\ndns = []");
    world.start(&Tunnel { home_routing, ..Tunnel::default() });
    let set = |world: &World| {
        let device = world.home.sh("ip -o link show braid0 | cut -d: -f1");
        (world.home.host_settings(), device, world.home.status()["pid"].clone())
    };
    let carries_all = || world.home.rules_and_tables().contains("default dev braid0");
    world.home.wait_until("the tunnel carries all", carries_all);
    let before = set(&world);
    let mut news = Command::new("ip");
    news.args(["monitor", "link", "address", "route", "rule"]).stdout(Stdio::piped());
    let mut news = world.home.namespace.run(|| news.spawn()).unwrap().unwrap();

    let download =
        Transfer::start(&world.home, &world.concentrator, INSIDE_V4, Direction::Down, 30 << 20);
    download.wait_until_received(4 << 20);
    let told: Value = serde_json::from_slice(&world.home.braid_ok(&["restart", "--json"])).unwrap();
    assert_eq!(told["version"], told["before"], "{told}");
    download.wait_until_received(12 << 20);
    news.kill().unwrap();
    let news = news.wait_with_output().unwrap();
    let news = String::from_utf8_lossy(&news.stdout);
    assert!(!news.contains("Deleted"), "{news}");
    world.concentrator.braid_ok(&["restart"]);
    download.finish();

    world.home.wait_for_active_paths(2);
    // On a busy machine it may have counted as gone for a moment.
    world.home.wait_until("all is as it was", || set(&world) == before);
    let log = world.home.log();
    assert_eq!(log.matches("now runs as the newly installed program").count(), 1, "{log}");
    assert!(!log.contains("starting anew"), "{log}");

    // However often: nothing is handed on but the device.
    let process = before.2.clone();
    let open = || std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    // Programs that it runs, questions that it asks: the least are those that stay.
    let least = || {
        let looks = (0..20).map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            open()
        });
        looks.min().unwrap()
    };
    world.home.wait_for_active_paths(2);
    let first = least();
    for _ in 0..5 {
        world.home.braid_ok(&["restart"]);
    }
    world.home.wait_for_active_paths(2);
    world.home.wait_until("none is handed on each time", || open() <= first + 3);
    let zombies = format!("ps --ppid {process} -o stat= | grep -c Z || true");
    assert_eq!(world.home.sh(&zombies).trim(), "0", "children are waited for");
    world.home.stop();
    assert_eq!(world.home.host_settings(), clean);
}

#[test]
fn a_restart_that_cannot_be_changes_nothing() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    world.start(&Tunnel::default());
    let refused = |world: &World, code: i32, words: &str| {
        let output = world.home.braid(&["restart"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains(words)), (Some(code), true), "{said}");
    };
    let text = world.home.config_text();
    world.home.write_text(&text.replace("[interface]", "[interface]\nstate_dri = \"x\""));
    refused(&world, 3, "state_dri");
    world.home.write_text(&text.replace("[interface]", "[interface]\nlayer = \"l2\""));
    refused(&world, 1, "interface.layer or engine has changed");
    world.home.write_text(&text);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    assert!(!world.home.log().contains("now runs as"), "{}", world.home.log());
    // Where nothing runs there is nothing to go on with.
    world.home.stop();
    assert_eq!(world.home.braid(&["restart"]).status.code(), Some(4));
}

/// Whoever asks for the end while one program becomes the other is heard by the other.
#[test]
fn an_end_in_the_middle_of_a_restart_takes_all_back() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    let clean = world.home.host_settings();
    world.write_configs(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });
    world.concentrator.start();
    for pause_ms in [0, 30, 100] {
        world.home.start();
        world.home.wait_for_active_paths(1);
        let socket = world.home.socket();
        world.home.sh(&format!(
            "curl -s --max-time 10 --unix-socket {} -X POST http://braid/v1/restart; \
             sleep {}",
            socket.display(),
            f64::from(pause_ms) / 1000.0
        ));
        assert_eq!(world.home.signal("-TERM").code(), Some(0), "{}", world.home.log());
        assert_eq!(world.home.host_settings(), clean, "after {pause_ms} ms");
    }
}

/// How long a download stands still, and how many pings are lost, side by side: `restart`, and
/// what was there before it. `cargo test -p braid --test end_to_end -- --ignored --nocapture
/// restart::pauses`
#[test]
#[ignore = "a measurement"]
fn pauses() {
    for (who, way) in [
        ("home", "restart"),
        ("concentrator", "restart"),
        ("home", "stopped and started"),
        ("concentrator", "stopped and started"),
        ("home", "anew"),
        ("concentrator", "anew"),
    ] {
        let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
        world.start(&Tunnel::default());
        let download =
            Transfer::start(&world.home, &world.concentrator, INSIDE_V4, Direction::Down, 60 << 20);
        download.wait_until_received(4 << 20);
        let pings = world.home.namespace.command("ping");
        let pings = { pings }
            .args(["-q", "-i", "0.02", "-c", "200", &INSIDE_V4.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pause = std::thread::scope(|scope| {
            let pause = scope.spawn(|| download.longest_pause(Duration::from_secs(4)));
            std::thread::sleep(Duration::from_millis(500));
            let side = if who == "home" { &mut world.home } else { &mut world.concentrator };
            match way {
                "restart" => _ = side.braid_ok(&["restart"]),
                // As `systemctl restart` does.
                "stopped and started" => _ = side.signal("-TERM"),
                _ => _ = side.signal("-KILL"),
            }
            if way != "restart" {
                side.start();
            }
            pause.join().unwrap()
        });
        let pings = pings.wait_with_output().unwrap();
        let pings = String::from_utf8_lossy(&pings.stdout).into_owned();
        let lost = pings.lines().find(|line| line.contains("loss")).unwrap_or_default();
        println!("{who} {way}: {} ms; pings: {lost}", pause.as_millis());
    }
}

/// Any other would catch it for a program that is about to be another.
#[test]
fn only_the_main_thread_gets_what_asks_for_the_end() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    world.write_configs(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(1);
    let process = world.home.process();
    let mut threads = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let thread = thread.unwrap().path();
        let status = std::fs::read_to_string(thread.join("status")).unwrap_or_default();
        let Some(blocked) = status.lines().find_map(|line| line.strip_prefix("SigBlk:")) else {
            continue; // It has just ended.
        };
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        let is_main = thread.ends_with(process.to_string());
        assert_eq!(blocked >> (SIGTERM - 1) & 1 == 0, is_main, "{status}");
        threads += 1;
    }
    assert!(threads > 5, "{threads}");
}

/// Its number (signal(7)).
const SIGTERM: u32 = 15;
