//! The power is cut in changes of pools that fstab doesn't know; after each reboot the doctor says
//! what was interrupted, `resume` completes it, and the file is what it was. Those that it knows:
//! `pool_every_cut_in_vm`.

use crate::machine::{Ground, cut_at};

/// Mounted by hand, not by fstab: `resume` does it, also without the member that leaves.
#[test]
fn a_pool_that_fstab_does_not_know_is_mounted_by_resume() {
    let Some(ground) = Ground::new(&[320; 3]) else { return };
    let add = format!("{}; braid pool add data $3 --yes", by_hand("btrfs-raid1 $1 $2"));
    let replace = "braid pool remove data $3 --yes; umount /srv/data; wipefs -qa $1; blkdiscard -z $3; \
        btrfs device scan --forget; mount -o degraded $2 /srv/data; \
        braid pool replace data missing $3 --yes";
    let cuts = [(add.as_str(), "… spread data over"), (replace, "… copy what belongs on device 1")];
    let last = through(&ground, "btrfs", &cuts);
    assert!(words(&last).contains("raid1 whole 2"), "{last}");

    let Some(ground) = Ground::new(&[64; 3]) else { return };
    let convert = format!(
        "{}; echo 500 > /proc/sys/dev/raid/speed_limit_max; \
         braid pool convert data --layout md-raid5 $3 --yes",
        by_hand("md-raid1 $1 $2")
    );
    let cuts = [(convert.as_str(), "… wait until the array has its new shape")];
    let last = through(&ground, "md", &cuts);
    assert!(words(&last).contains("raid5 whole 3"), "{last}");
}

fn by_hand(what: &str) -> String {
    let forget = "sed -i /srv.data/d $BRAID_POOL_CONFIG_ROOT/etc/fstab";
    format!("braid pool create data --layout {what} --yes; {forget}; written")
}

/// Boots once for each cut, and once more; what was said after the last one.
fn through(ground: &Ground, kind: &str, cuts: &[(&str, &str)]) -> String {
    for (number, (command, at)) in cuts.iter().enumerate() {
        let again = if number == 0 { "" } else { AGAIN };
        let vm = ground.starts("alpha", &format!("{}\n{again}\n{command}", prelude(kind)));
        let told = cut_at(vm, at);
        println!("cut at {at:?}, after\n{told}");
    }
    ground.works("alpha", &format!("{}\n{AGAIN}\nbraid pool status data", prelude(kind)))
}

/// After the reboot: what the doctor says is done as it stands.
const AGAIN: &str = r#"
boot
mend=$(braid pool doctor --no-smart --json | tr '{' '\n' | grep '"interrupted"' -A9 | grep -o 'braid pool resume data')
echo "doctor: $mend"
$mend
braid pool resume
mountpoint -q /srv/data
[ ! -e $SUM ] || sha256sum --check --quiet $SUM
"#;

fn prelude(kind: &str) -> String {
    let device = if kind == "md" { "/dev/md/data" } else { "LABEL=data" };
    format!(
        r#"
SUM=$BRAID_POOL_STATE_DIR/sum
written() {{ head -c 20M /dev/urandom > /srv/data/file; sync; sha256sum /srv/data/file > $SUM; sync; }}
# What a boot does by mdadm.conf and fstab, as far as they were written.
boot() {{
    btrfs device scan > /dev/null 2>&1; mdadm --assemble --scan > /dev/null 2>&1 || true
    mkdir -p /srv/data
    if grep -q /srv/data $BRAID_POOL_CONFIG_ROOT/etc/fstab; then mount {device} /srv/data; fi
}}
"#
    )
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
