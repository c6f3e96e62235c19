use crate::side::Side;
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Where the concentrator listens.
pub const ENDPOINT: &str = "198.51.100.1:51900";
/// A home with uplinks `wan1`, `wan2`, …, each to its own provider; one namespace plays
/// all providers and the Internet behind them. The concentrator's `eth0` leads there too.
pub struct World {
    // Dropped in this order: the daemons go before their network.
    pub home: Side,
    pub concentrator: Side,
    services: Vec<Service>,
    pub internet: NetNs,
    scratch: tempfile::TempDir,
}

/// How an uplink gets its address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Uplink {
    /// 10.1.N.2 and fd00:N::2, set by hand.
    Static,
    /// IPv6 only, by router advertisements.
    Slaac,
    /// IPv4 only, by DHCP: 10.1.N.50 to 10.1.N.60.
    Dhcp,
    /// IPv6 only, by DHCPv6: fd00:N::50 to fd00:N::60. Router advertisements give the way out
    /// and no address.
    Dhcp6,
}

/// A program of the test's own, ended with it.
pub struct Service(Child);

impl World {
    /// None where namespaces can't be made, or a program is lacking.
    pub fn new(uplinks: &[Uplink]) -> Option<World> {
        let has = |program: &str| std::process::Command::new(program).arg("--version").output();
        if let Err(error) = NetNs::new() {
            eprintln!("SKIPPED: no network namespaces here: {error}");
            return None;
        }
        for (kind, program) in [
            (Uplink::Slaac, "dnsmasq"),
            (Uplink::Dhcp, "dnsmasq"),
            (Uplink::Dhcp, "udhcpc"),
            (Uplink::Dhcp6, "dnsmasq"),
            (Uplink::Dhcp6, "dhclient"),
        ] {
            if uplinks.contains(&kind) && has(program).is_err() {
                eprintln!("SKIPPED: {program} is not installed (try ./setup)");
                return None;
            }
        }
        let [home, concentrator, internet] = [(); 3].map(|()| NetNs::new().unwrap());
        let scratch = tempfile::tempdir().unwrap();
        let side = |namespace, name: &str| Side::new(namespace, &scratch.path().join(name));
        let mut world = World {
            home: side(&home, "home"),
            concentrator: side(&concentrator, "concentrator"),
            services: Vec::new(),
            internet,
            scratch,
        };
        for namespace in [&world.home.namespace, &concentrator, &world.internet] {
            sh(namespace, "ip link set lo up");
        }
        for (at, uplink) in uplinks.iter().enumerate() {
            world.add_uplink(at + 1, *uplink);
        }
        world.connect(&concentrator, "eth0", "con");
        world.in_internet(
            "ip addr add 198.51.100.254/24 dev con; ip addr add 2001:db8:1::ff/64 dev con nodad
             ip addr add 192.0.2.1/32 dev lo; ip addr add 2001:db8:ffff::1/128 dev lo nodad
             echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
        );
        sh(
            &concentrator,
            "ip addr add 198.51.100.1/24 dev eth0; ip addr add 2001:db8:1::1/64 dev eth0 nodad
             ip route add default via 198.51.100.254",
        );
        Some(world)
    }

    /// Plugs uplink N in.
    pub fn add_uplink(&mut self, n: usize, uplink: Uplink) {
        let (wan, isp) = (format!("wan{n}"), format!("isp{n}"));
        let home = self.home.namespace.run(NetNs::current).unwrap().unwrap();
        self.connect(&home, &wan, &isp);
        self.in_internet(&format!(
            "ip addr add 10.1.{n}.1/24 dev {isp}; ip addr add fd00:{n}::1/64 dev {isp} nodad"
        ));
        match uplink {
            Uplink::Static => {
                self.home.sh(&format!(
                    "ip addr add 10.1.{n}.2/24 dev {wan}; ip addr add fd00:{n}::2/64 dev {wan} nodad
                     ip route add default via 10.1.{n}.1 metric {n}0
                     ip route add default via fd00:{n}::1 metric {n}0"
                ));
            }
            Uplink::Slaac => self.advertise(&isp),
            Uplink::Dhcp => {
                self.in_internet(&format!("ip -6 addr flush dev {isp} scope global"));
                self.lease(n, &isp);
            }
            Uplink::Dhcp6 => {
                // Nobody else has its address: a second less each time.
                self.home.sh(&format!("echo 0 > /proc/sys/net/ipv6/conf/{wan}/accept_dad"));
                self.lease6(n, &isp);
            }
        }
    }

    /// A DHCP server on a device of the Internet.
    fn lease(&mut self, n: usize, device: &str) {
        let mut command = self.internet.command("dnsmasq");
        command.args(["--conf-file=/dev/null", "--keep-in-foreground", "--port=0", "--user=root"]);
        command.args(["--pid-file=", "--leasefile-ro", "--bind-dynamic", "--dhcp-authoritative"]);
        command.args(["--no-ping", "--dhcp-sequential-ip"]);
        command.arg(format!("--interface={device}"));
        command.arg(format!("--dhcp-range=10.1.{n}.50,10.1.{n}.60,255.255.255.0,10m"));
        command.arg(format!("--dhcp-option=option:router,10.1.{n}.1"));
        self.run_service(command);
    }

    /// A DHCPv6 server on a device of the Internet, and the advertisements that send hosts to it.
    fn lease6(&mut self, n: usize, device: &str) {
        let mut command = self.internet.command("dnsmasq");
        command.args(["--conf-file=/dev/null", "--keep-in-foreground", "--port=0", "--user=root"]);
        command.args(["--pid-file=", "--leasefile-ro", "--bind-dynamic", "--dhcp-authoritative"]);
        command.args(["--enable-ra", "--no-ping"]);
        command.arg(format!("--interface={device}"));
        command.arg(format!("--dhcp-range=fd00:{n}::50,fd00:{n}::60,64,10m"));
        command.arg(format!("--ra-param={device},4,600"));
        self.run_service(command);
    }

    /// A script that gets an uplink its lease by DHCPv6; `OTHER` is an address in place of the
    /// lease's. The client doesn't stay.
    pub fn lease6_script(&self) -> String {
        let [bound, get] = ["bound6", "get6"].map(|name| self.scratch.path().join(name));
        let set = "#!/bin/sh\n[ \"$reason\" = BOUND6 ] || exit 0\n\
            ip -6 addr flush dev $interface scope global\n\
            ip -6 addr add ${OTHER:-$new_ip6_address}/128 dev $interface nodad\n";
        // Without an address of the link's own it gives up at once.
        let client = format!(
            "#!/bin/sh\ni=$1\nd={}/$i\n\
             for try in $(seq 40); do\n\
             rm -f $d.lease $d.pid\n\
             ip -6 addr show dev $i scope link -tentative | grep -q inet6 &&\n\
             timeout 5 dhclient -6 -1 -D LL -sf {} -lf $d.lease -pf $d.pid $i >$d.log 2>&1 && done=1\n\
             [ ! -e $d.pid ] || kill $(cat $d.pid)\n\
             [ -z \"$done\" ] || exit 0\nsleep 0.2\ndone\ncat $d.log >&2\nexit 1\n",
            self.scratch.path().display(),
            bound.display(),
        );
        executable(&bound, set);
        executable(&get, &client)
    }

    /// What udhcpc runs with a lease; `OTHER` is an address in place of the lease's.
    pub fn lease_script(&self) -> String {
        let script = self.scratch.path().join("lease");
        let text = "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\n\
            ip -4 addr flush dev $interface\nip addr add ${OTHER:-$ip}/24 dev $interface\n\
            ip route replace default via $router dev $interface metric 20\n";
        executable(&script, text)
    }

    /// A script that takes an uplink's device away and gives another of its name; its arguments are
    /// the device and the one that it leads to.
    pub fn recreate_script(&mut self) -> String {
        // Something by which to name the namespace.
        let mut command = self.internet.command("sleep");
        command.arg("infinity");
        let internet = self.run_service(command);
        let text = format!(
            "#!/bin/sh\nset -e\nn=${{1#wan}}\nown=$(cat /sys/class/net/$1/address)\n\
             ip link del $1\nsleep 0.2\n\
             ip link add $1 address $own type veth peer name $2 netns {internet}\n\
             nsenter --net=/proc/{internet}/ns/net sh -ec \"ip link set $2 up
             ip addr add 10.1.$n.1/24 dev $2; ip addr add fd00:$n::1/64 dev $2 nodad\"\n\
             ip link set $1 up\n",
        );
        executable(&self.scratch.path().join("recreate"), &text)
    }

    /// A LAN behind the home, by `lan0`: its host has 192.168.7.2 and fd00:77::2.
    pub fn add_lan(&self) -> NetNs {
        let lan = NetNs::new().unwrap();
        self.home
            .namespace
            .run(|| Netlink::open()?.add_veth("lan0", "eth0", Some(&lan)))
            .unwrap()
            .unwrap();
        self.home.sh(
            "ip link set lan0 up; ip addr add 192.168.7.1/24 dev lan0
             ip addr add fd00:77::1/64 dev lan0 nodad
             echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
        );
        sh(
            &lan,
            "ip link set lo up; ip link set eth0 up; ip addr add 192.168.7.2/24 dev eth0
             ip addr add fd00:77::2/64 dev eth0 nodad; ip route add default via 192.168.7.1
             ip route add default via fd00:77::1",
        );
        lan
    }

    fn connect(&self, namespace: &NetNs, device: &str, far: &str) {
        let far_namespace = &self.internet;
        namespace
            .run(|| Netlink::open()?.add_veth(device, far, Some(far_namespace)))
            .unwrap()
            .unwrap();
        sh(namespace, &format!("ip link set {device} up"));
        self.in_internet(&format!("ip link set {far} up"));
    }

    /// Router advertisements for the network that a device of the Internet has.
    pub fn advertise(&mut self, device: &str) {
        let mut command = self.internet.command("dnsmasq");
        command.args(["--conf-file=/dev/null", "--keep-in-foreground", "--port=0", "--user=root"]);
        command.args(["--pid-file=", "--leasefile-ro", "--enable-ra", "--bind-dynamic"]);
        command.arg(format!("--interface={device}"));
        command.arg(format!("--dhcp-range=::,constructor:{device},ra-only,64,600"));
        command.arg(format!("--ra-param={device},4,600"));
        self.run_service(command);
    }

    /// Its process's number.
    pub fn run_service(&mut self, mut command: std::process::Command) -> u32 {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let service = Service(command.spawn().unwrap());
        let number = service.0.id();
        self.services.push(service);
        number
    }

    pub fn in_internet(&self, script: &str) -> String {
        sh(&self.internet, script)
    }

    /// Both ends' configs; `home` and `concentrator` are lines of their `[routing]`.
    pub fn write_configs(&self, uplinks: usize, home: &str, concentrator: &str) {
        self.write_configs_for(ENDPOINT, uplinks, home, concentrator);
    }

    pub fn write_configs_for(&self, endpoint: &str, uplinks: usize, home: &str, far: &str) {
        let listen = "addresses = [\"10.77.0.1/24\", \"fd77::1/64\"]\n\
             listen = [\"0.0.0.0:51900\", \"[::]:51900\"]";
        let peer = format!(
            "[[peer]]\nname = \"home\"\npublic_key = \"{}\"\nallowed_ips = [\"10.77.0.2\", \"fd77::2\"]\n",
            self.home.public_key()
        );
        self.concentrator.write_config(listen, far, &peer);
        let mut rest = String::new();
        for n in 1..=uplinks {
            let _ = write!(rest, "[[link]]\nname = \"wan{n}\"\ninterface = \"wan{n}\"\n");
        }
        let _ = write!(
            rest,
            "[[peer]]\nname = \"concentrator\"\npublic_key = \"{}\"\nendpoints = [\"{endpoint}\"]\n\
             allowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n",
            self.concentrator.public_key()
        );
        let addresses = "addresses = [\"10.77.0.2/24\", \"fd77::2/64\"]";
        self.home.write_config(addresses, home, &rest);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("HOME\n{}\n{}", self.home.describe(), state(&self.home.namespace));
            println!("CONCENTRATOR\n{}", self.concentrator.describe());
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a script; gives its path.
fn executable(script: &Path, text: &str) -> String {
    fs::write(script, text).unwrap();
    fs::set_permissions(script, PermissionsExt::from_mode(0o755)).unwrap();
    script.to_str().unwrap().to_owned()
}

/// Waits until a shell command succeeds.
pub fn wait_for(namespace: &NetNs, script: &str) {
    let give_up = Instant::now() + crate::PATIENCE;
    loop {
        let output = namespace.command("sh").args(["-c", script]).output().unwrap();
        if output.status.success() {
            return;
        }
        assert!(Instant::now() < give_up, "never: {script}\n{output:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs a shell command that must succeed.
pub fn sh(namespace: &NetNs, script: &str) -> String {
    let script = format!("set -e\n{script}");
    let output = namespace.command("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// All that is set on a host: rules, routes, firewall, settings; without what only counts
/// or ages, and the key that the kernel draws once for TCP Fast Open.
pub fn state(namespace: &NetNs) -> String {
    let script = "ip rule; ip -6 rule
        ip -4 route show table all | sort; ip -6 route show table all | sed 's/ expires [0-9]*sec//' | sort
        ip -brief addr | grep -v '^braid' | sed 's/@if[0-9]*//'; nft list ruleset | sed 's/packets [0-9]* bytes [0-9]*//'
        cd /proc/sys/net; grep -r . ipv4/conf ipv6/conf ipv4/ip_forward ipv4/tcp* 2>/dev/null |
            grep -v -e /braid -e stable_secret -e fastopen_key -e /tun -e mc_forwarding | sort";
    sh(namespace, script)
}

/// [`state`] after the kernel has done what it does in the background.
pub fn settled_state(namespace: &NetNs) -> String {
    let mut last = state(namespace);
    let mut calm = 0;
    let give_up = Instant::now() + crate::PATIENCE;
    while calm < 5 && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(100));
        let now = state(namespace);
        let ready = sh(namespace, "ip addr show tentative").is_empty();
        calm = if ready && now == last { calm + 1 } else { 0 };
        last = now;
    }
    last
}

/// The host is as it was, or the lines that differ are told.
pub fn assert_unchanged(namespace: &NetNs, before: &str) {
    let now = settled_state(namespace);
    let lacks = |there: &str, here: &str| -> Vec<String> {
        let here: Vec<&str> = here.lines().collect();
        there.lines().filter(|line| !here.contains(line)).map(str::to_owned).collect()
    };
    let (gone, come) = (lacks(before, &now), lacks(&now, before));
    assert!(gone.is_empty() && come.is_empty(), "gone: {gone:#?}\ncome: {come:#?}");
}
