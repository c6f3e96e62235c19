//! A home whose wall clock is wrong, as that of a router without a battery is
//! until it has asked somebody for the time.

use crate::side::Side;
use crate::traffic::Pings;
use crate::world::{INSIDE_V4, Tunnel, World, link};
use crate::wrong_clock::wrong_clock;
use serde_json::Value;
use std::fs;
use std::time::Duration;

const DAY: i64 = 86_400;

#[test]
fn a_clock_that_goes_back_locks_no_home_out() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let wrong_clock = wrong_clock(world.scratch.path());
    world.start(&Tunnel::default());
    world.home.wait_for_ping(INSIDE_V4);
    for seconds in [-DAY, DAY, 0] {
        world.home.kill();
        world.home.set_environment(vec![
            ("LD_PRELOAD", wrong_clock.clone()),
            ("SECONDS_WRONG", seconds.to_string().into()),
        ]);
        world.home.start();
        world.home.wait_for_active_paths(2);
        world.home.wait_for_ping(INSIDE_V4);
    }
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    let connected = world.concentrator.log().matches("connected").count();
    assert_eq!(connected, 4, "{}", world.concentrator.log());
}

/// Both ways and by years, as when somebody asks for the time, or the battery is empty.
#[test]
fn a_clock_that_jumps_while_the_tunnel_runs_is_not_noticed() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let clock = wrong_clock(world.scratch.path());
    let wrong = world.scratch.path().join("wrong");
    let jump = |seconds: i64| {
        let new = wrong.with_extension("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, &wrong).unwrap();
    };
    jump(0);
    let environment = vec![("LD_PRELOAD", clock), ("SECONDS_WRONG_FILE", wrong.clone().into())];
    world.home.set_environment(environment.clone());
    world.concentrator.set_environment(environment);
    world.start(&Tunnel::default());
    let pid = |side: &Side| side.status()["pid"].clone();
    let before = (pid(&world.home), pid(&world.concentrator));
    let pings = Pings::start(&world.home, INSIDE_V4, 40);
    for years in [20, -40, 0, -1, 0] {
        jump(years * 365 * DAY);
        // Some rounds of whatever looks at the clock.
        std::thread::sleep(Duration::from_millis(800));
        world.home.braid_ok(&["reload"]);
        world.home.braid_ok(&["status"]);
    }
    pings.none_is_lost();
    assert_eq!((pid(&world.home), pid(&world.concentrator)), before);
    // A home that is made anew then has its first timestamps of 20 years ago.
    jump(20 * 365 * DAY);
    world.home.kill();
    world.home.start();
    world.home.wait_for_active_paths(2);
    jump(0);
    world.home.kill();
    world.home.start();
    world.home.wait_for_active_paths(2);
}

/// As a laptop's lid, or a hypervisor that stops a guest: nothing runs, and all is late
/// then. Twice as long as the other end takes to think that it has gone.
#[test]
fn ends_that_stood_still_go_on_where_they_were() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.wait_for_ping(INSIDE_V4);
    let (home, concentrator) = (&world.home, &world.concentrator);
    let pid = |side: &Side| side.status()["pid"].as_u64().unwrap();
    let pids = (pid(home), pid(concentrator));
    for stopped in [&[home][..], &[concentrator], &[home, concentrator]] {
        // Whoever stands still can't be asked.
        let stopped: Vec<u64> = stopped.iter().map(|side| pid(side)).collect();
        let signal = |signal: &str| {
            for pid in &stopped {
                home.sh(&format!("kill -{signal} {pid}"));
            }
        };
        signal("STOP");
        std::thread::sleep(Duration::from_secs(8));
        signal("CONT");
        home.wait_for_active_paths(2);
        home.wait_for_ping(INSIDE_V4);
        assert_eq!((pid(home), pid(concentrator)), pids);
    }
}

/// As a laptop that is opened again the next day: its monotonic clock stood still, the other end
/// has given it up, the wall clock is a day on. What it kept of the past has a gap there, neither
/// a day of traffic nor one that is counted twice.
#[test]
fn a_machine_that_slept_for_a_day_goes_on_and_carried_nothing_meanwhile() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let clock = wrong_clock(world.scratch.path());
    let wrong = world.scratch.path().join("wrong");
    // Who asks for history is no machine that slept: this one has the day behind it.
    fs::write(&wrong, (-DAY).to_string()).unwrap();
    let environment = vec![("LD_PRELOAD", clock), ("SECONDS_WRONG_FILE", wrong.clone().into())];
    world.home.set_environment(environment);
    world.start(&Tunnel::default());
    let home = &world.home;
    Pings::start(home, INSIDE_V4, 3).none_is_lost();
    let pid = home.status()["pid"].as_u64().unwrap();
    home.sh(&format!("kill -STOP {pid}"));
    // Twice as long as the other end takes to think that it has gone.
    std::thread::sleep(Duration::from_secs(8));
    fs::write(&wrong, "0").unwrap();
    home.sh(&format!("kill -CONT {pid}"));
    home.wait_for_active_paths(2);
    home.wait_for_ping(INSIDE_V4);
    Pings::start(home, INSIDE_V4, 3).none_is_lost();
    assert_eq!(home.status()["pid"].as_u64(), Some(pid));

    // Seconds that are known of each hour: those of before and of after, and none between.
    let hours = || -> Vec<(i64, u64)> {
        let told = home.braid_ok(&["history", "--by", "hour", "--last", "30", "--json"]);
        let told: Value = serde_json::from_slice(&told).unwrap();
        let hours = told["periods"].as_array().cloned().unwrap_or_default();
        let number = |hour: &Value, key: &str| hour[key].as_u64().unwrap();
        let carried = hours.iter().filter(|hour| number(hour, "seconds") > 0);
        carried
            .map(|hour| (hour["start_unix"].as_i64().unwrap(), number(hour, "seconds")))
            .collect()
    };
    home.wait_until("the day after is known", || {
        hours().last().is_some_and(|(start, _)| {
            hours().first().is_some_and(|(first, _)| start - first >= DAY - 3600)
        })
    });
    let hours = hours();
    let (first, last) = (hours[0].0, hours[hours.len() - 1].0);
    let between = hours.iter().filter(|(at, _)| *at > first + 3600 && *at < last - 3600).count();
    assert_eq!(between, 0, "{hours:?}");
    let seconds: u64 = hours.iter().map(|(_, seconds)| seconds).sum();
    assert!(seconds < 600, "{hours:?}");
}
