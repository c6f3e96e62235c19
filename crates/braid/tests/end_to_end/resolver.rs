//! systemd-resolved, which asks name servers by devices, is told of the tunnel's.

use crate::world::{CARRIES_ALL, Tunnel, World, link};
use std::fs;

#[test]
fn systemd_resolved_asks_through_the_tunnel_while_it_works() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let said = world.scratch.path().join("resolvectl.log");
    let script = format!("#!/bin/sh\necho \"$@\" >>{}\n", said.display());
    world.home.put_program("resolvectl", &script);
    let dns = "dns = [\"10.77.0.1\", \"9.9.9.9\"]\ndns_domains = [\"corp.example\"]";
    let routing = format!("{CARRIES_ALL}\n{dns}");
    world.start(&Tunnel { home_routing: &routing, ..Tunnel::default() });

    let told = || fs::read_to_string(&said).unwrap_or_default();
    let all = "dns braid0 10.77.0.1 9.9.9.9\ndomain braid0 ~. ~corp.example\n\
               default-route braid0 yes\n";
    world.home.wait_until("it is told", || told().ends_with(all));
    assert!(told().starts_with("llmnr braid0 no\nmdns braid0 no\n"), "{}", told());
    assert_eq!(world.home.status()["dns"]["by_resolved"], true);

    world.concentrator.kill();
    let some = "dns braid0 10.77.0.1 9.9.9.9\ndomain braid0 ~corp.example\n\
                default-route braid0 no\n";
    world.home.wait_until("other names are asked elsewhere", || told().ends_with(some));
    world.concentrator.start();
    world.home.wait_until("all are asked there again", || told().ends_with(all));

    world.home.write_text(&world.home.config_text().replace(dns, "dns = []"));
    world.home.braid_ok(&["reload"]);
    world.home.wait_until("it is left alone", || told().ends_with("revert braid0\n"));
    assert_eq!(world.home.status()["dns"]["by_resolved"], false);
}
