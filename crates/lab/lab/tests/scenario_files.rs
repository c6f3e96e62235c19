//! Scenario files: what is accepted, and what users are told about mistakes.

use braid_lab::emulator::{Capacity, Carrier, LinkChange, Loss, Reorder};
use braid_lab::engines::External;
use braid_lab::scenario::{
    CongestionControl, OfferedRate, SHIPPED, Scenario, ScenarioError, TrafficDirection, TrafficKind,
};
use braid_units::Ratio;
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;

/// The example of the project's issue, all lines of it in use.
const EXAMPLE: &str = r#"name = "six-3g"
duration = "20s"
[[link]]
name = "3g-1"
down = { rate = "6Mbit", delay = "30ms", jitter = "20ms", loss = "0.5%", queue = "200KB" }
up   = { rate = "500kbit", delay = "30ms", jitter = "20ms", loss = "0.5%", queue = "64KB" }
mtu = 1492
nat = true
[[link]]
name = "3g-2"
down = { trace = "synthetic:umts", offset = "10s", delay = "30ms" }
[[event]]
at = "8s"
link = "3g-1"
blackout = "10s"
[[event]]
at = "2s"
link = "*"
set = { down = { rate = "1Mbit" } }
for = "1s"
[[traffic]]
kind = "tcp"
direction = "down"
flows = 1
congestion = "cubic"
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("s.toml", text, Path::new("."))
}

#[test]
fn the_example_is_read() {
    let scenario = parse(EXAMPLE).unwrap();
    assert_eq!(scenario.duration, Duration::from_secs(20));
    let link = &scenario.links[0].model;
    assert!(matches!(link.down.capacity, Capacity::Rate(rate) if rate.mbit() == 6.0));
    assert_eq!(link.up.queue.bytes(), 64_000);
    assert!(matches!(link.down.loss, Loss::Random(ratio) if ratio.fraction() == 0.005));
    assert!(link.nat && link.mtu == 1492);
    let second = &scenario.links[1].model;
    assert!(matches!(&second.up.capacity, Capacity::Trace { offset, .. }
        if *offset == Duration::from_secs(10)));
    assert!(!second.nat && second.mtu == 1500);
    assert_eq!(scenario.traffic[0].direction, TrafficDirection::Down);
    assert_eq!(scenario.traffic[0].kind, TrafficKind::Tcp { congestion: CongestionControl::Cubic });
    assert_eq!(scenario.traffic_names(), ["tcp-down-1-cubic"]);
}

#[test]
fn every_shipped_scenario_is_read() {
    for shipped in SHIPPED {
        let scenario = shipped.load().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, shipped.name);
        assert!(!scenario.description.is_empty(), "{}", shipped.name);
        let file =
            format!("{}/../../../scenarios/{}.toml", env!("CARGO_MANIFEST_DIR"), shipped.name);
        assert!(Scenario::load(Path::new(&file)).is_ok());
        assert!(Scenario::load(Path::new(shipped.name)).is_ok());
    }
    let folder = format!("{}/../../../scenarios", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(files_of(&folder).len(), SHIPPED.len(), "a file in scenarios/ is not shipped");
}

#[test]
fn the_scenarios_of_the_measurements_are_read() {
    for folder in ["measure", "speed"] {
        let folder = format!("{}/../../../scenarios/{folder}", env!("CARGO_MANIFEST_DIR"));
        let files = files_of(&folder);
        assert!(!files.is_empty());
        for file in files {
            let scenario = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(file.file_stem().and_then(|stem| stem.to_str()), Some(&*scenario.name));
        }
    }
}

#[test]
fn the_engines_that_are_measured_beside_are_read() {
    let files = files_of(&format!("{}/../../../scenarios/engines", env!("CARGO_MANIFEST_DIR")));
    assert!(!files.is_empty());
    for file in files {
        External::load(&file).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn files_of(folder: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn every_kind_of_traffic_is_read() {
    let traffic = |lines: &str| {
        let text = EXAMPLE.replace(
            "kind = \"tcp\"\ndirection = \"down\"\nflows = 1\ncongestion = \"cubic\"\n",
            lines,
        );
        parse(&text).map(|scenario| scenario.traffic[0].clone())
    };
    let udp = traffic("kind = \"udp\"\nrate = \"90%\"\nflows = 2\nstart = \"1s\"").unwrap();
    assert!(matches!(udp.kind, TrafficKind::Udp { rate: OfferedRate::Share(share), .. }
        if (share - 0.9).abs() < 1e-9));
    assert_eq!((udp.start, udp.to_string().as_str()), (Duration::from_secs(1), "udp-down-2-90%"));
    assert_eq!(
        traffic("kind = \"udp\"\nrate = \"2Mbit\"").unwrap().to_string(),
        "udp-down-1-2Mbit"
    );
    assert_eq!(traffic("kind = \"ping\"\ninterval = \"20ms\"").unwrap().to_string(), "ping");
    assert_eq!(traffic("kind = \"voip\"").unwrap().to_string(), "voip-both-1");
    let web = traffic("kind = \"web\"\nsize = [\"10KB\", \"1MB\"]\nstop = \"3s\"").unwrap();
    assert!(matches!(&web.kind, TrafficKind::Web { objects, keep_alive: false, .. }
            if objects == &[10_000, 1_000_000]));
    let web = traffic("kind = \"web\"\nsize = \"200KB\"\nkeep_alive = true").unwrap();
    assert_eq!(web.to_string(), "web-down-1-cubic-200KB-keep-alive");
    let pages = traffic("kind = \"pages\"\nsize = \"1MB\"\nobjects = 20\nflows = 2").unwrap();
    assert!(
        matches!(&pages.kind, TrafficKind::Pages { page, connections: 6, keep_alive: true, .. }
        if page.bytes() == 1_000_000 && page.objects().len() == 20)
    );
    assert_eq!(pages.to_string(), "pages-2-cubic");
}

#[test]
fn faults_of_a_direction_are_read_and_changed_by_events() {
    let with = |faults: &str, set: &str| {
        let text = EXAMPLE.replacen("queue = \"200KB\"", faults, 1);
        parse(&text.replacen("blackout = \"10s\"", set, 1)).unwrap()
    };
    let share = Ratio::from_fraction;
    let scenario = with(
        "reorder = { share = \"4%\", delay = \"5ms\" }, duplicate = \"2%\", corrupt = \"1%\"",
        "set = { down = { reorder = \"5%\", corrupt = \"0%\" } }",
    );
    let down = &scenario.links[0].model.down;
    assert_eq!(down.reorder, Reorder { share: share(0.04), by: Duration::from_millis(5) });
    assert_eq!((down.duplicate, down.corrupt), (share(0.02), share(0.01)));
    let steps = scenario.timeline();
    let changed = steps.iter().find_map(|step| match &step.change {
        LinkChange::Set { down: Some(down), .. } if down.reorder.is_some() => Some(down),
        _ => None,
    });
    let change = changed.unwrap();
    let reorder = Reorder { share: share(0.05), by: Duration::from_millis(20) };
    assert_eq!(
        (change.reorder, change.duplicate, change.corrupt),
        (Some(reorder), None, Some(share(0.0)))
    );
    assert!(scenario.links[1].model.down.reorder.is_none());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes_are_told_with_line_key_and_hint() {
    let many_flows = "flows = 1000\n[[traffic]]\nkind = \"tcp\"\n".repeat(4);
    // (replaced text, replacement, line, part of the message)
    let cases = [
        ("rate = \"6Mbit\"", "rate = 6", 5, "link[1].down.rate: \"6\" has no unit"),
        ("rate = \"6Mbit\"", "rate = \"6\"", 5, "has no unit; write it as \"6Mbit\""),
        ("rate = \"6Mbit\"", "rate = \"-6Mbit\"", 5, "link[1].down.rate"),
        ("rate = \"6Mbit\"", "rate = \"0Mbit\"", 5, "a rate lies between"),
        ("rate = \"6Mbit\"", "rate = true", 5, "expected a text in quotes"),
        ("rate = \"6Mbit\", ", "", 5, "down.rate: this key is missing"),
        ("rate = \"6Mbit\"", "rate = \"6Mbit\", trace = \"x\"", 5, "not both"),
        ("rate = \"6Mbit\"", "rate = \"6Mbit\", offset = \"1s\"", 5, "belongs to a trace"),
        ("delay = \"30ms\", jitter", "delay = 30, jitter", 5, "down.delay: \"30\" has no unit"),
        ("delay = \"30ms\", jitter", "delay = \"61s\", jitter", 5, "at most 60 s"),
        ("delay = \"30ms\", jitter", "dealy = \"30ms\", jitter", 5, "did you mean \"delay\"?"),
        ("loss = \"0.5%\", queue = \"200KB\"", "loss = \"101%\"", 5, "down.loss"),
        ("loss = \"0.5%\", queue = \"200KB\"", "loss = 0.5", 5, "has no unit"),
        (
            "loss = \"0.5%\", queue = \"200KB\"",
            "loss = { average = \"1%\" }",
            5,
            "loss.burst: this key is missing",
        ),
        (
            "loss = \"0.5%\", queue = \"200KB\"",
            "loss = { loss_bad = \"1%\" }",
            5,
            "good_to_bad: this key is missing",
        ),
        ("queue = \"200KB\"", "reorder = \"120%\"", 5, "down.reorder"),
        (
            "queue = \"200KB\"",
            "reorder = { share = \"1%\" }",
            5,
            "reorder.delay: this key is missing",
        ),
        ("queue = \"200KB\"", "reorder = { delay = \"61s\", share = \"1%\" }", 5, "60 s"),
        ("queue = \"200KB\"", "duplicate = 3", 5, "down.duplicate: \"3\" has no unit"),
        ("queue = \"200KB\"", "corrupt = \"x\"", 5, "down.corrupt"),
        ("queue = \"200KB\"", "duplicates = \"1%\"", 5, "did you mean \"duplicate\"?"),
        ("queue = \"200KB\"", "queue = \"200\"", 5, "down.queue"),
        ("queue = \"200KB\"", "queue = \"20B\"", 5, "a queue holds between"),
        ("mtu = 1492", "mtu = 100", 7, "link[1].mtu: 100 is not between 576 and 65535"),
        ("mtu = 1492", "mtu = \"1492\"", 7, "a whole number without quotes"),
        ("nat = true", "nat = 1", 8, "expected true or false"),
        ("nat = true", "nat = true\nethernet = true", 9, "no NAT"),
        ("nat = true", "natt = true", 8, "did you mean \"nat\"?"),
        ("name = \"3g-2\"", "name = \"3g-1\"", 10, "two links named \"3g-1\""),
        ("name = \"3g-2\"", "name = \"a b\"", 10, "can't be a link's name"),
        ("synthetic:umts", "absent.down.gz", 11, "absent.down.gz"),
        ("synthetic:umts", "synthetic:5g", 11, "no synthetic trace"),
        ("at = \"8s\"", "at = \"20s\"", 13, "event[1].at: the event comes when the run is over"),
        ("at = \"8s\"", "at = 8", 13, "has no unit"),
        ("at = \"8s\"", "", 12, "event[1].at: this key is missing"),
        ("link = \"3g-1\"", "link = \"3g-9\"", 14, "there is no link \"3g-9\""),
        ("link = \"3g-1\"", "links = []", 12, "the list of links is empty"),
        ("blackout = \"10s\"", "blackout = \"0s\"", 15, "no time"),
        ("blackout = \"10s\"", "", 12, "nothing happens"),
        (
            "blackout = \"10s\"",
            "blackout = \"10s\"\nfor = \"1s\"",
            16,
            "nothing in this event that",
        ),
        ("blackout = \"10s\"", "carrier = \"down\"\nfor = \"0s\"", 16, "no time"),
        ("nat = true", "nat = false", 15, "no NAT that could be rebound"),
        ("blackout = \"10s\"", "carrier = \"sideways\"", 15, "one of: down, up"),
        ("blackout = \"10s\"", "rebind = false", 15, "does nothing"),
        ("blackout = \"10s\"", "blackout = \"1s\"\nevery = \"0s\"", 16, "at most each 10ms"),
        ("blackout = \"10s\"", "set = { }", 15, "nothing is set"),
        ("blackout = \"10s\"", "set = { rate = \"1Mbit\" }", 15, "set.rate: there is no such key"),
        ("blackout = \"10s\"", "set = { down = { rate = \"1\" } }", 15, "set.down.rate"),
        ("kind = \"tcp\"", "kind = \"ftp\"", 22, "one of: tcp, udp, ping, voip, web"),
        ("kind = \"tcp\"", "", 21, "traffic[1].kind: this key is missing"),
        ("direction = \"down\"", "direction = \"left\"", 23, "one of: down, up, both"),
        ("flows = 1", "flows = 0", 24, "0 is not between 1 and 1000"),
        ("congestion = \"cubic\"", "congestion = \"vegas\"", 25, "one of: cubic, bbr, reno"),
        ("congestion = \"cubic\"", "rate = \"1Mbit\"", 25, "there is no such key"),
        ("congestion = \"cubic\"", "stop = \"30s\"", 25, "within the duration"),
        ("congestion = \"cubic\"", "start = \"20s\"", 25, "starts when the run is over"),
        (
            "congestion = \"cubic\"",
            "[tunnel]\nmode = \"warp\"",
            26,
            "tunnel.mode: the tunnel has no",
        ),
        ("flows = 1\n", &many_flows, 0, "traffic[5]: with this there are more than 4000 flows"),
        ("duration = \"20s\"", "duration = \"20\"", 2, "duration: \"20\" has no unit"),
        ("duration = \"20s\"", "duration = \"0s\"", 2, "between 100 ms and 24 hours"),
        ("duration = \"20s\"", "", 1, "duration: this key is missing"),
        ("duration = \"20s\"", "duration = ", 2, ""),
        ("[[link]]", "[link]", 0, ""),
        ("[[traffic]]", "[[trafic]]", 0, "traffic: this key is missing"),
    ];
    for (from, to, line, expected) in cases {
        let text = EXAMPLE.replacen(from, to, 1);
        let text = match expected.contains("rebound") {
            true => text.replace("blackout = \"10s\"", "rebind = true"),
            false => text,
        };
        assert_ne!(text, EXAMPLE, "{from}");
        let error = parse(&text).map(|_| ()).expect_err(to);
        let message = error.to_string();
        assert!(message.contains(expected), "{to}: {message}");
        assert!(message.starts_with("s.toml:"), "{message}");
        if line > 0 {
            assert_eq!(error.line, Some(line), "{to}: {message}");
        }
    }
    let error = parse(&format!("{EXAMPLE}[extra]\n")).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("there is no such key"), "{error}");
    let error = Scenario::load(Path::new("/nonexistent.toml")).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("six-3g"), "{error}");
}

#[test]
fn a_damaged_recording_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.down"), "1\n2\nx\n").unwrap();
    let text = EXAMPLE.replace("synthetic:umts", "bad.down");
    let error = Scenario::parse("s.toml", &text, folder.path()).map(|_| ()).unwrap_err();
    assert_eq!(error.line, Some(11));
    assert!(error.to_string().contains("bad.down:3"), "{error}");
    // A missing one has a stand-in if the file names it, a damaged one doesn't.
    let with = |name| {
        let trace = format!("{name}\", fallback = \"synthetic:umts");
        Scenario::parse("s.toml", &EXAMPLE.replace("synthetic:umts", &trace), folder.path())
    };
    assert!(with("absent.down").is_ok());
    assert!(with("bad.down").is_err());
}

#[test]
fn the_timeline_unites_what_overlaps_and_restores_what_was_set() {
    let events = r#"[[event]]
at = "10s"
link = "3g-1"
blackout = "2s"
[[event]]
at = "1s"
every = "7s"
links = ["3g-2"]
carrier = "down"
for = "1s"
"#;
    let scenario = parse(&format!("{EXAMPLE}{events}")).unwrap();
    let steps = scenario.timeline();
    assert!(steps.is_sorted_by_key(|step| step.at));
    let of = |link: usize, wanted: &dyn Fn(&LinkChange) -> bool| -> Vec<u64> {
        let found = steps.iter().filter(|step| step.link == link && wanted(&step.change));
        found.map(|step| step.at.as_secs()).collect()
    };
    assert_eq!(of(0, &|change| matches!(change, LinkChange::Blackout(true))), [8]);
    assert_eq!(of(0, &|change| matches!(change, LinkChange::Blackout(false))), [18]);
    assert_eq!(of(1, &|change| matches!(change, LinkChange::Carrier(Carrier::Down))), [1, 8, 15]);
    assert_eq!(of(1, &|change| matches!(change, LinkChange::Carrier(Carrier::Up))), [2, 9, 16]);
    let rates: Vec<(u64, f64)> = steps
        .iter()
        .filter(|step| step.link == 0)
        .filter_map(|step| match &step.change {
            LinkChange::Set { down: Some(down), .. } => {
                let rate = down.capacity.as_ref().map(|capacity| capacity.mean_rate().mbit());
                Some((step.at.as_secs(), rate.unwrap_or(0.0)))
            }
            _ => None,
        })
        .collect();
    assert_eq!(rates, [(2, 1.0), (3, 6.0)]);
}

#[test]
fn figures_that_overlap_end_one_by_one() {
    let set = |at: &str, figures: &str, rest: &str| {
        format!("[[event]]\nat = \"{at}\"\nlink = \"3g-1\"\nset = {{ {figures} }}\n{rest}\n")
    };
    let (head, _) = EXAMPLE.split_once("[[event]]").unwrap();
    let text = [
        head,
        &set("1s", "down = { rate = \"1Mbit\", delay = \"0ms\" }", "for = \"4s\""),
        &set("2s", "down = { rate = \"2Mbit\" }", "for = \"6s\""),
        &set("0s", "up = { rate = \"unlimited\" }", ""),
        &set("4s", "mtu = 1300", ""),
        "[[traffic]]\nkind = \"tcp\"\n",
    ]
    .concat();
    let mut model = parse(&text).unwrap().links[0].model.clone();
    let (mut seen, unlimited) = (Vec::new(), Capacity::Unlimited);
    for step in parse(&text).unwrap().timeline() {
        let LinkChange::Set { down, up, mtu } = step.change else { panic!("{step:?}") };
        down.iter().for_each(|change| model.down.apply(change));
        up.iter().for_each(|change| model.up.apply(change));
        model.mtu = mtu.unwrap_or(model.mtu);
        assert_eq!(model.up.capacity, unlimited);
        let rate = model.down.capacity.mean_rate().mbit();
        seen.push((step.at.as_secs(), rate, model.down.delay.as_millis(), model.mtu));
    }
    let expected = [
        (0, 6.0, 30, 1492),
        (1, 1.0, 0, 1492),
        (2, 2.0, 0, 1492),
        (4, 2.0, 0, 1300),
        (5, 2.0, 30, 1300),
        (8, 6.0, 30, 1300),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn one_event_may_do_several_things() {
    let several =
        "carrier = \"down\"\nset = { up = { delay = \"5ms\" } }\nrebind = true\nfor = \"2s\"";
    let scenario = parse(&EXAMPLE.replace("blackout = \"10s\"", several)).unwrap();
    let steps = scenario.timeline();
    let of = |second: u64| {
        steps.iter().filter(move |step| step.link == 0 && step.at.as_secs() == second)
    };
    assert_eq!(of(8).count(), 3, "{steps:?}");
    assert!(of(8).any(|step| matches!(step.change, LinkChange::Rebind)));
    let back: Vec<_> = of(10).map(|step| &step.change).collect();
    assert!(
        back.iter().any(|change| matches!(change, LinkChange::Carrier(Carrier::Up)))
            && back.iter().any(|change| matches!(change, LinkChange::Set { up: Some(up), .. }
                if up.delay == Some(Duration::from_millis(30)))),
        "{back:?}"
    );
}

#[test]
fn a_shorter_run_leaves_out_what_would_come_later() {
    let late = "[[traffic]]\nkind = \"ping\"\nstart = \"10s\"\n";
    let mut scenario = parse(&format!("{EXAMPLE}{late}")).unwrap();
    scenario.last(Duration::from_secs(9)).unwrap();
    assert_eq!(scenario.traffic_names(), ["tcp-down-1-cubic"]);
    assert_eq!(scenario.traffic[0].stop, Duration::from_secs(9));
    let mut scenario = parse(&EXAMPLE.replace("flows = 1\n", "start = \"10s\"\n")).unwrap();
    let error = scenario.last(Duration::from_secs(9)).unwrap_err();
    assert!(error.to_string().contains("the first traffic starts at 10s"), "{error}");
}

proptest! {
    #[test]
    fn mutations_never_panic(cuts in prop::collection::vec((0usize..1_000, 0usize..20, ".{0,12}"), 1..6)) {
        let mut text = EXAMPLE.to_owned();
        for (at, length, insert) in cuts {
            let mut from = at.min(text.len());
            while !text.is_char_boundary(from) { from -= 1; }
            let mut to = (from + length).min(text.len());
            while !text.is_char_boundary(to) { to += 1; }
            text.replace_range(from..to, &insert);
        }
        if let Err(error) = parse(&text) {
            prop_assert!(error.line.is_some_and(|line| line >= 1 && line <= text.lines().count() + 1));
        }
    }

    #[test]
    fn any_quantity_is_read_or_refused(key in "rate|delay|jitter|loss|queue|reorder|duplicate|corrupt", value in "[0-9.]{0,25}(Mbit|ms|%|KB|s|d|GB|Gbit)?") {
        let text = EXAMPLE.replacen("up   = {", &format!("up   = {{ {key} = \"{value}\" }}\nx = {{"), 1);
        let _ = parse(&text);
        let text = EXAMPLE.replacen("down = { rate = \"6Mbit\"", &format!("down = {{ {key} = \"{value}\""), 1);
        let _ = parse(&text);
    }
}
