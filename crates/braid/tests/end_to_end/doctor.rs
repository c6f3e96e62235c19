//! The doctor at a running tunnel: nothing while it is well, and each thing that is broken by its
//! name, until it is mended.

use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::{Capacity, LinkChange, LinkModel};
use braid_units::Rate;
use serde_json::Value;

/// Of the machine that runs the tests, which may be busy.
const OF_THE_MACHINE: [&str; 5] =
    ["cpu-here", "cpu-stolen", "receive-buffer", "device-queue", "state-folder-full"];

fn codes(world: &World) -> Vec<String> {
    let output = world.home.braid(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let findings = report["findings"].as_array().unwrap();
    let codes = findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned());
    codes.filter(|code| !OF_THE_MACHINE.contains(&code.as_str())).collect()
}

fn becomes(world: &World, expected: &[&str]) {
    let what = format!("the doctor finds {expected:?}, and last {:?}", codes(world));
    world.home.wait_until(&what, || codes(world) == expected);
}

#[test]
fn each_link_is_measured_alone_and_with_the_others_and_has_its_role_back() {
    let Some(mut world) = World::new(&[slow("dsl", 8), slow("lte", 2)]) else { return };
    world.start(&Tunnel::default());
    world.home.braid_ok(&["link", "set", "lte", "--standby", "true", "--temporary"]);
    // The machine that runs the tests may be what limits: then it finds that, and says so by
    // its exit status.
    let output = world.home.braid(&["doctor", "--measure", "--seconds", "2", "--json"]).stdout;
    let report: Value = serde_json::from_slice(&output).unwrap();
    let measured = &report["measured"];
    let down = |of: &Value| of["down"].as_f64().unwrap();
    let [dsl, lte] = [0, 1].map(|link| &measured["links"][link]);
    assert_eq!((&dsl["link"], &lte["link"]), (&"dsl".into(), &"lte".into()));
    // The other is no part of it: dsl's 8 Mbit/s aren't in what lte carries.
    let (fast, slow) = (down(&dsl["rates"]), down(&lte["rates"]));
    assert!(fast > slow && slow > 0.0 && slow < 6.0, "{measured}");
    assert!(down(&measured["together"]) > 0.0 && down(&measured["one_connection"]) > 0.0);
    assert!(down(&dsl["as_part"]) > down(&lte["as_part"]), "it stands by: {measured}");
    let links = &world.home.status()["links"];
    assert_eq!([&links[0]["standby"], &links[1]["standby"]], [false, true]);

    let output = world.home.braid(&["link", "test", "lte", "--speed", "--seconds", "1", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["measured"]["links"].as_array().map(Vec::len), Some(1), "{report}");
    // Who isn't a home can't.
    let output = world.concentrator.braid(&["doctor", "--measure"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("concentrator"), "{output:?}");
}

fn slow(name: &str, mbit: u64) -> LinkModel {
    let mut link = link(name);
    link.down.capacity = Capacity::Rate(Rate::from_mbit(mbit));
    link.up.capacity = Capacity::Rate(Rate::from_mbit(mbit));
    link
}

#[test]
fn what_is_broken_is_found_by_its_name_and_nothing_where_all_is_well() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.sh("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.lte.rp_filter=0");
    becomes(&world, &[]);
    world.change(1, &LinkChange::Blackout(true));
    becomes(&world, &["udp-blocked"]);
    world.change(1, &LinkChange::Blackout(false));
    becomes(&world, &[]);
    let broken = [
        (
            "rp-filter",
            "sysctl -qw net.ipv4.conf.lte.rp_filter=1",
            "sysctl -qw net.ipv4.conf.lte.rp_filter=0",
        ),
        (
            "route-loop",
            "ip route add 192.0.2.1/32 dev braid0 metric 1",
            "ip route del 192.0.2.1/32 dev braid0 metric 1",
        ),
    ];
    for (code, breaks, mends) in broken {
        let endpoint = braid_lab::topology::CONCENTRATOR_V4.to_string();
        world.home.sh(&breaks.replace("192.0.2.1", &endpoint));
        becomes(&world, &[code]);
        world.home.sh(&mends.replace("192.0.2.1", &endpoint));
        becomes(&world, &[]);
    }
    let bundle = world.scratch.path().join("report.txt");
    let output = world.home.braid(&["doctor", "--bundle", bundle.to_str().unwrap()]);
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 10), "{output:?}");
    let text = std::fs::read_to_string(&bundle).unwrap();
    for secret in [world.home.public_key(), world.concentrator.public_key(), "10.77.0.".into()] {
        assert!(!text.contains(&secret), "{secret} is in the bundle");
    }
    assert!(text.contains("==== status") && text.contains("\"lte\""), "{text}");
    let again = world.home.braid(&["doctor", "--bundle", bundle.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2), "a file that is there stays");

    world.home.sh("ip link set lte down");
    becomes(&world, &["link-off"]);
    world.concentrator.kill();
    world.home.wait_until("that the concentrator is gone is found", || {
        // A path that nothing goes by isn't asked whether it works.
        let ping = format!("ping -q -c 1 -W 1 {INSIDE_V4} || true");
        world.home.sh(&ping);
        codes(&world).contains(&"peer-gone".to_owned())
    });
    world.home.stop();
    let output = world.home.braid(&["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(11), "{said}");
    assert!(said.contains("[not-running]") && said.contains("mend it: braid up"), "{said}");
}
