//! Two concentrators that have their homes in common, in etcd and in a file.

use crate::homes::{neighbour, neighbour_as_peer};
use crate::moving_addresses::ANNOUNCES;
use crate::side::Side;
use crate::world::{INSIDE_V4, LEAVE_HOST_ALONE, Tunnel, World, link};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};

const FIRST: &str = "203.0.113.1";
const SECOND: &str = "203.0.113.2";

#[test]
fn a_fleet_by_etcd_goes_on_without_it() {
    let Some(mut fleet) = Fleet::new() else { return };
    let Some(mut etcd) = Etcd::start(&fleet) else { return };
    fleet.connect(&format!("etcd://{FIRST}:2379/test/"));
    fleet.wait_until_served_by("c1");

    // Sent by hand, from the other one.
    fleet.second.braid_ok(&["concentrator", "move-home", "home", "c2"]);
    fleet.wait_until_served_by("c2");

    // Without the registry what is known goes on, over a restart too, and more can't be done.
    etcd.stop();
    let said = |fleet: &Fleet| fleet.second.status()["fleet"].clone();
    fleet.second.wait_until("it says so", || said(&fleet)["reachable"] == false);
    fleet.world.home.wait_for_ping(INSIDE_V4);
    fleet.second.stop();
    fleet.second.start();
    fleet.world.home.wait_until("both are connected", || fleet.is_connected());
    assert_eq!(said(&fleet)["reachable"], false);
    let told = String::from_utf8(fleet.second.braid_ok(&["status"])).unwrap();
    assert!(told.contains("has not answered yet") && told.contains("can't be reached"), "{told}");
    let refused = fleet.second.braid(&["concentrator", "move-home", "home", "c1"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    // What counts here isn't known elsewhere; who is asked in vain is asked once.
    let told = |command: &[&str]| {
        let done = fleet.world.concentrator.braid(command);
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    let limited = told(&["concentrator", "limit", "home", "--down", "500Mbit"]);
    assert!(limited.contains("until they hear of it"), "{limited}");
    let added = told(&["concentrator", "add-home", "late", "--endpoint", "203.0.113.1:51900"]);
    assert_eq!(added.matches("can't be reached").count(), 1, "{added}");
    assert!(!added.contains("nothing was changed"), "{added}");
    told(&["concentrator", "revoke", "late"]);
    etcd.begin(&fleet);
    fleet.second.wait_until("it is back", || said(&fleet)["reachable"] == true);
    fleet.wait_until_served_by("c2");

    // The other one has it drain.
    fleet.world.concentrator.braid_ok(&["concentrator", "drain", "c2"]);
    fleet.wait_until_served_by("c1");
    let of_first = fleet.world.concentrator.braid_ok(&["concentrator", "status"]);
    assert!(String::from_utf8(of_first).unwrap().contains("draining"));
    fleet.second.braid_ok(&["concentrator", "undrain"]);
    let drains = || {
        json(&fleet.second, &["concentrator", "status", "--json"])["concentrators"][1]["draining"]
            .clone()
    };
    assert_eq!(drains(), false);

    // Who lives can't be forgotten, and who is gone can.
    let forget = ["concentrator", "forget", "c2"];
    let refused = fleet.world.concentrator.braid(&forget);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("c2 is alive"));
    fleet.second.stop();
    fleet
        .world
        .concentrator
        .wait_until("c2 is silent", || fleet.world.concentrator.braid(&forget).status.success());
    let left = json(&fleet.world.concentrator, &["concentrator", "status", "--json"]);
    assert_eq!(left["concentrators"].as_array().unwrap().len(), 1, "{left}");
    fleet.world.home.wait_for_ping(INSIDE_V4);
}

/// Of which neither side knows what the other does.
#[test]
fn a_partition_never_leaves_a_home_with_two_owners_or_none() {
    let Some(mut fleet) = Fleet::new() else { return };
    let Some(_etcd) = Etcd::start(&fleet) else { return };
    fleet.announces = true;
    fleet.connect(&format!("etcd://{FIRST}:2379/test/"));
    fleet.wait_until_served_by("c1");
    fleet.second.braid_ok(&["concentrator", "move-home", "home", "c2"]);
    fleet.wait_until_served_by("c2");
    let owners = |first, second| {
        let home = &fleet.world.home;
        home.wait_until("who announces it", || fleet.announced() == [first, second]);
    };
    owners(false, true);

    // The one that serves can't reach the registry, and its lease there ends. The home has not
    // gone anywhere, though it sends nothing.
    let first = &fleet.world.concentrator;
    fleet.second.sh(&format!("ip route add blackhole {FIRST}/32"));
    let reachable = || fleet.second.status()["fleet"]["reachable"].clone();
    fleet.second.wait_until("it says so", || reachable() == false);
    let alive = || json(first, &["concentrator", "status", "--json"])["concentrators"][1].clone();
    first.wait_until("its lease has ended", || alive()["alive"] == false);
    assert_eq!(fleet.announced(), [false, true]);

    // It can't reach the home either, and no device says so: each side acts by itself, and there is
    // one owner.
    first.sh("nft 'add table inet cut; \
         add chain inet cut from { type filter hook prerouting priority 0; }; \
         add chain inet cut to { type filter hook postrouting priority 0; }; \
         add rule inet cut from iifname r2 drop; add rule inet cut to oifname r2 drop'");
    fleet.world.home.wait_for_ping(INSIDE_V4);
    owners(true, false);
    fleet.world.home.wait_for_ping(INSIDE_V4);
    let served = || json(first, &["concentrator", "status", "--json"])["homes"][0].clone();
    first.wait_until("the registry has it", || served()["served_by"] == "c1");

    // Both sides meet again: the home goes back as it was sent, and then has one owner.
    first.sh("nft delete table inet cut");
    fleet.second.sh(&format!("ip route del blackhole {FIRST}/32"));
    fleet.second.wait_until("it reaches the registry", || reachable() == true);
    fleet.wait_until_served_by("c2");
    owners(false, true);
}

#[test]
fn a_home_of_one_is_known_to_all_and_gone_from_all() {
    let Some(mut fleet) = Fleet::new() else { return };
    let file = fleet.world.scratch.path().join("fleet.db");
    fleet.connect(&format!("sqlite:{}", file.display()));
    let homes = |side: &Side| json(side, &["concentrator", "list", "--json"]);
    let has_cabin =
        |side: &Side| homes(side).as_array().unwrap().iter().any(|home| home["name"] == "cabin");
    assert_eq!(homes(&fleet.second)[0]["addresses"][0], "10.77.0.2/32");
    // One more is added at the first, and has a line for each; it may join at any.
    let endpoint = format!("{FIRST}:51900");
    let added = json(
        &fleet.world.concentrator,
        &["concentrator", "add-home", "cabin", "--endpoint", &endpoint, "--json"],
    );
    assert_eq!(added["stand_ins"][0]["concentrator"], "c2");
    fleet.second.wait_until("the other one knows it", || has_cabin(&fleet.second));
    // One that begins takes no home's place, neither by its name nor by its address.
    let third = fleet.world.scratch.path().join("third.toml");
    let registry = format!("sqlite:{}", file.display());
    let begin = ["concentrator", "init", "--fleet", &registry, "--name", "c3", "--no-start"];
    let init = |more: &[&str]| {
        let all = [&begin[..], &["--endpoint", &endpoint, "--json"], more].concat();
        fleet.second.braid_by(&third, &all)
    };
    let refused = init(&["--home", "cabin"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("already has a home \\\"cabin\\\"") && !third.exists(), "{said}");
    let begun: Value = serde_json::from_slice(&init(&[]).stdout).unwrap();
    assert!(begun["home"].is_null() && begun["homes_of_fleet"] == 2, "{begun}");
    let renewed = fleet.second.braid(&["concentrator", "renew", "cabin", "--endpoint", &endpoint]);
    assert!(String::from_utf8(renewed.stderr).unwrap().contains("renew it there"));
    fleet.world.concentrator.braid_ok(&["concentrator", "remove-home", "cabin"]);
    fleet.second.wait_until("it is gone", || !has_cabin(&fleet.second));
    fleet.world.home.wait_for_ping(INSIDE_V4);
    fleet.world.concentrator.braid_ok(&["concentrator", "remove-home", "home"]);
    // Who sends nothing doesn't notice.
    fleet.world.home.wait_until("nobody knows it", || {
        let mut ping = fleet.world.home.namespace.command("ping");
        ping.args(["-q", "-c", "1", "-W", "1", &INSIDE_V4.to_string()]).stdout(Stdio::null());
        let unanswered = !ping.status().unwrap().success();
        let peers = fleet.world.home.status()["peers"].clone();
        unanswered && (0..2).all(|peer| peers[peer]["connected"] == false)
    });
}

/// Each looks what is taken before it gives anything, and so they must not look at the same time.
#[test]
fn who_adds_at_the_same_time_gives_each_name_and_address_once() {
    let Some(mut fleet) = Fleet::new() else { return };
    let file = fleet.world.scratch.path().join("fleet.db");
    fleet.connect(&format!("sqlite:{}", file.display()));
    let endpoint = format!("{FIRST}:51900");
    let (first, second) = (&fleet.world.concentrator, &fleet.second);
    let add = |side: &Side, name: &str| {
        let output = side.braid(&["concentrator", "add-home", name, "--endpoint", &endpoint]);
        output.status.success()
    };
    let both = |one: &str, other: &str| {
        std::thread::scope(|scope| {
            let one = scope.spawn(|| add(first, one));
            (add(second, other), one.join().unwrap())
        })
    };
    for round in ["a", "b", "c"] {
        let (here, there) = both(round, round);
        assert!(here != there, "{round}: one of them has it: {here} {there}");
        assert_eq!(both(&format!("{round}1"), &format!("{round}2")), (true, true));
    }
    // What was given is known before any tunnel has told it.
    let homes = json(first, &["concentrator", "status", "--json"])["homes"].clone();
    let homes = homes.as_array().unwrap().clone();
    let addresses: BTreeSet<String> =
        homes.iter().map(|home| home["addresses"][0].to_string()).collect();
    assert_eq!((homes.len(), addresses.len()), (10, 10), "{homes:?}");
    // Nor is a name of a concentrator given twice.
    let third = fleet.world.scratch.path().join("third.toml");
    let registry = format!("sqlite:{}", file.display());
    let begin = ["concentrator", "init", "--fleet", &registry, "--name", "c2", "--no-start"];
    let refused = second.braid_by(&third, &[&begin[..], &["--endpoint", &endpoint]].concat());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("already has a concentrator \"c2\"") && !third.exists(), "{said}");
    // One that was drained on itself isn't taken back by others.
    second.braid_ok(&["concentrator", "drain"]);
    let drains = || json(first, &["concentrator", "status", "--json"])["concentrators"][1].clone();
    first.wait_until("the registry has it", || drains()["draining"] == true);
    let refused = first.braid(&["concentrator", "undrain", "c2"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("undrain` there"), "{said}");
}

#[test]
fn one_that_is_full_takes_a_home_on_only_where_it_has_no_other() {
    let Some(mut fleet) = Fleet::new() else { return };
    let mut other = neighbour(&fleet.world);
    // So that the second is the first choice of whoever is not sent elsewhere by hand.
    fleet.capacities = [1, 1000];
    fleet.more_homes = neighbour_as_peer(&other, "\"10.77.0.3\"");
    let file = fleet.world.scratch.path().join("fleet.db");
    fleet.configure(&format!("sqlite:{}", file.display()));
    fleet.world.add_stand_in(&fleet.second, SECOND);
    let log = fleet.world.scratch.path().join("first.log");
    let [out, err] = [(); 2].map(|()| File::options().create(true).append(true).open(&log));
    fleet.world.concentrator.begin_with(&[], "debug", out.unwrap().into(), err.unwrap().into());
    fleet.second.start();
    fleet.world.home.start();
    fleet.world.home.wait_until("both are connected", || fleet.is_connected());
    fleet.world.concentrator.braid_ok(&["concentrator", "move-home", "home", "c1"]);
    fleet.wait_until_served_by("c1");

    // Its config has the first one first, which is full.
    let first = fleet.world.concentrator_as_peer(&Tunnel::default().endpoint);
    other.write_config(
        "addresses = [\"10.77.0.3/24\"]",
        LEAVE_HOST_ALONE,
        &format!(
            "[[link]]\nname = \"h9\"\ninterface = \"h9\"\n{first}[[peer]]\nname = \"second\"\n\
             public_key = \"{}\"\nendpoints = [\"{SECOND}:51900\"]\n\
             stands_in_for = \"concentrator\"\n",
            fleet.second.public_key()
        ),
    );
    other.start();
    let served = |side: &Side| side.status()["peers"][0]["served_by"].clone();
    other.wait_until("the second serves it", || served(&other) == "second");
    other.wait_for_ping(INSIDE_V4);
    let said = |what: &str| {
        let log = std::fs::read_to_string(&log).unwrap();
        log.lines().any(|line| line.contains("neighbour") && line.contains(what))
    };
    fleet.world.concentrator.wait_until("it is refused", || said("is not served here"));
    assert!(!said("is served here"), "{}", std::fs::read_to_string(&log).unwrap());
    assert!(served(&fleet.world.home).is_null());

    // It has no other any more.
    fleet.second.kill();
    other.wait_until("the first serves it", || served(&other).is_null());
    fleet.world.concentrator.wait_until("it is taken on", || said("is served here"));
    other.wait_for_ping(INSIDE_V4);
    fleet.world.home.wait_for_ping(INSIDE_V4);
    assert!(served(&fleet.world.home).is_null());
    // And goes when it has.
    fleet.second.start();
    other.wait_until("the second serves it again", || served(&other) == "second");
    assert!(served(&fleet.world.home).is_null(), "it was here before");
}

#[test]
fn a_home_hears_of_the_others_and_begins_with_them() {
    let Some(mut fleet) = Fleet::new() else { return };
    let file = fleet.world.scratch.path().join("fleet.db");
    fleet.configure(&format!("sqlite:{}", file.display()));
    let peers = |fleet: &Fleet| -> Vec<String> {
        let peers = fleet.world.home.status()["peers"].as_array().unwrap().clone();
        let connected = peers.iter().filter(|peer| peer["connected"] == true);
        connected.map(|peer| peer["name"].as_str().unwrap().to_owned()).collect()
    };
    // Its config has the first one alone.
    fleet.world.concentrator.start();
    fleet.second.start();
    fleet.world.home.start();
    fleet.world.home.wait_until("it has both", || peers(&fleet) == ["concentrator", "c2"]);
    fleet.world.home.wait_for_ping(INSIDE_V4);

    // Also where the one of its config is gone when it starts.
    fleet.world.concentrator.kill();
    let served = |fleet: &Fleet| fleet.world.home.status()["peers"][0]["served_by"].clone();
    fleet.world.home.wait_until("the second serves", || served(&fleet) == "c2");
    fleet.world.home.stop();
    fleet.world.home.start();
    fleet.world.home.wait_until("the second serves again", || served(&fleet) == "c2");
    fleet.world.home.wait_for_ping(INSIDE_V4);

    // One that has gone for good goes, once another serves.
    fleet.world.concentrator.start();
    fleet.world.home.wait_until("the first serves", || served(&fleet).is_null());
    fleet.second.stop();
    fleet.world.home.wait_until("it has one", || {
        fleet.world.home.status()["peers"].as_array().unwrap().len() == 1
    });
    fleet.second.start();
    fleet.world.home.wait_until("it has both", || peers(&fleet) == ["concentrator", "c2"]);

    // Who doesn't want any has none.
    let without = fleet.world.home.config_text();
    let without = without.replacen("[[peer]]", "[[peer]]\nfollow_referrals = false", 1);
    fleet.world.home.write_text(&without);
    fleet.world.home.braid_ok(&["reload"]);
    fleet.world.home.wait_until("it has one again", || peers(&fleet) == ["concentrator"]);
    fleet.world.home.wait_for_ping(INSIDE_V4);
}

fn json(side: &Side, arguments: &[&str]) -> Value {
    serde_json::from_slice(&side.braid_ok(arguments)).unwrap()
}

struct Fleet {
    world: World,
    second: Side,
    /// Both announce whom they serve.
    announces: bool,
    /// How many homes each is for.
    capacities: [u32; 2],
    /// More sections of the first one's config.
    more_homes: String,
}

impl Fleet {
    fn new() -> Option<Fleet> {
        let world = World::new(&[link("dsl"), link("lte")])?;
        let second = Side::new(&NetNs::new().unwrap(), &world.scratch.path().join("second"));
        let mut netlink = second.namespace.run(Netlink::open).unwrap().unwrap();
        netlink.add_veth("c2", "r2", Some(&world.concentrator.namespace)).unwrap();
        second.sh(&format!(
            "ip addr add {SECOND}/30 dev c2 && ip link set c2 up && ip link set lo up \
             && ip route add default via {FIRST}"
        ));
        world.concentrator.sh(&format!(
            "sysctl -qw net.ipv4.ip_forward=1 && ip link set r2 up \
             && ip route add {SECOND} dev r2 src {FIRST}"
        ));
        let (capacities, more_homes) = ([1000; 2], String::new());
        Some(Fleet { world, second, announces: false, capacities, more_homes })
    }

    /// Brings all up; the home's config has both.
    fn connect(&mut self, registry: &str) {
        self.configure(registry);
        self.world.add_stand_in(&self.second, SECOND);
        self.world.concentrator.start();
        self.second.start();
        self.world.home.start();
        self.world.home.wait_until("both are connected", || self.is_connected());
        // Whatever the fleet's own order is.
        self.world.concentrator.braid_ok(&["concentrator", "move-home", "home", "c1"]);
    }

    /// Only the first one's config has the home, and the home's only the first one.
    fn configure(&mut self, registry: &str) {
        let of_fleet = |name: &str, endpoint: &str, capacity: u32| {
            format!(
                "[fleet]\nname = \"{name}\"\nregistry = \"{registry}\"\n\
                 endpoints = [\"{endpoint}:51900\"]\ncapacity = {capacity}\n"
            )
        };
        let routing = if self.announces { ANNOUNCES } else { LEAVE_HOST_ALONE };
        let tunnel = Tunnel {
            concentrator_routing: routing,
            more_homes: &self.more_homes,
            ..Tunnel::default()
        };
        let [of_first, of_second] = self.capacities;
        self.world.write_configs(&tunnel);
        self.world.concentrator.append_to_config(&of_fleet("c1", FIRST, of_first));
        let listen = format!("{}\nlisten = [\"{SECOND}:51900\"]", tunnel.concentrator);
        self.second.write_config(&listen, routing, &of_fleet("c2", SECOND, of_second));
    }

    fn is_connected(&self) -> bool {
        let peers = self.world.home.status()["peers"].clone();
        (0..2).all(|peer| peers[peer]["connected"] == true)
    }

    /// Whether the home's address is in the table of each, as the kernel has it.
    fn announced(&self) -> [bool; 2] {
        [&self.world.concentrator, &self.second].map(|side| {
            side.sh("ip route show table 5190 2>/dev/null || true").contains("10.77.0.2")
        })
    }

    /// As the home has it, and as the registry has it.
    fn wait_until_served_by(&self, name: &str) {
        let server = if name == "c1" { Value::Null } else { "second".into() };
        self.world.home.wait_until(name, || {
            let at_home = self.world.home.status()["peers"][0]["served_by"].clone();
            let fleet = json(&self.world.concentrator, &["concentrator", "status", "--json"]);
            at_home == server && fleet["homes"][0]["served_by"] == name
        });
        self.world.home.wait_for_ping(INSIDE_V4);
    }
}

/// A member of etcd that ends with the test.
pub struct Etcd(pub Option<Child>);

impl Etcd {
    /// On the first concentrator's host.
    fn start(fleet: &Fleet) -> Option<Etcd> {
        if !Path::new("/usr/bin/etcd").exists() {
            eprintln!("SKIPPED: etcd isn't installed");
            return None;
        }
        let mut etcd = Etcd(None);
        etcd.begin(fleet);
        Some(etcd)
    }

    fn begin(&mut self, fleet: &Fleet) {
        let url = format!("http://{FIRST}:2379");
        let mut command = fleet.world.concentrator.namespace.command("/usr/bin/etcd");
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", "http://127.0.0.1:2380"]);
        command.arg("--data-dir").arg(fleet.world.scratch.path().join("etcd"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.0 = Some(command.spawn().unwrap());
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop();
    }
}
