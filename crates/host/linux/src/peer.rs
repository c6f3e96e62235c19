//! The process at the other end of a Unix socket, as recorded by the kernel when it connected:
//! unix(7).

#![allow(unsafe_code)]

use crate::sys;
use rustix::process::geteuid;
use std::fs;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd};

/// The process at the other end of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its effective user.
    pub user: u32,
    /// Its effective group.
    pub group: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

/// Most processes are in fewer groups.
const USUAL_GROUPS: usize = 64;

impl Peer {
    /// The peer of a connected socket.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(socket: &impl AsFd) -> io::Result<Peer> {
        let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
        let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: pointer and length describe `credentials`, for which zeros are valid.
        let credentials = unsafe {
            let to = credentials.as_mut_ptr().cast();
            let option = libc::SO_PEERCRED;
            sys::check(libc::getsockopt(fd, libc::SOL_SOCKET, option, to, &raw mut length))?;
            credentials.assume_init()
        };
        let groups = groups(fd)?;
        Ok(Peer { user: credentials.uid, group: credentials.gid, groups })
    }

    /// Whether it is root, or this process' own user.
    pub fn is_root_or_own(&self) -> bool {
        self.user == 0 || self.user == geteuid().as_raw()
    }

    /// Whether it is in this group.
    pub fn is_in(&self, group: u32) -> bool {
        self.group == group || self.groups.contains(&group)
    }
}

fn groups(fd: libc::c_int) -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = vec![0; USUAL_GROUPS];
    loop {
        let mut length = mem::size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: pointer and length describe `groups`.
        let got = unsafe {
            let to = groups.as_mut_ptr().cast();
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, to, &raw mut length)
        };
        // The kernel sets it in both cases (sk_getsockopt in Linux' net/core/sock.c).
        let count = length as usize / mem::size_of::<u32>();
        match sys::check(got) {
            Ok(_) => {
                groups.truncate(count);
                return Ok(groups);
            }
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() => {
                groups.resize(count, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The id of this group, which may be given as a number; `None` if there is no such group.
///
/// # Errors
/// When /etc/group can't be read.
pub fn group_of_name(name: &str) -> io::Result<Option<u32>> {
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    Ok(group_in(&fs::read_to_string("/etc/group")?, name))
}

/// Searches a text in the format of group(5).
fn group_in(text: &str, name: &str) -> Option<u32> {
    let lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.into_iter().find_map(|fields| match fields[..] {
        [its_name, _, number, ..] if its_name == name => number.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert!(peer.is_root_or_own() && peer.is_in(peer.group));
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        let own: Vec<u32> = line.split_whitespace().map(|it| it.parse().unwrap()).collect();
        assert_eq!(peer.groups, own);
        let other = (1..).find(|it| *it != peer.group && !own.contains(it)).unwrap();
        assert!(!peer.is_in(other));
    }

    #[test]
    fn a_group_is_found_by_its_name() {
        let text = "root:x:0:\nbraid:x:992:anna,ben\nbad\n:::\nnet:x:many:\n";
        for (name, number) in
            [("braid", Some(992)), ("root", Some(0)), ("brai", None), ("net", None), ("x", None)]
        {
            assert_eq!(group_in(text, name), number, "{name}");
        }
        assert_eq!(group_of_name("4711").unwrap(), Some(4711));
    }
}
