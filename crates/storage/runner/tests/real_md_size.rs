//! Capacity of md arrays as planned, against what mdadm makes of sparse disks in a VM.

use braid_pool::capacity::capacity;
use braid_pool::layout::{Layout, MdFilesystem, MdLayout};
use braid_units::ByteSize;
use braid_vm::{DiskImage, Vm};

const MIB: u64 = 1 << 20;
/// Unequal, and from so small that headers count to so large that their headroom is at its most.
const DISKS: [&[u64]; 2] = [&[300, 300, 400, 10_000], &[200_000; 4]];

#[test]
fn arrays_have_the_size_that_was_planned() {
    for sizes in DISKS {
        let vm = match Vm::find() {
            Ok(vm) => vm,
            Err(why) => return println!("skipped: {why}"),
        };
        let image = |mib: &u64| DiskImage::temporary(ByteSize::from_bytes(mib * MIB)).unwrap();
        let images: Vec<DiskImage> = sizes.iter().map(image).collect();
        let vm = images.iter().fold(vm, Vm::disk);
        let layouts: Vec<MdLayout> = Layout::ALL
            .into_iter()
            .filter_map(|layout| match layout {
                Layout::Md(md) => Some(md),
                Layout::Btrfs(_) => None,
            })
            .collect();
        let script: String = layouts.iter().map(|layout| make_and_measure(*layout)).collect();
        let output = vm.run(["bash", "-ec", &script]).unwrap();
        assert!(output.success(), "{}", output.console);
        let bytes: Vec<u64> = sizes.iter().map(|mib| mib * MIB).collect();
        for layout in layouts {
            let planned = capacity(Layout::Md(layout), MdFilesystem::Ext4, &bytes).unwrap();
            let word = format!("{layout} has ");
            let found = output.console.lines().find_map(|line| line.strip_prefix(&word));
            let made: u64 = found.unwrap_or_else(|| panic!("{}", output.console)).parse().unwrap();
            let off = (made as f64 / planned.usable_bytes as f64 - 1.0) * 100.0;
            println!("{layout} of {sizes:?} MiB: {made}, {off:+.3} %");
            assert!(
                off.abs() < 0.7,
                "{layout} of {sizes:?} MiB: {made}, not {}",
                planned.usable_bytes
            );
        }
    }
}

/// Makes the array as the planner's `create` does, but for its names, and says its size.
fn make_and_measure(layout: MdLayout) -> String {
    let mut options = format!("--level={}", layout.level());
    if let Some(word) = layout.layout_word() {
        options.push_str(&format!(" --layout={word}"));
    }
    if layout != MdLayout::Raid1 {
        options.push_str(" --chunk=512K");
    }
    if layout != MdLayout::Raid0 {
        options.push_str(" --bitmap=internal --assume-clean");
    }
    format!(
        "mdadm --create /dev/md0 --run --metadata=1.2 {options} --raid-devices=4 $VM_DISKS\n\
         echo \"{layout} has $(($(cat /sys/block/md0/size) * 512))\"\n\
         mdadm --stop /dev/md0\n\
         mdadm --zero-superblock $VM_DISKS\n"
    )
}
