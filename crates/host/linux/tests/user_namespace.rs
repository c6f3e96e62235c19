//! Without root: a user namespace in which all network changes are allowed. It has no test harness,
//! because that would start threads.

#![allow(unsafe_code)]

use braid_linux::netlink::Netlink;
use braid_linux::netns::{NetNs, enter_user_namespace};

fn main() {
    become_nobody();
    if let Err(error) = enter_user_namespace() {
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
        println!("skipped: user namespaces are forbidden here");
        return;
    }
    let mut netlink = Netlink::open().unwrap();
    let names: Vec<_> = netlink.links().unwrap().into_iter().map(|link| link.name).collect();
    assert!(names.contains(&"lo".into()), "{names:?}");
    assert!(netlink.link("lo").unwrap().up);
    assert!(std::path::Path::new("/sys/class/net/lo").exists());

    let other = NetNs::new().unwrap();
    netlink.add_veth("near", "far", Some(&other)).unwrap();
    assert!(std::path::Path::new("/sys/class/net/near").exists(), "/sys shows this namespace");
    other.run(|| Netlink::open().unwrap().set_up("far")).unwrap().unwrap();
    let output = other.command("cat").arg("/proc/self/net/dev").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("far"));
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    println!("ok: a user namespace with networks of its own");
}

/// Gives up root's rights, so that the unprivileged way is tested.
fn become_nobody() {
    // SAFETY: none of these calls takes a pointer but setgroups, of no groups.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(65_534, 65_534, 65_534), 0);
            assert_eq!(libc::setresuid(65_534, 65_534, 65_534), 0);
            // Changing the user made /proc/self root's.
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
        }
    }
}
