//! Network namespaces for tests and the lab: anonymous, held by a descriptor, so that the kernel
//! removes them when the last holder ends.

#![allow(unsafe_code)]

use crate::netlink::Netlink;
use crate::sys;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// Gives this process its own network and mount namespaces, in which it may configure the network.
/// If unprivileged, it first enters a user namespace, as its root (user_namespaces(7)).
///
/// Must be called while the process has a single thread (a user namespace
/// can't be entered otherwise). `lo` is up afterwards, `/sys` shows the new
/// namespace, and mounts made later are seen by this process tree only.
///
/// # Errors
/// `PermissionDenied` where user namespaces are forbidden (sysctl
/// `user.max_user_namespaces`, `kernel.apparmor_restrict_unprivileged_userns`).
pub fn enter_user_namespace() -> io::Result<()> {
    let isolated = libc::CLONE_NEWNET | libc::CLONE_NEWNS;
    // SAFETY: unshare takes no pointers.
    let privileged = sys::check(unsafe { libc::unshare(isolated) });
    if privileged.is_err() {
        become_namespace_root(isolated)?;
    }
    mount(None, "/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    // A fresh sysfs shows the new namespace's devices; if mounting is forbidden, only
    // /sys/class/net is stale.
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), 0);
    Netlink::open()?.set_up("lo")
}

fn become_namespace_root(isolated: libc::c_int) -> io::Result<()> {
    // SAFETY: neither call takes pointers or can fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: unshare takes no pointers.
    sys::check(unsafe { libc::unshare(libc::CLONE_NEWUSER | isolated) })?;
    // Required before gid_map by user_namespaces(7).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

fn mount(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let source = source.map(CString::new).transpose()?;
    let target = CString::new(target)?;
    let kind = kind.map(CString::new).transpose()?;
    let pointer =
        |string: &Option<CString>| string.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
    // SAFETY: all pointers are null or zero-terminated strings that outlive the call.
    sys::check(unsafe {
        libc::mount(pointer(&source), target.as_ptr(), pointer(&kind), flags, std::ptr::null())
    })
    .map(drop)
}

/// A network namespace, held open by its descriptor.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
}

impl NetNs {
    /// A new, empty namespace without a name, `lo` up. It ends with the last
    /// descriptor, process or socket in it.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_SYS_ADMIN` (see [`enter_user_namespace`]).
    pub fn new() -> io::Result<NetNs> {
        on_own_thread(|| {
            // SAFETY: unshare takes no pointers; it moves only this thread.
            sys::check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            let namespace = NetNs::current()?;
            Netlink::open()?.set_up("lo")?;
            Ok(namespace)
        })?
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// Those of open(2), when `/proc` is missing.
    pub fn current() -> io::Result<NetNs> {
        Ok(NetNs { fd: File::open("/proc/thread-self/ns/net")?.into() })
    }

    /// Runs `work` on a thread of its own inside the namespace and waits for it. Sockets and
    /// devices opened there stay in the namespace when they are moved out. A panic of `work`
    /// continues in the caller.
    ///
    /// Children spawned inside `work` with [`NetNs::command`] die with that
    /// thread, that is when `work` returns: start them outside.
    ///
    /// # Errors
    /// Those of setns(2) and of starting a thread.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_own_thread(|| {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Moves the calling thread (only) into the namespace, for good.
    ///
    /// # Errors
    /// Those of setns(2).
    pub fn enter(&self) -> io::Result<()> {
        set_namespace(self.fd.as_raw_fd())
    }

    /// A command that will run inside the namespace. It is killed when the thread that spawned it
    /// ends, and so also when this process is killed.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let parent = std::process::id();
        let mut command = Command::new(program);
        // If the duplicate fails (too many open files), the program must not run in the wrong
        // namespace, so spawning reports the error.
        let held = self.fd.try_clone().map_err(|error| error.raw_os_error());
        let enter = move || {
            let namespace = match &held {
                Ok(fd) => fd.as_raw_fd(),
                Err(code) => {
                    return Err(io::Error::from_raw_os_error(code.unwrap_or(libc::EMFILE)));
                }
            };
            set_namespace(namespace)?;
            die_with_parent(parent)
        };
        // SAFETY: between fork and exec `enter` makes system calls only; it
        // neither allocates nor takes locks (errors are plain errno values).
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Moves an interface of the calling thread's namespace into this one. It
    /// arrives down and without addresses.
    ///
    /// # Errors
    /// `NotFound` when there is no such interface.
    pub fn move_here(&self, interface: &str) -> io::Result<()> {
        Netlink::open()?.move_to_namespace(interface, self)
    }
}

impl AsRawFd for NetNs {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Namespaces are a thread's property: work that changes its own is done on a
/// thread that ends afterwards.
fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".into()).spawn_scoped(scope, work)?;
        thread.join().or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn set_namespace(fd: RawFd) -> io::Result<()> {
    // SAFETY: setns takes no pointers.
    sys::check(unsafe { libc::setns(fd, libc::CLONE_NEWNET) }).map(drop)
}

/// Requests SIGKILL when the parent thread ends; `parent` shows whether it ended before the
/// request.
fn die_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: this prctl takes no pointers.
    sys::check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: getppid takes nothing and can't fail.
    if unsafe { libc::getppid() } as u32 == parent {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}
