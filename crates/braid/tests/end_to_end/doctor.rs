//! The doctor at a running tunnel: nothing while it is well, and each thing that is broken by its
//! name, until it is mended.

use crate::side::{BRAID, Side};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_control::measured::Measured;
use braid_lab::emulator::{Capacity, LinkChange, LinkModel};
use braid_units::Rate;
use serde_json::Value;
use std::time::Duration;

/// Of the machine that runs the tests, which may be busy.
const OF_THE_MACHINE: [&str; 5] =
    ["cpu-here", "cpu-stolen", "receive-buffer", "device-queue", "state-folder-full"];

/// What the doctor finds at this side. It sees the files that `mounts`, a script, has put before
/// it, and nobody else does.
pub fn codes_at(side: &Side, mounts: &str) -> Vec<String> {
    let script = format!("set -e\n{mounts}\nexec \"$@\"");
    let mut command = side.namespace.command("unshare");
    command.args(["--mount", "--", "sh", "-c", &script, "sh"]);
    command.args([BRAID, "doctor", "--json", "-c"]).arg(side.config());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

fn codes(world: &World) -> Vec<String> {
    let found = codes_at(&world.home, "").into_iter();
    found.filter(|code| !OF_THE_MACHINE.contains(&code.as_str())).collect()
}

/// Waits until the doctor finds this at home, and nothing else.
pub fn becomes(world: &World, expected: &[&str]) {
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

/// How far what the doctor foretells may be from what comes true.
const FORETOLD_WITHIN: f64 = 0.15;
/// Each direction of each step is measured for so long, seconds.
const MEASURED_FOR: &str = "5";

/// `cargo test -p braid --test end_to_end -- --ignored --nocapture what_is_foretold` prints each
/// figure; docs/measurements/page.md has them.
#[test]
#[ignore = "measures: some ten minutes on a machine that has little else to do"]
fn what_is_foretold_without_a_link_comes_true() {
    let sets: [(&str, &[(u64, u64)]); 3] = [
        ("DSL and LTE", &[(16, 12), (8, 35)]),
        ("cable, DSL and LTE", &[(30, 8), (20, 20), (10, 40)]),
        ("six 3G modems", &[(6, 30), (6, 35), (6, 40), (5, 45), (4, 50), (2, 60)]),
    ];
    let mut wrong = Vec::new();
    for (set, links) in sets {
        let models: Vec<LinkModel> = links
            .iter()
            .enumerate()
            .map(|(number, (mbit, ms))| {
                let mut link = slow(&format!("link{number}"), *mbit);
                link.down.delay = Duration::from_millis(*ms);
                link.up.delay = Duration::from_millis(*ms);
                link
            })
            .collect();
        let Some(mut world) = World::new(&models) else { return };
        world.start(&Tunnel::default());
        let measured = |arguments: &[&str]| -> Measured {
            let more = ["--seconds", MEASURED_FOR, "--json"];
            let output = world.home.braid(&[arguments, &more].concat()).stdout;
            let report: Value = serde_json::from_slice(&output).unwrap();
            serde_json::from_value(report["measured"].clone()).unwrap()
        };
        let all = measured(&["doctor", "--measure"]);
        for gone in [0, links.len() - 1] {
            let name = format!("link{gone}");
            let foretold = all.without(&name);
            world.change(gone, &LinkChange::Blackout(true));
            world.home.wait_for_active_paths(links.len() - 1);
            let other = format!("link{}", if gone == 0 { 1 } else { 0 });
            let came = measured(&["link", "test", &other, "--speed"]).together;
            world.change(gone, &LinkChange::Blackout(false));
            world.home.wait_for_active_paths(links.len());
            for (way, foretold, came) in
                [("down", foretold.down, came.down), ("up", foretold.up, came.up)]
            {
                let off = foretold / came - 1.0;
                println!(
                    "| {set} | {name} | {way} | {foretold:.1} | {came:.1} | {:+.0} % |",
                    off * 100.0
                );
                if off.abs() > FORETOLD_WITHIN {
                    wrong.push(format!("{set} without {name}, {way}: {foretold} and {came}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
