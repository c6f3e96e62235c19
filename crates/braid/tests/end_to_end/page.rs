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

#[test]
fn others_are_served_by_tls_alone_and_log_in() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    // An address of its LAN: who comes from there is a stranger to it.
    world.home.sh("ip address add 192.168.50.1/32 dev lo");
    let sections = "[ui]\nlisten = \"192.168.50.1:5190\"\ntls = true\n";
    world.start(&Tunnel { home_routing: &with(sections), ..Tunnel::default() });
    let curl = |arguments: &str| world.home.sh(&format!("curl -sS --max-time 10 {arguments}"));
    let code = "-o /dev/null -w '%{http_code} %{redirect_url}'";
    let page = "https://192.168.50.1:5190";
    for path in ["/", "/traffic", "/doctor", "/links/dsl"] {
        assert_eq!(curl(&format!("-k {code} {page}{path}")), format!("303 {page}/login"));
    }
    let plain = world
        .home
        .sh(&format!("curl -s --max-time 10 {} || true", "http://192.168.50.1:5190/login"));
    assert_eq!(plain, "", "without TLS nothing is said");
    let rebound = curl(&format!("-k {code} -H 'Host: evil.example' {page}/login"));
    assert_eq!(rebound, "421 ");

    // What is told to who comes by ssh is what browsers see, and the key is nobody's to read.
    let link = world.home.braid_ok(&["ui", "login", "--json"]);
    let link: Value = serde_json::from_slice(&link).unwrap();
    let shown =
        world.home.sh("openssl s_client -connect 192.168.50.1:5190 </dev/null 2>/dev/null |
         openssl x509 -noout -fingerprint -sha256");
    let fingerprint = shown.trim().rsplit('=').next().unwrap();
    assert_eq!(link["certificate"], fingerprint);
    let url = link["url"].as_str().unwrap();
    assert!(url.starts_with(page), "{url}");
    let [state, _] = world.home.folders();
    let jar = state.join("jar");
    let jar = jar.display();
    assert!(curl(&format!("-k {code} -c {jar} {url}")).starts_with("303"));
    let cookies = world.home.sh(&format!("cat {jar}"));
    assert!(cookies.contains("braid-braid0") && cookies.contains("\tTRUE\t"), "{cookies}");
    let traffic = curl(&format!("-k -b {jar} {page}/traffic"));
    assert!(traffic.contains("Admin."), "{traffic}");
}

/// Sections of a config after `[routing]`.
fn with(sections: &str) -> String {
    format!("{}\n{sections}", crate::world::LEAVE_HOST_ALONE)
}
