//! What many rules cost. Measured, not tested:
//! `cargo test -p braid --test host scale -- --ignored --nocapture`.

use crate::ruled::{TUNNEL, V4, leases_file, resolve, ruled_world, start, whoami};
use crate::world::{World, sh};
use braid_linux::netns::NetNs;
use simple_dns::TYPE;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const NAMES: usize = 10_000;
const ASKED: usize = 40;

#[test]
#[ignore = "a measurement"]
fn ten_thousand_names() {
    let lists = |world: &World| {
        let list = leases_file(world).with_file_name("names");
        let names: String = (0..NAMES).map(|n| format!("host{n}.many.example\n")).collect();
        std::fs::write(&list, names + "bank.example\n").unwrap();
        format!(
            "[[rule]]\nname = \"many\"\nmatch = {{ domain_file = {list:?} }}\ndo = \"direct\"\n"
        )
    };
    measure("10,000 names in one rule", lists);
}

#[test]
#[ignore = "a measurement"]
fn a_thousand_rules_of_ten_names() {
    measure("10,000 names in 1,000 rules", |_| many_rules(NAMES / 10, 10));
}

#[test]
#[ignore = "a measurement"]
fn ten_thousand_rules_of_one_name() {
    measure("10,000 names in 10,000 rules", |_| many_rules(NAMES, 1));
}

fn many_rules(rules: usize, names: usize) -> String {
    let mut text = String::new();
    for rule in 0..rules {
        let names: Vec<String> =
            (0..names).map(|n| format!("\"host{n}.many{rule}.example\"")).collect();
        let names = names.join(", ");
        writeln!(
            text,
            "[[rule]]\nname = \"many{rule}\"\nmatch = {{ domain = [{names}] }}\ndo = \"direct\""
        )
        .unwrap();
    }
    text + "[[rule]]\nname = \"bank\"\nmatch = { domain = \"bank.example\" }\ndo = \"direct\"\n"
}

/// What rules cost of the processors where packets of 1500 bytes are forwarded, as many as can be
/// up to 1 Gbit/s, beside the tunnel and by it. Most of it is counted as the sender's, whose
/// packets cross the home at once, the tunnel's as the daemons'.
#[test]
#[ignore = "a measurement"]
fn a_gigabit_beside_the_tunnel() {
    let Some((mut world, lan)) = ruled_world() else { return };
    run_name_server(&mut world);
    let list = leases_file(&world).with_file_name("names");
    let names: String = (0..NAMES).map(|n| format!("host{n}.many.example\n")).collect();
    std::fs::write(&list, names + "bank.example\n").unwrap();
    let by_address = "[[rule]]\nname = \"bank\"\nmatch = { to = \"192.0.2.1\" }\ndo = \"direct\"\n";
    let by_names = format!(
        "[[rule]]\nname = \"bank\"\nmatch = {{ domain_file = {list:?} }}\ndo = \"direct\"\n"
    );
    let mut server = world.internet.command("iperf3");
    server.args(["-s", "-p", "5201"]);
    world.run_service(server);
    sh(&lan, "ip link set eth0 gso_max_segs 1");
    let many = many_rules(NAMES, 1);
    let cases = [
        ("by the tunnel, no rule", "", false),
        ("by the tunnel, 10,000 rules", many.as_str(), false),
        ("beside it, one address", by_address, false),
        ("beside it, 10,000 names", by_names.as_str(), true),
        ("beside it, 10,000 rules", many.as_str(), true),
    ];
    for (what, rules, asks) in cases.repeat(5) {
        start(&mut world, "dns = [\"192.0.2.53\"]", rules);
        if asks {
            assert_eq!(resolve(&lan, "bank.example", TYPE::A), 1);
        }
        let daemons = [world.home.process(), world.concentrator.process()];
        let before: f64 = daemons.map(processor_seconds).iter().sum();
        let said = sh(&lan, &format!("timeout 60 iperf3 -c {V4} -b 1G -t 5 -J"));
        let daemons = daemons.map(processor_seconds).iter().sum::<f64>() - before;
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let number = |at: &str| said.pointer(&format!("/end/{at}")).unwrap().as_f64().unwrap();
        let used = |whose: &str| {
            number(&format!("cpu_utilization_percent/{whose}_total")) / 100.0
                * number("sum_sent/seconds")
        };
        let gigabits = number("sum_received/bytes") * 8e-9;
        println!(
            "{what}: {:.0} Mbit/s; seconds a gigabit: sender and server {:.3}, daemons {:.3}",
            number("sum_received/bits_per_second") / 1e6,
            (used("host") + used("remote")) / gigabits,
            daemons / gigabits
        );
        world.home.stop();
        world.concentrator.stop();
    }
}

/// What a process has used.
pub fn processor_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    let ticks = after_name.split(' ').skip(11).take(2).map(|it| it.parse::<f64>().unwrap());
    // USER_HZ.
    ticks.sum::<f64>() / 100.0
}

fn measure(what: &str, rules: impl Fn(&World) -> String) {
    let Some((mut world, lan)) = ruled_world() else { return };
    run_name_server(&mut world);
    let dns = "dns = [\"192.0.2.53\"]";
    let rules = rules(&world);
    // Without a rule for names nobody answers for a server that isn't there.
    let one = "[[rule]]\nname = \"one\"\nmatch = { domain = \"bank.example\" }\ndo = \"direct\"\n";
    let (one, many) = (("one name", one), (what, rules.as_str()));
    for (what, rules) in [one, many, one, many] {
        let begun = Instant::now();
        start(&mut world, dns, rules);
        let started = begun.elapsed();
        assert_eq!(whoami(&lan, V4, 80).unwrap(), TUNNEL);
        let look_up = |name: &str| {
            let each = (0..ASKED).map(|n| {
                let begun = Instant::now();
                assert_eq!(resolve(&lan, &format!("x{n}.{name}"), TYPE::A), 1);
                begun.elapsed()
            });
            median(each.collect())
        };
        let connect = |port| {
            let each = (0..ASKED).map(|_| timed(&lan, port));
            median(each.collect())
        };
        println!(
            "{what}: up {started:.2?}; look-up of another name {:.2?}, of a rule's {:.2?}; first \
             connection {:.2?}",
            look_up("other.example"),
            look_up("bank.example"),
            connect(80),
        );
        world.home.stop();
        world.concentrator.stop();
    }
}

fn run_name_server(world: &mut World) {
    world.in_internet("ip addr add 192.0.2.53/32 dev lo");
    let mut server = world.internet.command("dnsmasq");
    server.args(["--conf-file=/dev/null", "--keep-in-foreground", "--user=root", "--pid-file="]);
    server.args(["--no-resolv", "--no-hosts", "--local-ttl=60", "--listen-address=192.0.2.53"]);
    server.args(["--bind-interfaces", "--address=/bank.example/192.0.2.1"]);
    server.args(["--address=/other.example/192.0.2.1"]);
    world.run_service(server);
}

fn timed(from: &NetNs, port: u16) -> Duration {
    let begun = Instant::now();
    whoami(from, V4, port).unwrap();
    begun.elapsed()
}

fn median(mut each: Vec<Duration>) -> Duration {
    each.sort_unstable();
    each[each.len() / 2]
}
