//! What a plan promises as usable is what a real fill reaches, on unequal disks too.

mod ground;

use braid_loop_disks::in_private_mounts;
use braid_pool::capacity::capacity;
use braid_pool::layout::{Layout, MdFilesystem};
use ground::{Ground, sh};

/// The promise: within so much of what files can hold in the end.
const WITHIN: f64 = 0.03;

#[test]
fn a_pool_holds_what_the_plan_says() {
    in_private_mounts("a_pool_holds_what_the_plan_says", || {
        // Sparse, and filled by reserving, which writes nothing.
        for (layout, gib) in [
            ("btrfs-raid1", &[400, 100, 100][..]),
            ("btrfs-raid1", &[120, 110, 100]),
            ("btrfs-single", &[200, 100, 50]),
            ("btrfs-raid0", &[200, 100, 100]),
            ("btrfs-raid10", &[200, 200, 100, 100]),
            ("btrfs-raid1c3", &[200, 150, 100, 100]),
            // Small ones, where a single chunk counts: mkfs has to place the first ones well.
            ("btrfs-raid1", &[4, 2, 1]),
            ("btrfs-raid1", &[10, 5, 5]),
            ("btrfs-raid1", &[40, 10, 10]),
            ("btrfs-raid10", &[4, 4, 2, 2]),
            ("btrfs-single", &[4]),
            ("btrfs-raid1", &[10_000, 5000, 2500]),
        ] {
            let sizes: Vec<u64> = gib.iter().map(|gib| gib * 1024).collect();
            let ground = Ground::new(&sizes);
            let disks: Vec<usize> = (0..sizes.len()).collect();
            ground.create(layout, &disks);
            let bytes: Vec<u64> = sizes.iter().map(|mib| mib << 20).collect();
            let parsed: Layout = layout.parse().unwrap();
            let planned = capacity(parsed, MdFilesystem::Ext4, &bytes).unwrap().fill_bytes as f64;
            let filled = fill(&ground);
            let off = (planned - filled) / filled;
            println!("{layout} {gib:?}: planned {planned:.3e}, filled {filled:.3e}: {off:+.4}");
            assert!(off.abs() <= WITHIN, "{layout} {gib:?}: planned {planned}, filled {filled}");
        }
    });
}

/// Reserves room for files until nothing is left, in ever smaller pieces; how much that was.
fn fill(ground: &Ground) -> f64 {
    const SCRIPT: &str = r#"
n=0
for size in 64G 1G 128M 16M 4M; do
    while fallocate -l $size f$n 2> /dev/null; do n=$((n + 1)); done
    # What the last one got of its piece is free again once it is committed.
    rm -f f$n
    sync -f .
done
stat -c '%b %B' f* | awk '{ sum += $1 * $2 } END { printf "%.0f", sum }'
"#;
    sh(&format!("cd {}; {SCRIPT}", ground.mount_point().display())).parse().unwrap()
}
