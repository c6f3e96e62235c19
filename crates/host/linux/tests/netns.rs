//! Namespaces: made, entered, left, gone.

mod namespaces;

use braid_linux::netlink::Netlink;
use namespaces::namespace;
use std::process::Stdio;

#[test]
fn a_new_namespace_is_empty_and_apart() {
    let Some(namespace) = namespace() else { return };
    let links = namespace.run(|| Netlink::open().unwrap().links().unwrap()).unwrap();
    assert!(links.iter().any(|link| link.name == "lo" && link.up && link.loopback));
    namespace
        .run(|| Netlink::open().unwrap().add_veth("braid-a", "braid-b", None))
        .unwrap()
        .unwrap();
    let here = Netlink::open().unwrap().links().unwrap();
    assert!(here.iter().all(|link| link.name != "braid-a"), "the caller's namespace is untouched");
}

#[test]
fn interfaces_move_between_namespaces() {
    let (Some(first), Some(second)) = (namespace(), namespace()) else { return };
    first
        .run(|| {
            let mut netlink = Netlink::open().unwrap();
            netlink.add_veth("near", "far", Some(&second)).unwrap();
            netlink.add_veth("left", "right", None).unwrap();
            second.move_here("right").unwrap();
            netlink.set_mtu("near", 1280).unwrap();
            assert_eq!(netlink.link("near").unwrap().mtu, 1280);
            assert_eq!(netlink.link("near").unwrap().kind.as_deref(), Some("veth"));
            let missing = netlink.link("far").unwrap_err();
            assert!(missing.to_string().contains("'far'"), "{missing}");
        })
        .unwrap();
    second
        .run(|| {
            let mut netlink = Netlink::open().unwrap();
            netlink.link("far").unwrap();
            netlink.link("right").unwrap();
        })
        .unwrap();
}

#[test]
fn commands_run_inside() {
    let Some(namespace) = namespace() else { return };
    namespace.run(|| Netlink::open().unwrap().add_veth("inside", "peer", None)).unwrap().unwrap();
    let output = namespace.command("cat").arg("/proc/self/net/dev").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("inside"));
}

#[test]
fn a_command_dies_with_the_thread_that_spawned_it() {
    let Some(namespace) = namespace() else { return };
    let mut child = std::thread::scope(|scope| {
        let spawn = || namespace.command("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        scope.spawn(spawn).join().unwrap()
    });
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}
