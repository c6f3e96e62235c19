//! Backups with a rule of their own: the metered link carries nothing of them, whatever becomes of
//! the other one.

use crate::inbound::world_with_lan;
use crate::ruled::{V4, start};
use crate::world::{World, sh};
use braid_backup_targets::{KEY, S3Server, SECRET, noise};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

const BYTES: usize = 6_000_000;

/// What the tunnel asks by an idle link, its keepalives and probes, in the minute of a backup.
const ASIDE: u64 = BYTES as u64 / 4;

#[test]
fn a_backup_by_rule_leaves_the_metered_link_alone_and_goes_on_when_the_other_is_back() {
    let Some((mut world, _lan)) = world_with_lan() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let server = world.internet.run(|| S3Server::at(&folder.join("s3"), V4)).unwrap();
    let rule = format!(
        "[[rule]]\nname = \"backups\"\nmatch = {{ to = [\"{V4}\"], protocol = \"tcp\", ports = \"{}\" }}\n\
         do = \"direct\"\nlinks = \"wan1\"\notherwise = \"block\"\n",
        server.address.port()
    );
    start(&mut world, "", &rule);
    world.home.braid_ok(&["link", "set", "wan2", "--metered", "true"]);
    fs::create_dir(folder.join("source")).unwrap();
    fs::write(folder.join("source/one"), noise(BYTES, 1)).unwrap();
    let credentials = format!("AWS_ACCESS_KEY_ID={KEY}\nAWS_SECRET_ACCESS_KEY=\"{SECRET}\"\n");
    fs::write(folder.join("credentials"), credentials).unwrap();
    let target = format!("s3:http://{}/backups/mine", server.address);

    let before = sent(&world);
    let done = pool(&world, folder, &["init"], &[&target]);
    assert!(done.status.success(), "{done:?}");
    let source = folder.join("source").display().to_string();
    let done = pool(&world, folder, &["--retries", "3"], &[&source, &target]);
    assert!(done.status.success(), "{done:?}");
    let after = sent(&world);
    assert!(after.0 - before.0 > BYTES as u64, "by the link of the rule: {before:?} {after:?}");
    assert!(after.1 - before.1 < ASIDE, "by the metered link: {before:?} {after:?}");

    // Without that link nothing goes, though the tunnel works by the other.
    fs::write(folder.join("source/two"), noise(BYTES, 2)).unwrap();
    world.home.sh("ip link set wan1 down");
    world.home.wait_until("the rule's link is gone", || {
        world.home.status()["rules"][0]["link"].is_null()
    });
    let failed = pool(&world, folder, &["--retries", "1"], &[&source, &target]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let alone = sent(&world);
    assert!(alone.1 - after.1 < ASIDE, "by the metered link: {after:?} {alone:?}");

    world.home.sh("ip link set wan1 up; ip route replace default via 10.1.1.1 metric 10");
    world.home.wait_until("the rule's link is back", || {
        world.home.status()["rules"][0]["link"] == "wan1"
    });
    let done = pool(&world, folder, &["--retries", "20"], &[&source, &target]);
    assert!(done.status.success(), "{done:?}");
    let last = sent(&world);
    assert!(last.1 - alone.1 < ASIDE, "by the metered link: {alone:?} {last:?}");
}

/// `braid pool backup` at home.
fn pool(world: &World, folder: &Path, words: &[&str], last: &[&str]) -> Output {
    let mut command = world.home.namespace.command(env!("CARGO_BIN_EXE_braid"));
    command.args(["pool", "backup"]).args(words);
    command.arg("--key").arg(folder.join("backup.key"));
    command.arg("--credentials").arg(folder.join("credentials"));
    command.args(last).env("BRAID_POOL_STATE_DIR", folder.join("pools")).output().unwrap()
}

/// Bytes that went by each link of the home.
fn sent(world: &World) -> (u64, u64) {
    let of = |link: &str| {
        let told = sh(&world.home.namespace, &format!("ip -json -stats link show dev {link}"));
        let told: Value = serde_json::from_str(&told).unwrap();
        told[0]["stats64"]["tx"]["bytes"].as_u64().unwrap()
    };
    (of("wan1"), of("wan2"))
}
