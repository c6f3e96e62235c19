//! What other programs do to the host while the tunnel runs, or did before.

use crate::inbound::{DOCKER, ask, serve, world_with_lan};
use crate::world::{assert_unchanged, settled_state, wait_for};
use serde_json::Value;

#[test]
fn what_others_take_away_comes_back_and_is_told() {
    let Some((mut world, _lan)) = world_with_lan() else { return };
    let before = settled_state(&world.home.namespace);
    world.write_configs(2, "default_route = true\nmasquerade = true", "masquerade = true");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    let during = settled_state(&world.home.namespace);
    for (harm, told) in [
        ("nft flush ruleset", "nftables table"),
        ("nft delete table inet braid_braid0", "nftables table"),
        (
            "ip -4 rule flush; ip rule add pref 32766 lookup main; ip rule add pref 32767 lookup default",
            "rule 1",
        ),
        ("ip -6 rule flush; ip -6 rule add pref 32766 lookup main", "rule 1"),
        (
            "for t in $(ip rule | grep -o 'lookup 5[0-9]*' | cut -d' ' -f2 | sort -u); do ip route flush table $t; done",
            "route",
        ),
    ] {
        let told_before = world.home.log().matches("it is set again").count();
        world.home.sh(harm);
        world.home.wait_until(&format!("all is as it was after {harm}"), || {
            crate::world::state(&world.home.namespace) == during
        });
        world.home.wait_until(&format!("{told} is told of after {harm}"), || {
            let log = world.home.log();
            log.matches("it is set again").count() > told_before && log.contains(told)
        });
    }
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
}

#[test]
fn a_route_that_passes_the_tunnel_by_is_told() {
    let Some((mut world, _lan)) = world_with_lan() else { return };
    world.write_configs(2, "default_route = true\nmasquerade = true", "masquerade = true");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    assert_eq!(world.home.status()["warnings"].as_array().map(Vec::len), Some(0));
    world.home.sh("ip route add 128.0.0.0/1 via 10.1.1.1 dev wan1");
    let warns = |what: &str| world.home.status()["warnings"].to_string().contains(what);
    let kinds = || kinds_of_troubles(&world.home.status());
    world.home.wait_until("it is told", || warns("128.0.0.0/1"));
    assert_eq!(kinds(), ["route_beside"]);
    assert!(world.home.log().contains("bypasses the tunnel"));
    let table = String::from_utf8(world.home.braid_ok(&["status"])).unwrap();
    assert!(table.contains("warning: traffic to 128.0.0.0/1"), "{table}");
    world.home.sh("ip route del 128.0.0.0/1");
    world.home.wait_until("it is gone", || !warns("128.0.0.0/1"));
    world.home.sh("ip route add unreachable default metric 4000");
    assert!(!warns("unreachable"), "the links' own default routes come before it");
    world.home.sh("ip route add unreachable default metric 0");
    world.home.wait_until("it is told", || warns("ip -4 route del unreachable default"));
    assert_eq!(kinds(), ["route_refuses"]);
    // So it is.
    world.home.sh("! ping -q -c 1 -W 1 192.0.2.1");
    world.home.sh("ip route del unreachable default metric 0");
    world.home.wait_until("it is gone", || !warns("unreachable"));
}

#[test]
fn a_lan_behind_dockers_firewall_gets_through() {
    let Some((mut world, lan)) = world_with_lan() else { return };
    if world.home.namespace.command("iptables").arg("--version").output().is_err() {
        eprintln!("SKIPPED: iptables is not installed (try: apt install iptables)");
        return;
    }
    world.home.sh(DOCKER);
    let servers = [serve(&world.internet, "192.0.2.1:80")];
    let before = settled_state(&world.home.namespace);
    world.write_configs(2, "default_route = true\nmasquerade = true", "masquerade = true");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    wait_for(&world.home.namespace, "iptables -S DOCKER-USER | grep -q -e '-o braid0 -j ACCEPT'");
    ask(&lan, "192.0.2.1:80");
    // As Docker does when it is started anew.
    world.home.sh("iptables -F DOCKER-USER");
    wait_for(&world.home.namespace, "iptables -S DOCKER-USER | grep -q -e '-o braid0 -j ACCEPT'");
    ask(&lan, "192.0.2.1:80");
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
    drop(servers);
}

#[test]
fn a_firewall_that_refuses_and_does_not_know_the_tunnel_is_told() {
    let Some((mut world, _lan)) = world_with_lan() else { return };
    world.home.sh("nft add table ip mine
        nft 'add chain ip mine pass { type filter hook forward priority 0; policy drop; }'");
    world.write_configs(2, "default_route = true\nmasquerade = true", "masquerade = true");
    world.home.start();
    let warns = || world.home.status()["warnings"].to_string().contains("ip mine");
    world.home.wait_until("it is told", warns);
    assert_eq!(kinds_of_troubles(&world.home.status()), ["firewall"]);
    world.home.sh("nft add rule ip mine pass oifname braid0 accept");
    world.home.wait_until("it is gone", || !warns());
}

/// Those that status tells, whose words are its warnings.
fn kinds_of_troubles(status: &Value) -> Vec<String> {
    let troubles = status["troubles"].as_array().unwrap();
    let texts: Vec<&Value> = troubles.iter().map(|trouble| &trouble["text"]).collect();
    assert_eq!(texts, status["warnings"].as_array().unwrap().iter().collect::<Vec<_>>());
    troubles.iter().map(|trouble| trouble["kind"].as_str().unwrap().to_owned()).collect()
}
