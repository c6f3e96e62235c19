use crate::BRAID;
use crate::axe::Axe;
use crate::side::Side;
use crate::traffic::{Direction, Transfer};
use crate::way;
use crate::world::{INSIDE_V4, Tunnel, World};
use braid_browser::{Browser, keys};
use braid_lab::emulator::{Capacity, DirectionModel, LinkChange, LinkModel};
use braid_page::{DiskLine, FindingLine, PoolLine, PoolsLook};
use braid_units::{ByteSize, Rate};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A desktop's window and a telephone's, CSS pixels.
const SIZES: [(u32, u32); 2] = [(1280, 900), (360, 740)];
const PASSWORD: &str = "correct horse battery staple";
/// The first view may need so much of a slow line.
const FIRST_VIEW_BYTES: u64 = 150_000;

#[test]
fn each_view_shows_a_live_tunnel_to_everybody() {
    let Some(browser) = Browser::start() else { return };
    let Some(mut world) = World::new(&[link("dsl", 16, 12), link("lte", 8, 35)]) else { return };
    let history = "leave_host_alone = true\n[history]\nwrite_every = \"10s\"\n";
    let (home_routing, concentrator_routing) = (history, history);
    world.start(&Tunnel { home_routing, concentrator_routing, ..Tunnel::default() });
    let [state, _] = world.home.folders();
    look_of_pools().write(&state.join("pools.json")).unwrap();
    let home = Seen::new(&browser, &world.home);
    let says = |element: &str, text: &str| {
        let text = json!(text);
        browser.wait_until(&format!(
            "return document.querySelector('{element}').textContent.includes({text})"
        ));
    };

    let seconds = if home.pictures.is_some() { 180 } else { 12 };
    let bytes = seconds * 2_700_000;
    let begin = |world: &World| {
        let (client, server) = (&world.home, &world.concentrator);
        Transfer::start(client, server, INSIDE_V4, Direction::Down, bytes)
    };
    let transfer = begin(&world);
    transfer.wait_until_received(1_000_000);
    home.open("/");
    assert!(home.bytes_loaded() < FIRST_VIEW_BYTES, "{}", home.bytes_loaded());
    says("#sentence", "2 of 2 links carry traffic");
    // The graph grows by itself.
    browser.wait_until("return document.querySelectorAll('#graph polygon').length >= 4");
    let drawn = browser.run("return document.querySelector('#graph').innerHTML", &[]);
    browser.wait_until(&format!("return document.querySelector('#graph').innerHTML !== {drawn}"));
    home.judge("overview");
    browser.run("window.neverReloaded = true", &[]);
    home.wait_for_picture(60);
    // On a slow machine the first is over by now, and links that carry nothing aren't watched.
    let while_cut = begin(&world);
    world.change(1, &LinkChange::Blackout(true));
    says("#sentence", "without lte");
    says("#events", "lte is down");
    home.judge("cut");
    home.wait_for_picture(10);
    world.change(1, &LinkChange::Blackout(false));
    says("#sentence", "2 of 2 links carry traffic");
    assert_eq!(browser.run("return window.neverReloaded", &[]), json!(true));
    home.wait_for_picture(20);
    home.judge("back");

    home.open("/traffic");
    says("#flows", "tcp");
    says("#flows", "dsl");
    home.judge("traffic");
    browser.run("document.querySelector('#devices a').click()", &[]);
    browser.wait_until("return location.pathname.startsWith('/traffic/')");
    home.judge("device");
    home.open("/doctor");
    says("#findings", "Looked at");
    home.judge("doctor");
    for (path, name) in [
        ("/?span=hour", "hour"),
        ("/links", "links"),
        ("/links/lte?span=hour", "link"),
        ("/events", "events"),
        ("/disks", "disks"),
    ] {
        home.open(path);
        home.judge(name);
    }
    home.open("/links/lte");
    browser.wait_until(
        "return document.querySelector('[aria-label=\"The line\"]').textContent.includes('NAT')",
    );
    let concentrator = Seen::new(&browser, &world.concentrator);
    for (path, name) in [("/", "concentrator"), ("/homes", "homes"), ("/homes/home", "home")] {
        concentrator.open(path);
        concentrator.judge(name);
    }
    transfer.finish();
    while_cut.finish();

    home.open("/");
    world.home.stop();
    says("#stale", "No news for");
    home.judge("stale");
    world.home.start();
    browser.wait_until("return document.querySelector('#stale').hidden");
}

#[test]
fn who_logs_in_changes_a_link() {
    let Some(browser) = Browser::start() else { return };
    let Some(mut world) = World::new(&[link("dsl", 16, 12), link("lte", 8, 35)]) else { return };
    let password = "leave_host_alone = true\n[ui]\npassword_file = \"passwords\"\n";
    world.start(&Tunnel { home_routing: password, ..Tunnel::default() });
    let config = world.scratch.path().join("home/braid.toml").display().to_string();
    world.home.sh(&format!("echo '{PASSWORD}' | {BRAID} ui password --stdin -c {config}"));
    let home = Seen::by_port(&browser, &world.home);
    home.open("/links/lte");
    assert_eq!(browser.run("return document.querySelector('button.main').disabled", &[]), true);
    // Who uses the tunnel isn't for everybody on this host.
    home.open("/traffic");
    browser.wait_until("return document.querySelector('input[type=password]')");
    assert!(browser.console().iter().all(|line| line.contains("403")), "it says so");
    home.open("/login");
    home.judge("login");
    browser.keys("input[type=password]", "wrong\n");
    browser.wait_until("return document.querySelector('[role=alert]')");
    assert!(browser.console().iter().all(|line| line.contains("401")), "it says so");
    browser.keys("input[type=password]", &format!("{PASSWORD}\n"));
    browser.wait_until("return document.querySelector('.who').textContent.includes('Admin')");

    home.open("/links/lte");
    home.judge("link-admin");
    browser.keys("input[name=quota]", "20GB/month");
    browser.click("form.fields button");
    browser.wait_until("return document.body.textContent.includes('has carried 20GB/month')");
    home.judge("change");
    browser.click("main form button");
    browser.wait_until("return document.querySelector('.done')");
    home.judge("changed");
    home.open("/doctor");
    browser.run("document.querySelector('select[name=link]').value = 'dsl'", &[]);
    browser.click("form.fields button");
    browser
        .wait_until("return document.querySelector('#measured').textContent.includes('Measuring')");
    home.judge("measuring");
    browser.wait_until(
        "return document.querySelector('#measured').textContent.includes('Measured at')",
    );
    browser.wait_until("return document.querySelector('#measured table')");
    home.judge("measured");
    let quota = &world.home.status()["links"][1]["quota"]["limit_bytes"];
    assert_eq!(*quota, json!(20_000_000_000_u64));
    browser.click(".who button");
    browser.wait_until("return location.pathname === '/login'");
}

#[test]
fn a_link_gets_another_role_by_keys_by_dragging_and_without_scripts() {
    let Some(browser) = Browser::start() else { return };
    let Some(mut world) = World::new(&[link("dsl", 16, 12), link("lte", 8, 35)]) else { return };
    world.start(&Tunnel::default());
    let home = Seen::new(&browser, &world.home);
    let url = |what: &str| {
        browser.wait_until(&format!(
            "return document.readyState === 'complete' \
             && (location.pathname + location.search) === {what:?}"
        ));
    };
    let role_of = |name: &str, standby: bool, tier: u8| {
        world.home.wait_until("it has its role", || {
            let links = world.home.status()["links"].clone();
            let links = links.as_array().unwrap().clone();
            let link = links.iter().find(|link| link["name"] == name).unwrap();
            link["standby"] == standby && link["tier"] == tier
        });
    };

    home.open("/links");
    home.judge("roles");
    // By keys alone, and changed one's mind in between.
    let handle = "[data-link=lte] .handle";
    browser.keys(handle, keys::DOWN);
    browser.wait_until("return document.querySelector('.is-target').dataset.role === 'standby'");
    browser.wait_until(
        "return document.querySelector('[data-moving]').textContent.startsWith('lte: Standby')",
    );
    browser.keys(handle, keys::ESCAPE);
    assert_eq!(browser.run("return document.querySelector('.is-target')", &[]), json!(null));
    browser.keys(handle, &format!("{}{}", keys::DOWN, keys::ENTER));
    url("/links/lte/change?role=standby");
    assert!(browser.text("main").contains("carries no traffic while another link works"));
    role_of("lte", false, 0);
    browser.click("main form button");
    browser.wait_until("return document.querySelector('.done')");
    role_of("lte", true, 0);

    // With tiers, by dragging, into one that is new.
    world.home.braid_ok(&["mode", "overflow", "--temporary"]);
    world.home.wait_until("the mode is so", || world.home.status()["mode"] == "overflow");
    home.open("/links");
    home.judge("roles-tiers");
    let drag = "const [link, place] = [document.querySelector('[data-link=lte]'), \
                document.querySelector('.role[data-tier=\"1\"]')]; \
                const data = new DataTransfer(); \
                const fire = (at, kind) => at.dispatchEvent(new DragEvent(kind, \
                  { bubbles: true, cancelable: true, dataTransfer: data })); \
                fire(link, 'dragstart'); fire(place, 'dragover'); fire(place, 'drop');";
    browser.run(drag, &[]);
    url("/links/lte/change?role=used&tier=1");
    assert!(browser.text("main").contains("moves from tier 0 to 1"));
    browser.click("main form button");
    browser.wait_until("return document.querySelector('.done')");
    role_of("lte", false, 1);

    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    home.open("/links");
    browser.click("[data-link=dsl] summary");
    browser.keys("[data-link=dsl] input[name=cap_up]", "5Mbit");
    browser.click("[data-link=dsl] form button");
    browser.wait_until(
        "return document.body.textContent.includes('dsl carries no more than 5Mbit up')",
    );
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": false }));
}

/// A page in the browser, and what is made of it.
pub struct Seen<'a> {
    browser: &'a Browser,
    at: SocketAddr,
    axe: Option<Axe>,
    pictures: Option<PathBuf>,
}

impl<'a> Seen<'a> {
    /// As who may open the socket: as admin.
    pub fn new(browser: &'a Browser, side: &Side) -> Seen<'a> {
        let [_, run] = side.folders();
        Seen::at(browser, way::to_socket(&run.join("sock.ui.sock")))
    }

    /// As anybody on the host.
    fn by_port(browser: &'a Browser, side: &Side) -> Seen<'a> {
        Seen::at(browser, way::to_port(side, "127.0.0.1:5190"))
    }

    pub fn at(browser: &'a Browser, at: SocketAddr) -> Seen<'a> {
        let pictures = std::env::var_os("BRAID_PICTURES").map(PathBuf::from);
        Seen { browser, at, axe: Axe::find(), pictures }
    }

    pub fn open(&self, path: &str) {
        self.browser.open(&format!("http://{}{path}", self.at));
    }

    /// Of the page and all that it asked for, without what streams.
    fn bytes_loaded(&self) -> u64 {
        let bytes = self.browser.run(
            "return [...performance.getEntriesByType('resource'), \
             ...performance.getEntriesByType('navigation')] \
             .filter(one => !one.name.includes('/live')) \
             .reduce((sum, one) => sum + one.transferSize, 0)",
            &[],
        );
        bytes.as_u64().unwrap()
    }

    fn wait_for_picture(&self, seconds: u64) {
        if self.pictures.is_some() {
            std::thread::sleep(Duration::from_secs(seconds));
        }
    }

    /// Nothing went wrong, nothing sticks out, and everybody can use it; large and light, small
    /// and dark.
    pub fn judge(&self, name: &str) {
        for ((width, height), scheme) in SIZES.into_iter().zip(["light", "dark"]) {
            self.show_at(width, height, scheme);
            let what = format!("{name} {width} {scheme}");
            let by =
                self.browser.run("return document.documentElement.scrollWidth - innerWidth", &[]);
            if let Some(folder) = &self.pictures {
                std::fs::create_dir_all(folder).unwrap();
                self.browser.screenshot(&folder.join(format!("{name}-{width}-{scheme}.png")));
            }
            assert!(by.as_i64().unwrap() <= 0, "{what} is too wide by {by}");
            if let Some(axe) = &self.axe {
                axe.assert_no_violation(self.browser, &what);
            }
        }
        let console = self.browser.console();
        assert!(console.is_empty() || name == "stale", "{name}: {console:?}");
    }

    fn show_at(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": true,
        });
        self.browser.devtools("Emulation.setDeviceMetricsOverride", &size);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.browser.devtools("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }
}

pub fn link(name: &str, mbit: u64, ms: u64) -> LinkModel {
    let direction = |mbit| DirectionModel {
        capacity: Capacity::Rate(Rate::from_mbit(mbit)),
        delay: Duration::from_millis(ms),
        queue: ByteSize::from_bytes(200_000),
        ..DirectionModel::ideal()
    };
    let (down, up) = (direction(mbit), direction(mbit / 2));
    LinkModel { name: name.into(), down, up, mtu: 1500, nat: false }
}

/// As `braid pool watch` leaves it; what it sees of a real host is another's test.
fn look_of_pools() -> PoolsLook {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let disk = |path: &str, health: &str| DiskLine {
        path: path.into(),
        model: Some("WDC WD40EFRX".into()),
        serial: Some("WD-WCC4E1234567".into()),
        size_bytes: 4_000_787_030_016,
        kind: "hdd".into(),
        health: health.into(),
        temperature_c: Some(34),
    };
    PoolsLook {
        looked_unix: i64::try_from(now).unwrap() - 100,
        pools: vec![PoolLine {
            name: "tank".into(),
            layout: "btrfs-raid1".into(),
            state: "whole".into(),
            disks: 2,
            size_bytes: Some(4_000_000_000_000),
            used_bytes: Some(3_100_000_000_000),
            mounted_at: Some("/srv/tank".into()),
            activity: Some("scrub".into()),
            done: Some(0.4),
            left_s: Some(5400),
            survives: Some("any one disk may fail".into()),
            ..PoolLine::default()
        }],
        disks: vec![disk("/dev/sda", "good"), disk("/dev/sdb", "failing: 12 pending sectors")],
        findings: vec![FindingLine {
            severity: "attention".into(),
            pool: Some("tank".into()),
            what: "/dev/sdb has 12 sectors that it can't read".into(),
            mend: "braid pool replace tank /dev/sdb NEW-DISK".into(),
        }],
    }
}
