//! `braid pool retain` where dates or policies are wrong.

use crate::{Scene, braid, failure, json, text};
use braid_loop_disks::in_private_mounts;
use std::fs;
use std::path::Path;

/// Snapshots that tell of these times.
fn dated(scene: &Scene, times: &[&str]) {
    for time in times {
        let snapshot = scene.snapshot();
        fs::rename(&snapshot, scene.snapshots.join(format!("p.{time}"))).unwrap();
    }
}

fn names(folder: &Path) -> usize {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    all.filter(|name| name.to_str().unwrap().starts_with("p.")).count()
}

#[test]
fn neither_a_wrong_clock_nor_a_slip_of_the_pen_deletes_a_history() {
    in_private_mounts("neither_a_wrong_clock_nor_a_slip_of_the_pen_deletes_a_history", || {
        let scene = Scene::new(1 << 20);
        let days: Vec<String> = (1..=9).map(|day| format!("2026010{day}T000000Z")).collect();
        dated(&scene, &days.iter().map(String::as_str).collect::<Vec<_>>());
        dated(&scene, &["99991231T000000Z"]);
        let folder = text(&scene.snapshots);
        let two_weeks = ["retain", folder, "--policy", "24x1h | 14x1d", "--yes"];

        // Another folder, by a slip of the pen.
        let empty = scene.folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let said = failure(&["retain", text(&empty), "--policy", "1x1s", "--yes"]);
        assert!(said.contains("no snapshots in"), "{said}");
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);

        // From the future: set aside, and named.
        let output = braid(&two_weeks);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.contains("p.99991231T000000Z"), "{said}");
        assert_eq!(names(&scene.snapshots), 10);

        // A slip of the pen: minutes for hours.
        let slip = ["retain", folder, "--policy", "24x1min"];
        assert!(failure(&[&slip[..], &["--yes"]].concat()).contains("--allow-mass-deletion"));
        let dry = json(&[&slip[..], &["--dry-run"]].concat());
        assert_eq!(dry["cautions"].as_array().unwrap().len(), 1, "{dry}");
        assert_eq!(names(&scene.snapshots), 10);

        // A clock that was ahead for a moment and took one.
        dated(&scene, &["20260801T000000Z"]);
        let said = failure(&two_weeks);
        assert!(said.contains("check the clock") && said.contains("p.20260801T000000Z"), "{said}");
        assert_eq!(names(&scene.snapshots), 11);

        // Told, it is done.
        let done = json(&[&two_weeks[..], &["--allow-mass-deletion"]].concat());
        assert_eq!(done["deleted"], 9, "{done}");
    });
}
