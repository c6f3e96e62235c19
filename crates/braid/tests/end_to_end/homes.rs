//! Several homes on one concentrator.

use crate::side::Side;
use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, INSIDE_V6, LEAVE_HOST_ALONE, Tunnel, World, link};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

#[test]
fn homes_meet_only_if_they_may() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    let mut other = neighbour(&world);
    let peer = neighbour_as_peer(&other, "\"10.77.0.3\"");
    let tunnel = Tunnel { more_homes: &peer, ..Tunnel::default() };
    let may = format!("{}\nhome_to_home = true", tunnel.concentrator);
    let open = Tunnel { concentrator: &may, more_homes: &peer, ..Tunnel::default() };
    world.concentrator.sh("echo 1 > /proc/sys/net/ipv4/ip_forward");
    world.start(&open);
    start_neighbour(&mut other, &world, "\"10.77.0.3/24\"");
    let home = "10.77.0.2".parse().unwrap();
    other.wait_for_ping(home);

    world.concentrator.stop();
    world.write_configs(&tunnel);
    world.concentrator.start();
    other.wait_for_ping(INSIDE_V4);
    world.home.wait_for_ping(INSIDE_V4);
    let pings = other.sh("ping -q -c 3 -i 0.2 -W 1 10.77.0.2 || true");
    assert!(pings.contains(" 0 received"), "{pings}");
    let status = world.concentrator.fresh_status();
    assert!(of_neighbour(&status, "isolated_packets") >= 3, "{status}");
}

#[test]
fn no_home_can_send_from_the_addresses_of_another() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    let mut other = neighbour(&world);
    let peer = neighbour_as_peer(&other, "\"10.77.0.3\", \"fd77::3\"");
    world.start(&Tunnel { more_homes: &peer, ..Tunnel::default() });
    start_neighbour(&mut other, &world, "\"10.77.0.3/24\", \"fd77::3/64\"");
    other.wait_for_active_paths(1);
    for home in [&world.home, &other] {
        Pings::start(home, INSIDE_V4, 5).none_is_lost();
        Pings::start(home, INSIDE_V6, 5).none_is_lost();
    }

    other.sh("ip addr add 10.77.0.2/32 dev braid0 && ip addr add fd77::2/128 dev braid0 nodad");
    for (to, stolen, own) in
        [(INSIDE_V4, "10.77.0.2", "10.77.0.3"), (INSIDE_V6, "fd77::2", "fd77::3")]
    {
        let senders = who_is_heard(&world.concentrator, &other, to, [stolen, own]);
        let own: IpAddr = own.parse().unwrap();
        assert!(!senders.is_empty(), "the neighbour's own address passes");
        assert!(senders.iter().all(|sender| *sender == own), "{senders:?}");
    }
    let status = world.concentrator.fresh_status();
    assert!(of_neighbour(&status, "refused_packets") > 0, "{status}");
    // And whose they are keeps them.
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
}

#[test]
fn a_home_has_the_limit_that_its_concentrator_gives_it() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    let seconds = |world: &World, direction| {
        let begun = Instant::now();
        let (home, concentrator) = (&world.home, &world.concentrator);
        Transfer::start(home, concentrator, INSIDE_V4, direction, 2_000_000).finish();
        begun.elapsed().as_secs_f64()
    };
    // At 20 Mbit/s each it needs half a second by both.
    let limit = ["concentrator", "limit", "home", "--down", "4Mbit", "--up", "2Mbit", "--json"];
    let said: Value = serde_json::from_slice(&world.concentrator.braid_ok(&limit)).unwrap();
    assert_eq!(said["down"], "4Mbit");
    assert!(world.concentrator.config_text().contains("limit = {"));
    let down = seconds(&world, Direction::Down);
    assert!(down > 3.0, "{down}");
    // It is the home that waits.
    let up = seconds(&world, Direction::Up);
    assert!(up > 6.0, "{up}");
    let status = world.concentrator.fresh_status();
    assert_eq!(status["peers"][0]["over_limit_packets"], 0, "{status}");
    let refused = world.concentrator.braid(&["concentrator", "limit", "cabin", "--up", "1Mbit"]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("no home is named"));
    world.concentrator.braid_ok(&["concentrator", "limit", "home", "--none"]);
    assert!(!world.concentrator.config_text().contains("limit = {"));
    // How much sooner it arrives without is for the core's tests in virtual time to say.
    seconds(&world, Direction::Down);
}

/// A count of the concentrator's.
fn of_neighbour(status: &Value, name: &str) -> u64 {
    let peers = status["peers"].as_array().unwrap();
    let neighbour = peers.iter().find(|peer| peer["name"] == "neighbour").unwrap();
    neighbour[name].as_u64().unwrap()
}

/// A second home on a line of its own to the same concentrator.
pub fn neighbour(world: &World) -> Side {
    let namespace = NetNs::new().unwrap();
    let mut netlink = namespace.run(Netlink::open).unwrap().unwrap();
    netlink.add_veth("h9", "c9", Some(&world.concentrator.namespace)).unwrap();
    let side = Side::new(&namespace, &world.scratch.path().join("neighbour"));
    side.sh(
        "ip addr add 10.9.0.2/24 dev h9 && ip link set h9 up && ip route add default via 10.9.0.1",
    );
    world.concentrator.sh("ip addr add 10.9.0.1/24 dev c9 && ip link set c9 up");
    side
}

/// The neighbour in the concentrator's config, with these addresses of its own.
pub fn neighbour_as_peer(neighbour: &Side, allowed_ips: &str) -> String {
    format!(
        "[[peer]]\nname = \"neighbour\"\npublic_key = \"{}\"\nallowed_ips = [{allowed_ips}]\n",
        neighbour.public_key()
    )
}

/// Has it call the concentrator, with these addresses of its device.
pub fn start_neighbour(neighbour: &mut Side, world: &World, addresses: &str) {
    let concentrator = world.concentrator_as_peer(&Tunnel::default().endpoint);
    neighbour.write_config(
        &format!("addresses = [{addresses}]"),
        LEAVE_HOST_ALONE,
        &format!("[[link]]\nname = \"h9\"\ninterface = \"h9\"\n{concentrator}"),
    );
    neighbour.start();
}

/// Who the datagrams come from that one host hears when another sends from
/// these addresses in turn.
fn who_is_heard(listener: &Side, sender: &Side, to: IpAddr, from: [&str; 2]) -> Vec<IpAddr> {
    let to = SocketAddr::new(to, 7000);
    let bind = |side: &Side, address| {
        side.namespace.run(|| UdpSocket::bind::<SocketAddr>(address)).unwrap().unwrap()
    };
    let ear = bind(listener, to);
    ear.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mouths = from.map(|ip| bind(sender, SocketAddr::new(ip.parse().unwrap(), 7001)));
    let mut heard = Vec::new();
    let mut rounds = 0;
    let give_up = Instant::now() + crate::PATIENCE;
    // Some more after the first was heard: what comes late counts too.
    while rounds < 20 && Instant::now() < give_up {
        for mouth in &mouths {
            mouth.send_to(b"who am I?", to).unwrap();
        }
        if let Ok((_, source)) = ear.recv_from(&mut [0; 64]) {
            heard.push(source.ip());
        }
        rounds += usize::from(!heard.is_empty());
    }
    heard
}
