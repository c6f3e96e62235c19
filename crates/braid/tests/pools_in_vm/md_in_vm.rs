//! Pools on md arrays, in a second kernel, since this one may have no md.

use crate::machine::Ground;

#[test]
fn arrays_keep_their_names_on_this_host_and_on_another() {
    let Some(ground) = Ground::new(&[64; 4]) else { return };
    let alpha = ground.works(
        "alpha",
        r#"
mount -t tmpfs boot /boot
touch -d yesterday /boot/initrd.img-$(uname -r)
program update-initramfs 'touch /boot/initrd.img-*; echo "initramfs: $(grep -c ^ARRAY /etc/mdadm/mdadm.conf) arrays" >> /tmp/told'
# What isn't installed isn't called.
[ -e /usr/sbin/update-initramfs ] || cp /tmp/bin/update-initramfs /usr/sbin/
braid pool create one --layout md-raid1 $1 $2 --yes
braid pool create two --layout md-raid10-f2 $3 $4 --yes
cat /tmp/told
echo "hello from one" > /srv/one/file
umount /srv/one /srv/two
mdadm --stop /dev/md/one
mdadm --stop /dev/md/two
mdadm --assemble --scan
mount /srv/one
mount /srv/two
cat /srv/one/file
echo "arrays: $(ls /dev/md | xargs)"
echo "layouts: $(cat /sys/block/$(readlink /dev/md/two | xargs basename)/md/layout)"
braid pool status
umount /srv/one /srv/two
"#,
    );
    for told in ["initramfs: 2 arrays", "hello from one", "arrays: one two", "layouts: 513"] {
        assert!(alpha.contains(told), "{told:?} is missing in\n{alpha}");
    }
    let beta = ground.works(
        "beta",
        r#"
mdadm --assemble --scan
echo "arrays: $(ls /dev/md | xargs)"
mount /dev/md/one /mnt
cat /mnt/file
"#,
    );
    for told in ["arrays: one two", "hello from one"] {
        assert!(beta.contains(told), "{told:?} is missing in\n{beta}");
    }
}

/// fstab has its line already: were it mounted first, as for `resume`, the array couldn't be
/// cleared.
#[test]
fn an_array_whose_initramfs_could_not_be_made_is_abandoned() {
    let Some(ground) = Ground::new(&[64; 2]) else { return };
    let told = ground.works(
        "alpha",
        r#"
mount -t tmpfs boot /boot
touch -d yesterday /boot/initrd.img-$(uname -r)
program update-initramfs '[ -e /tmp/once ] || { touch /tmp/once; exit 1; }; touch /boot/initrd.img-*'
[ -e /usr/sbin/update-initramfs ] || cp /tmp/bin/update-initramfs /usr/sbin/
mkdir -p /srv/data
if braid pool create data --layout md-raid1 $1 $2 --yes; then exit 1; fi
grep -q ' /srv/data ' /etc/fstab && echo "fstab: written"
braid pool abandon data
if grep -q ' /srv/data ' /etc/fstab; then exit 1; fi
echo "signatures: $(wipefs $1 $2 | wc -l), arrays: $(grep -c ^md /proc/mdstat)"
"#,
    );
    for told_too in ["fstab: written", "everything is as before", "signatures: 0, arrays: 0"] {
        assert!(told.contains(told_too), "{told_too:?} is missing in\n{told}");
    }
}

#[test]
fn arrays_grow_and_change_their_disks() {
    let Some(ground) = Ground::new(&[64, 64, 64, 64, 600, 600, 64]) else { return };
    let told = ground.works(
        "alpha",
        r#"
braid pool create near --layout md-raid10-n2 $1 $2 --yes
head -c 20M /dev/urandom > /srv/near/file
sum=$(sha256sum < /srv/near/file)
before=$(stat -fc %b /srv/near)
braid pool add near $3 $4 --yes
after=$(stat -fc %b /srv/near)
echo "grew: $((after * 10 / before)) tenths, $(cat /sys/block/md*/md/raid_disks | xargs) disks"
[ "$sum" = "$(sha256sum < /srv/near/file)" ] && echo "same after growing"
braid pool replace near $1 $7 --yes
[ "$sum" = "$(sha256sum < /srv/near/file)" ] && echo "same after replacing"
echo "slaves: $(ls /sys/block/$(readlink /dev/md/near | xargs basename)/slaves | xargs)"
braid pool create off --layout md-raid10-o2 --fs xfs $5 $6 --yes
echo "offset: $(cat /sys/block/$(readlink /dev/md/off | xargs basename)/md/layout) $(stat -fc %T /srv/off)"
umount /srv/near && mdadm --stop /dev/md/near
for disk in $1 $2 $3 $4 $7; do wipefs -aq $disk; blkdiscard -z $disk; done
sed -i '/near/d' $BRAID_POOL_CONFIG_ROOT/etc/*tab $BRAID_POOL_CONFIG_ROOT/etc/mdadm/mdadm.conf
braid pool create five --layout md-raid5 $1 $2 $3 --yes
echo "five: $(cat /sys/block/$(readlink /dev/md/five | xargs basename)/md/level) $(stat -fc %T /srv/five)"
"#,
    );
    for line in [
        "grew: 2",
        "same after growing",
        "same after replacing",
        "slaves: ubdb ubdc ubdd ubdg",
        "offset: 66049 xfs",
        "five: raid5 ext2/ext3",
    ] {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
}

#[test]
fn levels_change_in_place() {
    let Some(ground) = Ground::new(&[64; 6]) else { return };
    let told = ground.works(
        "alpha",
        r#"
level() { cat /sys/block/$(readlink /dev/md/$1 | xargs basename)/md/level; }
braid pool create data --layout md-raid1 $1 $2 --yes
head -c 20M /dev/urandom > /srv/data/file
sum=$(sha256sum < /srv/data/file)
before=$(stat -fc %b /srv/data)
braid pool convert data --layout md-raid5 $3 --yes
echo "now $(level data), $(($(stat -fc %b /srv/data) * 10 / before)) tenths"
braid pool convert data --layout md-raid6 $4 --yes
echo "now $(level data), $(cat /sys/block/md*/md/degraded) lacking"
echo 3 > /proc/sys/vm/drop_caches
[ "$sum" = "$(sha256sum < /srv/data/file)" ] && echo "same in the end"
braid pool create fast --layout md-raid0 $5 $6 --yes
head -c 20M /dev/urandom > /srv/fast/file
sum=$(sha256sum < /srv/fast/file)
umount /srv/data && mdadm --stop /dev/md/data && mdadm --zero-superblock $1 $2 $3 $4
for disk in $1 $2; do blkdiscard -z $disk; done
sed -i '/data/d' $BRAID_POOL_CONFIG_ROOT/etc/*tab $BRAID_POOL_CONFIG_ROOT/etc/mdadm/mdadm.conf
braid pool convert fast --layout md-raid10-n2 $1 $2 --yes
echo "now $(level fast), $(cat /sys/block/md*/md/degraded) lacking"
[ "$sum" = "$(sha256sum < /srv/fast/file)" ] && echo "same with copies"
"#,
    );
    for line in [
        "now raid5, 2",
        "now raid6, 0 lacking",
        "same in the end",
        "now raid10, 0 lacking",
        "same with copies",
    ] {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
}

#[test]
fn a_member_that_fails_or_returns_stale_or_with_wrong_bytes_is_named_and_mended() {
    let Some(ground) = Ground::new(&[64; 4]) else { return };
    let told = ground.works(
        "alpha",
        r#"
finding() { braid pool doctor data --no-smart --json | tr -d '\n' | tr '{' '\n' | grep "\"$1\"" || { echo "no $1:"; braid pool doctor data --no-smart; false; }; }
mend() { finding "$1" | sed 's/.*"mend": "\(\([^"\\]\|\\.\)*\)".*/\1/; s/\\"/"/g'; }
modprobe dm-mod
sectors=$(blockdev --getsz $2)
table() { dmsetup --noudevsync suspend bad; dmsetup --noudevsync load bad --table "0 $sectors $1"; dmsetup --noudevsync resume bad; }
dmsetup --noudevsync create bad --table "0 $sectors linear $2 0"
mdadm --create --run --homehost=any --bitmap=internal /dev/md/data --name=data --level=1 -n 2 $1 /dev/dm-0
mdadm --wait /dev/md/data || true
mkfs.ext4 -q /dev/md/data; mkdir -p /srv/data; mount /dev/md/data /srv/data
head -c 10M /dev/urandom > /srv/data/file; sync; sum=$(sha256sum < /srv/data/file)

# Gone while it is written to, with the filesystem full.
table error
dd if=/dev/zero of=/srv/data/fill bs=1M 2> /dev/null || echo "full"; sync
command=$(mend faulty-member); echo "mending: $command"
$command --yes
rm /srv/data/fill
dmsetup --noudevsync remove bad
finding faulty-member > /dev/null 2>&1 || echo "vanished: mended"
braid pool status data

# Away for some writes.
umount /srv/data; mdadm --stop /dev/md/data
mdadm --assemble --run /dev/md/data $1
mount /dev/md/data /srv/data
head -c 10M /dev/urandom > /srv/data/second; sync; second=$(sha256sum < /srv/data/second)
command=$(mend stale-member); echo "mending: $command"
sh -c "$command"
mdadm --wait /dev/md/data || true
finding stale-member > /dev/null 2>&1 || echo "stale: mended"

# Wrong bytes beneath: which copy is right nobody knows, but that they differ.
umount /srv/data
start=$(cat /sys/block/md*/md/dev-ubdc/offset)
dd if=/dev/urandom of=$3 bs=512 seek=$((start + 60000)) count=64 conv=notrunc 2> /dev/null; sync
mount /dev/md/data /srv/data
braid pool scrub start --wait data || echo "scrub: $?"
command=$(mend uncorrectable); echo "mending: $command"
sh -c "$command"
while ! grep -q idle /sys/block/md*/md/sync_action; do sleep 0.2; done
braid pool scrub start --wait data && echo "wrong bytes: mended"
echo 3 > /proc/sys/vm/drop_caches
[ "$sum$second" = "$(sha256sum < /srv/data/file)$(sha256sum < /srv/data/second)" ] && echo "same in the end"
"#,
    );
    for line in [
        "full",
        "vanished: mended",
        "stale: mended",
        "scrub: 10",
        "wrong bytes: mended",
        "same in the end",
    ] {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
}

/// Arrays as they were made by hand, by another host, or long ago: what the doctor says of their
/// names is done.
#[test]
fn arrays_that_would_be_renamed_at_the_next_boot_are_found_and_mended() {
    let Some(ground) = Ground::new(&[64; 4]) else { return };
    let told = ground.works(
        "alpha",
        r#"
mount -t tmpfs boot /boot
program update-initramfs 'touch /boot/initrd.img-*'
[ -e /usr/sbin/update-initramfs ] || cp /tmp/bin/update-initramfs /usr/sbin/
mkdir -p /etc/mdadm
: > /etc/mdadm/mdadm.conf
touch -d yesterday /boot/initrd.img-$(uname -r)
mdadm --create --run --metadata=0.90 /dev/md/old --level=1 -n 2 --assume-clean $1 $2
mdadm --create --run --homehost=beta --name=theirs /dev/md/theirs --level=1 -n 2 --assume-clean --bitmap=internal $3 $4
findings() {
    braid pool doctor --no-smart --json > /tmp/found || true
    names=$(grep -o '"code": "[a-z-]*"' /tmp/found | cut -d'"' -f4 | grep -v scrub-overdue | sort | xargs)
    echo "findings $1: $names."
}
mend() {
    braid pool doctor --no-smart > /tmp/found || true
    grep -A1 "$1" /tmp/found | sed -n 's/^ *mend it: //p' > /tmp/mend
    while read -r command; do echo "mending by: $command"; bash -ec "$command"; done < /tmp/mend
}
findings before
mend 'has no name'
findings "with a name"
mend 'belongs to host'
findings "of any host"
mend 'name it by its UUID'
findings "in mdadm.conf"
touch -d tomorrow /etc/mdadm/mdadm.conf
findings "with a newer mdadm.conf"
touch -d yesterday /etc/mdadm/mdadm.conf
findings "with a fresh initramfs"
umount /mnt 2> /dev/null || true
for array in /sys/block/md*; do mdadm --stop /dev/${array##*/}; done
mdadm --assemble --scan || true
echo "arrays: $(ls /dev/md | xargs)"
"#,
    );
    for line in [
        "findings before: foreign-homehost no-bitmap not-in-mdadm-conf not-in-mdadm-conf old-metadata stale-initramfs.",
        "findings with a name: foreign-homehost no-bitmap not-in-mdadm-conf not-in-mdadm-conf stale-initramfs.",
        "findings of any host: no-bitmap not-in-mdadm-conf not-in-mdadm-conf stale-initramfs.",
        "findings in mdadm.conf: no-bitmap.",
        "findings with a newer mdadm.conf: no-bitmap stale-initramfs.",
        "findings with a fresh initramfs: no-bitmap.",
        "arrays: old theirs",
    ] {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
}

#[test]
fn an_array_that_is_given_up_leaves_nothing_on_its_disks() {
    let Some(ground) = Ground::new(&[64; 3]) else { return };
    let told = ground.works(
        "alpha",
        r#"
mkfs.ext4 -q -L tax $3
braid pool create data --layout md-raid1 $1 $2 --yes
echo hello > /srv/data/file
braid pool destroy data --confirm data
echo "signatures: $(wipefs $1 $2 | wc -l), arrays: $(grep -c ^md /proc/mdstat)"
echo "lines: $(grep -c data $BRAID_POOL_CONFIG_ROOT/etc/fstab) $(grep -c ^ARRAY $BRAID_POOL_CONFIG_ROOT/etc/mdadm/mdadm.conf)"
echo "other: $(blkid -p -s LABEL -o value $3)"
# Nothing comes up where an array is made again.
braid pool create data --layout md-raid1 $1 $2 --erase $1 --erase $2 --yes
echo "files: $(ls /srv/data | grep -c file)"
"#,
    );
    for told_too in ["signatures: 0, arrays: 0", "lines: 0 0", "other: tax", "files: 0"] {
        assert!(told.contains(told_too), "{told_too:?} is missing in\n{told}");
    }
}
