//! Calls of the kernel that fail, at any moment of a daemon's life: once, or from then on, in each
//! of its threads and of the programs that it starts. The tunnel comes up, or says what is wrong
//! and takes everything back; one that runs goes on, and heals when it is over; `down` takes
//! everything back.
//!
//! strace(1) has them fail (`-e inject`); where it isn't there these tests are skipped.

use crate::PATIENCE;
use crate::own_mounts::{in_own_mounts, mount};
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Which calls fail, and how.
#[derive(Clone, Copy)]
struct Fault {
    calls: &'static str,
    error: &'static str,
    /// What the error is called.
    words: &'static str,
    /// The one file that they fail for, else all.
    file: Option<&'static str>,
}

const fn fault(calls: &'static str, error: &'static str, words: &'static str) -> Fault {
    Fault { calls, error, words, file: None }
}

const NO_THREAD: Fault =
    fault("clone,clone3,fork,vfork", "EAGAIN", "Resource temporarily unavailable");
const NO_MEMORY: Fault = fault("mmap,brk,mremap", "ENOMEM", "Cannot allocate memory");
const NO_FILE: Fault = fault("openat", "EMFILE", "Too many open files");
const READ_ONLY: Fault = fault(
    "mkdir,mkdirat,rename,renameat,renameat2,unlink,fsync,fdatasync,chmod,fchmod,fchmodat,ftruncate",
    "EROFS",
    "Read-only file system",
);
// Not `write`: no eventfd is ever full, nor a pipe's other end broken so.
const DISK_FULL: Fault =
    fault("pwrite64,fsync,fdatasync,rename", "ENOSPC", "No space left on device");
const DISK_BROKEN: Fault = fault("pwrite64,fsync,fdatasync,rename", "EIO", "Input/output error");
const UNREADABLE: Fault = fault("read,readv,pread64", "EIO", "Input/output error");
const NO_SOCKET: Fault = fault("socket,accept4", "EMFILE", "Too many open files");
const NO_BUFFERS: Fault = fault(
    "bind,connect,sendmsg,sendto,recvmsg,recvmmsg,setsockopt",
    "ENOBUFS",
    "No buffer space available",
);
const NO_EVENTS: Fault =
    fault("epoll_create1,epoll_ctl,eventfd2,timerfd_create", "ENOMEM", "Cannot allocate memory");
const NO_WATCHING: Fault = fault("epoll_ctl", "ENOMEM", "Cannot allocate memory");
const NO_CONTROL: Fault = fault("ioctl", "ENOMEM", "Cannot allocate memory");

/// Such a call takes longer than any test.
const NO_RETURN: Fault =
    fault("epoll_wait,epoll_pwait,epoll_pwait2", "EINTR:delay_enter=600s", "Interrupted");

/// The device is there, and gives nothing.
const NO_PACKETS: Fault =
    Fault { file: Some("/dev/net/tun"), ..fault("readv", "EIO", "Input/output error") };
const NO_FORWARDING: Fault =
    Fault { file: Some("/proc/sys/net/ipv6/conf/all/forwarding"), ..fault("write", "EIO", "") };

#[test]
fn a_start_without_threads_is_told_and_leaves_nothing() {
    starts(&[NO_THREAD], &[1, 2, 5]);
}

#[test]
fn a_start_without_files_and_sockets_is_told_and_leaves_nothing() {
    starts(&[NO_FILE], &[45]);
    starts(&[NO_SOCKET, NO_EVENTS], &[6]);
    starts(&[NO_SOCKET], &[45]);
    starts(&[NO_CONTROL], &[2]);
}

#[test]
fn a_start_without_memory_and_buffers_leaves_nothing() {
    starts(&[NO_MEMORY], &[2, 19, 22, 90]);
    starts(&[NO_BUFFERS], &[3, 30]);
}

#[test]
fn a_start_from_disks_that_fail_is_told_and_leaves_nothing() {
    starts(&[UNREADABLE], &[8]);
    starts(&[READ_ONLY], &[2]);
    starts(&[DISK_FULL], &[9]);
}

/// All moments of a start: `cargo test -p braid --test end_to_end -- --ignored any_moment`.
#[test]
#[ignore = "ten minutes"]
fn a_start_may_lack_something_at_any_moment() {
    starts(&[NO_THREAD, NO_MEMORY, NO_FILE], &any_moment());
}

#[test]
#[ignore = "ten minutes"]
fn disks_may_fail_a_start_at_any_moment() {
    starts(&[READ_ONLY, DISK_FULL, DISK_BROKEN, UNREADABLE], &any_moment());
}

#[test]
#[ignore = "ten minutes"]
fn the_network_may_fail_a_start_at_any_moment() {
    starts(&[NO_SOCKET, NO_BUFFERS, NO_EVENTS, NO_CONTROL], &any_moment());
}

fn any_moment() -> Vec<u32> {
    (1..24).chain((24..120).step_by(7)).chain((120..800).step_by(60)).collect()
}

#[test]
fn a_tunnel_that_runs_outlives_what_lacks_and_heals() {
    running(&[NO_THREAD, NO_FILE, NO_SOCKET]);
}

#[test]
fn a_tunnel_that_runs_outlives_calls_that_fail_and_heals() {
    running(&[NO_MEMORY, READ_ONLY, DISK_FULL, NO_CONTROL, NO_EVENTS]);
}

/// Those that leave a data plane nothing to live by.
#[test]
fn a_tunnel_that_can_not_live_on_heals_or_says_why_it_ends() {
    running(&[UNREADABLE, NO_BUFFERS]);
}

#[test]
fn a_device_that_can_not_be_read_for_a_moment_ends_nothing() {
    in_a_world(&["cable"], |world| {
        let before = settings(world);
        world.home.start();
        world.home.wait_for_active_paths(1);
        let injection = Injection::into(world.home.process(), NO_PACKETS);
        world.home.sh("ping -q -c 3 -i 0.2 -W 1 10.77.0.1 >/dev/null || true");
        drop(injection);
        world.home.wait_for_ping(INSIDE_V4);
        assert_eq!(world.home.has_ended(), None);
        world.home.stop();
        assert_eq!(settings(world), before, "nothing is left behind");
    });
}

/// Its control socket answers all the while.
#[test]
fn of_a_worker_that_stands_still_the_service_manager_is_not_told_that_it_lives() {
    in_a_world(&["cable"], |world| {
        let path = world.scratch.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let signs = || {
            let mut word = [0; 200];
            let words =
                std::iter::from_fn(|| manager.recv(&mut word).ok().map(|len| word[..len].to_vec()));
            words.filter(|word| word == b"WATCHDOG=1").count()
        };
        let four_seconds = ("WATCHDOG_USEC", "4000000".into());
        world.home.set_environment(vec![("NOTIFY_SOCKET", path.into()), four_seconds]);
        world.home.start();
        world.home.wait_until("it is told", || signs() > 0);
        let injection = Injection::into_thread(world.home.process(), "braid-data", NO_RETURN);
        world.home.wait_until("it is seen", || world.home.log().contains("the data plane hangs"));
        // Told before.
        signs();
        std::thread::sleep(Duration::from_secs(5));
        assert_eq!(signs(), 0);
        world.home.braid_ok(&["status"]);
        drop(injection);
        world.home.wait_until("it is told again", || signs() > 0);
        world.home.stop();
    });
}

/// Others go on meanwhile.
#[test]
fn a_socket_that_is_not_watched_costs_its_link_alone_and_is_tried_again() {
    in_a_world(&["cable", "dsl"], |world| {
        let before = settings(world);
        let own = world.topology.links()[0].addresses().home_v4.to_string();
        world.home.start();
        world.home.wait_for_active_paths(2);
        let injection = Injection::into_thread(world.home.process(), "braid-data", NO_WATCHING);
        move_link(world, "192.168.11.77");
        let trouble = || world.home.status()["links"][0]["trouble"].to_string();
        let told = "can't watch its socket: Cannot allocate memory";
        world.home.wait_until("it is told", || trouble().contains(told));
        world.home.wait_for_active_paths(1);
        world.home.wait_for_ping(INSIDE_V4);
        drop(injection);
        world.home.wait_for_active_paths(2);
        assert_eq!(trouble(), "null");
        move_link(world, &own);
        world.home.stop();
        assert_eq!(settings(world), before, "nothing is left behind");
    });
}

/// Believing router advertisements all the same (`accept_ra`) comes first, and goes with it.
#[test]
fn forwarding_that_can_not_be_switched_on_leaves_nothing_half_done() {
    in_a_world(&["cable"], |world| {
        let before = settings(world);
        let accept_ra = |world: &World| world.home.sh("sysctl -n net.ipv6.conf.cable.accept_ra");
        let usual = accept_ra(world);
        begin(world, NO_FORWARDING, "1+");
        world
            .home
            .wait_until("it is told", || world.home.log().contains("forwarding=1: Input/output"));
        world.home.wait_for_active_paths(1);
        assert_eq!(accept_ra(world), usual);
        stop_injecting(world.home.process());
        let is_on = || world.home.sh("sysctl -n net.ipv6.conf.all.forwarding").trim() == "1";
        world.home.wait_until("it is switched on when it can be", is_on);
        world.home.stop();
        assert_eq!(settings(world), before, "nothing is left behind");
    });
}

#[test]
fn what_the_daemon_can_not_take_back_down_does() {
    in_a_world(&["cable"], |world| {
        let before = settings(world);
        for fault in [NO_BUFFERS, NO_FILE, NO_THREAD, NO_SOCKET, UNREADABLE] {
            world.home.start();
            world.home.wait_for_active_paths(1);
            let injection = Injection::into(world.home.process(), fault);
            let output = world.home.braid(&["down"]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let what = format!("{} {}: {said}\n{}", fault.calls, fault.error, world.home.log());
            assert!(output.status.success(), "{what}");
            world.home.wait_for_the_end();
            drop(injection);
            assert_eq!(settings(world), before, "nothing is left behind: {what}");
            no_panic(world, &what);
        }
    });
}

#[test]
fn places_that_can_not_be_written_are_told_and_nothing_is_left() {
    for read_only in [&["run"][..], &["state"], &["run", "state"]] {
        in_a_world(&["cable"], |world| {
            in_own_mounts(|| {
                let before = settings(world);
                for folder in world.home.folders() {
                    let folder = folder.display();
                    let name = folder.to_string();
                    if read_only.iter().any(|it| name.ends_with(it)) {
                        mount(&format!("-t tmpfs -o ro none {folder}"));
                    }
                }
                let output = world.home.braid(&["up"]);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                match output.status.success() {
                    true => {
                        world.home.wait_for_active_paths(1);
                        world.home.braid_ok(&["down"]);
                    }
                    false => {
                        assert!(said.contains("Read-only file system"), "{read_only:?}: {said}");
                        assert!(read_only.contains(&"run"), "{read_only:?}: {said}");
                    }
                }
                assert_eq!(settings(world), before, "{read_only:?}: nothing is left");
                no_panic(world, "");
            });
        });
    }
}

/// Runs `test` with a home of these links, whose `/etc` is its own, and a concentrator that runs;
/// not where there is no strace.
fn in_a_world(links: &[&str], test: impl FnOnce(&mut World) + Send) {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: there is no strace");
        return;
    }
    in_own_mounts(|| {
        let links: Vec<_> = links.iter().map(|name| link(name)).collect();
        let Some(mut world) = World::new(&links) else { return };
        own_etc(world.scratch.path());
        world.write_configs(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });
        world.concentrator.start();
        test(&mut world);
    });
}

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The host's own files, but for what is changed from here on.
fn own_etc(scratch: &Path) {
    let [own, etc, work] = ["own", "own/etc", "own/work"].map(|name| scratch.join(name));
    fs::create_dir(&own).unwrap();
    let text = own.to_str().unwrap();
    // Not every filesystem can be an upper one.
    mount(&format!("-t tmpfs none {text}"));
    let [upper, work] = [etc, work].map(|folder| {
        fs::create_dir(&folder).unwrap();
        folder.display().to_string()
    });
    mount(&format!("-t overlay -o lowerdir=/etc,upperdir={upper},workdir={work} none /etc"));
    // It stays as long as the other does; the scratch folder can be removed sooner.
    let status = Command::new("umount").args(["--lazy", text]).status();
    assert!(status.unwrap().success());
    let _ = fs::remove_file(RESOLV_CONF);
    fs::write(RESOLV_CONF, "# by this test\nnameserver 192.0.2.53\n").unwrap();
}

/// All of the host that a tunnel changes or might.
fn settings(world: &World) -> String {
    let about = fs::symlink_metadata(RESOLV_CONF).unwrap();
    let file = (about.ino(), about.mode(), fs::read_to_string(RESOLV_CONF).unwrap());
    format!("{}\n{RESOLV_CONF}: {file:?}", world.home.host_settings())
}

/// Each of them at each of these moments: the n-th such call of each thread, and that one and all
/// after it.
fn starts(faults: &[Fault], moments: &[u32]) {
    in_a_world(&["cable"], |world| {
        let before = settings(world);
        let (mut came_up, mut refused, mut killed) = (0, 0, 0);
        let whens =
            || moments.iter().flat_map(|moment| ["", "+"].map(|and| format!("{moment}{and}")));
        let mut wrong = Vec::new();
        for (fault, when) in faults.iter().flat_map(|fault| whens().map(move |when| (fault, when)))
        {
            let what = format!("{} {} when={when}", fault.calls, fault.error);
            let tried = catch_unwind(AssertUnwindSafe(|| {
                let came = start(world, *fault, &when, &what);
                let left = settings(world);
                assert_eq!(left, before, "{what}: nothing is left behind\n{}", world.home.log());
                no_panic(world, &what);
                came
            }));
            match tried {
                Ok(Came::Up) => came_up += 1,
                Ok(Came::Refused) => refused += 1,
                Ok(Came::Killed) => killed += 1,
                Err(_) => {
                    wrong.push(what);
                    world.home.kill();
                    world.home.braid(&["down"]);
                }
            }
        }
        println!("\n{came_up} came up, {refused} were refused, {killed} ended by a signal");
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

enum Came {
    Up,
    Refused,
    Killed,
}

fn begin(world: &mut World, fault: Fault, when: &str) {
    // -D: the daemon is the test's child, and strace's end isn't its own.
    let mut words = strace_with(fault, when);
    words.extend(["-D", "--"].map(String::from));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    world.home.begin_by(&words);
}

fn strace_with(fault: Fault, when: &str) -> Vec<String> {
    let Fault { calls, error, file, .. } = fault;
    let (trace, inject) =
        (format!("trace={calls}"), format!("inject={calls}:error={error}:when={when}"));
    let words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let only = file.map(|file| ["-P", file]).into_iter().flatten();
    words.into_iter().chain(only).map(String::from).collect()
}

fn start(world: &mut World, fault: Fault, when: &str, what: &str) -> Came {
    let Fault { calls, error, words, .. } = fault;
    let _ = fs::write(world.scratch.path().join("home/log"), "");
    begin(world, fault, when);
    let give_up = Instant::now() + PATIENCE;
    let ended = loop {
        if let Some(status) = world.home.has_ended() {
            break Some(status);
        }
        if world.home.braid(&["status"]).status.success() {
            if when.ends_with('+') {
                stop_injecting(world.home.process());
            }
            break world.home.has_ended();
        }
        assert!(Instant::now() < give_up, "{what}: it neither answers nor ends");
        std::thread::sleep(Duration::from_millis(30));
    };
    let Some(ended) = ended else {
        world.home.wait_for_active_paths(1);
        world.home.stop();
        return Came::Up;
    };
    world.home.wait_for_the_end();
    let said = world.home.log();
    match ended.code() {
        // The loader's, before `main`; or what Rust does when it can't allocate.
        Some(127) | None => {
            let memory = error == "ENOMEM" || calls == NO_FILE.calls || calls == UNREADABLE.calls;
            assert!(memory, "{what}: {ended}: {said}");
            world.home.braid(&["down"]);
            Came::Killed
        }
        Some(_) => {
            let told = said.contains(words) || said.contains("no memory");
            assert!(told, "{what}: it doesn't say why: {said}");
            if said.contains("not everything set on the host was undone") {
                world.home.braid_ok(&["down"]);
            }
            Came::Refused
        }
    }
}

/// Each of them for a while, in which links change, with status and reload asked for.
fn running(faults: &[Fault]) {
    in_a_world(&["cable"], |world| {
        let before = settings(world);
        let own = world.topology.links()[0].addresses().home_v4.to_string();
        for fault in faults {
            let what = format!("{} {}", fault.calls, fault.error);
            world.home.start();
            world.home.wait_for_active_paths(1);
            let threads = world.home.threads();
            let injection = Injection::into(world.home.process(), *fault);
            move_link(world, "192.168.11.77");
            world.home.braid(&["status"]);
            world.home.braid(&["reload"]);
            std::thread::sleep(Duration::from_secs(2));
            move_link(world, &own);
            drop(injection);
            match world.home.has_ended() {
                None => {
                    world.home.wait_for_active_paths(1);
                    world.home.wait_for_ping(INSIDE_V4);
                    world.home.braid_ok(&["reload"]);
                    assert_eq!(world.home.threads(), threads, "{what}: a thread has ended");
                    world.home.stop();
                }
                Some(status) => {
                    let said = world.home.log();
                    let told = said.contains(fault.words) && status.code() == Some(1);
                    assert!(told, "{what}: {status}: {said}");
                    world.home.wait_for_the_end();
                    if said.contains("not everything set on the host was undone") {
                        world.home.braid_ok(&["down"]);
                    }
                    println!("{what}: it ended, and said why");
                }
            }
            let left = settings(world);
            assert_eq!(left, before, "{what}: nothing is left behind\n{}", world.home.log());
            no_panic(world, &what);
            let _ = fs::write(world.scratch.path().join("home/log"), "");
        }
    });
}

/// All calls of a running process fail until this is dropped.
struct Injection(Child);

impl Injection {
    fn into(process: u32, fault: Fault) -> Injection {
        Self::by(&strace_with(fault, "1+"), process, || tracer(process))
    }

    /// Calls of its thread of this name only.
    fn into_thread(process: u32, name: &str, fault: Fault) -> Injection {
        let is_it = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let task = tasks(process).into_iter().find(is_it).unwrap();
        let thread = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let mut words = strace_with(fault, "1+");
        words.retain(|word| word != "-f");
        Self::by(&words, thread, || tracer_of(&task))
    }

    fn by(words: &[String], traced: u32, tracer: impl Fn() -> u32) -> Injection {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["-p", &traced.to_string()]);
        let strace = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let give_up = Instant::now() + PATIENCE;
        while tracer() != strace.id() {
            assert!(Instant::now() < give_up, "it isn't traced");
            std::thread::sleep(Duration::from_millis(10));
        }
        Injection(strace)
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        end(self.0.id());
        let _ = self.0.wait();
    }
}

fn stop_injecting(process: u32) {
    let strace = tracer(process);
    if strace != 0 {
        end(strace);
        let give_up = Instant::now() + PATIENCE;
        while Path::new(&format!("/proc/{strace}/comm")).exists() {
            assert!(Instant::now() < give_up, "strace doesn't end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The kernel lets go of what a dead process traced; strace itself, asked to end, now and then
/// leaves a thread standing.
fn end(process: u32) {
    let status = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Who traces all of its threads; 0 when nobody does, or of some only.
fn tracer(process: u32) -> u32 {
    let mut tracers: Vec<u32> = tasks(process).iter().map(|task| tracer_of(task)).collect();
    tracers.sort_unstable();
    match &tracers[..] {
        [first, .., last] if first != last => 0,
        [first, ..] => *first,
        [] => 0,
    }
}

/// The folders of its threads.
fn tasks(process: u32) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.map(|task| task.path()).collect()
}

fn tracer_of(task: &Path) -> u32 {
    let status = fs::read_to_string(task.join("status")).unwrap_or_default();
    let found = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    found.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
}

/// As DHCP does it.
fn move_link(world: &World, address: &str) {
    let gateway = world.topology.links()[0].addresses().gateway_v4;
    world.home.sh(&format!(
        "ip -4 addr flush dev cable && ip addr add {address}/24 dev cable && \
         ip route replace default via {gateway} dev cable"
    ));
}

/// But for std's own: a thread that has begun and finds no memory for its signals' stack ends the
/// process, before anything of ours runs on it.
fn no_panic(world: &World, what: &str) {
    let log = world.home.log();
    let [all, of_std] = ["panicked at", "failed to allocate an alternative stack"]
        .map(|words| log.matches(words).count());
    assert_eq!(all, of_std, "{what}: {log}");
}
