//! Exports are read by the tools that they are for. If this host lacks a tool, the test says so and
//! is skipped; the host's network isn't touched.

use super::*;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn netplan_takes_its_files_and_makes_a_bond_of_them() {
    let given = std::env::var_os("NETPLAN_GENERATE_PATH").map(PathBuf::from);
    let known = ["/usr/libexec/netplan/generate", "/lib/netplan/generate"].map(PathBuf::from);
    let Some(generate) = given.into_iter().chain(known).find(|path| path.exists()) else {
        eprintln!("SKIPPED: no netplan here (package netplan.io)");
        return;
    };
    for (name, files) in of(Format::Netplan) {
        let root = written(&files);
        let file = root.path().join(files[0].path.trim_start_matches('/'));
        std::fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
        let output = Command::new(&generate).arg("--root-dir").arg(root.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{name}: {told}");
        let made = root.path().join("run/systemd/network");
        let netdev = std::fs::read_to_string(made.join("10-netplan-all0.netdev")).unwrap();
        assert!(netdev.contains("Kind=bond"), "{name}: {netdev}");
        let networks = std::fs::read_dir(&made).unwrap().filter_map(|entry| {
            let path = entry.unwrap().path();
            (path.extension()? == "network").then(|| std::fs::read_to_string(path).unwrap())
        });
        let ports = networks.filter(|text| text.lines().any(|line| line == "Bond=all0"));
        assert_eq!(ports.count(), 2, "{name}: both links are ports");
    }
}

/// In its own network namespace and with its own `/run`, so that it can only read.
#[test]
fn networkd_knows_every_word_of_its_files() {
    let networkd = Path::new("/lib/systemd/systemd-networkd");
    if !networkd.exists() {
        eprintln!("SKIPPED: no systemd-networkd here (package systemd)");
        return;
    }
    let namespace = Command::new("unshare").args(["-m", "-n", "true"]).output();
    if !namespace.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: systemd-networkd is tried in namespaces, which needs root");
        return;
    }
    let script = "set -e; mount -t tmpfs run /run; mkdir /run/systemd /run/systemd/network; \
         mount --bind \"$0\" /run/systemd/network; \
         SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=info timeout 10 \"$1\" & pid=$!; \
         sleep 1; kill $pid; wait $pid || true";
    let read = |folder: &Path| {
        let mut command = Command::new("unshare");
        command.args(["-m", "-n", "sh", "-c", script]).arg(folder).arg(networkd);
        String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
    };
    // The lines in which it complains about a file.
    let complaints = |told: &str| -> Vec<String> {
        let lines = told.lines().filter(|line| line.contains("/run/systemd/network/"));
        lines.map(str::to_owned).collect()
    };
    let wrong = tempfile::tempdir().unwrap();
    let text = "[Match]\nName=nothing\n\n[Network]\nBonnd=all0\n";
    std::fs::write(wrong.path().join("20-wrong.network"), text).unwrap();
    if complaints(&read(wrong.path())).is_empty() {
        eprintln!("SKIPPED: systemd-networkd doesn't run here, or doesn't tell");
        return;
    }
    for (name, files) in of(Format::Networkd) {
        let root = written(&files);
        let told = read(&root.path().join("etc/systemd/network"));
        assert_eq!(complaints(&told), [""; 0], "{name}");
        assert!(told.contains("Enumeration completed"), "{name}: {told}");
    }
}

#[test]
fn ifupdown_would_run_what_is_meant() {
    let version = Command::new("ifup").arg("--version").output();
    let is_debians = version
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("ifup version 0."));
    if !is_debians {
        eprintln!("SKIPPED: no ifup here (package ifupdown)");
        return;
    }
    for (name, files) in of(Format::Ifupdown) {
        let root = written(&files);
        let output = Command::new("ifup")
            .args(["--no-act", "--verbose", "--force", "--no-scripts", "-a", "-i"])
            .arg(root.path().join("etc/network/interfaces.d/all0"))
            .arg(format!("--state-dir={}", root.path().display()))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {told}");
        let group = groups().into_iter().find(|(found, _)| *found == name).unwrap().1;
        let address = format!("ip addr add {}", group.addresses[0].addr());
        assert!(told.contains(&address), "{name}: {told}");
        let kind = match group.over {
            Over::Direct => None,
            Over::Gretap { .. } => Some("type gretap"),
            Over::Vxlan { .. } => Some("type vxlan"),
            Over::WireGuard { .. } => panic!("it can't say that"),
        };
        let links = kind.map_or(0, |kind| told.matches(kind).count());
        assert_eq!(links, if kind.is_some() { 2 } else { 0 }, "{name}: {told}");
    }
}

/// The `bond-…` options that Debian's ifenslave (2.13) knows; it silently ignores others.
#[test]
fn ifenslave_knows_every_word_about_bonds() {
    const WORDS: [&str; 13] = [
        "slaves",
        "mode",
        "miimon",
        "updelay",
        "downdelay",
        "arp-interval",
        "arp-ip-target",
        "arp-validate",
        "xmit-hash-policy",
        "lacp-rate",
        "packets-per-slave",
        "primary",
        "primary-reselect",
    ];
    for (name, files) in of(Format::Ifupdown) {
        let words = files
            .iter()
            .flat_map(|file| file.contents.lines())
            .filter_map(|line| line.trim_start().strip_prefix("bond-")?.split(' ').next());
        for word in words {
            assert!(WORDS.contains(&word), "{name}: bond-{word}");
        }
    }
}

/// The format of `uci batch`, and the keys that OpenWrt's packages know.
#[test]
fn openwrts_uci_takes_its_lines() {
    for (name, files) in of(Format::Openwrt) {
        for file in &files {
            let mut batch = Batch::default();
            for line in file.contents.lines() {
                batch.read(line).unwrap_or_else(|wrong| panic!("{name}: {wrong}: {line}"));
            }
            assert!(batch.changed.is_empty(), "{name}: not committed: {:?}", batch.changed);
            assert!(!batch.sections.is_empty(), "{name}: it sets something");
        }
    }
    for wrong in [
        "set network.all0.proto='bonding'",
        "set network.a-b=interface",
        "set network.all0=interfaces",
        "set network.all0=interface extra",
        "add_list network.all0='x'",
        "commit firewall",
    ] {
        assert!(Batch::default().read(wrong).is_err(), "{wrong}");
    }
    let mut batch = Batch::default();
    batch.read("set network.all0=interface").unwrap();
    for wrong in ["set network.all0.slave='eth1'", "set network.all0.proto=bonding'"] {
        assert!(batch.read(wrong).is_err(), "{wrong}");
    }
}

/// The state of a batch so far.
#[derive(Default)]
struct Batch {
    /// Types of sections, by package and name.
    sections: BTreeMap<(String, String), String>,
    changed: std::collections::BTreeSet<String>,
}

impl Batch {
    fn read(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (command, rest) = line.split_once(' ').ok_or("no command")?;
        if command == "commit" {
            return match self.changed.remove(rest) {
                true => Ok(()),
                false => Err(format!("nothing to commit in {rest:?}")),
            };
        }
        let (path, value) = rest.split_once('=').ok_or("no value")?;
        let path: Vec<&str> = path.split('.').collect();
        let is_name = |name: &&str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !path.iter().all(is_name) {
            return Err("a name with other characters than letters, digits and '_'".into());
        }
        match (command, path.as_slice()) {
            ("set", [package, section]) => {
                if keys(package, value).is_empty() {
                    return Err(format!("no such type of section: {package}, {value}"));
                }
                let key = (package.to_string(), section.to_string());
                if self.sections.insert(key, value.to_owned()).is_some() {
                    return Err("the section was there".into());
                }
                self.changed.insert(package.to_string());
                Ok(())
            }
            ("set" | "add_list", [package, section, option]) => {
                let key = (package.to_string(), section.to_string());
                let kind = self.sections.get(&key).ok_or("no such section")?;
                if !keys(package, kind).contains(option) {
                    return Err(format!("{kind} knows no {option:?}"));
                }
                let inner = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
                match inner.is_some_and(|inner| !inner.contains(['\'', '\\'])) {
                    true => Ok(()),
                    false => Err("a value that isn't in quotes".into()),
                }
            }
            _ => Err("no such command".into()),
        }
    }
}

/// Options of a type of section: netifd's, and those of the scripts of the packages
/// proto-bonding (bonding.sh), gre (gre.sh) and mwan3.
fn keys(package: &str, kind: &str) -> &'static [&'static str] {
    match (package, kind) {
        ("network", "interface") => &[
            "proto",
            "ipaddr",
            "netmask",
            "ip6addr",
            "mtu",
            "gateway",
            "bonding_policy",
            "primary",
            "primary_reselect",
            "min_links",
            "lacp_rate",
            "packets_per_slave",
            "xmit_hash_policy",
            "resend_igmp",
            "link_monitoring",
            "miimon",
            "updelay",
            "downdelay",
            "arp_interval",
            "arp_ip_target",
            "arp_validate",
            "slaves",
            "peeraddr",
            "peer6addr",
            "ip6addr",
            "ikey",
            "okey",
            "ttl",
            "tunlink",
        ],
        ("network", "route" | "route6") => {
            &["interface", "target", "gateway", "netmask", "metric", "table"]
        }
        ("mwan3", "interface") => &["enabled", "family", "reliability", "track_ip"],
        ("mwan3", "member") => &["interface", "metric", "weight"],
        ("mwan3", "policy") => &["use_member", "last_resort"],
        ("mwan3", "rule") => &["dest_ip", "src_ip", "family", "proto", "use_policy", "sticky"],
        _ => &[],
    }
}

/// Every group that a format can express.
fn of(format: Format) -> Vec<(&'static str, Vec<Exported>)> {
    let exported = groups()
        .into_iter()
        .filter_map(|(name, group)| export(&group, format).ok().map(|files| (name, files)));
    let exported: Vec<_> = exported.collect();
    assert!(exported.len() >= 3, "{format} can say some");
    exported
}

/// The files below a folder.
fn written(files: &[Exported]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let path = root.path().join(file.path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &file.contents).unwrap();
    }
    root
}
