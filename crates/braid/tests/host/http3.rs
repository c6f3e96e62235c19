//! HTTP/3 by a real client and a real server, where Python's aioquic is installed: curl speaks it
//! nowhere that Debian has it.

use crate::ruled::{BY_WAN1, TUNNEL, V4, ruled_world, start};
use crate::world::World;
use braid_linux::netns::NetNs;
use std::io::Read;
use std::process::{Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/http3.py");
const BYTES: usize = 6_000_000;

#[test]
fn http3_takes_its_rules_way_and_outlives_a_link() {
    if !Command::new("python3")
        .args(["-c", "import aioquic"])
        .output()
        .is_ok_and(|it| it.status.success())
    {
        eprintln!("SKIPPED: aioquic is not installed (try: pip install aioquic)");
        return;
    }
    let Some((mut world, lan)) = ruled_world() else { return };
    serve(&mut world);
    world.in_internet("for isp in isp1 isp2; do tc qdisc add dev $isp root tbf rate 12mbit burst 64kb latency 50ms; done");
    let rule =
        "[[rule]]\nname = \"bank\"\nmatch = { domain = \"bank.example\" }\ndo = \"direct\"\n";
    start(&mut world, "", rule);
    world
        .home
        .wait_until("the server answers, by the tunnel", || said(&lan, "other.example") == TUNNEL);
    // Its first connection goes as everything else does.
    assert_eq!(said(&lan, "bank.example"), TUNNEL);
    world.home.wait_until("the next goes by the rule", || said(&lan, "bank.example") == BY_WAN1);
    // Another name at the same address is another question, but it is the address that has a way:
    // from a host that never asked for that one the tunnel is.
    let home = world.home.namespace.run(NetNs::current).unwrap().unwrap();
    assert_eq!(said(&home, "other.example"), TUNNEL);
    let mut get = client(&home, "other.example", &format!("/{BYTES}"));
    let mut came = get.stdout.take().unwrap();
    came.read_exact(&mut vec![0; BYTES / 6]).unwrap();
    world.in_internet(
        "nft 'table inet cut { chain in { type filter hook prerouting priority -500; iifname isp1 drop; }
         chain out { type filter hook postrouting priority 500; oifname isp1 drop; }; }'",
    );
    let mut rest = Vec::new();
    came.read_to_end(&mut rest).unwrap();
    assert!(get.wait().unwrap().success());
    assert_eq!(rest.len(), BYTES - BYTES / 6);
}

/// Whom the server sees.
fn said(from: &NetNs, name: &str) -> String {
    let output = client(from, name, "/").wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn client(from: &NetNs, name: &str, path: &str) -> std::process::Child {
    let mut client = from.command("timeout");
    client.args(["60", "python3", SCRIPT, "get", V4, name, path]);
    client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn serve(world: &mut World) {
    let certified = rcgen::generate_simple_self_signed(vec!["bank.example".to_owned()]).unwrap();
    let [state, _] = world.home.folders();
    let [certificate, key] = ["http3.crt", "http3.key"].map(|file| state.with_file_name(file));
    std::fs::write(&certificate, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let mut server = world.internet.command("python3");
    server.args([SCRIPT, "serve", V4]).arg(certificate).arg(key);
    world.run_service(server);
}
