//! A village: twenty homes with two links each, three concentrators with BIRD, etcd of three, FRR
//! as the upstream router. What a home notices when one of all these goes; a measurement:
//!
//! `cargo test -p braid --test end_to_end fleet_figures -- --ignored --nocapture`
//!
//! `ETCD_DEAD_S=300` is for how long etcd is dead, in seconds; 60 without. `KILLS=4` kills so many
//! concentrators, one after the other, and does nothing else.

use crate::fleet::Etcd;
use crate::moving_addresses::{BGPD, BIRD, EXAMPLE, Program, QuickPings, SERVER, bird, frr};
use crate::side::Side;
use crate::traffic::{Direction, Transfer};
use crate::world::LEAVE_HOST_ALONE;
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const HOMES: usize = 20;
const CONCENTRATORS: usize = 3;
const LINKS: usize = 2;
/// Of a link, each way.
const RATE: &str = "20mbit";
/// More than both links carry in a second.
const BYTES_EACH_SECOND: usize = 6_500_000;

#[test]
#[ignore = "a measurement"]
fn what_a_village_notices() {
    for needed in [BIRD, BGPD, "/usr/bin/etcd"] {
        if !Path::new(needed).exists() {
            println!("SKIPPED: {needed} isn't installed");
            return;
        }
    }
    let mut village = Village::new();
    village.wait_until_whole();
    println!("served by each: {:?}", village.spread());

    let kills = number("KILLS");
    for _ in 0..kills.unwrap_or(1) {
        village.measure("kill -9 of a concentrator", 10, |village, serving| {
            village.concentrators[serving].kill();
        });
        let dead = village.dead();
        village.concentrators[dead].start();
        village.wait_until_whole();
    }
    if kills.is_some() {
        return;
    }

    village.measure("drain", 25, |village, serving| {
        village.concentrators[serving].braid_ok(&["concentrator", "drain", "--within", "60s"]);
    });
    for concentrator in &village.concentrators {
        concentrator.braid_ok(&["concentrator", "undrain"]);
    }
    village.wait_until_whole();

    village.measure("all three replaced, one after the other", 100, |village, _| {
        for number in 0..CONCENTRATORS {
            let concentrator = &mut village.concentrators[number];
            concentrator.braid_ok(&["concentrator", "drain", "--within", "60s"]);
            concentrator.stop();
            concentrator.start();
            concentrator.braid_ok(&["concentrator", "undrain"]);
            village.wait_until_connected();
        }
    });
    village.wait_until_whole();

    let dead_for = Duration::from_secs(number("ETCD_DEAD_S").unwrap_or(60));
    let what = format!("etcd dead for {} s", dead_for.as_secs());
    village.measure(&what, dead_for.as_secs() + 10, |village, _| {
        village.etcd.iter_mut().for_each(Etcd::stop);
        std::thread::sleep(dead_for);
        for number in 0..CONCENTRATORS {
            let again = etcd(&village.concentrators[number], number, village.scratch.path());
            village.etcd[number] = again;
        }
    });
    village.wait_until_whole();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

struct Village {
    // The programs go before their network.
    _programs: Vec<Program>,
    etcd: Vec<Etcd>,
    homes: Vec<Side>,
    concentrators: Vec<Side>,
    upstream: Side,
    _core: NetNs,
    scratch: tempfile::TempDir,
}

impl Village {
    fn new() -> Village {
        let scratch = tempfile::tempdir().unwrap();
        let side = |name: String| Side::new(&NetNs::new().unwrap(), &scratch.path().join(name));
        let core = NetNs::new().unwrap();
        let upstream = side("upstream".to_owned());
        let concentrators: Vec<Side> =
            (0..CONCENTRATORS).map(|number| side(format!("c{}", number + 1))).collect();
        let homes: Vec<Side> = (0..HOMES).map(|number| side(format!("home{number}"))).collect();
        let forwards = "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
                        net.ipv4.conf.default.rp_filter=0 && ip link set lo up";
        in_namespace(&core, forwards);
        upstream.sh(&format!("{forwards} && ip addr add {SERVER}/32 dev lo"));
        for (number, concentrator) in concentrators.iter().enumerate() {
            let mut netlink = concentrator.namespace.run(Netlink::open).unwrap().unwrap();
            netlink.add_veth("net", &format!("c{number}"), Some(&core)).unwrap();
            netlink.add_veth("wan", &format!("down{number}"), Some(&upstream.namespace)).unwrap();
            let (own, router, wan) = (address(number), 4 * number + 2, number + 1);
            concentrator.sh(&format!(
                "{forwards} && ip addr add {own}/30 dev net && ip link set net up \
                 && ip addr add 198.18.{wan}.2/30 dev wan && ip link set wan up \
                 && ip route add default via 203.0.113.{router} \
                 && ip route add {SERVER} via 198.18.{wan}.1"
            ));
            in_namespace(
                &core,
                &format!(
                    "ip addr add 203.0.113.{router}/30 dev c{number} && ip link set c{number} up"
                ),
            );
            upstream.sh(&format!(
                "ip addr add 198.18.{wan}.1/30 dev down{number} && ip link set down{number} up"
            ));
        }
        for (number, home) in homes.iter().enumerate() {
            home.sh("ip link set lo up");
            for link in 0..LINKS {
                let mut netlink = home.namespace.run(Netlink::open).unwrap().unwrap();
                let far = format!("h{number}l{link}");
                netlink.add_veth(&format!("l{link}"), &far, Some(&core)).unwrap();
                let limit = format!("root tbf rate {RATE} burst 32kbit latency 60ms");
                let net = format!("10.{}.{number}", 10 + link);
                home.sh(&format!(
                    "ip addr add {net}.2/30 dev l{link} && ip link set l{link} up \
                     && tc qdisc add dev l{link} {limit} \
                     && ip route add default via {net}.1 dev l{link} metric {}",
                    100 + link
                ));
                in_namespace(
                    &core,
                    &format!(
                        "ip addr add {net}.1/30 dev {far} && ip link set {far} up \
                         && tc qdisc add dev {far} {limit}"
                    ),
                );
            }
        }
        let folder = scratch.path();
        let mut programs = frr(&upstream, folder, CONCENTRATORS);
        for (number, concentrator) in concentrators.iter().enumerate() {
            let config = EXAMPLE.replace("198.18.1.", &format!("198.18.{}.", number + 1));
            programs.push(bird(concentrator, folder, &concentrator.name(), &config));
        }
        let members = concentrators.iter().enumerate();
        let members = members.map(|(number, side)| etcd(side, number, folder)).collect();
        let mut village = Village {
            _programs: programs,
            etcd: members,
            homes,
            concentrators,
            upstream,
            _core: core,
            scratch,
        };
        village.connect();
        village
    }

    /// The first one's config has all homes, and all homes' the first one.
    fn connect(&mut self) {
        let members: Vec<String> =
            (0..CONCENTRATORS).map(|number| format!("{}:2379", address(number))).collect();
        let registry = format!("etcd://{}/village/", members.join(","));
        let mut peers = String::new();
        for (number, home) in self.homes.iter().enumerate() {
            let _ = write!(
                peers,
                "[[peer]]\nname = \"home{number}\"\npublic_key = \"{}\"\n\
                 allowed_ips = [\"{}\"]\n",
                home.public_key(),
                inner(number)
            );
        }
        for (number, concentrator) in self.concentrators.iter_mut().enumerate() {
            let own = address(number);
            let fleet = format!(
                "[fleet]\nname = \"c{}\"\nregistry = \"{registry}\"\nendpoints = [\"{own}:51900\"]\n\
                 capacity = {HOMES}\n",
                number + 1
            );
            let homes = if number == 0 { peers.as_str() } else { "" };
            concentrator.write_config(
                &format!("addresses = [\"10.77.0.1/24\"]\nlisten = [\"{own}:51900\"]"),
                "leave_host_alone = true\nannounce_table = 5190",
                &format!("{fleet}{homes}"),
            );
            concentrator.start();
        }
        let first = format!(
            "[[peer]]\nname = \"c1\"\npublic_key = \"{}\"\nendpoints = [\"{}:51900\"]\n\
             allowed_ips = [\"0.0.0.0/0\"]\n",
            self.concentrators[0].public_key(),
            address(0)
        );
        let links: String = (0..LINKS)
            .map(|link| format!("[[link]]\nname = \"l{link}\"\ninterface = \"l{link}\"\n"))
            .collect();
        for (number, home) in self.homes.iter_mut().enumerate() {
            home.write_config(
                &format!("addresses = [\"{}/24\"]", inner(number)),
                LEAVE_HOST_ALONE,
                &format!("{links}{first}"),
            );
            home.start();
            home.sh(&format!("ip route add {SERVER} dev braid0 src {}", inner(number)));
        }
    }

    /// Each home has all concentrators, and the upstream router knows where it is.
    fn wait_until_whole(&self) {
        self.wait_until_connected();
        let first = &self.concentrators[0];
        // One that has failed twice in a while is trusted later, by design.
        let give_up = Instant::now() + Duration::from_secs(180);
        loop {
            let status = first.braid(&["concentrator", "status", "--json"]).stdout;
            let fleet: Value = serde_json::from_slice(&status).unwrap_or_default();
            let homes = fleet["homes"].as_array().cloned().unwrap_or_default();
            let elsewhere: Vec<&Value> =
                homes.iter().filter(|home| home["served_by"] != home["first"]).collect();
            if homes.len() == HOMES && elsewhere.is_empty() {
                break;
            }
            assert!(Instant::now() < give_up, "not where they belong: {elsewhere:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
        first.wait_until("the router knows", || {
            (0..HOMES).all(|number| {
                self.upstream.sh(&format!("ip route show {}", inner(number))).contains("via")
            })
        });
    }

    fn wait_until_connected(&self) {
        for home in &self.homes {
            home.wait_until("it has all", || {
                let peers = home.status()["peers"].as_array().cloned().unwrap_or_default();
                peers.iter().filter(|peer| peer["connected"] == true).count() == CONCENTRATORS
            });
        }
    }

    /// How many each serves.
    fn spread(&self) -> Vec<usize> {
        let served: Vec<usize> = self.homes.iter().map(|home| self.serving(home)).collect();
        (0..CONCENTRATORS).map(|it| served.iter().filter(|by| **by == it).count()).collect()
    }

    fn serving(&self, home: &Side) -> usize {
        let by = home.status()["peers"][0]["served_by"].clone();
        let name = by.as_str().unwrap_or("c1").to_owned();
        name.trim_start_matches('c').parse::<usize>().unwrap() - 1
    }

    /// The one that doesn't run.
    fn dead(&self) -> usize {
        let runs = |it: &Side| it.braid(&["status", "--json"]).status.success();
        self.concentrators.iter().position(|it| !runs(it)).unwrap()
    }

    /// A home downloads and pings for so long while something happens to the concentrator that
    /// serves it.
    fn measure(&mut self, what: &str, seconds: u64, happens: impl FnOnce(&mut Village, usize)) {
        // One that another than the first serves, if there is one.
        let number = (0..HOMES).max_by_key(|it| self.serving(&self.homes[*it])).unwrap();
        let serving = self.serving(&self.homes[number]);
        let others: Vec<QuickPings> = (0..4)
            .map(|it| (number + 1 + it) % HOMES)
            .map(|it| {
                QuickPings::start(&self.homes[it], self.scratch.path().join(format!("p{it}")))
            })
            .collect();
        let home = &self.homes[number];
        let pings = QuickPings::start(home, self.scratch.path().join("pings"));
        let bytes = seconds as usize * BYTES_EACH_SECOND;
        let transfer = Transfer::start(home, &self.upstream, SERVER, Direction::Down, bytes);
        transfer.wait_until_received(1_000_000);
        let pause = std::thread::scope(|scope| {
            let pause = scope.spawn(|| transfer.longest_pause(Duration::from_secs(seconds)));
            std::thread::sleep(Duration::from_millis(500));
            happens(self, serving);
            pause.join().unwrap()
        });
        println!("{what}: the download paused for {} ms", pause.as_millis());
        transfer.finish();
        pings.told(what);
        for (place, pings) in others.into_iter().enumerate() {
            pings.told(&format!("{what}, another home {}", place + 1));
        }
    }
}

/// One member, on a concentrator's host.
fn etcd(host: &Side, number: usize, folder: &Path) -> Etcd {
    let url = |number: usize, port: u16| format!("http://{}:{port}", address(number));
    let members: Vec<String> =
        (0..CONCENTRATORS).map(|it| format!("e{it}={}", url(it, 2380))).collect();
    let mut command = host.namespace.command("/usr/bin/etcd");
    command.args(["--name", &format!("e{number}"), "--initial-cluster-state", "new"]);
    command.args(["--initial-cluster", &members.join(",")]);
    for flag in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
        command.args([flag, &url(number, 2380)]);
    }
    for flag in ["--listen-client-urls", "--advertise-client-urls"] {
        command.args([flag, &url(number, 2379)]);
    }
    command.arg("--data-dir").arg(folder.join(format!("etcd{number}")));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Etcd(Some(command.spawn().unwrap()))
}

/// Of a concentrator.
fn address(number: usize) -> String {
    format!("203.0.113.{}", 4 * number + 1)
}

/// Of a home, inside.
fn inner(number: usize) -> String {
    format!("10.77.0.{}", 10 + number)
}

fn in_namespace(namespace: &NetNs, script: &str) {
    let output = namespace.command("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}
