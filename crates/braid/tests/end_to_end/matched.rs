//! Links whose config says what their interface is like, and not its name. What the interfaces
//! are is said by a folder in place of sysfs: namespaces have no hardware.

use crate::own_mounts::{in_own_mounts, mount};
use crate::traffic::{Direction, Transfer};
use crate::world::{INSIDE_V4, LEAVE_HOST_ALONE, Tunnel, World, link};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const MATCHES: &str = "[[link]]\nname = \"wifi\"\nmatch = { kind = \"wifi\" }\n\
    [[link]]\nname = \"phone\"\nmatch = { kind = \"tether\", usb = \"18d1:4eeb\" }\n";

/// What the links need a few seconds for.
const BYTES: usize = 20_000_000;

/// What stands in for `/sys/class/net`.
struct Sysfs {
    folder: PathBuf,
}

impl Sysfs {
    fn in_place(world: &World) -> Sysfs {
        let folder = world.scratch.path().join("net");
        fs::create_dir(&folder).unwrap();
        mount(&format!("--bind {} /sys/class/net", folder.display()));
        Sysfs { folder }
    }

    fn wifi(&self, name: &str) {
        self.interface(name, "DEVTYPE=wlan\n");
    }

    fn phone(&self, name: &str) {
        let usb = self.folder.join(format!(".{name}"));
        let interface = usb.join("1-1:1.0");
        fs::create_dir_all(&interface).unwrap();
        fs::write(usb.join("idVendor"), "18d1\n").unwrap();
        fs::write(usb.join("idProduct"), "4eeb\n").unwrap();
        symlink(Path::new("/sys/bus/usb/drivers/ipheth"), interface.join("driver")).unwrap();
        self.interface(name, "");
        symlink(interface, self.folder.join(name).join("device")).unwrap();
    }

    fn interface(&self, name: &str, uevent: &str) {
        fs::create_dir(self.folder.join(name)).unwrap();
        fs::write(self.folder.join(name).join("type"), "1\n").unwrap();
        fs::write(self.folder.join(name).join("uevent"), uevent).unwrap();
    }
}

fn begin(world: &mut World, links: &str) {
    let tunnel = Tunnel::default();
    world.write_configs(&tunnel);
    let rest = format!("{links}{}", world.concentrator_as_peer(&tunnel.endpoint));
    world.home.write_config(tunnel.home, LEAVE_HOST_ALONE, &rest);
    world.concentrator.start();
    world.home.start();
}

fn of_link(world: &World, name: &str, key: &str) -> Value {
    let links = world.home.fresh_status()["links"].clone();
    let link = links.as_array().unwrap().iter().find(|link| link["name"] == name).cloned();
    link.unwrap()[key].clone()
}

/// `one` is Wi-Fi, `two` a phone, and the tunnel works over both.
fn wifi_and_phone() -> Option<(World, Sysfs)> {
    let mut world = World::new(&[link("one"), link("two")])?;
    let sysfs = Sysfs::in_place(&world);
    sysfs.wifi("one");
    sysfs.phone("two");
    begin(&mut world, MATCHES);
    world.home.wait_for_active_paths(2);
    Some((world, sysfs))
}

/// It gets its route back, as from a DHCP client.
fn rename(world: &World, from: &str, to: &str) {
    world.home.sh(&format!(
        "route=$(ip -4 route show default dev {from}); ip link set {from} down
         ip link set {from} name {to}; ip link set {to} up; ip -4 route replace $route dev {to}"
    ));
}

#[test]
fn a_link_has_the_interface_that_matches_as_it_comes_goes_and_changes_its_name() {
    in_own_mounts(|| {
        let Some((world, sysfs)) = wifi_and_phone() else { return };
        assert_eq!(of_link(&world, "wifi", "interface"), "one");
        assert_eq!(of_link(&world, "phone", "interface"), "two");
        let list: Value =
            serde_json::from_slice(&world.home.braid_ok(&["link", "list", "--json"])).unwrap();
        assert_eq!(list["links"][1]["interface"], "two", "{list}");
        assert_eq!(list["links"][1]["match"], "kind tether, usb 18d1:4eeb", "{list}");
        assert_eq!(list["other_uplinks"].as_array().map(Vec::len), Some(0), "{list}");

        // One that the running tunnel alone has is listed, and who would change it is told how.
        world.home.braid_ok(&["link", "add", "lte", "--interface", "nope0", "--temporary"]);
        let list: Value =
            serde_json::from_slice(&world.home.braid_ok(&["link", "list", "--json"])).unwrap();
        assert_eq!(list["links"][2]["name"], "lte", "{list}");
        assert_eq!(list["links"][2]["temporary"], true, "{list}");
        let refused = world.home.braid(&["link", "remove", "lte"]);
        assert!(String::from_utf8(refused.stderr).unwrap().contains("--temporary"));
        world.home.braid_ok(&["link", "remove", "lte", "--temporary"]);

        // Its name changes, and a connection goes on by the other one.
        let (client, server) = (&world.home, &world.concentrator);
        let transfer = Transfer::start(client, server, INSIDE_V4, Direction::Down, BYTES);
        transfer.wait_until_received(BYTES / 10);
        sysfs.wifi("wlx0");
        rename(&world, "one", "wlx0");
        world.home.wait_until("the new name", || of_link(&world, "wifi", "interface") == "wlx0");
        world.home.wait_for_active_paths(2);
        transfer.finish();

        // Another one is there that isn't the phone.
        sysfs.interface("eth9", "");
        rename(&world, "two", "eth9");
        let trouble = || of_link(&world, "phone", "trouble");
        let why = "no interface matches kind tether, usb 18d1:4eeb";
        world.home.wait_until("the phone is gone", || trouble() == why);
        assert_eq!(of_link(&world, "phone", "interface"), Value::Null);
        let checked = world.home.braid(&["doctor"]);
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(said.contains("no interface that matches kind tether"), "{said}");
        world.home.wait_for_ping(INSIDE_V4);

        rename(&world, "eth9", "two");
        world.home.wait_until("the phone is back", || of_link(&world, "phone", "present") == true);
        world.home.wait_for_active_paths(2);
    });
}

/// A program that says what the real nmcli (1.42) said of such devices.
struct Nmcli {
    folder: PathBuf,
}

impl Nmcli {
    fn in_place(world: &mut World) -> Nmcli {
        let folder = world.scratch.path().join("nmcli");
        fs::create_dir(&folder).unwrap();
        world.home.put_program("nmcli", &format!("#!/bin/sh\ncat {}/said\n", folder.display()));
        Nmcli { folder }
    }

    /// It also tells of what changes, as `nmcli monitor` does.
    fn that_tells(world: &mut World) -> Nmcli {
        let nmcli = Nmcli::in_place(world);
        fs::write(nmcli.folder.join("news"), "").unwrap();
        let script = format!(
            "#!/bin/sh\n[ \"$1\" != monitor ] || exec tail -n 0 -f {0}/news\ncat {0}/said\n",
            nmcli.folder.display()
        );
        world.home.put_program("nmcli", &script);
        nmcli
    }

    fn tells(&self) {
        let mut news = fs::OpenOptions::new().append(true).open(self.folder.join("news")).unwrap();
        writeln!(news, "two: connected").unwrap();
    }

    /// How many that tell of changes run.
    fn telling(&self, world: &World) -> usize {
        let pattern = format!("{}/[n]ews", self.folder.display());
        world.home.sh(&format!("pgrep -c -f '{pattern}' || true")).trim().parse().unwrap()
    }

    /// Name of the connection, and whether it is metered, of each device.
    fn says(&self, devices: [(&str, &str); 2]) {
        let of = |(device, (name, metered)): (&str, (&str, &str))| {
            let uuid = if name.is_empty() { "" } else { "191f6b32-072d-4dc7-bade-1df51cda4e8c" };
            format!(
                "GENERAL.DEVICE:{device}\nGENERAL.IP-IFACE:{device}\nGENERAL.CONNECTION:{name}\n\
                 GENERAL.CON-UUID:{uuid}\nGENERAL.METERED:{metered}\n\n"
            )
        };
        let new = self.folder.join("new");
        let [one, two] = devices;
        fs::write(&new, of(("one", one)) + &of(("two", two))).unwrap();
        fs::rename(new, self.folder.join("said")).unwrap();
    }
}

const NOTHING: (&str, &str) = ("", "unknown");
const CAFE: (&str, &str) = ("Café: 2", "no (guessed)");

#[test]
fn a_link_follows_its_connection_from_one_interface_to_another() {
    let Some(mut world) = World::new(&[link("one"), link("two")]) else { return };
    let nmcli = Nmcli::in_place(&mut world);
    nmcli.says([CAFE, NOTHING]);
    let matches = "[[link]]\nname = \"cafe\"\nmatch = { connection = \"Café: 2\" }\n";
    begin(&mut world, matches);
    world.home.wait_for_active_paths(1);
    assert_eq!(of_link(&world, "cafe", "interface"), "one");
    nmcli.says([NOTHING, CAFE]);
    world.home.wait_until("the other", || of_link(&world, "cafe", "interface") == "two");
    world.home.wait_for_active_paths(1);
    nmcli.says([NOTHING, NOTHING]);
    let why = "no interface matches connection \"Café: 2\"";
    world.home.wait_until("none", || of_link(&world, "cafe", "trouble") == why);
}

#[test]
fn what_networkmanager_tells_is_looked_at_then_and_who_tells_it_ends_with_the_tunnel() {
    let Some(mut world) = World::new(&[link("one"), link("two")]) else { return };
    let nmcli = Nmcli::that_tells(&mut world);
    nmcli.says([CAFE, NOTHING]);
    begin(&mut world, "[[link]]\nname = \"cafe\"\nmatch = { connection = \"Café: 2\" }\n");
    world.home.wait_for_active_paths(1);
    for (says, interface) in [([NOTHING, CAFE], "two"), ([CAFE, NOTHING], "one")] {
        nmcli.says(says);
        nmcli.tells();
        world.home.wait_until("the other", || of_link(&world, "cafe", "interface") == interface);
        assert_eq!(nmcli.telling(&world), 1);
        // The program that goes on has one of its own.
        world.home.braid_ok(&["restart"]);
        world.home.wait_for_active_paths(1);
        world.home.wait_until("one is left", || nmcli.telling(&world) == 1);
        let pid = world.home.status()["pid"].clone();
        // One that has just ended is waited for in a moment.
        let dead = || world.home.sh(&format!("ps -o stat= --ppid {pid} | grep -c Z || true"));
        world.home.wait_until("none stays dead", || dead().trim() == "0");
    }
    world.home.stop();
    assert_eq!(nmcli.telling(&world), 0);
}

#[test]
fn a_link_that_networkmanager_holds_for_metered_is_one_tier_further_unless_the_config_says_not() {
    in_own_mounts(|| {
        let Some(mut world) = World::new(&[link("one"), link("two")]) else { return };
        mount("-t tmpfs none /run");
        fs::create_dir("/run/NetworkManager").unwrap();
        let nmcli = Nmcli::in_place(&mut world);
        nmcli.says([CAFE, ("Phone", "yes (guessed)")]);
        world.start(&Tunnel::default());
        let tier = |name: &str| {
            let paths = world.home.paths();
            let path = paths.iter().find(|path| path["link"] == name).cloned();
            path.unwrap_or_default()["tier"].clone()
        };
        world.home.wait_until("the phone is further", || tier("two") == 1);
        assert_eq!(tier("one"), 0);
        assert_eq!(of_link(&world, "two", "metered"), true);
        world.home.braid_ok(&["link", "set", "two", "--tier", "3"]);
        world.home.wait_until("one more than its tier", || tier("two") == 4);
        nmcli.says([("Café: 2", "yes"), ("Phone", "no")]);
        world.home.wait_until("both have changed", || tier("two") == 3 && tier("one") == 1);
        world.home.braid_ok(&["link", "set", "one", "--metered", "false"]);
        world.home.wait_until("it isn't metered", || tier("one") == 0);
        world.home.braid_ok(&["link", "set", "two", "--metered", "true"]);
        world.home.wait_until("the other is", || tier("two") == 4);
    });
}

#[test]
fn a_link_can_be_made_to_match_while_the_tunnel_runs_and_named_again() {
    in_own_mounts(|| {
        let Some((world, _sysfs)) = wifi_and_phone() else { return };
        world.home.braid_ok(&["link", "set", "wifi", "--interface", "one"]);
        let text = world.home.config_text();
        assert!(text.contains("interface = \"one\"") && !text.contains("\"wifi\" }"), "{text}");
        world.home.braid_ok(&["link", "set", "wifi", "--kind", "wifi"]);
        let text = world.home.config_text();
        assert!(
            text.contains("kind = \"wifi\"") && !text.contains("interface = \"one\""),
            "{text}"
        );
        world.home.wait_for_active_paths(2);
        assert_eq!(of_link(&world, "wifi", "interface"), "one");
    });
}
