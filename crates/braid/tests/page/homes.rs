//! A home that is let in on a concentrator's page, and shut out there.

use crate::side::Side;
use crate::views::{Seen, link};
use crate::world::{INSIDE_V4, LEAVE_HOST_ALONE, Tunnel, World};
use braid_browser::Browser;
use braid_control::config::write_secret;
use braid_control::join_line::JoinLine;
use braid_control::qr_code::QrCode;
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_home_is_let_in_by_its_line_and_shut_out() {
    let Some(browser) = Browser::start() else { return };
    let Some(mut world) = World::new(&[link("dsl", 16, 12)]) else { return };
    let tunnel = Tunnel::default();
    world.start(&tunnel);
    world.home.wait_for_ping(INSIDE_V4);
    world.home.stop();
    let folder = world.scratch.path().join("concentrator");
    fs::write(folder.join("braid.endpoints"), format!("{}\n", tunnel.endpoint)).unwrap();
    let page = Seen::new(&browser, &world.concentrator);
    let says = |text: &str| {
        let text = json!(text);
        browser.wait_until(&format!("return document.body.textContent.includes({text})"));
    };
    let row = |name: &str, text: &str| {
        let text = json!(text);
        browser.wait_until(&format!(
            "return [...document.querySelectorAll('#homes tr')].some(row => \
             row.textContent.startsWith('{name}') && row.textContent.includes({text}))"
        ));
    };

    page.open("/homes");
    row("home", "gone");
    row("home", " ago");
    page.judge("homes-gone");
    // What can't be is said at once.
    browser.keys("input[name=name]", "cabin");
    browser.keys("input[name=addresses]", "10.77.0.2");
    browser.click("form.fields button");
    says("10.77.0.2 is home \"home\"'s");
    page.judge("home-refused");
    page.open("/homes");
    browser.keys("input[name=name]", "cabin\n");
    says("10.77.0.3 and fd77::3");
    says("braid concentrator add-home cabin --valid 24h");
    page.judge("new-home");
    assert!(listed(&world.concentrator, "cabin").is_null(), "it was only asked");

    browser.click("main form button");
    let shown = browser.wait_until("return document.querySelector('#line')?.value");
    let shown = shown.as_str().unwrap().to_owned();
    page.judge("join-line");
    let drawn = browser.run("return document.querySelector('.qr path').getAttribute('d')", &[]);
    assert_eq!(drawn, QrCode::of(&shown).unwrap().svg_path());
    let line: JoinLine = shown.parse().unwrap();
    let cabin = listed(&world.concentrator, "cabin");
    assert_eq!(
        (&cabin["state"], &cabin["until"]),
        (&json!("invited"), &json!(line.until.to_string()))
    );
    // Who goes on and comes back, or sits down at the browser afterwards, finds no line.
    browser.click("main p:last-child a");
    browser.wait_until("return location.pathname === '/homes/cabin'");
    says("Revoke its line");
    page.judge("home-invited");
    browser.back();
    browser.wait_until("return document.readyState === 'complete'");
    assert_eq!(browser.run("return document.querySelector('#line')", &[]), Value::Null);
    assert!(!world.concentrator.log().contains(&shown), "no log has it");

    page.open("/homes");
    row("cabin", "invited");
    browser.run("window.neverReloaded = true", &[]);
    let mut router = router_with(&world, &line);
    router.start();
    router.wait_for_ping(INSIDE_V4);
    row("cabin", "connected");
    assert_eq!(browser.run("return window.neverReloaded", &[]), true);
    page.judge("homes-joined");
    page.open("/homes/cabin");
    says("Remove it");
    page.judge("home-joined");

    // By a click alone nobody is shut out: the browser wants the name, and so does the daemon.
    page.open("/homes/cabin/remove");
    page.judge("home-remove");
    browser.click("main form button");
    assert_eq!(browser.run("return document.querySelector('input:invalid').name", &[]), "typed");
    browser.keys("input[name=typed]", "cabin\n");
    says("cabin is removed and can't connect any more.");
    page.judge("home-removed");
    assert!(listed(&world.concentrator, "cabin").is_null());
    assert!(!folder.join("cabin.psk").exists(), "its secret is gone");
    router.wait_until("it is shut out", || router.status()["peers"][0]["connected"] == false);
}

#[test]
fn a_line_is_renewed_and_revoked_without_scripts() {
    let Some(browser) = Browser::start() else { return };
    let Some(mut world) = World::new(&[link("dsl", 16, 12)]) else { return };
    world.start(&Tunnel::default());
    let folder = world.scratch.path().join("concentrator");
    fs::write(folder.join("braid.endpoints"), "vpn.example.org:51900\n").unwrap();
    let page = Seen::new(&browser, &world.concentrator);
    let first = world.concentrator.braid_ok(&["concentrator", "add-home", "tent", "--json"]);
    let first: Value = serde_json::from_slice(&first).unwrap();

    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    page.open("/homes/tent/renew");
    browser.click("main form button");
    let second = browser.wait_until("return document.querySelector('#line')?.value");
    let second = second.as_str().unwrap();
    assert!(second.starts_with("braid-join:") && second != first["line"].as_str().unwrap());
    let line: JoinLine = second.parse().unwrap();
    assert_eq!(listed(&world.concentrator, "tent")["until"], line.until.to_string());
    page.open("/homes/tent/revoke");
    browser.click("main form button");
    browser.wait_until(
        "return document.querySelector('.done')?.textContent.includes('tent is removed')",
    );
    assert!(listed(&world.concentrator, "tent").is_null());
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": false }));
}

/// As `braid concentrator list` has it.
fn listed(concentrator: &Side, name: &str) -> Value {
    let list = concentrator.braid_ok(&["concentrator", "list", "--json"]);
    let list: Value = serde_json::from_slice(&list).unwrap();
    let mut homes = list.as_array().unwrap().iter();
    homes.find(|home| home["name"] == name).cloned().unwrap_or_default()
}

/// A router that has this line, in the place of the home.
fn router_with(world: &World, line: &JoinLine) -> Side {
    let folder = world.scratch.path().join("cabin");
    let side = Side::new(world.topology.home(), &folder);
    write_secret(&folder.join("enrol"), &line.token.key().to_base64()).unwrap();
    write_secret(&folder.join("psk"), &line.token.preshared_key().to_base64()).unwrap();
    let addresses: Vec<String> =
        line.addresses.iter().map(|address| format!("\"{address}\"")).collect();
    side.write_config(
        &format!("addresses = [{}]", addresses.join(", ")),
        LEAVE_HOST_ALONE,
        &format!(
            "[[link]]\nname = \"dsl\"\ninterface = \"{}\"\n[[peer]]\nname = \"concentrator\"\n\
             public_key = \"{}\"\npreshared_key_file = \"psk\"\nenrolment_key_file = \"enrol\"\n\
             endpoints = [\"{}\"]\nallowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n\
             keepalive = \"1s\"\n",
            world.topology.links()[0].device(),
            line.concentrator,
            line.endpoints[0]
        ),
    );
    side
}
