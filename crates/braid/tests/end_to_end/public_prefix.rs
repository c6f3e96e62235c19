//! A public prefix of each IP version that the concentrator's provider expects
//! on its wire, and that lives behind the home.

use crate::side::Side;
use crate::world::{Tunnel, World, link};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

#[test]
fn hosts_at_home_have_public_addresses() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let provider = neighbour(
        &world.concentrator,
        "up0",
        &["192.0.2.254/24", "2001:db8:9::fe/64"],
        &["192.0.2.1/24", "2001:db8:9::1/64"],
    );
    // It routes nothing to the concentrator, but asks for neighbours.
    sh(&provider, "ip route add 198.51.100.8/29 dev far");
    sh(&provider, "ip route add 2001:db8:7::/56 dev far");
    let lan = neighbour(
        &world.home,
        "lan0",
        &["198.51.100.9/29", "2001:db8:7:1::1/64", "192.168.50.1/24"],
        &["198.51.100.10/29", "2001:db8:7:1::10/64", "192.168.50.10/24"],
    );
    sh(&lan, "ip route add default via 198.51.100.9; ip route add default via 2001:db8:7:1::1");
    world.start(&Tunnel {
        concentrator_routing: "masquerade = true\npublic_prefixes = [\
             { prefix = \"198.51.100.8/29\", peer = \"home\", on_link = \"up0\" },\
             { prefix = \"2001:db8:7::/56\", peer = \"home\", on_link = \"up0\" }]",
        home_routing: "default_route = true\nmasquerade = true\n\
             untranslated = [\"198.51.100.8/29\", \"2001:db8:7::/56\"]",
        ..Tunnel::default()
    });

    // Until the peer is known to work the LAN goes straight out by a link.
    let route = "ip route get 192.0.2.1 from 192.168.50.10 iif lan0";
    let enters = || world.home.sh(route).contains("braid0");
    world.home.wait_until("the LAN's way leads into the tunnel", enters);

    for (host, outside) in [("198.51.100.10", "192.0.2.1"), ("2001:db8:7:1::10", "2001:db8:9::1")] {
        // Somebody outside calls...
        assert_eq!(who_calls(&provider, outside, &lan, host), Some(outside.parse().unwrap()));
        // ...and is called.
        assert_eq!(who_calls(&lan, host, &provider, outside), Some(host.parse().unwrap()));
    }
    // The rest of the LAN is hidden.
    let caller = who_calls(&lan, "192.168.50.10", &provider, "192.0.2.1");
    assert_eq!(caller, Some("192.0.2.254".parse().unwrap()));
    // And told apart from others behind the same address.
    world.home.wait_until("traffic names the LAN's hidden host", || {
        who_calls(&lan, "192.168.50.10", &provider, "192.0.2.1");
        let traffic = world.home.braid_ok(&["traffic", "--json"]);
        let traffic: Value = serde_json::from_slice(&traffic).unwrap();
        let flows = traffic["flows"].as_array().unwrap();
        let devices = traffic["devices"].as_array().unwrap();
        let of_device = |flow: &Value| {
            flow["local"].as_str().unwrap().starts_with("192.168.50.10:")
                && flow["remote"] == "192.0.2.1:7000"
                && flow["links"].as_array().is_some_and(|links| !links.is_empty())
        };
        flows.iter().any(of_device)
            && devices.iter().any(|device| device["name"] == "192.168.50.10")
            && devices.iter().any(|device| device["name"] == "198.51.100.10")
    });
    // Nobody else's addresses are answered for.
    assert_eq!(who_calls(&provider, "2001:db8:9::1", &lan, "2001:db8:9::10"), None);
}

/// A host on a device of `side`, with addresses on both ends of it.
fn neighbour(side: &Side, device: &str, near: &[&str], far: &[&str]) -> NetNs {
    let namespace = NetNs::new().unwrap();
    let mut netlink = side.namespace.run(Netlink::open).unwrap().unwrap();
    netlink.add_veth(device, "far", Some(&namespace)).unwrap();
    for (namespace, device, addresses) in
        [(&side.namespace, device, near), (&namespace, "far", far)]
    {
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            sh(namespace, &format!("ip addr add {address} dev {device} {nodad}"));
        }
        sh(namespace, &format!("ip link set {device} up"));
    }
    namespace
}

/// From where a host hears another that calls from and to these addresses.
fn who_calls(caller: &NetNs, from: &str, called: &NetNs, to: &str) -> Option<IpAddr> {
    let address = |text: &str, port| SocketAddr::new(text.parse().unwrap(), port);
    // The address that nobody has can't be bound to.
    let any = if to.contains(':') { "::" } else { "0.0.0.0" };
    let ear = called.run(|| UdpSocket::bind(address(any, 7000))).unwrap().unwrap();
    ear.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mouth = caller.run(|| UdpSocket::bind(address(from, 0))).unwrap().unwrap();
    let give_up = Instant::now() + Duration::from_secs(5);
    while Instant::now() < give_up {
        // Until neighbours are found, and for what is unreachable, it fails.
        let _ = mouth.send_to(b"hello", address(to, 7000));
        if let Ok((_, source)) = ear.recv_from(&mut [0; 16]) {
            return Some(source.ip());
        }
    }
    None
}

fn sh(namespace: &NetNs, script: &str) {
    let output = namespace.command("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
