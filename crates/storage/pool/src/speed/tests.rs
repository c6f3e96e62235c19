use super::*;

fn of(layout: &str, disks: &[&str]) -> LayoutSpeed {
    with(layout, disks, &Speeds::default())
}

fn with(layout: &str, disks: &[&str], speeds: &Speeds) -> LayoutSpeed {
    let disks: Vec<Candidate> = disks.iter().map(|disk| disk.parse().unwrap()).collect();
    let member = disks.iter().map(|disk| disk.size_bytes).min().unwrap();
    speed(layout.parse().unwrap(), &disks, member, speeds)
}

/// The table of what one reader gets, in disks' worth.
#[test]
fn one_reader_as_the_sectors_were_counted() {
    for (layout, disks, kind, worth) in [
        ("md-raid0", 2, "hdd", 2.0),
        ("md-raid1", 2, "hdd", 1.0),
        ("md-raid10-n2", 2, "hdd", 1.0),
        ("md-raid10-n2", 2, "ssd", 2.0),
        ("md-raid10-f2", 2, "hdd", 2.0),
        ("md-raid10-f2", 2, "ssd", 1.6),
        ("md-raid10-o2", 2, "ssd", 2.0),
        ("md-raid10-n2", 4, "hdd", 4.0),
        ("btrfs-single", 3, "hdd", 1.0),
        ("btrfs-raid1", 2, "hdd", 1.0),
        ("btrfs-raid1c3", 3, "ssd", 1.0),
        ("btrfs-raid10", 2, "hdd", 1.0),
        ("btrfs-raid10", 4, "hdd", 2.0),
        ("btrfs-raid0", 3, "ssd", 3.0),
    ] {
        let disk = format!("1T:{kind}");
        let alone = if kind == "hdd" { 160e6 } else { 500e6 };
        let found = of(layout, &vec![disk.as_str(); disks]).read_one / alone;
        assert!((found - worth).abs() < 0.05, "{layout} of {disks} {kind}: {found}");
    }
}

#[test]
fn two_readers_get_two_disks_of_a_mirror_and_the_slowest_disk_counts() {
    assert_eq!(of("btrfs-raid1", &["1T:hdd", "1T:hdd"]).read_many, 320e6);
    assert_eq!(of("md-raid0", &["1T:hdd", "1T:nvme"]).read_one, 320e6);
}

#[test]
fn only_what_is_redundant_can_be_rebuilt() {
    let hours = of("md-raid1", &["4T:hdd", "4T:hdd"]).rebuild_seconds.unwrap() / 3600.0;
    assert!((7.0..8.0).contains(&hours), "{hours}");
    assert_eq!(of("btrfs-single", &["4T:hdd", "4T:hdd"]).rebuild_seconds, None);
    assert_eq!(of("md-raid0", &["4T:hdd", "4T:hdd"]).rebuild_seconds, None);
}

#[test]
fn measured_figures_stand_before_the_models_and_say_so() {
    let text = r#"{
        "disks": [{"kind": "hdd", "speed": {"read": 2e8, "write": 1e8, "random_read": 90, "random_write": 80}}],
        "layouts": [{"layout": "md-raid10-f2", "disks": 2, "kind": "hdd", "read_one": 3.2e8, "read_many": 3.5e8, "write": 1.4e8}]
    }"#;
    let speeds: Speeds = serde_json::from_str(text).unwrap();
    speeds.check().unwrap();
    let two = ["1T:hdd", "1T:hdd"];
    let far = with("md-raid10-f2", &two, &speeds);
    assert_eq!((far.read_one, far.from), (3.2e8, SpeedSource::Measured));
    assert_eq!(far.random_read, 180.0);
    let near = with("md-raid10-n2", &two, &speeds);
    assert_eq!((near.read_one, near.from), (2e8, SpeedSource::ModelOfMeasuredDisks));
    assert_eq!(with("md-raid10-f2", &["1T:ssd"; 2], &speeds).from, SpeedSource::Model);
}

#[test]
fn impossible_speeds_are_refused() {
    let text = r#"{"layouts": [{"layout": "md-raid1", "disks": 2, "kind": "hdd", "read_one": 0, "read_many": 1, "write": 1}]}"#;
    let speeds: Speeds = serde_json::from_str(text).unwrap();
    assert!(speeds.check().is_err());
}
