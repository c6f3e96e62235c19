//! The page of a live tunnel: asked by its port and by its socket.

use crate::world::{Tunnel, World, link};
use serde_json::Value;

#[test]
fn the_page_is_served_and_a_link_logs_in_once() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    let host = "[ui]\nlisten = \"127.0.0.1:5190\"\n[history]\nwrite_every = \"10s\"\n";
    world.start(&Tunnel { home_routing: &with(host), ..Tunnel::default() });
    let curl = |arguments: &str| world.home.sh(&format!("curl -sS --max-time 10 {arguments}"));
    let page = curl("http://127.0.0.1:5190/");
    assert!(page.contains("All is well: the one link works."), "{page}");
    assert!(page.contains("You may look.") && page.contains("href=\"/login\""), "{page}");
    let [_, run] = world.home.folders();
    let socket = run.join("sock.ui.sock");
    let admin = curl(&format!("--unix-socket {} http://localhost/links/dsl", socket.display()));
    assert!(admin.contains("Admin.") && !admin.contains("disabled"), "{admin}");

    let link = world.home.braid_ok(&["ui", "login", "--role", "reader", "--json"]);
    let link: Value = serde_json::from_slice(&link).unwrap();
    let url = link["url"].as_str().unwrap();
    let code = "-o /dev/null -w '%{http_code}'";
    assert_eq!(curl(&format!("{code} {url}")), "303");
    assert_eq!(curl(&format!("{code} {url}")), "401");

    let concentrator = world.concentrator.sh("curl -sS --max-time 10 http://127.0.0.1:5190/");
    assert!(concentrator.contains("1 of 1 homes are connected."), "{concentrator}");
    world.home.stop();
    assert!(!socket.exists(), "the socket is gone with the daemon");
}

/// Sections of a config after `[routing]`.
fn with(sections: &str) -> String {
    format!("{}\n{sections}", crate::world::LEAVE_HOST_ALONE)
}
