//! Two daemons in network namespaces, joined by two links: what the commands
//! do to a host, and that they take it back. Needs root.

mod joining;
mod world;

use world::{World, paths};

#[test]
fn a_home_joins_survives_a_dead_link_and_leaves_no_trace() {
    let Some((mut world, before)) = World::with_home_up() else { return };
    world.wait_for("both paths work", |status| {
        paths(status).iter().filter(|path| path["state"] == "active").count() == 2
    });
    assert!(world.ping("10.77.0.1") && world.ping("fd77:b1d::1"));
    let route = world.sh("ip route get 192.0.2.9");
    assert!(route.contains("dev braid0"), "the default route is the tunnel: {route}");
    assert_eq!(world.home(&["up"]).status.code(), Some(6), "up already");

    world.sh("ip link set h1 down");
    world.wait_for("the dead link shows", |status| status["links"][0]["present"] == false);
    assert!(world.ping("10.77.0.1"), "the other link carries on");
    world.sh("ip link set h1 up && ip route replace default via 10.1.0.1 dev h1 metric 10");
    world.wait_for("the link is back by itself", |status| {
        status["links"][0]["present"] == true
            && paths(status).iter().filter(|path| path["state"] == "active").count() == 2
    });

    world.home_ok(&["mode", "broadcast"]);
    world.home_ok(&["link", "remove", "h2"]);
    world.wait_for("one path is left, in the new mode", |status| {
        status["mode"] == "broadcast" && paths(status).len() == 1
    });
    assert!(world.ping("10.77.0.1"));

    world.home_ok(&["down"]);
    world.stop_concentrator();
    world.sh("ip route replace default via 10.1.0.1 dev h1 metric 10");
    assert_eq!(world.snapshot(), before, "nothing is left behind");
}

#[test]
fn what_a_crash_leaves_is_taken_back_by_the_next_start() {
    let Some((mut world, before)) = World::with_home_up() else { return };
    let pid = world.status()["pid"].as_u64().unwrap();
    world.sh(&format!("kill -9 {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done"));
    assert_ne!(world.snapshot(), before, "a crash leaves rules behind");
    world.home_ok(&["up"]);
    world.wait_for("it is connected again", |status| status["peers"][0]["connected"] == true);
    world.home_ok(&["down"]);
    assert_eq!(world.snapshot(), before, "nothing is left behind");
    world.stop_concentrator();
}

#[test]
fn what_a_crash_leaves_is_taken_back_by_down() {
    let Some((mut world, before)) = World::with_home_up() else { return };
    let pid = world.status()["pid"].as_u64().unwrap();
    world.sh(&format!("kill -9 {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done"));
    assert_ne!(world.snapshot(), before, "a crash leaves rules behind");
    world.home_ok(&["down"]);
    assert_eq!(world.snapshot(), before, "nothing is left behind");
    assert_eq!(world.home(&["down"]).status.code(), Some(4), "there is nothing more to take back");
    world.stop_concentrator();
}

#[test]
fn a_dry_run_tells_what_would_be_set_and_sets_nothing() {
    let Some(mut world) = World::new() else { return };
    world.start_concentrator();
    let line = world.line.clone();
    world.home_ok(&["home", "join", &line, "--yes", "--no-start", "--kill-switch"]);
    world.keep_in_scratch("home");
    world.sh("sysctl -q -w net.ipv4.conf.h1.rp_filter=1");
    let before = world.snapshot();
    let told = world.home_ok(&["up", "--dry-run", "--json"]);
    assert_eq!(world.snapshot(), before, "nothing is set");
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let sets = told["sets"].as_array().unwrap();
    let planned = |what: &str| {
        let found = sets.iter().find(|set| set["what"].as_str().unwrap().starts_with(what));
        found.unwrap_or_else(|| panic!("{what}: {told:#}"))
    };
    assert_eq!(planned("device braid0")["now"], "doesn't exist");
    assert_eq!(planned("sysctl net.ipv4.ip_forward=1")["now"], "0");
    assert_eq!(planned("sysctl net.ipv4.conf.h1.rp_filter=2")["now"], "1");
    let firewall = planned("nftables table inet braid_braid0");
    assert!(firewall["ruleset"].as_str().unwrap().contains("chain"));
    assert!(told["traffic"].to_string().contains("kill switch"), "{told:#}");
    let said = String::from_utf8(world.home_ok(&["up", "--dry-run"])).unwrap();
    assert!(said.contains("nothing was changed") && said.contains("now: 1; replies"), "{said}");

    // What was planned is what is set.
    world.home_ok(&["up"]);
    world.wait_for("connected", |status| status["peers"][0]["connected"] == true);
    let rules = world.sh("ip rule; ip -6 rule");
    let planned = sets.iter().filter(|set| set["what"].as_str().unwrap().starts_with("rule "));
    for rule in planned {
        let what = rule["what"].as_str().unwrap();
        let priority = what.trim_start_matches("rule ").split(':').next().unwrap();
        assert!(rules.contains(&format!("{priority}:")), "{what}\n{rules}");
    }
    world.home_ok(&["down"]);
    assert_eq!(world.snapshot(), before);
}
