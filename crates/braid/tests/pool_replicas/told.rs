//! What is printed is true: names exist, and a log shows how far it is.

use crate::{Scene, braid, json, text};
use braid_loop_disks::in_private_mounts;
use std::path::Path;
use std::process::Command;

fn printed(arguments: &[&str]) -> (String, String) {
    let output = braid(arguments);
    let [out, err] = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
    assert!(output.status.success(), "braid pool {arguments:?}: {out}{err}");
    (out, err)
}

#[test]
fn printed_names_exist_and_a_log_tells_of_each_snapshot() {
    in_private_mounts("told::printed_names_exist_and_a_log_tells_of_each_snapshot", || {
        let scene = Scene::new(1 << 20);
        let inner = scene.data.join("inner");
        let made = Command::new("btrfs").args(["-q", "subvolume", "create", text(&inner)]).status();
        assert!(made.unwrap().success());

        // A subvolume in another has `%2F` in its snapshots' names.
        let into = text(&scene.snapshots);
        let (out, _) = printed(&["snapshot", "--into", into, text(&inner)]);
        let (_, path) = out.trim().split_once(" -> ").unwrap();
        assert!(path.contains("my data%2Finner.") && Path::new(path).is_dir(), "{path}");
        let taken = json(&["snapshot", "--into", into, text(&inner)]);
        assert!(Path::new(taken["snapshots"][0]["snapshot"].as_str().unwrap()).is_dir(), "{taken}");
        let back = scene.snapshots.with_file_name("back");
        printed(&["restore", path, "--to", text(&back)]);

        let (out, err) = printed(&["replicate", into, text(&scene.replicas)]);
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        assert!(err.contains(&format!("… {name}\n")), "{err}");
        assert!(out.contains(&format!("{name}: in full")), "{out}");
        assert!(out.lines().last().unwrap().starts_with("2 replicated to "), "{out}");
        assert_eq!(out.lines().count(), 3, "{out}");

        let (out, _) = printed(&["snapshot", "--list", "--into", into]);
        let newest = out.lines().last().unwrap();
        assert!(newest.contains(" UTC  ") && newest.contains(text(&scene.replicas)), "{out}");
        let (out, _) = printed(&["snapshot", "--list", "--into", text(&scene.replicas)]);
        assert!(out.lines().last().unwrap().ends_with("is one"), "{out}");
    });
}
