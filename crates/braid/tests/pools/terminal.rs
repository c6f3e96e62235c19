//! What moves on a terminal while something takes long, and what is there in the end; the terminal
//! is a pty.

#![allow(unsafe_code)]

use crate::host::{Host, mib};
use braid_loop_disks::in_private_mounts;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn on_a_terminal_a_bar_moves_and_nothing_of_it_stays() {
    let name = "terminal::on_a_terminal_a_bar_moves_and_nothing_of_it_stays";
    in_private_mounts(name, || {
        let host = Host::new();
        let disks = [host.disk_of("a", mib(600)), host.disk_of("b", mib(600))];
        host.create("btrfs-raid1", &[&disks[0], &disks[1]]);
        host.sh(
            "btrfs -q subvolume create data/files; head -c 24M /dev/urandom > data/files/big; sync",
        );
        host.works(&[
            "snapshot",
            "--into",
            text(&host.path("data/snaps")),
            text(&host.path("data/files")),
        ]);
        let (from, to) = (host.path("data/snaps"), host.path("data/replicas"));
        // Some seconds at least.
        // What was replicated is deleted again, and that is meant.
        let replicate = ["replicate", "--anew", "--limit", "60Mbit", text(&from), text(&to)];
        for width in [100, 24] {
            let seen = on_terminal(&mut host.command(&replicate), width);
            assert!(seen.moved.iter().any(|line| line.contains("snapshot 1 of 1")), "{seen:?}");
            assert!(seen.left.iter().all(|line| !line.contains("left)")), "{seen:?}");
            host.sh("btrfs -q subvolume delete data/replicas/files.* data/replicas/.braid-replica.part 2>/dev/null; rm -rf data/replicas");
        }
        // A program that reads the answer doesn't want it, and neither does a file.
        let seen = on_terminal(host.command(&replicate).arg("--json"), 100);
        assert_eq!(seen.moved, Vec::<String>::new());
        serde_json::from_str::<serde_json::Value>(&seen.left.join("\n")).unwrap();
        let plain = host.braid(&["verify", text(&from), text(&to)]);
        assert!(!String::from_utf8_lossy(&plain.stderr).contains('\x1b'), "{plain:?}");

        let slow = slow_scrubs(&host);
        if !slow {
            return println!("{name}: scrubs: skipped: this kernel can't slow them down");
        }
        let seen = on_terminal(&mut host.command(&["scrub", "start", "data", "--wait"]), 60);
        assert!(seen.moved.iter().any(|line| line.contains("% scrub")), "{seen:?}");
        assert!(seen.moved.iter().all(|line| line.chars().count() <= 60), "{seen:?}");
        assert_eq!(seen.left, ["data: scrub started", "data: scrub ended, nothing wrong"]);
    });
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Scrubs take some seconds from now on, if the kernel can do that (Linux 5.14).
fn slow_scrubs(host: &Host) -> bool {
    let uuid = host.sh("findmnt -n -o UUID data");
    let devices = format!("/sys/fs/btrfs/{uuid}/devinfo");
    let mut slowed = fs::read_dir(devices).unwrap().flatten().map(|device| {
        fs::write(device.path().join("scrub_speed_max"), (8 << 20).to_string()).is_ok()
    });
    slowed.all(|slowed| slowed)
}

/// What a terminal showed.
#[derive(Debug, Default)]
struct Screen {
    /// Lines that were cleared again.
    moved: Vec<String>,
    /// What is there in the end.
    left: Vec<String>,
}

/// Runs a command on a terminal of this many columns.
fn on_terminal(command: &mut Command, width: usize) -> Screen {
    let (mut ours, theirs) = terminal(width);
    let end = || Stdio::from(theirs.try_clone().unwrap());
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    // The last end must be gone for the reading to end.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(theirs);
    let mut bytes = vec![];
    // A terminal whose other end is closed says EIO.
    let _ = ours.read_to_end(&mut bytes);
    let said = String::from_utf8_lossy(&bytes).into_owned();
    assert!(child.wait().unwrap().success(), "{said}");
    shown(&said, width)
}

/// Our end and the program's.
fn terminal(width: usize) -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: 24, ws_col: width as u16, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: two integers to be written, no name, no settings, and a size to be read.
    let done = unsafe {
        libc::openpty(
            &raw mut ours,
            &raw mut theirs,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both were just opened, and nobody else has them.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// As much of a terminal as is needed: the beginning of the line, its clearing, and whether a line
/// goes on in the next.
fn shown(said: &str, width: usize) -> Screen {
    let mut screen = Screen { left: vec![String::new()], ..Screen::default() };
    let (mut column, mut wraps) = (0, true);
    let mut rest = said;
    while let Some(first) = rest.chars().next() {
        let line = screen.left.last_mut().unwrap();
        if let Some(after) = rest.strip_prefix("\x1b[K") {
            let cleared: String = line.chars().skip(column).collect();
            *line = line.chars().take(column).collect();
            screen.moved.extend(Some(cleared).filter(|cleared| !cleared.is_empty()));
            rest = after;
            continue;
        }
        let wrapping = [("\x1b[?7l", false), ("\x1b[?7h", true)];
        let told = wrapping.iter().find_map(|(code, on)| Some((rest.strip_prefix(code)?, *on)));
        if let Some((after, on)) = told {
            (rest, wraps) = (after, on);
            continue;
        }
        assert_ne!(first, '\x1b', "another code: {rest:?}");
        rest = &rest[first.len_utf8()..];
        match first {
            '\r' => column = 0,
            '\n' => {
                screen.left.push(String::new());
                column = 0;
            }
            _ if column == width && wraps => {
                screen.left.push(first.to_string());
                column = 1;
            }
            _ => {
                let at = column.min(width - 1);
                let mut chars: Vec<char> = line.chars().collect();
                chars.resize(chars.len().max(at + 1), ' ');
                chars[at] = first;
                *line = chars.into_iter().collect();
                column = at + 1;
            }
        }
    }
    screen.left.retain(|line| !line.is_empty());
    screen
}
