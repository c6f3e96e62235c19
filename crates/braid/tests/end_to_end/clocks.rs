//! A home whose wall clock is wrong, as that of a router without a battery is
//! until it has asked somebody for the time.

use crate::traffic::Pings;
use crate::world::{INSIDE_V4, Tunnel, World, link};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

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

/// A library that a program is given to see another time: namespaces have no
/// wall clock of their own.
fn wrong_clock(scratch: &Path) -> OsString {
    let (source, library) = (scratch.join("clock.c"), scratch.join("clock.so"));
    fs::write(&source, WRONG_CLOCK).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let built = compiler.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library.into_os_string()
}

const WRONG_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    const char *wrong = getenv("SECONDS_WRONG");
    if (result == 0 && clock == CLOCK_REALTIME && wrong)
        time->tv_sec += atol(wrong);
    return result;
}
"#;
