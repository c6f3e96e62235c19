//! Reading, refusing and changing the config file.

mod damaged;
mod edits;
mod mistakes;
mod rules;
mod secrets;
mod stand_ins;
mod values;

use super::*;

const KEY: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
const OTHER_KEY: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";

/// A config with every key.
fn full() -> String {
    format!(
        r#"# the house
[interface]
name = "braid7"
private_key_file = "home.key"
addresses = ["10.77.0.2/24", "fd77::2/64"]
mtu = 9000
layer = "l3"
mode = "overflow"   # fibre first
xor_hash = "layer2+3"
listen = ["0.0.0.0:51900", "[::]:51900"]
control = "/run/braid/x.sock"
state_dir = "state"
metrics = "127.0.0.1:9190"
redundancy_budget = "5%"
memory_per_peer = "64MiB"

[[class]]
name = "voice"
match = {{ dscp = "ef", protocol = "udp", ports = "5060-5090", from = "10.0.0.0/8", to = "192.0.2.1" }}
mode = "broadcast"

[[link]]
name = "3g-1"
interface = "wwan0"
tier = 1
standby = false
price = 0.5
cap = {{ down = "5Mbit", up = "400kbit" }}
quota = {{ bytes = "20GB", per = "month", reset_day = 15 }}

[[link]]
name = "fibre"    # the fast one
source = "192.0.2.7"
gateway = "192.0.2.1"
fwmark = 17
quota = {{ bytes = "1GB", per = "day" }}

[[peer]]
name = "concentrator"
public_key = "{KEY}"
preshared_key_file = "/etc/braid/psk"
endpoints = ["vpn.example.org:51900", "203.0.113.1:51900", "[2001:db8::1]:51900"]
allowed_ips = ["0.0.0.0/0", "::/0"]
keepalive = "15s"

[routing]
leave_host_alone = false
default_route = true
when_concentrator_gone = "block"
clamp_mss = true
masquerade = true
forward_ports = [ {{ protocol = "tcp", public = 8443, to = "10.77.0.2:443" }} ]
public_prefixes = [ {{ prefix = "198.51.100.8/29", peer = "concentrator", on_link = "eth9" }} ]
untranslated = [ "2001:db8:7::/56" ]

[[rule]]
name = "bank"
match = {{ device = ["tablet", "aa:bb:cc:dd:ee:01", "192.168.7.9"], to = "203.0.113.0/24", to_file = "bank.txt", domain = ["bank.example", "*.börse.example"], protocol = "tcp", ports = "443", time = "20:00-06:30", days = ["mon", "fri"] }}
do = "direct"
links = ["3g-1"]
otherwise = "block"
end_on_recovery = true
"#
    )
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, Path::new("/etc/braid/braid.toml"))
}

/// The errors as the user sees them, without the file's name.
fn errors(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors
            .to_string()
            .lines()
            .map(|line| line.strip_prefix("/etc/braid/braid.toml:").unwrap_or(line).to_owned())
            .collect(),
    }
}
