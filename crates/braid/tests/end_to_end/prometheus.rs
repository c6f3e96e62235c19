//! Debian's Prometheus reads the metrics of a running tunnel and of pools; every expression of the
//! shipped board has an answer, and the rules hold.

use crate::PATIENCE;
use crate::stand_in::{Behaviour, StandIn};
use crate::traffic::{Direction, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_pool::layout::Profile;
use braid_pool::observed::{
    BtrfsErrors, BtrfsMember, ObservedBtrfs, ObservedPool, Purpose, Scrub, SpaceUse,
};
use braid_pool::untrusted::Untrusted;
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn packaging(file: &str) -> String {
    format!("{}/../../packaging/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn is_missing(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: no {program} here: ./setup test installs it");
    }
    !found
}

#[test]
fn the_alert_rules_hold() {
    if is_missing("promtool") {
        return;
    }
    for arguments in
        [["check", "rules", "braid.rules.yml"], ["test", "rules", "braid.rules.test.yml"]]
    {
        let mut promtool = Command::new("promtool");
        let output =
            promtool.args(arguments).current_dir(packaging("prometheus")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Ended with the test.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_expression_of_the_board_has_an_answer() {
    if is_missing("prometheus") {
        return;
    }
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.home.sh("ip link set lo up");
    world.write_configs(&Tunnel {
        home: "addresses = [\"10.77.0.2/24\", \"fd77::2/64\"]\nmetrics = \"127.0.0.1:9190\"",
        ..Tunnel::default()
    });
    let config = world.scratch.path().join("home/braid.toml");
    let text = fs::read_to_string(&config).unwrap();
    let quota = "interface = \"dsl\"\nquota = { bytes = \"20GB\", per = \"month\" }\n";
    let text = text.replace("interface = \"dsl\"\n", quota);
    let alert = "[[alert]]\nname = \"script\"\ncommand = \"true\"\n";
    fs::write(&config, format!("{text}\n{alert}")).unwrap();
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);

    let pools = StandIn::web(&world.home.namespace, Behaviour::Says(pool_metrics()));
    let server = start(&world, &pools);
    let load =
        Transfer::start(&world.home, &world.concentrator, INSIDE_V4, Direction::Up, 3_000_000);
    load.finish();
    let board: Value =
        serde_json::from_slice(&fs::read(packaging("grafana/braid.json")).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let mut count = 0;
    for target in targets {
        let expression = target["expr"].as_str().unwrap();
        let filled = expression.replace("$__rate_interval", "20s").replace("$instance", ".*");
        assert!(!filled.contains('$'), "{filled}");
        wait_for_answer(&world, &filled);
        count += 1;
    }
    assert!(count > 30, "only {count} expressions");
    drop(server);
}

fn start(world: &World, pools: &StandIn) -> Prometheus {
    let folder = world.scratch.path().join("prometheus");
    fs::create_dir_all(&folder).unwrap();
    let job = |name: &str, address: &str| {
        format!("  - job_name: {name}\n    static_configs: [{{targets: [\"{address}\"]}}]\n")
    };
    let config = format!(
        "global: {{scrape_interval: 1s}}\nrule_files: [\"{}\"]\nscrape_configs:\n{}{}",
        packaging("prometheus/braid.rules.yml"),
        job("braid", "127.0.0.1:9190"),
        job("pools", &pools.address.to_string()),
    );
    let file = folder.join("prometheus.yml");
    fs::write(&file, config).unwrap();
    let log = fs::File::create(folder.join("log")).unwrap();
    let mut command = world.home.namespace.command("prometheus");
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg("--web.listen-address=127.0.0.1:9091")
        .stdout(Stdio::null())
        .stderr(log);
    Prometheus(command.spawn().unwrap())
}

fn wait_for_answer(world: &World, expression: &str) {
    let give_up = Instant::now() + PATIENCE;
    let ask = || -> Option<usize> {
        let mut curl = world.home.namespace.command("curl");
        let output = curl
            .args(["-s", "-m", "5", "-G", "http://127.0.0.1:9091/api/v1/query", "--data-urlencode"])
            .arg(format!("query={expression}"))
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().map(Vec::len)
    };
    while ask().is_none_or(|count| count == 0) {
        let log = fs::read_to_string(world.scratch.path().join("prometheus/log"));
        assert!(Instant::now() < give_up, "no answer: {expression}\n{log:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// As `braid pool watch` writes them, of a pool that was seen once.
fn pool_metrics() -> String {
    let of = |purpose| SpaceUse {
        purpose,
        profile: Profile::Raid1,
        total_bytes: 100 << 30,
        used_bytes: 10 << 30,
    };
    let member = |devid: u64, path: &str| BtrfsMember {
        devid,
        uuid: None,
        path: Some(path.into()),
        disk: None,
        size_bytes: 500 << 30,
        device_bytes: Some(500 << 30),
        allocated_bytes: 101 << 30,
        missing: false,
        fault: None,
        errors: BtrfsErrors::default(),
        uncorrectable: 0,
        generation: Some(7),
    };
    let pool = ObservedPool::Btrfs(ObservedBtrfs {
        uuid: "0f6ac8d1-9d0c-4bb5-8f1f-3a1b1de5c001".parse().unwrap(),
        label: Some(Untrusted("data".to_owned())),
        members: vec![member(1, "/dev/sdb"), member(2, "/dev/sdc")],
        space: vec![of(Purpose::Data), of(Purpose::Metadata)],
        profiles_on_disk: Vec::new(),
        exclusive_operation: Default::default(),
        scrub: Scrub { ended_ago: Some(Duration::from_secs(86_400)), ..Scrub::default() },
        quotas: false,
        mounts: Vec::new(),
        generation: 7,
        nodatacow: Vec::new(),
    });
    braid_pool::prometheus::metrics(&[pool], &[], &[], &[], 1_800_000_000)
}
