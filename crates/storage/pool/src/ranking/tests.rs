use super::*;

fn ranking(for_use: &str, want: &str, disks: &[&str]) -> Ranking {
    let wish = Wish { for_use: for_use.parse().unwrap(), want: want.parse().unwrap() };
    let disks: Vec<Candidate> = disks.iter().map(|disk| disk.parse().unwrap()).collect();
    rank(wish, &disks, &Speeds::default())
}

fn order(for_use: &str, want: &str, disks: &[&str]) -> Vec<String> {
    ranking(for_use, want, disks).layouts.iter().map(|offer| offer.layout.to_string()).collect()
}

#[test]
fn two_spinning_disks_with_one_fast_reader_take_far2() {
    for for_use in ["media", "nas"] {
        assert_eq!(order(for_use, "speed", &["4T:hdd", "4T:hdd"])[0], "md-raid10-f2", "{for_use}");
    }
    let far = &ranking("media", "speed", &["4T:hdd", "4T:hdd"]).layouts[0];
    assert!(far.why.contains("all disks at once"), "{}", far.why);
}

#[test]
fn the_best_for_common_wishes() {
    for (for_use, want, disks, best) in [
        ("nas", "safety", vec!["4T:hdd"; 2], "btrfs-raid1"),
        ("nas", "balanced", vec!["4T:hdd"; 2], "btrfs-raid1"),
        ("nas", "balanced", vec!["4T:hdd", "4T:hdd", "8T:hdd", "12T:hdd"], "btrfs-raid10"),
        ("nas", "space", vec!["4T:hdd"; 4], "md-raid5"),
        ("nas", "space", vec!["8T:hdd", "4T:hdd", "4T:hdd"], "btrfs-single"),
        ("database", "speed", vec!["1T:nvme"; 4], "md-raid10-n2"),
        ("database", "speed", vec!["1T:ssd"; 2], "md-raid10-n2"),
        ("vm", "safety", vec!["2T:ssd"; 2], "md-raid10-n2"),
        ("scratch", "speed", vec!["1T:ssd"; 3], "md-raid0"),
        ("scratch", "space", vec!["1T:hdd", "3T:hdd"], "btrfs-raid0"),
        ("media", "safety", vec!["4T:hdd"; 1], "btrfs-single"),
    ] {
        let found = ranking(for_use, want, &disks);
        let table: Vec<String> =
            found.layouts.iter().map(|o| format!("{} {}", o.layout, o.score)).collect();
        assert_eq!(
            found.layouts[0].layout.to_string(),
            best,
            "{for_use} {want} {disks:?} {table:?}"
        );
    }
}

/// Of any disks the first offer survives a loss and gives away less than half.
#[test]
fn balanced_wastes_little_and_survives_a_loss() {
    for disks in [
        vec!["4T:hdd"; 2],
        vec!["4T:hdd"; 4],
        vec!["4T:hdd"; 8],
        vec!["1T:ssd"; 6],
        vec!["2T:hdd", "3T:hdd", "4T:hdd", "6T:hdd"],
        vec!["4T:hdd", "4T:hdd", "8T:hdd"],
    ] {
        let first = &ranking("nas", "balanced", &disks).layouts[0];
        let total: u64 = disks.iter().map(|d| d.parse::<Candidate>().unwrap().size_bytes).sum();
        assert!(first.losses_survived > 0, "{disks:?}: {}", first.layout);
        assert!(first.usable_bytes * 100 >= total * 45, "{disks:?}: {}", first.layout);
    }
}

#[test]
fn what_loses_data_with_the_first_disk_is_never_first_for_speed_or_safety() {
    for for_use in ["nas", "media", "vm", "database"] {
        for want in ["speed", "safety"] {
            for disks in [vec!["4T:hdd"; 2], vec!["4T:ssd"; 3], vec!["1T:nvme"; 6]] {
                let first = &ranking(for_use, want, &disks).layouts[0];
                assert!(first.losses_survived > 0, "{for_use} {want} {disks:?}: {}", first.layout);
            }
        }
    }
}

#[test]
fn every_layout_is_either_offered_or_said_to_be_impossible() {
    for n in 1..=6 {
        let found = ranking("nas", "space", &vec!["1T:hdd"; n]);
        assert_eq!(found.layouts.len() + found.impossible.len(), Layout::ALL.len());
        assert!(found.layouts.iter().all(|offer| !offer.why.is_empty()));
        assert!(found.impossible.iter().all(|one| one.why.contains("needs")));
    }
}

#[test]
fn json_has_the_names_that_others_rely_on() {
    let json =
        serde_json::to_value(ranking("media", "speed", &["4T:hdd", "4T:hdd", "2T:hdd"])).unwrap();
    let offer = &json["layouts"][0];
    for key in ["layout", "why"] {
        assert!(offer[key].is_string(), "{key}: {offer}");
    }
    for key in ["usable_bytes", "losses_survived", "read_one", "read_many", "write"] {
        assert!(offer[key].is_u64(), "{key}: {offer}");
    }
    assert_eq!(offer["wasted_bytes"].as_array().unwrap().len(), 3);
    assert_eq!(offer["speeds_from"], "model");
}

#[test]
fn nobody_is_told_to_turn_copy_on_write_off() {
    for for_use in ["vm", "database"] {
        let found = ranking(for_use, "speed", &["1T:ssd"; 4]);
        for text in found.layouts.iter().map(|offer| &offer.why) {
            assert!(!text.contains("nodatacow") && !text.contains("+C"), "{text}");
        }
        assert!(found.notes.iter().any(|note| note.contains("leave copy on write on")));
    }
}

#[test]
fn two_partitions_of_one_disk_are_noticed() {
    let mut disks: Vec<Candidate> = vec!["1T:hdd".parse().unwrap(), "1T:hdd".parse().unwrap()];
    for disk in &mut disks {
        disk.physical_disk = Some("/dev/sda".to_owned());
    }
    let wish = Wish { for_use: Use::Nas, want: Want::Safety };
    let notes = rank(wish, &disks, &Speeds::default()).notes;
    assert!(notes.iter().any(|note| note.contains("one physical disk")), "{notes:?}");
}
