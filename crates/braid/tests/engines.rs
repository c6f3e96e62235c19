//! `braid up` with the kernel's engines, for real: up, traffic over both links,
//! a link lost and back, down leaves nothing. In namespaces of this kernel: routing
//! by next-hop groups, by connections, and MPTCP's endpoints. The others:
//! `engines_in_vm`.

use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");
/// Far more than needed: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);
const DATAGRAMS: u64 = 300;

#[test]
fn a_link_that_falls_silent_is_left_out_until_it_answers_again() {
    let Some(host) = Host::new() else { return };
    let before = host.snapshot();
    for engine in ["ecmp", "pcc"] {
        host.write(engine, "routes = [\"0.0.0.0/0\"]\nmasquerade = true\nwatch = \"gateway\"");
        host.braid(&["up"]);
        assert_eq!(host.run(&["up"]).status.code(), Some(6), "up already");
        let [first, second] = host.spread();
        assert!(first > 50 && second > 50, "{engine}: {first} and {second} by the links");

        // Carrier and addresses stay, but nothing comes through any more.
        host.far("nft 'add table netdev hole; add chain netdev hole in { type filter hook ingress device far1 priority 0; policy drop; }'");
        host.wait_for("the first link is left out", |status| status["links"][0]["used"] == false);
        let trouble = host.status()["links"][0]["trouble"].to_string();
        assert!(trouble.contains("10.0.1.1 doesn't answer"), "{trouble}");
        let [_, second] = host.spread();
        assert!(second >= DATAGRAMS - 20, "{engine}: all by the other: {second}");
        host.far("nft delete table netdev hole");
        host.wait_for("the first link is back", |status| status["links"][0]["used"] == true);
        host.wait_until("both links take flows", || host.spread().iter().all(|&sent| sent > 50));

        host.braid(&["down"]);
        assert_eq!(host.snapshot(), before, "{engine} leaves nothing behind");
    }
}

#[test]
fn a_link_that_goes_and_returns_is_taken_in_again_and_a_crash_is_taken_back() {
    let Some(host) = Host::new() else { return };
    let before = host.snapshot();
    for engine in ["mptcp", "ecmp"] {
        let settings =
            if engine == "ecmp" { "routes = [\"0.0.0.0/0\"]\nmasquerade = true" } else { "" };
        host.write(engine, settings);
        host.braid(&["up"]);
        let set = host.snapshot();
        host.sh("ip link set link1 down");
        host.wait_for("it is left out", |status| status["links"][0]["used"] == false);
        host.sh("ip link set link1 up");
        host.wait_for("it is back", |status| status["links"][0]["used"] == true);
        host.wait_until("it is set up again", || {
            let found = if engine == "ecmp" { "ip nexthop" } else { "ip mptcp endpoint" };
            let text = host.sh(found);
            text.contains("dev link1") && text.contains("dev link2")
        });

        host.wait_until("routes are back, too", || host.snapshot() == set);
        let pid = host.status()["pid"].as_u64().unwrap();
        host.braid(&["restart"]);
        assert_eq!(host.status()["pid"], pid, "{engine}: the process goes on");
        assert_eq!(host.snapshot(), set, "{engine}: a restart changes nothing");
        host.sh(&format!("kill -9 {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done"));
        assert_ne!(host.snapshot(), before, "a crash leaves it set up");
        host.braid(&["up"]);
        host.braid(&["down"]);
        assert_eq!(host.snapshot(), before, "{engine} leaves nothing behind");
    }
}

#[test]
fn a_changed_config_is_taken_over_and_the_metrics_tell_of_each_link() {
    let Some(host) = Host::new() else { return };
    let before = host.snapshot();
    let settings = "routes = [\"0.0.0.0/0\"]\nmasquerade = true";
    host.write("ecmp", settings);
    host.braid(&["up"]);
    let pid = host.status()["pid"].clone();
    let metrics = || host.sh("curl -s --unix-socket c.sock http://braid/metrics");
    for line in [
        r#"braid_group_up{interface="all0",engine="ecmp",mode="layer3+4"} 1"#,
        "braid_group_members 2",
        r#"braid_group_link_active{link="b"} 1"#,
    ] {
        let text = metrics();
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }

    // The second link waits from now on.
    let whole = std::fs::read_to_string(host.config()).unwrap();
    std::fs::write(host.config(), format!("{whole}standby = true\n")).unwrap();
    host.braid(&["reload"]);
    assert_eq!(host.status()["pid"], pid, "it is the same daemon");
    assert!(metrics().contains(r#"braid_group_link_active{link="b"} 0"#), "{}", metrics());
    let [first, second] = host.spread();
    assert!(first >= DATAGRAMS - 20 && second < 20, "{first} and {second} by the links");

    // What can't be taken over changes nothing.
    std::fs::write(host.config(), whole.replace("name = \"all0\"", "name = \"all1\"")).unwrap();
    let refused = host.run(&["reload"]);
    assert!(!refused.status.success());
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("interface.name") && told.contains("braid down"), "{told}");
    std::fs::write(host.config(), whole).unwrap();
    host.braid(&["reload"]);
    host.wait_until("both links take flows", || host.spread().iter().all(|&sent| sent > 50));
    host.braid(&["down"]);
    assert_eq!(host.snapshot(), before, "nothing is left behind");
}

#[test]
fn the_script_that_is_exported_does_the_same_and_takes_it_back() {
    let Some(host) = Host::new() else { return };
    let before = host.snapshot();
    for (engine, settings) in [
        ("ecmp", "routes = [\"0.0.0.0/0\"]\nmasquerade = true\nresilient = true"),
        ("ecmp", "routes = [\"0.0.0.0/0\"]\nmasquerade = true"),
        ("pcc", "routes = [\"0.0.0.0/0\"]\nclassifier = \"flow\""),
        ("mptcp", ""),
    ] {
        host.write(engine, settings);
        host.braid(&["up"]);
        let by_braid = host.snapshot();
        host.braid(&["down"]);
        host.braid(&["export", "--format", "iproute2", "--output", "walk"]);
        host.sh("sh walk/all0.sh up");
        assert_eq!(plain(&host.snapshot()), plain(&by_braid), "{engine}: the script does the same");
        if engine != "mptcp" {
            let sent = host.spread();
            assert!(sent.iter().all(|&packets| packets > 30), "{engine}: {sent:?}");
        }
        host.sh("sh walk/all0.sh down");
        assert_eq!(host.snapshot(), before, "{engine}: the script takes all back");
    }
}

#[test]
fn what_cannot_be_is_told_with_its_place_or_what_brings_it() {
    let Some(host) = Host::new() else { return };
    let before = host.snapshot();
    host.write("ecpm", "");
    let wrong = String::from_utf8(host.run(&["up"]).stderr).unwrap();
    assert!(wrong.contains("braid.toml:3") && wrong.contains("did you mean \"ecmp\"?"), "{wrong}");
    host.write("bonding", "mode = \"802.3ad\"\narp_targets = [\"10.0.1.1\"]");
    let wrong = String::from_utf8(host.run(&["up"]).stderr).unwrap();
    assert!(wrong.contains("braid.toml:8") && wrong.contains("ARP"), "{wrong}");
    host.write("bonding", "");
    let up = host.run(&["up"]);
    if up.status.success() {
        eprintln!("this kernel has bonding: nothing is lacking");
        host.braid(&["down"]);
    } else {
        let told = String::from_utf8(up.stderr).unwrap();
        assert!(told.contains("modprobe bonding") && told.contains("CONFIG_BONDING"), "{told}");
    }
    assert_eq!(host.snapshot(), before, "a failed start leaves nothing behind");
}

#[test]
fn a_program_that_knows_no_mptcp_has_it_by_the_proxies() {
    let Some(host) = Host::new() else { return };
    // MPTCP adds subflows; the first goes by the host's own route.
    host.sh("ip route add default via 10.0.1.1 dev link1");
    let before = host.snapshot();
    host.write(
        "mptcp",
        "proxy = true\nproxy_far_end = \"10.0.1.1\"\nproxy_toward = [\"192.0.2.0/24\"]",
    );
    let far_folder = host.scratch.path().join("far");
    std::fs::create_dir(&far_folder).unwrap();
    let far_config = far_folder.join("braid.toml");
    let text = "[interface]\nname = \"all1\"\nengine = \"mptcp\"\ncontrol = \"c.sock\"\nstate_dir = \"state\"\n\
         [engine]\nrole = \"responder\"\nproxy = true\nproxy_homes = [\"10.0.0.0/16\"]\nproxy_servers = [\"192.0.2.0/24\"]\n\
         [[link]]\nname = \"a\"\ninterface = \"far1\"\n[[link]]\nname = \"b\"\ninterface = \"far2\"\n";
    std::fs::write(&far_config, text).unwrap();
    let far = |command: &str| {
        let output =
            host.far.command(BRAID).arg(command).arg("-c").arg(&far_config).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    far("up");
    host.braid(&["up"]);
    let listener = host.far.run(|| std::net::TcpListener::bind("192.0.2.1:7777").unwrap()).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut got).unwrap();
        got.len()
    });
    let mptcp = || host.sh("nstat -asz MPTcpExtMPCapableSYNACKRX | awk '/SYNACKRX/ { print $2 }'");
    let established = mptcp();
    let send = || {
        let mut stream = std::net::TcpStream::connect("192.0.2.1:7777").unwrap();
        std::io::Write::write_all(&mut stream, &[7; 1_000_000]).unwrap();
    };
    host.near.run(send).unwrap();
    assert_eq!(answering.join().unwrap(), 1_000_000);
    assert_ne!(mptcp(), established, "it went by MPTCP");
    host.braid(&["down"]);
    far("down");
    assert_eq!(host.snapshot(), before, "nothing is left behind");
}

#[test]
fn the_plan_ranks_the_configs_links_and_given_ones() {
    let Some(host) = Host::new() else { return };
    host.write("pcc", "routes = [\"0.0.0.0/0\"]");
    let plan: Value = serde_json::from_slice(&host.braid(&["link", "plan", "--json"])).unwrap();
    assert_eq!(plan["links"][1]["name"], "b");
    assert!(plan["links"][0]["rtt_ms"].as_f64().unwrap() < 1000.0, "the router was pinged");
    assert_eq!(plan["engines"].as_array().unwrap().len(), 19);
    let given = [
        "link",
        "plan",
        "--link",
        "a=30Mbit,15ms",
        "--link",
        "b=20Mbit,40ms,0.1%",
        "--peer",
        "braid",
    ];
    let text = String::from_utf8(host.braid(&given)).unwrap();
    assert!(
        text.contains("1  tunnel (Braid)")
            && text.contains("each flow stays on the link of its hash"),
        "{text}"
    );
}

#[test]
fn the_plan_sees_loss_a_link_that_is_away_and_links_of_one_network() {
    let Some(host) = Host::new() else { return };
    let plan = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&host.braid(&[&["link", "plan", "--json"], arguments].concat()))
            .unwrap()
    };
    let usable = |plan: &Value| -> Vec<String> {
        let rows = plan["engines"].as_array().unwrap();
        let usable = rows.iter().filter(|row| row["possible"] == true);
        usable.map(|row| row["engine"].as_str().unwrap().to_owned()).collect()
    };
    host.write("pcc", "routes = [\"0.0.0.0/0\"]");
    // A third of what comes to the first router is lost.
    host.far("nft 'add table netdev hole; add chain netdev hole in { type filter hook ingress device far1 priority 0; }; \
              add rule netdev hole in numgen random mod 100 < 33 drop'");
    // Few pings are sent: now and then none of them is lost, or nearly all are.
    let mut seen = Vec::new();
    let found = (0..5).any(|_| {
        let plan = plan(&[]);
        let [lossy, whole] = [0, 1].map(|at| plan["links"][at]["loss"].as_f64().unwrap_or(1.0));
        seen.push((lossy, whole));
        (0.05..1.0).contains(&lossy) && whole == 0.0
    });
    assert!(found, "{seen:?}");
    host.far("nft delete table netdev hole");

    // Nobody there: that is said, and nothing else is made of it.
    host.far("ip addr del 10.0.1.1/24 dev far1");
    let silent = plan(&[]);
    assert!(
        silent["notes"].to_string().contains("10.0.1.1 doesn't answer pings over a"),
        "{silent}"
    );
    assert_eq!(silent["links"][0]["loss"], Value::Null);
    host.far("ip addr add 10.0.1.1/24 dev far1");

    // Two links into one network.
    host.sh("ip addr del 10.0.2.2/24 dev link2; ip addr add 10.0.1.3/24 dev link2");
    host.far("ip addr add 10.0.1.4/24 dev far2");
    host.write_links("pcc", "routes = [\"0.0.0.0/0\"]", ["10.0.1.1", "10.0.1.4"]);
    let near = plan(&[]);
    assert!(
        near["notes"].to_string().contains("a and b are in one network, 10.0.1.0/24"),
        "{near}"
    );

    // A link whose other end is down is none to reckon with.
    host.far("ip link set far2 down");
    let away = plan(&[]);
    assert_eq!(away["left_out"][0]["link"], "b");
    assert_eq!(away["left_out"][0]["why"], "link2 has no carrier");
    assert_eq!(away["links"].as_array().unwrap().len(), 1);
    assert_eq!(usable(&away), ["best link alone"], "a single link can't be joined");
    host.far("ip link set far1 down");
    let none = host.run(&["link", "plan"]);
    let told = String::from_utf8(none.stderr).unwrap();
    assert!(told.contains("no link can be used now: a: link1 has no carrier"), "{told}");

    for wrong in ["=5Mbit", "a=0Mbit", "a=fast"] {
        assert_eq!(host.run(&["link", "plan", "--link", wrong]).status.code(), Some(2), "{wrong}");
    }
}

/// A host with two links to another one, which has the address of a server.
struct Host {
    near: NetNs,
    far: NetNs,
    scratch: tempfile::TempDir,
}

impl Host {
    /// None where namespaces can't be made.
    fn new() -> Option<Host> {
        let (near, far) = match (NetNs::new(), NetNs::new()) {
            (Ok(near), Ok(far)) => (near, far),
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("SKIPPED: no network namespaces here: {error}");
                return None;
            }
        };
        let host = Host { near, far, scratch: tempfile::tempdir().unwrap() };
        for number in [1, 2] {
            host.sh(&format!("ip link add link{number} type veth peer name far{number}"));
            host.near.run(|| host.far.move_here(&format!("far{number}")).unwrap()).unwrap();
            host.sh(&format!(
                "ip addr add 10.0.{number}.2/24 dev link{number}; ip link set link{number} up"
            ));
            host.far(&format!(
                "ip addr add 10.0.{number}.1/24 dev far{number}; ip link set far{number} up"
            ));
        }
        host.far("ip addr add 192.0.2.1/32 dev lo");
        Some(host)
    }

    fn config(&self) -> PathBuf {
        self.scratch.path().join("braid.toml")
    }

    fn write(&self, engine: &str, settings: &str) {
        self.write_links(engine, settings, ["10.0.1.1", "10.0.2.1"]);
    }

    fn write_links(&self, engine: &str, settings: &str, routers: [&str; 2]) {
        let mut text = format!(
            "[interface]\nname = \"all0\"\nengine = \"{engine}\"\ncontrol = \"c.sock\"\nstate_dir = \"state\"\n[engine]\n{settings}\n"
        );
        for ((name, number), router) in [("a", 1), ("b", 2)].into_iter().zip(routers) {
            text.push_str(&format!(
                "[[link]]\nname = \"{name}\"\ninterface = \"link{number}\"\ngateway = \"{router}\"\n"
            ));
        }
        std::fs::write(self.config(), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.near.command(BRAID);
        command.args(arguments).arg("--config").arg(self.config());
        command.current_dir(self.scratch.path()).output().unwrap()
    }

    fn braid(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(arguments);
        assert!(output.status.success(), "braid {arguments:?}: {output:?}");
        output.stdout
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.braid(&["status", "--json"])).unwrap()
    }

    fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) {
        self.wait_until(what, || is(&self.status()));
    }

    fn wait_until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !is() {
            assert!(Instant::now() < give_up, "{what}: not within {PATIENCE:?}: {}", self.status());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Packets that each link sent while many flows sent one each.
    fn spread(&self) -> [u64; 2] {
        let count = || {
            let mut netlink = Netlink::open().unwrap();
            ["link1", "link2"].map(|name| netlink.link(name).unwrap().sent_packets)
        };
        let send = || {
            let before = count();
            for _ in 0..DATAGRAMS {
                let sent = UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", "192.0.2.1:9");
                // A translated flow whose link has changed loses a packet by the
                // kernel's word (nf_nat_oif_changed): its port was used before.
                let moved = |error: &std::io::Error| error.raw_os_error() == Some(libc::EPERM);
                assert!(sent.as_ref().map_or_else(moved, |_| true), "{sent:?}");
            }
            let after = count();
            [after[0] - before[0], after[1] - before[1]]
        };
        self.near.run(send).unwrap()
    }

    fn snapshot(&self) -> String {
        let text = self.sh(
            "ip -d -o addr show | grep -v inet6; ip route show table all; ip rule; ip -6 rule; \
             ip nexthop; nft list ruleset; ip mptcp endpoint; ip mptcp limits; tc qdisc show; \
             head /proc/sys/net/ipv4/conf/*/rp_filter /proc/sys/net/ipv4/fib_multipath_hash_policy \
             /proc/sys/net/ipv4/conf/all/src_valid_mark",
        );
        let own = ["fe80::", "ff00::"];
        let lines = text.lines().filter(|line| !own.iter().any(|net| line.contains(net)));
        lines.map(|line| line.replace(" linkdown", "")).collect::<Vec<_>>().join("\n")
    }

    fn sh(&self, script: &str) -> String {
        sh(&self.near, script, self.scratch.path())
    }

    fn far(&self, script: &str) {
        sh(&self.far, script, self.scratch.path());
    }
}

fn sh(namespace: &NetNs, script: &str, folder: &std::path::Path) -> String {
    let output = namespace.command("sh").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Without who has set something (`proto`), which is all that differs.
fn plain(snapshot: &str) -> String {
    let lines = snapshot.lines().map(|line| {
        let mut words: Vec<&str> = Vec::new();
        let mut skip = false;
        for word in line.split_whitespace() {
            match (skip, word) {
                (true, _) => skip = false,
                (false, "proto") => skip = true,
                (false, word) => words.push(word),
            }
        }
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}
