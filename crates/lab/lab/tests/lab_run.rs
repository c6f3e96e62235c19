//! Whole runs in real namespaces with real traffic, on fast scenarios.

use braid_lab::cancel::Cancel;
use braid_lab::engines::EngineName;
use braid_lab::live::Live;
use braid_lab::plan::{Findings, Plan};
use braid_lab::report::{self, Results, markdown};
use braid_lab::run::run;
use braid_lab::scenario::Scenario;
use braid_lab::scratch::Scratch;
use std::path::Path;

const LINKS: &str = r#"name = "short"
duration = "2s"
[[link]]
name = "one"
down = { rate = "20Mbit", delay = "5ms", queue = "60KB" }
up = { rate = "5Mbit", delay = "5ms" }
nat = true
[[link]]
name = "two"
down = { rate = "10Mbit", delay = "10ms", queue = "60KB" }
up = { rate = "5Mbit", delay = "10ms" }
mtu = 1400
"#;

fn measured(rest: &str, engines: &[&str], baseline: bool) -> Findings {
    measured_text(&format!("{LINKS}{rest}"), engines, baseline)
}

fn measured_text(text: &str, engines: &[&str], baseline: bool) -> Findings {
    let scenario = Scenario::parse("s.toml", text, Path::new(".")).unwrap();
    let links: Vec<&str> = scenario.links.iter().map(|link| link.model.name.as_str()).collect();
    let engines =
        engines.iter().flat_map(|name| EngineName::expand(name, &links).unwrap()).collect();
    let plan = Plan {
        scenario,
        engines,
        repeat: 1,
        baseline,
        keep_logs: None,
        program: std::env::current_exe().unwrap(),
    };
    let scratch = Scratch::temporary().unwrap();
    let findings = run(&plan, &scratch, &Cancel::new(), &Live::silent());
    assert!(findings.failures.is_empty(), "{:?}", findings.failures);
    findings
}

#[test]
fn a_link_alone_carries_its_rate_and_the_json_has_the_agreed_form() {
    let traffic =
        "[[traffic]]\nkind = \"tcp\"\ncongestion = \"cubic\"\n[[traffic]]\nkind = \"ping\"\n";
    let findings = measured(traffic, &["link:one", "mptcp"], true);
    let json = findings.report.results().to_json();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["scenario"], "short");
    assert!(value["host"].is_object());
    let keys = [
        "engine",
        "traffic",
        "repetition",
        "goodput_mbps",
        "sum_of_links_mbps",
        "best_link_mbps",
        "ratio",
        "longest_stall_ms",
        "ping_ms",
        "ping_lost",
        "udp_loss",
        "reordered",
        "cpu_seconds",
        "overhead_ratio",
        "web",
        "series",
    ];
    for run in value["runs"].as_array().unwrap() {
        let mut found: Vec<&str> = run.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        let mut wanted = keys.to_vec();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
    }
    let results: Results = serde_json::from_str(&json).unwrap();
    let find = |engine: &str, traffic: &str| {
        results.runs.iter().find(|r| r.engine == engine && r.traffic == traffic).unwrap()
    };
    // 20 Mbit/s of IP packets carry 19.3 of payload; a busy machine may carry less.
    let alone = find("link:one", "tcp-down-1-cubic");
    let goodput = alone.goodput_mbps.unwrap();
    assert!(goodput > 0.0 && goodput < 19.4, "{goodput}");
    let sum = alone.sum_of_links_mbps.unwrap();
    assert!(sum < 29.0, "{sum}");
    assert!(alone.best_link_mbps.unwrap() < sum);
    assert!((alone.ratio.unwrap() - goodput / sum).abs() < 1e-9);
    let overhead = alone.overhead_ratio.unwrap();
    assert!((0.97..1.10).contains(&overhead), "{overhead}");
    assert!(alone.longest_stall_ms.is_some() && alone.cpu_seconds.is_none());
    let series = alone.series.as_ref().unwrap();
    assert_eq!(series.len(), 20);
    let mean = series.iter().map(|(_, mbps)| mbps).sum::<f64>() / 20.0;
    assert!((mean - goodput).abs() < 0.01, "{mean} {goodput}");
    let ping = find("link:one", "ping");
    let round_trips = ping.ping_ms.unwrap();
    assert!(round_trips.p50 >= 10.0 && round_trips.max >= round_trips.p99);
    assert!(ping.goodput_mbps.is_none() && ping.series.is_none());
    assert!(find("mptcp", "tcp-down-1-cubic").goodput_mbps.unwrap() > 5.0);

    let page = report::page(&findings.reports());
    well_formed(&page);
    assert!(!page.contains("http"), "the page must open offline");
    assert!(markdown(&findings.report).lines().count() >= 6);
}

#[test]
fn uploads_datagrams_calls_and_objects_are_measured() {
    let traffic = r#"[[traffic]]
kind = "udp"
rate = "2Mbit"
direction = "both"
[[traffic]]
kind = "voip"
[[traffic]]
kind = "web"
size = ["10KB", "40KB"]
flows = 2
[[traffic]]
kind = "tcp"
direction = "up"
start = "500ms"
[[event]]
at = "1s"
link = "one"
rebind = true
"#;
    let findings = measured(traffic, &["link:two", "link:one", "ecmp"], false);
    let find = |engine: &str, traffic: &str| {
        let found = |r: &&braid_lab::report::Record| {
            r.run.engine == engine && r.run.traffic.starts_with(traffic)
        };
        findings.report.records.iter().find(found).unwrap()
    };
    let udp = find("link:two", "udp-both-1-2Mbit");
    let counts = udp.detail.datagrams.unwrap();
    assert!(counts.sent > 200 && counts.received <= counts.sent, "{counts:?}");
    assert!(udp.run.udp_loss.unwrap() < 0.9);
    let voice = find("link:two", "voip").detail.voice.unwrap();
    // 50 packets a second each way for two seconds.
    assert!((100..=220).contains(&voice.sent), "{voice:?}");
    assert!(voice.lost + voice.late <= voice.sent);
    let web = find("link:two", "web").run.web.clone().unwrap();
    assert!(web.objects.iter().any(|objects| objects.count > 0), "{web:?}");
    let upload = find("link:two", "tcp-up");
    assert!(upload.run.goodput_mbps.unwrap() > 0.5);
    assert_eq!(upload.run.series.as_ref().unwrap().len(), 15);
    // Without the baseline there is nothing to compare with.
    assert!(upload.run.ratio.is_none() && upload.run.sum_of_links_mbps.is_none());
    // A flow of datagrams recovers after the NAT has forgotten it.
    assert!(find("link:one", "udp-both").run.goodput_mbps.unwrap() > 1.0);
}

#[test]
fn pages_and_objects_have_times_by_size_beside_the_best_link() {
    let traffic = "[[traffic]]\nkind = \"pages\"\nsize = \"200KB\"\nobjects = 12\n\
                   [[traffic]]\nkind = \"web\"\nsize = [\"5KB\", \"20KB\"]\nkeep_alive = true\n\
                   [[traffic]]\nkind = \"web\"\nsize = \"10KB\"\ndirection = \"up\"\n";
    let findings = measured_text(&format!("in_turn = true\n{LINKS}{traffic}"), &["mptcp"], true);
    let results = findings.report.results();
    let web: Vec<_> = results.runs.iter().map(|run| run.web.as_ref().unwrap()).collect();
    let page = web[0].page.as_ref().unwrap();
    assert_eq!((page.bytes, page.objects), (200_000, 12));
    // Three round trips of 10 ms, and 200 KB at 30 Mbit/s.
    assert!(page.loads >= 1 && page.load_ms.unwrap().p50 > 60.0, "{page:?}");
    // The faster link needs 80 ms for the bytes alone.
    assert!(page.best_link_ms.unwrap() > 80.0, "{page:?}");
    assert!(web[0].objects.iter().map(|o| o.count).sum::<u64>() >= page.loads * 12);
    let sizes: Vec<u64> = web[1].objects.iter().map(|objects| objects.up_to_bytes).collect();
    assert_eq!(sizes, [5_000, 20_000]);
    for objects in &web[1].objects {
        let (first, last) = (objects.first_byte_ms.unwrap(), objects.last_byte_ms.unwrap());
        assert!(first.p50 >= 10.0 && last.p50 >= first.p50 && objects.count > 0, "{objects:?}");
        assert!(objects.best_link_ms.is_some());
    }
    let upload = &web[2].objects[0];
    assert!(upload.first_byte_ms.is_none() && upload.last_byte_ms.is_some(), "{upload:?}");
    // Objects in turn don't fill a link: there's no sum to compare with.
    assert!(results.runs[1].sum_of_links_mbps.is_none() && results.runs[1].ratio.is_none());
    let table = markdown(&findings.report);
    for said in ["a page of 0.2 MB in 12 objects: ", "by the best link alone", " 20KB |"] {
        assert!(table.contains(said), "{table}");
    }
    well_formed(&report::page(&findings.reports()));
}

#[test]
fn a_file_is_copied_by_smb_and_each_traffic_has_its_turn() {
    let found = |program: &str| {
        ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
    };
    if !found("smbd") || !found("smbclient") {
        println!("skipped: no Samba here (apt install samba smbclient)");
        return;
    }
    let text = format!(
        "in_turn = true\n{LINKS}[[traffic]]\nkind = \"smb\"\n[[traffic]]\nkind = \"smb\"\n\
         direction = \"up\"\n"
    );
    let findings = measured_text(&text, &["link:one", "mptcp"], false);
    let rate = |engine: &str, traffic: &str| {
        let same =
            |r: &&braid_lab::report::Record| r.run.engine == engine && r.run.traffic == traffic;
        findings.report.records.iter().find(same).unwrap().run.goodput_mbps.unwrap()
    };
    // 20 down and 5 up; simultaneously they would at least share the CPU.
    let (down, up) = (rate("link:one", "smb-down-1"), rate("link:one", "smb-up-1"));
    assert!(down > 0.0 && down < 20.0, "{down}");
    assert!(up > 0.0 && up < 5.1, "{up}");
    assert!(rate("mptcp", "smb-down-1") > 0.0);
}

#[test]
fn an_external_engine_brings_its_own_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ipip.toml");
    // The plainest tunnel: IP in IP over the second link, which has no NAT.
    let engine = r#"name = "ipip over the second link"
server = "10.99.0.1"
[home]
setup = [
  "ip route add $CONCENTRATOR via $GATEWAY_2 dev $DEVICE_2",
  "ip link add tun1 type ipip local $ADDRESS_2 remote $CONCENTRATOR",
  "ip address add 10.99.0.2/24 dev tun1 && ip link set tun1 up",
]
up = "sleep 1000"
down = "echo down > $DIR/../down"
[concentrator]
setup = "ip link add tun1 type ipip local $CONCENTRATOR remote $ADDRESS_2"
after = "ip address add 10.99.0.1/24 dev tun1 && ip link set tun1 up"
"#;
    let possible = std::process::Command::new("unshare")
        .args([
            "-n", "ip", "link", "add", "dev", "probe", "type", "ipip", "local", "1.1.1.1",
            "remote", "1.1.1.2",
        ])
        .status()
        .is_ok_and(|status| status.success());
    let (engine, tunnel) = if possible {
        (engine.to_owned(), true)
    } else {
        println!("this kernel has no ipip: the external engine only routes");
        let plain = "server = \"203.0.113.1\"\n[home]\nsetup = \"ip route add $CONCENTRATOR via \
                     $GATEWAY_2 dev $DEVICE_2\"\nup = \"sleep 1000\"\n";
        (plain.to_owned(), false)
    };
    std::fs::write(&file, engine).unwrap();
    let traffic = "[[traffic]]\nkind = \"tcp\"\n";
    let findings = measured(traffic, &[&format!("external:{}", file.display())], false);
    let run = &findings.report.records[0].run;
    assert!(run.goodput_mbps.unwrap() > 2.0);
    // It runs a process at home, which used hardly any CPU.
    assert!(run.cpu_seconds.unwrap().home < 1.0);
    let overhead = run.overhead_ratio.unwrap();
    assert!(overhead > if tunnel { 1.005 } else { 0.97 }, "{overhead}");
}

#[test]
fn a_cancelled_run_ends_soon_and_says_so() {
    let text = LINKS.replace("\"2s\"", "\"300s\"");
    let traffic =
        "[[traffic]]\nkind = \"tcp\"\n[[traffic]]\nkind = \"ping\"\n[[traffic]]\nkind = \"voip\"\n";
    let scenario = Scenario::parse("s.toml", &format!("{text}{traffic}"), Path::new(".")).unwrap();
    let plan = Plan {
        scenario,
        engines: vec!["link:one".parse().unwrap()],
        repeat: 3,
        baseline: true,
        keep_logs: None,
        program: std::env::current_exe().unwrap(),
    };
    let cancel = Cancel::new();
    let switch = cancel.clone();
    let scratch = Scratch::temporary().unwrap();
    let begin = std::time::Instant::now();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(1));
        switch.cancel();
    });
    let findings = run(&plan, &scratch, &cancel, &Live::silent());
    thread.join().unwrap();
    assert!(begin.elapsed() < std::time::Duration::from_secs(60));
    assert!(findings.report.records.is_empty() && !findings.failures.is_empty());
}

/// accept(2) of the kernel's Multipath TCP has no time limit.
#[test]
fn objects_over_multipath_tcp_come_to_an_end() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let findings = measured("[[traffic]]\nkind = \"web\"\n", &["mptcp"], false);
        done.send(findings.report.records.len()).unwrap();
    });
    let ended = is_done.recv_timeout(std::time::Duration::from_secs(60));
    assert_eq!(ended, Ok(1), "it measures, and ends");
}

/// Every element that is opened is closed, in order, and `<` and `&` are
/// escaped.
fn well_formed(page: &str) {
    let body = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    let mut open = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains("&nbsp"), "an entity that XML lacks");
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("an element ends");
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "…{}", &after[..after.len().min(80)]);
        } else if !tag.ends_with('/') {
            let name = tag.split_whitespace().next().unwrap_or_default();
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
