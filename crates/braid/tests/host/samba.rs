//! A share of Samba's, where it is installed (`./setup` doesn't: it would serve the network at
//! once), is read and written by the tunnel while a link is cut.

use crate::inbound::world_with_lan;
use crate::world::{World, sh};
use braid_linux::netns::NetNs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const MIB: usize = 1 << 20;
const FILE: usize = 24 * MIB;

#[test]
fn a_file_share_goes_on_when_a_link_is_cut() {
    let Some((mut world, lan)) = world_with_lan() else { return };
    let Some(folder) = serve(&mut world) else { return };
    // Some four seconds each way.
    world.in_internet("for isp in isp1 isp2; do tc qdisc add dev $isp root tbf rate 30mbit burst 64kb latency 50ms; done");
    world.home.sh("for wan in wan1 wan2; do tc qdisc add dev $wan root tbf rate 30mbit burst 64kb latency 50ms; done");
    world.write_configs(2, "default_route = true\nmasquerade = true", "masquerade = true");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(FILE).collect();
    let (there, here) = (folder.join("share/film"), folder.join("film"));
    std::fs::write(&there, &bytes).unwrap();
    let get = ask(&lan, &format!("lcd {}; get film", folder.display()));
    cut_while_it_grows(&world, get, &here);
    assert!(std::fs::read(&here).unwrap() == bytes, "what was read isn't what is there");
    let back = folder.join("share/back");
    let put = ask(&lan, &format!("lcd {}; put film back", folder.display()));
    cut_while_it_grows(&world, put, &back);
    assert!(std::fs::read(&back).unwrap() == bytes, "what is there isn't what was written");
}

/// A share of the concentrator, on the tunnel's address. None where there is no Samba.
fn serve(world: &mut World) -> Option<PathBuf> {
    let has = |program| world.concentrator.namespace.command(program).arg("--version").output();
    if has("smbd").is_err() || has("smbclient").is_err() {
        eprintln!("SKIPPED: samba and smbclient are not installed");
        return None;
    }
    let [state, _] = world.concentrator.folders();
    let folder = state.with_file_name("samba");
    for part in ["share", "private", "state"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    sh(&world.concentrator.namespace, &format!("chmod 777 {}/share", folder.display()));
    let at = folder.display();
    let config = format!(
        "[global]\nserver role = standalone server\ndisable netbios = yes\nsmb ports = 445\n\
         map to guest = bad user\nguest account = root\nload printers = no\n\
         private dir = {at}/private\nlock directory = {at}/state\nstate directory = {at}/state\n\
         cache directory = {at}/state\npid directory = {at}/state\nncalrpc dir = {at}/state/rpc\n\
         usershare path =\nlog file = {at}/log\n\
         [files]\npath = {at}/share\nread only = no\nguest ok = yes\n"
    );
    std::fs::write(folder.join("smb.conf"), config).unwrap();
    let mut server = world.concentrator.namespace.command("smbd");
    server.args(["--foreground", "--no-process-group", "--configfile"]);
    server.arg(folder.join("smb.conf"));
    world.run_service(server);
    Some(folder)
}

fn ask(lan: &NetNs, commands: &str) -> Child {
    let mut client = lan.command("smbclient");
    client.args(["--no-pass", "--configfile=/dev/null", "//10.77.0.1/files", "--command"]);
    client.arg(commands).stdin(Stdio::null()).stdout(Stdio::null());
    client.spawn().unwrap()
}

/// The first link carries nothing any more from when some of the file has come until all has.
fn cut_while_it_grows(world: &World, mut copying: Child, file: &Path) {
    let grown = || std::fs::metadata(file).is_ok_and(|file| file.len() > 2 * MIB as u64);
    world.home.wait_until("it is being copied", grown);
    world.in_internet(
        "nft 'table inet cut { chain in { type filter hook prerouting priority -500; iifname isp1 drop; }
         chain out { type filter hook postrouting priority 500; oifname isp1 drop; }; }'",
    );
    assert!(copying.try_wait().unwrap().is_none(), "it was cut too late");
    let copying = std::cell::RefCell::new(copying);
    let has_ended = || copying.borrow_mut().try_wait().unwrap().is_some();
    world.home.wait_until("the copy is made", has_ended);
    assert!(copying.borrow_mut().wait().unwrap().success(), "smbclient failed");
    world.in_internet("nft delete table inet cut");
    world.home.wait_for_active_paths(2);
}
