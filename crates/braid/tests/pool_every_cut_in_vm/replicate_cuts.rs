//! The power is cut in every state that replications leave on the disks of both ends: a whole
//! snapshot, a difference pushed to another braid, one pulled, streams into a folder that isn't on
//! btrfs. After the reboot what has a replica's name is complete; the doctor of each end says what
//! is half done; the command that it names completes it.
//!
//! As the disks of one end don't change while the other's do, a cut of both is one of either.
//! `BRAID_EVERY_CUT` chooses as for `every_cut`; without it there is a cut in each kind.

use crate::every_cut::Chosen;
use crate::recorded::Recorded;

const COMMANDS: [&str; 4] = [
    "braid pool replicate --limit 3Mbit /own/a/snapshots /own/b/replicas",
    "braid pool replicate --limit 8Mbit --rsh /own/shell /own/a/snapshots x:/own/b/replicas",
    "braid pool replicate --limit 16Mbit --rsh /own/shell x:/own/a/snapshots /own/b/pulled",
    "braid pool replicate --limit 16Mbit /own/a/snapshots /own/c/streams",
];

#[test]
fn a_replication_survives_a_power_cut_in_every_state_of_either_end() {
    let commands: Vec<String> = COMMANDS.iter().map(|each| format!("{each}; changed")).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let Some(recorded) = Recorded::new(&[256, 256, 96], BEFORE, &commands) else { return };
    let moments = recorded.states(|disk| disk == 1 || disk == 2);
    let cuts: Vec<_> = moments
        .iter()
        .map(|moment| {
            let command = COMMANDS[moment.command];
            let says = format!("{command}: {}", moment.says);
            crate::every_cut::Cut::new(moment, says, format!("AGAIN='{command}'\n{MEND}"))
        })
        .collect();
    let all = cuts.len();
    crate::every_cut::cut(&recorded, Chosen::by_the_user().of(cuts), all);
}

const BEFORE: &str = r#"
mkfs.btrfs -q $1; mkfs.btrfs -q $2; mkfs.ext4 -q $3
mkdir -p /own/a /own/b /own/c
mount $1 /own/a; mount $2 /own/b; mount $3 /own/c
# Another computer's braid, as far as it remembers anything.
printf '#!/bin/sh\nshift\nexport BRAID_POOL_STATE_DIR=/own/there\nexec $*\n' > /own/shell; chmod +x /own/shell
btrfs -q subvolume create /own/a/data
head -c 9M /dev/urandom > /own/a/data/big
for n in $(seq 30); do echo $n > "/own/a/data/file $n"; done
# Another snapshot, twice, so that differences build on differences.
changed() {
    [ $(ls /own/a/snapshots 2> /dev/null | wc -l) -lt 2 ] || return 0
    head -c 2M /dev/urandom | dd of=/own/a/data/big bs=1M seek=3 conv=notrunc 2> /dev/null
    mv "/own/a/data/file 7" /own/a/data/moved 2> /dev/null || true
    date > /own/a/data/new
    braid pool snapshot --into /own/a/snapshots /own/a/data > /dev/null
    # Names have whole seconds.
    sleep 1.1
    sync
}
changed
"#;

const MEND: &str = r#"
fail() {
    echo "$*"
    for state in /own/pools /own/there; do BRAID_POOL_STATE_DIR=$state braid pool doctor --no-smart || true; done
    find /own -xdev -type f | head -n 40; ls -la /own/a/snapshots /own/b /own/b/* /own/c /own/c/* || true
    btrfs subvolume list -pu /own/b || true; dmesg | tail -n 10
    exit 1
}
mount $1 /own/a; mount $2 /own/b; mount $3 /own/c
told() { BRAID_POOL_STATE_DIR=$1 braid pool doctor --no-smart --json | tr -d '\n' | tr '{' '\n' | grep '"unfinished-replication"' || true; }
mend() { sed 's/.*"mend": "\(\([^"\\]\|\\.\)*\)".*/\1/; s/\\"/"/g; s/--limit [0-9]*bit//'; }
here=$(told /own/pools) there=$(told /own/there)

# What has its name is complete.
for replicas in /own/b/replicas /own/b/pulled; do
    for replica in $(ls $replicas 2> /dev/null); do
        btrfs property get $replicas/$replica ro | grep -q true || fail "$replica is writable"
        btrfs subvolume show $replicas/$replica | grep -q 'Received UUID:.*-' || fail "$replica isn't marked"
        diff -r /own/a/snapshots/$replica $replicas/$replica || fail "$replica differs"
    done
done
[ ! -e /own/c/streams ] || braid pool verify /own/c/streams > /tmp/said 2>&1 || { cat /tmp/said; fail "a stored stream is damaged"; }

# What is half done is told, at both ends.
to=$(echo $AGAIN | awk '{ print $NF }')
to=${to#x:}
half=
for part in .braid-replica.part .braid-replica/begun.json .braid-archive/begun.json; do
    [ ! -e $to/$part ] || half=$part
done
if [ "$half" ]; then
    [ "$here" ] || fail "$half is there, and the doctor says nothing"
    case $AGAIN in *--rsh*) [ "$there" ] || fail "$half is there, and the other end's doctor says nothing" ;; esac
fi
case "$here$there" in
'') was="not begun or done" command=$AGAIN ;;
*) was="told${here:+ here}${there:+ there}" command=$(echo "${here:-$there}" | mend) ;;
esac
echo "$command" > /tmp/command
sh -c "$command" > /tmp/said 2>&1 || { cat /tmp/said; fail "$command failed"; }
count=$(ls /own/a/snapshots | wc -l)
case $to in
*/streams) ended=$(ls $to | grep -c 'btrfs-stream$') ;;
*) ended=$(ls $to | wc -l) ;;
esac
[ $count = $ended ] || fail "$count snapshots, and $ended replicas"
braid pool verify /own/a/snapshots $to > /tmp/said 2>&1 || { cat /tmp/said; fail "the replica differs"; }
[ -z "$(told /own/pools)$(told /own/there)" ] || fail "it is told still"
for part in .braid-replica.part .braid-replica/begun.json .braid-archive/begun.json .braid-archive/part; do
    [ ! -e $to/$part ] || fail "$part is left"
done
! ls $to/.braid-replica 2> /dev/null | grep checkpoint || fail "a checkpoint is left"
umount /own/a /own/b
for disk in $1 $2; do btrfs check --readonly $disk > /tmp/said 2>&1 || { cat /tmp/said; fail "btrfs check"; }; done
echo "it was $was${half:+, $half}; $count replicas"
"#;
