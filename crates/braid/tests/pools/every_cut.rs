//! The power is cut at every step of every change of a pool: before and after each line of its journal and in between.
//! After the reboot the doctor says what was interrupted, the command that it names completes it, nothing that was on
//! the disks is lost, and the layout is what was promised.
//!
//! That are some 300 machines. `BRAID_EVERY_CUT=1` starts them all, `BRAID_EVERY_CUT=7/20` every 20th from the 7th on,
//! `BRAID_EVERY_CUT='remove data|missing'` those of which a line of the report says one of these; without it there
//! are the cuts of `power_cuts` only.

use crate::recorded::{Moment, Recorded};
use std::sync::Mutex;

/// A command, and what `status` says after it.
struct Change {
    /// What is done before, with the power on.
    first: &'static str,
    command: &'static str,
    then: &'static str,
}

#[test]
fn btrfs_survives_a_power_cut_at_any_step_of_any_change() {
    survives(
        &[320; 4],
        &[
            change(
                "braid pool create data --layout btrfs-raid1 --mount /own/data $1 $2",
                "raid1 whole 2",
            ),
            change("braid pool add data $3", "raid1 whole 3"),
            change("braid pool convert data --layout btrfs-raid1c3", "raid1c3 whole 3"),
            change("braid pool replace data $1 $4", "raid1c3 whole 3"),
            change("braid pool convert data --layout btrfs-raid1", "raid1 whole 3"),
            change("braid pool remove data $2", "raid1 whole 2"),
            Change {
                first: "umount /own/data; wipefs -qa $3; btrfs device scan --forget; mount -o degraded,noatime $4 /own/data",
                ..change("braid pool replace data missing $1", "raid1 whole 2")
            },
        ],
    );
}

#[test]
fn md_survives_a_power_cut_at_any_step_of_any_change() {
    survives(
        &[64; 6],
        &[
            change(
                "braid pool create data --layout md-raid1 --mount /own/data $1 $2",
                "raid1 whole 2",
            ),
            change("braid pool convert data --layout md-raid5 $3", "raid5 whole 3"),
            change("braid pool add data $4", "raid5 whole 4"),
            change("braid pool convert data --layout md-raid6 $5", "raid6 whole 5"),
            change("braid pool replace data $1 $6", "raid6 whole 5"),
            Change {
                first: "mdadm -q /dev/md/data --fail $2 --remove $2; wipefs -qa $2",
                ..change("braid pool replace data missing $1 --erase $1", "raid6 whole 5")
            },
        ],
    );
}

fn change(command: &'static str, then: &'static str) -> Change {
    Change { first: "", command, then }
}

fn survives(sizes_mib: &[u64], changes: &[Change]) {
    let Some(chosen) = chosen() else { return };
    let recorded = |each: &Change| {
        let Change { first, command, then } = each;
        format!(
            "{first}\nat_work; {command} --yes; at_rest\nbraid pool status data | xargs | grep -o '{then}'"
        )
    };
    let commands: Vec<String> = changes.iter().map(recorded).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let Some(recorded) = Recorded::new(sizes_mib, WRITER, &commands) else { return };
    let script = |moment: &Moment| {
        let then = changes[moment.command].then;
        let before = moment.command.checked_sub(1).map_or("", |before| changes[before].then);
        format!("NUMBER={}\nBEFORE='{before}'\nTHEN='{then}'\n{MEND}", moment.command + 1)
    };
    let named = |moment: &Moment| changes[moment.command].command.to_owned();
    cut(&recorded, chosen, script, named);
}

/// Cuts the power at the chosen moments.
fn cut(
    recorded: &Recorded,
    chosen: Chosen,
    script: impl Fn(&Moment) -> String + Sync,
    named: impl Fn(&Moment) -> String + Sync,
) {
    let moments = recorded.moments();
    let all = moments.len();
    let chosen = moments.into_iter().enumerate().filter(|(number, moment)| match &chosen {
        Chosen::Every { first, step } => *number >= *first && (number - first) % step == 0,
        Chosen::Of(words) => {
            let says = format!("{}: {}", named(moment), moment.says);
            words.split('|').any(|words| says.contains(words))
        }
    });
    let some = Mutex::new(chosen.map(|(_, moment)| moment));
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(moment) = some.lock().unwrap().next() else { return };
            let result = recorded.after(&moment, &script(&moment));
            let says = format!("{}: {}", named(&moment), moment.says);
            match &result {
                Ok(told) => println!("ok: {says}: {}", told.lines().last().unwrap_or_default()),
                Err(told) => println!("FAILED: {says} ({} writes): {told}", moment.writes),
            }
            results.lock().unwrap().push((says, result.is_ok()));
        }
    };
    std::thread::scope(|scope| {
        // Two machines at a time: each has one processor.
        scope.spawn(work);
        scope.spawn(work);
    });
    let results = results.into_inner().unwrap();
    let failed: Vec<&str> =
        results.iter().filter(|(_, ok)| !ok).map(|(says, _)| says.as_str()).collect();
    println!("{} of {all} cuts made, {} failed", results.len(), failed.len());
    assert!(!results.is_empty(), "BRAID_EVERY_CUT chooses none of the {all} cuts");
    assert_eq!(failed, Vec::<&str>::new());
}

/// Which moments.
enum Chosen {
    /// The first, and how many further the next.
    Every { first: usize, step: usize },
    /// Those whose command and moment have one of these words, between `|`.
    Of(String),
}

/// Nothing if none are asked for.
fn chosen() -> Option<Chosen> {
    let Ok(word) = std::env::var("BRAID_EVERY_CUT") else {
        println!(
            "skipped: takes an hour; BRAID_EVERY_CUT=1 does it, BRAID_EVERY_CUT=7/20 a part of it"
        );
        return None;
    };
    Some(match word.split_once('/') {
        Some((first, step)) => {
            let step = step.parse().unwrap();
            assert!(step > 0, "BRAID_EVERY_CUT={word}: every cut is /1");
            Chosen::Every { first: first.parse().unwrap(), step }
        }
        None if word == "1" => Chosen::Every { first: 0, step: 1 },
        None => Chosen::Of(word),
    })
}

/// Writes while a change is under way. What it has on the disk has its sum on the own disk.
const WRITER: &str = r#"
kept() { sync -f $1; sha256sum $1 >> /own/sums; sync /own/sums; }
writes() {
    mountpoint -q /own/data || return 0
    [ -e /own/data/file ] || { head -c 20M /dev/urandom > /own/data/file; kept /own/data/file; }
    while [ ! -e /tmp/rest ]; do
        name=/own/data/$RANDOM$RANDOM
        head -c 200K /dev/urandom > $name; kept $name
        sleep 0.3
    done
}
at_work() { rm -f /tmp/rest; writes & }
at_rest() { touch /tmp/rest; wait; }
"#;

const MEND: &str = r#"
fail() {
    echo "$*"
    braid pool status || true; braid pool doctor --no-smart || true
    tail -n 5 /own/pools/data/output.log || true; cat /tmp/boot /proc/mdstat || true; dmesg | tail -n 20
    exit 1
}
# What a boot does, as far as fstab and mdadm.conf were written.
btrfs device scan > /dev/null 2>&1 || true
mdadm --assemble --scan > /tmp/boot 2>&1 || true
what=$(awk '$2 == "/own/data" { print $1 }' /own/root/etc/fstab 2> /dev/null || true)
if [ "$what" ]; then mkdir -p /own/data; mount -o noatime $what /own/data >> /tmp/boot 2>&1 || true; fi

# By the journals: a line that was torn counts as none.
finished=$(cat /own/pools/data/*.ended.jsonl 2> /dev/null | grep -c '"event":"finished"' || true)
was=untouched
if [ $finished -ge $NUMBER ]; then was=finished
elif grep -q '"event":"finished"' /own/pools/data/journal 2> /dev/null; then was=finished
elif [ -e /own/pools/data/journal ]; then was=interrupted
fi
mend=$(braid pool doctor --no-smart --json | tr '{' '\n' | grep '"interrupted"' -A9 | grep -o 'braid pool resume data' || true)
if [ $was = interrupted ]; then
    [ "$mend" ] || fail "the doctor doesn't say that something was interrupted"
    $mend > /tmp/said 2>&1 || { cat /tmp/said; fail "resume failed"; }
else
    [ -z "$mend" ] || fail "the doctor says that something was interrupted"
fi
case $was in untouched) want=$BEFORE ;; *) want=$THEN ;; esac
count=0
if [ "$want" ]; then
    # fstab doesn't mount a pool that lacks a member.
    mountpoint -q /own/data || [ $was != untouched ] || mount -o degraded,noatime $what /own/data || true
    mountpoint -q /own/data || fail "not mounted"
    if [ -e /own/sums ]; then
        sha256sum --check --quiet /own/sums || fail "files aren't what they were"
        count=$(wc -l < /own/sums)
    fi
fi
if [ $was != untouched ]; then
    braid pool scrub start --wait data > /tmp/said 2>&1 || { cat /tmp/said; fail "the scrub found something"; }
    braid pool status data | xargs | grep -q "$want" || fail "it isn't $want"
    bad=$(braid pool doctor --no-smart data --json | grep -oE '"code": "[^"]*"' | grep -vE 'scrub-overdue|low-unallocated|old-btrfs|degraded-option' || true)
    [ -z "$bad" ] || fail "the doctor finds $bad"
fi
echo "it was $was; $count files are what they were"
"#;
