//! Pools on LUKS, in a second kernel, since this one may have no device mapper. A program of its
//! own, so that it runs beside `pools_in_vm`.

mod machine;

use machine::{Ground, cut_at};

/// Passphrases are stretched as little as cryptsetup does it: as on a real host needs a gigabyte
/// and minutes here, and 64 MB of it were half of all that these tests took.
const PRELUDE: &str = r#"
modprobe dm-crypt
program cryptsetup 'echo "$@" >> /tmp/arguments
case " $* " in *" pbkdf2 "*) ;; *" luksFormat "*|*" luksAddKey "*|*" luksChangeKey "*) exec /usr/sbin/cryptsetup --pbkdf-memory 32 --pbkdf-parallel 1 --pbkdf-force-iterations 4 "$@" ;; esac
exec /usr/sbin/cryptsetup "$@"'
keys=$BRAID_POOL_STATE_DIR/../keys
tab=$BRAID_POOL_CONFIG_ROOT/etc/crypttab
mkdir -p $keys
printf 'correct horse' > $keys/old; printf 'battery staple' > $keys/new; printf 'wrong staple' > $keys/wrong
findings() { echo $(braid pool doctor --no-smart --json | sed -nE '/scrub-overdue|no-spare-key/d; s/.*"code": "([a-z-]*)".*/\1/p' | sort); }
written() { head -c 8M /dev/urandom > /srv/data/file; sync; (cd /srv/data && sha256sum file > $keys/sum); }
same() { echo 3 > /proc/sys/vm/drop_caches; (cd /srv/data && sha256sum --check --quiet $keys/sum); }
"#;

fn script(text: &str) -> String {
    format!("{PRELUDE}\n{text}")
}

fn has(told: &str, lines: &[&str]) {
    for line in lines {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
}

fn is_there() -> bool {
    let found = std::path::Path::new("/usr/sbin/cryptsetup").exists();
    if !found {
        println!("skipped: cryptsetup is not installed");
    }
    found
}

#[test]
fn an_encrypted_btrfs_takes_disks_and_lets_them_go() {
    let Some(ground) = Ground::new(&[320; 5]).filter(|_| is_there()) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
braid pool create data --layout btrfs-raid1 --encrypt --key-file $keys/data.key $1 $2 --yes
echo "key: $(stat -c '%a %s' $keys/data.key), lines: $(grep -c "$keys/data.key luks,nofail" $tab)"
echo "headers: $(stat -c %a $BRAID_POOL_STATE_DIR/.headers/data/*.luks | xargs), sectors: $(blockdev --getss /dev/dm-0)"
echo "dump: $(cryptsetup luksDump $1 | grep -c 'aes-xts-plain64\|sector: 4096')"
written
braid pool status data --json | grep '"disk"' | xargs
echo "well: $(findings)."
if braid pool create other --layout btrfs-single $1 --erase $1 --yes 2>&1; then exit 1; fi
cryptsetup luksFormat -q --key-file $keys/old $3
if braid pool add data $3 --yes; then exit 1; fi
blkdiscard -z $3 2> /dev/null
braid pool add data $3 --yes
echo "mappings: $(ls /dev/mapper/luks-data-* | wc -l)"
braid pool replace data $1 $4 --yes
same && echo "same after replacing"
echo "old disk: $(wipefs $1 | wc -l) signatures, backups: $(ls $BRAID_POOL_STATE_DIR/.headers/data | wc -l), lines: $(grep -c . $tab)"
braid pool remove data $3 --yes
same && echo "same after removing"
echo "in the end: $(ls /dev/mapper/luks-data-* | wc -l) mappings, $(grep -c . $tab) lines"

# A disk dies.
umount /srv/data
for name in /dev/mapper/luks-data-*; do cryptsetup close $name; done
blkdiscard -z $2
echo "died: $(findings)."
braid pool open data 2>&1 || true
btrfs device scan
mount -o degraded,noatime $(ls /dev/mapper/luks-data-*) /srv/data
braid pool replace data missing $5 --yes
same && echo "same without the dead one"
umount /srv/data
mount -o noatime,device=$(ls /dev/mapper/luks-data-* | head -1) $(ls /dev/mapper/luks-data-* | tail -1) /srv/data
same && echo "mended: $(findings). $(grep -c . $tab) lines"
"#,
        ),
    );
    has(
        &told,
        &[
            "key: 400 39, lines: 2",
            "headers: 400 400, sectors: 4096",
            "disk: /dev/ubda, disk: /dev/ubdb,",
            "well: .",
            "/dev/ubda can't be used: used by dm-0",
            "/dev/ubdc carries something: crypto_LUKS",
            "mappings: 3",
            "same after replacing",
            "old disk: 0 signatures, backups: 3, lines: 3",
            "same after removing",
            "in the end: 2 mappings, 2 lines",
            "died: damaged-header",
            "same without the dead one",
            "mended: . 2 lines",
        ],
    );
}

/// A disk that takes no writes any more when it leaves keeps its keys, its label and what it held:
/// nothing opens it again, but by hand, until its keys can be erased.
#[test]
fn a_disk_that_leaves_a_btrfs_and_takes_no_writes_never_comes_back() {
    leaves_and_stays_away("btrfs-raid1", 320);
}

/// The same of an array.
#[test]
fn a_disk_that_leaves_an_array_and_takes_no_writes_never_comes_back() {
    leaves_and_stays_away("md-raid1", 128);
}

fn leaves_and_stays_away(layout: &str, mib: u64) {
    let Some(ground) = Ground::new(&[mib; 3]).filter(|_| is_there()) else { return };
    let told = ground.works("alpha", &script(&format!("layout={layout}\n{LEAVING}")));
    has(
        &told,
        &[
            "✗ not done: erase the keys on disk /dev/dm-0",
            "but not: erase the keys on disk /dev/dm-0",
            "braid pool key erase data /dev/dm-0",
            "status 0, lines 2, headers 2",
            "left: former-member.",
            "as it was: former-member.",
            "is a member of pool data",
            "not yet: the keys of /dev/dm-0 are there",
            "a pool data already exists here (UUID ",
            "known: former-member.",
            "/dev/dm-0 has left the pool, and is locked again",
            "same where nothing is known",
            "2 mappings where nothing is known",
            "the keys on /dev/dm-0 are erased",
            "in the end: .",
        ],
    );
}

const LEAVING: &str = r#"
modprobe dm-flakey
sectors=$(blockdev --getsz $1)
weak() { dmsetup suspend weak; dmsetup reload weak --table "0 $sectors $1"; dmsetup resume weak; }
dmsetup create weak --table "0 $sectors linear $1 0"
takes_none="flakey $1 0 0 3600 1 error_writes"
braid pool create data --layout $layout --encrypt --key-file $keys/data.key /dev/dm-0 $2 --yes
written
weak "$takes_none"
status=0; braid pool replace data /dev/dm-0 $3 --yes 2>&1 || status=$?
echo "status $status, lines $(grep -c . $tab), headers $(ls $BRAID_POOL_STATE_DIR/.headers/data | wc -l)"
same
echo "left: $(findings)."
braid pool open data
ls /dev/mapper/luks-data-* | wc -l | grep -q '^2$'
echo "as it was: $(findings)."
if braid pool key erase data $3 --yes 2>&1; then exit 1; fi
if braid pool key erase data /dev/dm-0 --yes; then exit 1; fi
cryptsetup open --test-passphrase --key-file $keys/data.key /dev/dm-0 && echo "not yet: the keys of /dev/dm-0 are there"
if braid pool create data --layout btrfs-single --encrypt /dev/dm-0 --erase /dev/dm-0 --yes; then exit 1; fi

braid pool close data
braid pool open data
ls /dev/mapper/luks-data-* | wc -l | grep -q '^2$'
same
echo "known: $(findings)."

# On a computer that knows nothing of the pool, by what the disk itself says.
braid pool close data
cp $tab $keys/tab; : > $tab; mv $BRAID_POOL_STATE_DIR/.headers $keys/headers
braid pool open data --key-file $keys/data.key 2>&1
same && echo "same where nothing is known"
echo "$(ls /dev/mapper/luks-data-* | wc -l) mappings where nothing is known"
cp $keys/tab $tab; mv $keys/headers $BRAID_POOL_STATE_DIR/.headers

# It takes writes again.
weak "linear $1 0"
braid pool key erase data /dev/dm-0 --yes
echo "in the end: $(findings)."
"#;

#[test]
fn a_btrfs_is_closed_whose_disk_is_pulled_while_it_is_open() {
    is_pulled_while_open("btrfs-raid1", 320);
}

#[test]
fn an_array_is_closed_whose_disk_is_pulled_while_it_is_open() {
    is_pulled_while_open("md-raid1", 128);
}

/// It is named by its UUID, too.
fn is_pulled_while_open(layout: &str, mib: u64) {
    let Some(ground) = Ground::new(&[mib; 2]).filter(|_| is_there()) else { return };
    let told = ground.works("alpha", &script(&format!("layout={layout}\n{PULLED}")));
    let lines =
        ["by its UUID: control.", "same by its UUID", "same without it", "closed: control."];
    has(&told, &lines);
}

const PULLED: &str = r#"
sectors=$(blockdev --getsz $1)
dmsetup create weak --table "0 $sectors linear $1 0"
braid pool create data --layout $layout --encrypt --key-file $keys/data.key /dev/dm-0 $2 --yes
written
uuid=$(braid pool status data --json | grep -m1 -o '"uuid": "[0-9a-f-]*"' | cut -d'"' -f4)
echo "uuid $uuid"
braid pool close $uuid
echo "by its UUID: $(ls /dev/mapper | xargs)."
braid pool open $uuid
same && echo "same by its UUID"
dmsetup suspend weak; dmsetup reload weak --table "0 $sectors error"; dmsetup resume weak
same && echo "same without it"
echo "found: $(findings)."
braid pool close data
echo "closed: $(ls /dev/mapper | xargs)."
"#;

#[test]
fn an_encrypted_array_is_opened_after_a_boot_and_by_no_wrong_key() {
    let Some(ground) = Ground::new(&[128; 3]).filter(|_| is_there()) else { return };
    ground.works(
        "alpha",
        &script(
            r#"
braid pool create data --layout md-raid1 --encrypt=passphrase --passphrase-file $keys/old $1 $2 --yes
grep -q ' /srv/data ext4 noatime,nofail,noauto 0 2' $BRAID_POOL_CONFIG_ROOT/etc/fstab
written
if grep -r 'correct horse' $BRAID_POOL_STATE_DIR $BRAID_POOL_CONFIG_ROOT /run/braid /tmp/arguments 2> /dev/null; then exit 1; fi
grep -q luksFormat /tmp/arguments
braid pool close data
"#,
        ),
    );
    let told = ground.works(
        "alpha",
        &script(
            r#"
echo "locked: $(findings). $(braid pool status | tail -1 | xargs)"
braid pool watch --no-smart --state $keys/watch --prometheus $keys/metrics > /dev/null || true
echo "metric: $(grep '^braid_pool_locked{pool="data"' $keys/metrics | cut -d' ' -f2), page: $(grep -c '"locked"' $keys/pools.json)"
if braid pool open data --passphrase-file $keys/wrong; then exit 1; fi
if braid pool open data < /dev/null; then exit 1; fi
echo "still: $(ls /dev/mapper)."
braid pool open data --passphrase-file - < $keys/old
same && echo "same after a boot"
braid pool open data --passphrase-file $keys/old && echo "again"
if braid pool add data $3 --passphrase-file $keys/wrong --yes; then exit 1; fi
braid pool add data $3 --passphrase-file $keys/old --yes
same && echo "same of three"
echo "open: $(findings)."
braid pool close data
echo "closed: $(ls /dev/mapper)."
# One is away: the others do.
program away 'true'
mv $tab $tab.bak; blkdiscard -z $2; cp $tab.bak $tab
braid pool open data --passphrase-file $keys/old
same && echo "same without one"
"#,
        ),
    );
    has(
        &told,
        &[
            "locked: locked. data encrypted locked 2",
            "metric: 1, page: 1",
            "this passphrase opens none",
            "can't ask for the passphrase without a terminal",
            "still: control.",
            "same after a boot",
            "again",
            "a disk of pool data: all its disks must have the same key",
            "same of three",
            "open: .",
            "closed: control.",
            "same without one",
        ],
    );
}

#[test]
fn keys_come_and_go_and_a_destroyed_header_comes_back() {
    let Some(ground) = Ground::new(&[128; 2]).filter(|_| is_there()) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
braid pool create data --layout md-raid1 --encrypt=passphrase --passphrase-file $keys/old $1 $2 --yes
written
slots() { braid pool key list data --json | grep -c '"number"'; }
braid pool key add data --passphrase-file $keys/old --recovery | tail -1 | tr -d '\n' > $keys/recovery
echo "recovery: $(wc -c < $keys/recovery), slots: $(slots), doctor: $(findings)."
if braid pool key change data --passphrase-file $keys/wrong --new-passphrase-file $keys/new; then exit 1; fi
braid pool key change data --passphrase-file $keys/old --new-passphrase-file $keys/new
if braid pool key remove data --old-passphrase-file $keys/old --yes; then exit 1; fi
braid pool key remove data --old-passphrase-file $keys/new --yes
echo "left: $(slots), doctor: $(findings)."
if braid pool key remove data --old-passphrase-file $keys/recovery --yes; then exit 1; fi
braid pool close data
if braid pool open data --passphrase-file $keys/new; then exit 1; fi
braid pool open data --passphrase-file $keys/recovery
same && echo "same by the recovery key"

# Keys changed by hand: the backup is of another state.
cryptsetup luksAddKey --key-file $keys/recovery $1 $keys/new
echo "by hand: $(findings)."
braid pool key add data --passphrase-file $keys/recovery --new-passphrase-file $keys/new
echo "saved: $(findings)."

dd if=/dev/urandom of=$1 bs=1M count=1 conv=notrunc 2> /dev/null
echo "destroyed: $(findings)."
if braid pool close data; then exit 1; fi
braid pool header restore data $1 --yes
echo "restored: $(findings)."
braid pool close data
dd if=/dev/zero of=$2 bs=1M count=1 conv=notrunc 2> /dev/null
echo "gone: $(findings)."
if braid pool header restore data $1 --from $BRAID_POOL_STATE_DIR/.headers/nothing --yes; then exit 1; fi
braid pool header restore data $2 --yes
# One copy of two.
dd if=/dev/zero of=$2 bs=4096 seek=1 count=1 conv=notrunc 2> /dev/null
echo "half: $(findings)."
braid pool header restore data $2 --yes
braid pool open data --passphrase-file $keys/recovery
same && echo "same in the end: $(findings)."
braid pool key sheet data | grep -c 'write it here'
"#,
        ),
    );
    has(
        &told,
        &[
            "recovery: 39, slots: 4, doctor: .",
            "nothing was changed",
            "no disk of pool data has that key",
            "left: 2, doctor: .",
            "give --last data",
            "same by the recovery key",
            "by hand: header-not-backed-up uneven-keys.",
            "saved: .",
            "destroyed: damaged-header.",
            "once closed it could not be opened again",
            "restored: .",
            "gone: damaged-header locked.",
            "half: damaged-header locked.",
            "same in the end: .",
        ],
    );
}

#[test]
fn a_key_file_that_is_seen_or_gone_or_locked_in_is_told() {
    let Some(ground) = Ground::new(&[320; 2]).filter(|_| is_there()) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
if braid pool create data --layout btrfs-single --encrypt --key-file /srv/data/key $1 --yes; then exit 1; fi
braid pool create data --layout btrfs-single --encrypt --key-file $keys/data.key $1 --yes
chmod 644 $keys/data.key
echo "seen: $(findings)."
mv $keys/data.key /srv/data/data.key; chmod 400 /srv/data/data.key
echo "gone: $(findings)."
sed -i "s|$keys|/srv/data|" $tab
echo "inside: $(findings)."
mv /srv/data/data.key $keys; sed -i "s|/srv/data|$keys|" $tab
rm -r $BRAID_POOL_STATE_DIR/.headers
echo "unsaved: $(findings)."
braid pool header backup data
: > $tab
echo "no line: $(findings)."
"#,
        ),
    );
    has(
        &told,
        &[
            "would be on the pool that it opens",
            "seen: exposed-key-file.",
            "gone: missing-key-file.",
            "inside: key-file-on-pool.",
            "unsaved: header-not-backed-up.",
            "no line: not-in-crypttab.",
        ],
    );
}

#[test]
fn an_encrypted_pool_whose_create_is_killed_is_completed() {
    let Some(ground) = Ground::new(&[128; 2]).filter(|_| is_there()) else { return };
    let told = ground.works(
        "alpha",
        &killed(
            r#"
    braid pool resume data > /tmp/told 2>&1 || { cat /tmp/told; exit 1; }
    braid pool status data | tail -1 | grep -q 'whole'
    echo "step $step resumed: $(findings)."
    umount /srv/data; mdadm --quiet --stop /dev/md/data
    for name in /dev/mapper/luks-data-*; do cryptsetup close $name; done
    for disk in $1 $2; do wipefs -qa $disk; blkdiscard -z $disk; done
    : > $tab; : > $BRAID_POOL_CONFIG_ROOT/etc/fstab; : > $BRAID_POOL_CONFIG_ROOT/etc/mdadm/mdadm.conf
    rm -rf $keys/data.key $BRAID_POOL_STATE_DIR
"#,
        ),
    );
    let count = told.lines().filter(|line| line.trim_end().ends_with("resumed: .")).count();
    assert_eq!(count, KILLED_AT.split(' ').count(), "{told}");
}

#[test]
fn an_encrypted_pool_whose_create_is_killed_is_taken_back() {
    let Some(ground) = Ground::new(&[128; 2]).filter(|_| is_there()) else { return };
    let told = ground.works(
        "alpha",
        &killed(
            r#"
    braid pool abandon data > /tmp/told 2>&1 || { cat /tmp/told; exit 1; }
    grep -q 'everything is as before' /tmp/told || { cat /tmp/told; exit 1; }
    echo "step $step undone: $(wipefs $1 $2 | wc -l) $(grep -c . $tab) $(ls /dev/mapper) $(find $keys/data.key $BRAID_POOL_STATE_DIR/.headers -type f 2> /dev/null | wc -l)."
    for disk in $1 $2; do blkdiscard -z $disk; done
"#,
        ),
    );
    let count = told.lines().filter(|line| line.trim_end().ends_with("undone: 0 0 control 0."));
    assert_eq!(count.count(), KILLED_AT.split(' ').count(), "{told}");
}

/// Steps of a create of two encrypted disks: the first one's format, its header's backup and its
/// opening, the array, its filesystem.
const KILLED_AT: &str = "2 3 5 10 11";

/// Kills a create as it begins each of these steps, and does `then`.
fn killed(then: &str) -> String {
    script(&format!(
        r#"
: > $tab
# Without a process of its own each time: this kernel has one processor. Nobody writes to 9.
exec 9<> <(:)
begun() {{ count=0; while IFS= read -r line; do case $line in …*) count=$((count + 1));; esac; done < /tmp/told; }}
for step in {KILLED_AT}; do
    : > /tmp/told
    braid pool create data --layout md-raid1 --encrypt --key-file $keys/data.key $1 $2 --yes > /tmp/told 2>&1 & child=$!
    while kill -0 $child 2> /dev/null && begun && [ $count -lt $step ]; do read -rt 0.05 -u 9 || true; done
    kill -9 $child
    wait $child || true
    {then}
done
"#
    ))
}

/// The passphrase is in no journal: it is asked for again, and another one is refused.
#[test]
fn a_create_with_a_passphrase_survives_a_power_cut() {
    let Some(ground) = Ground::new(&[320; 2]).filter(|_| is_there()) else { return };
    let create = "braid pool create data --layout btrfs-raid1 --encrypt=passphrase --passphrase-file $keys/old $1 $2 --yes";
    cut_at(ground.starts("alpha", &script(create)), "… make a btrfs");
    let told = ground.works(
        "alpha",
        &script(
            r#"
braid pool doctor --no-smart || true
if braid pool resume data --passphrase-file $keys/wrong; then exit 1; fi
braid pool resume data --passphrase-file $keys/old
braid pool status data
written; same
echo "in the end: $(findings)."
if grep -r 'correct horse' $BRAID_POOL_STATE_DIR $BRAID_POOL_CONFIG_ROOT 2> /dev/null; then exit 1; fi
"#,
        ),
    );
    has(
        &told,
        &[
            "mend it: braid pool resume data",
            "isn't the one that the change was started with",
            "in the end: .",
        ],
    );
}

/// Its keys go with it, also those in a header's backup.
#[test]
fn an_encrypted_pool_that_is_given_up_can_be_read_by_nobody() {
    let Some(ground) = Ground::new(&[320; 2]).filter(|_| is_there()) else { return };
    let told = ground.works(
        "alpha",
        &script(
            r#"
for layout in btrfs-raid1 md-raid1; do
    braid pool create data --layout $layout --encrypt --key-file $keys/data.key $1 $2 $erase --yes
    echo hello > /srv/data/file
    erase="--erase $1 --erase $2"
    braid pool destroy data --confirm data
    echo "$layout: $(wipefs $1 $2 | wc -l) signatures, $(ls /dev/mapper | grep -c luks-data) mappings, $(grep -c data $tab) lines, $(ls $BRAID_POOL_STATE_DIR/.headers/data | wc -l) headers"
    rm $keys/data.key
done
"#,
        ),
    );
    let gone = "0 signatures, 0 mappings, 0 lines, 0 headers";
    has(&told, &[&format!("btrfs-raid1: {gone}"), &format!("md-raid1: {gone}")]);
}
