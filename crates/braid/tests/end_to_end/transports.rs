//! Networks that let UDP pass not at all, or hardly: what does is found, used and left again.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, LEAVE_HOST_ALONE, World, link};
use braid_handshake::PrivateKey;
use braid_lab::topology::CONCENTRATOR_V4;
use braid_linux::netns::NetNs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// A home with one link, and a concentrator that has other ways in on port 443.
fn world(link_lines: &str) -> Option<World> {
    world_with(link_lines, "", "")
}

/// As above, with more lines of the concentrator's `[interface]` and more of its homes.
fn world_with(link_lines: &str, concentrator: &str, more_homes: &str) -> Option<World> {
    let mut world = World::new(&[link("hotel")])?;
    let at = CONCENTRATOR_V4;
    let listen = format!(
        "addresses = [\"10.77.0.1/24\", \"fd77::1/64\"]\n\
         listen = [\"{at}:51900\", \"{at}:443\"]\nlisten_tls = [\"{at}:443\"]\n{concentrator}"
    );
    let home = format!(
        "{more_homes}[[peer]]\nname = \"home\"\npublic_key = \"{}\"\nallowed_ips = [\"10.77.0.2\", \"fd77::2\"]\n",
        world.home.public_key()
    );
    world.concentrator.write_config(&listen, LEAVE_HOST_ALONE, &home);
    let rest = format!(
        "[[link]]\nname = \"hotel\"\ninterface = \"hotel\"\n{link_lines}\n{}fallback_port = 443\n",
        world.concentrator_as_peer(&format!("{at}:51900"))
    );
    let addresses = "addresses = [\"10.77.0.2/24\", \"fd77::2/64\"]";
    world.home.write_config(addresses, LEAVE_HOST_ALONE, &rest);
    world.concentrator.start();
    Some(world)
}

impl World {
    /// What the hotel does to what the home sends and gets.
    fn hotel(&self, rules: &[&str]) {
        self.home.sh(
            "nft add table inet hotel; nft delete table inet hotel; nft add table inet hotel; \
             nft 'add chain inet hotel out { type filter hook output priority 0; }'; \
             nft 'add chain inet hotel in { type filter hook input priority 0; }'",
        );
        for rule in rules {
            self.home.sh(&format!("nft 'add rule inet hotel out oifname \"hotel\" {rule}'"));
        }
    }

    /// The transports of paths that work.
    fn transports(&self) -> Vec<String> {
        let paths = self.home.paths().into_iter().filter(|path| path["state"] == "active");
        paths.map(|path| path["transport"].as_str().unwrap().to_owned()).collect()
    }

    fn wait_for(&self, transports: &[&str]) {
        let what = format!("it goes by {transports:?}");
        self.home.wait_until(&what, || self.transports() == transports);
    }

    fn both_ways(&self) {
        for direction in [Direction::Down, Direction::Up] {
            let (home, concentrator) = (&self.home, &self.concentrator);
            Transfer::start(home, concentrator, INSIDE_V4, direction, 2_000_000).finish();
        }
    }
}

/// A home that never calls: the one that does is another worker's than the first.
fn somebody_else() -> String {
    let key = PrivateKey::from_bytes(&[5; 32]).public_key();
    format!("[[peer]]\nname = \"away\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.77.0.9\"]\n")
}

#[test]
fn by_tls_too_homes_are_carried_by_workers_that_have_no_socket_of_their_own() {
    let Some(mut world) = world_with("", "workers = 2", &somebody_else()) else { return };
    world.hotel(&[NO_UDP, "tcp dport != 443 drop"]);
    world.home.start();
    world.wait_for(&["tls"]);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    world.both_ways();
    world.hotel(&[]);
    world.wait_for(&["udp"]);
    world.both_ways();
}

const NO_UDP: &str = "meta l4proto != tcp drop";

#[test]
fn where_udp_does_not_pass_tls_does_until_udp_passes_again() {
    let Some(mut world) = world("") else { return };
    world.hotel(&[NO_UDP, "tcp dport != 443 drop"]);
    world.home.start();
    world.wait_for(&["tls"]);
    let transport = || world.concentrator.paths().first().map(|path| path["transport"].clone());
    world.concentrator.wait_until("it says so", || transport() == Some("tls".into()));
    assert!(String::from_utf8(world.home.braid_ok(&["status"])).unwrap().contains("tls"));
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    world.both_ways();

    let told = |what: &str| {
        let events = || String::from_utf8(world.home.braid_ok(&["events"])).unwrap();
        world.home.wait_until(what, || events().contains(what));
    };
    told("hotel now uses tls");
    let pings = Pings::start(&world.home, INSIDE_V4, 100);
    world.hotel(&[]);
    world.wait_for(&["udp"]);
    // What was lost while nothing could pass isn't the link's.
    let by_udp = world.home.paths().into_iter().find(|path| path["transport"] == "udp").unwrap();
    assert!(by_udp["loss"].as_f64().unwrap() < 0.3, "{by_udp}");
    pings.none_is_lost();
    told("hotel uses udp again");
    // In the midst of a connection.
    let (home, concentrator) = (&world.home, &world.concentrator);
    let down = Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 12_000_000);
    down.wait_until_received(1_000_000);
    world.hotel(&[NO_UDP]);
    world.wait_for(&["tls"]);
    down.finish();
}

#[test]
fn where_only_another_port_is_closed_udp_goes_by_443() {
    let Some(mut world) = world("") else { return };
    world.hotel(&["udp dport != 443 drop"]);
    world.home.start();
    world.wait_for(&["udp-fallback"]);
    world.both_ways();
}

#[test]
fn where_only_a_proxy_leads_out_it_is_gone_through() {
    let proxy = |password: &str| format!("http://me:{password}@{CONCENTRATOR_V4}:3128");
    let Some(mut world) = world(&format!("proxy = \"{}\"", proxy("wrong"))) else { return };
    let namespace = &world.concentrator.namespace;
    let listener = namespace.run(|| TcpListener::bind((CONCENTRATOR_V4, 3128))).unwrap().unwrap();
    let inside = namespace.run(NetNs::current).unwrap().unwrap();
    // It ends with the test.
    std::thread::spawn(move || {
        inside.enter().unwrap();
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || connect(client));
        }
    });
    world.hotel(&[NO_UDP, "tcp dport != 3128 drop"]);
    world.home.start();
    let link = || world.home.status()["links"][0].clone();
    world.home.wait_until("the proxy's word is told", || {
        let trouble = link()["trouble"].as_str().unwrap_or_default().to_owned();
        trouble.contains("3128 refuses: 407 Proxy Authentication Required")
            && !trouble.contains("wrong")
    });
    let name = link()["name"].as_str().unwrap().to_owned();
    world.home.braid_ok(&["link", "set", &name, "--proxy", &proxy("secret")]);
    world.wait_for(&["tls"]);
    world.both_ways();
    world.home.wait_until("nothing is wrong any more", || link()["trouble"].is_null());
}

/// A tiny HTTP proxy: one CONNECT, with the right password.
fn connect(mut client: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    // me:secret
    if !head.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n") {
        let _ = client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        return;
    }
    let server = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
    let Ok(server) = TcpStream::connect(server) else { return };
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut from, mut to) = (server, client);
    let _ = std::io::copy(&mut from, &mut to);
}

#[test]
fn udp_that_is_held_to_a_trickle_is_left() {
    let Some(mut world) = world("") else { return };
    world.home.start();
    world.wait_for(&["udp"]);
    let (home, concentrator) = (&world.home, &world.concentrator);
    let up = Transfer::start(home, concentrator, INSIDE_V4, Direction::Up, 1_500_000);
    up.wait_until_received(300_000);
    world.hotel(&["meta l4proto udp limit rate over 10 kbytes/second burst 10 kbytes drop"]);
    world.home.wait_until("TLS carries", || world.transports().contains(&"tls".to_owned()));
    up.finish();
}

#[test]
fn strangers_find_an_ordinary_web_server() {
    let Some(world) = world("") else { return };
    let at = CONCENTRATOR_V4;
    let page = world.home.sh(&format!("curl -sSki https://{at}/"));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("<h1>"), "{page}");
    let none = world.home.sh(&format!("curl -sSki https://{at}/admin"));
    assert!(none.starts_with("HTTP/1.1 404"), "{none}");
    // Its certificate is kept, so that it is the same after a restart.
    let folder = &world.concentrator.folders()[0];
    assert!(folder.join("braid0.tls.pem").exists());
    let key = world.concentrator.sh(&format!("stat -c %a {}/braid0.tls.key", folder.display()));
    assert_eq!(key.trim(), "600");
    if world.home.namespace.command("openssl").arg("version").output().is_err() {
        eprintln!("SKIPPED in part: no openssl");
        return;
    }
    // What is no HTTP, longer than what a home says first.
    let said = world.home.sh(&format!(
        "(head -c 100 /dev/zero; printf '\\r\\n\\r\\n'; sleep 1) | \
         timeout 20 openssl s_client -quiet -connect {at}:443 2>/dev/null || true"
    ));
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
}
