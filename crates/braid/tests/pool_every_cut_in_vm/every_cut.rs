//! The power is cut at every step of every change of a pool: before and after each line of its
//! journal and in between. After the reboot the doctor says what was interrupted, the command that
//! it names completes it, nothing that was on the disks is lost, and the layout is what was
//! promised. From the same moment on `abandon` takes it back, or says what stays and why.
//!
//! That are some 800 machines. `BRAID_EVERY_CUT=1` starts them all, `BRAID_EVERY_CUT=7/20` every
//! 20th from the 7th on, `BRAID_EVERY_CUT='remove data|missing'` those of which a line of the
//! report says one of these; without it there is a cut in each of the first changes of the two
//! longest chains, up to a replace and to an array that grows.

use crate::recorded::{Moment, Recorded};
use std::sync::Mutex;

/// A command, and what `status` says after it.
struct Change {
    /// What is done before, with the power on.
    first: &'static str,
    command: &'static str,
    then: &'static str,
    /// Its array lacks a member and has parity: what lies beside what is being written may be
    /// damaged.
    has_write_hole: bool,
}

#[test]
fn btrfs_survives_a_power_cut_at_any_step_of_any_change() {
    survives(
        4,
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
                first: "umount /own/data; wipefs -qa $3; blkdiscard -z $1; btrfs device scan --forget; mount -o degraded,noatime $4 /own/data",
                ..change("braid pool replace data missing $1", "raid1 whole 2")
            },
        ],
    );
}

#[test]
fn md_survives_a_power_cut_at_any_step_of_any_change() {
    survives(
        3,
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
                has_write_hole: true,
                ..change("braid pool replace data missing $1 --erase $1", "raid6 whole 5")
            },
        ],
    );
}

#[test]
fn an_md_raid0_survives_a_power_cut_while_it_gets_copies() {
    survives_if_asked(
        &[64; 4],
        &[
            change(
                "braid pool create data --layout md-raid0 --mount /own/data $1 $2",
                "raid0 whole 2",
            ),
            change("braid pool convert data --layout md-raid10-n2 $3 $4", "raid10-n2 whole 4"),
        ],
    );
}

#[test]
fn an_md_raid5_of_two_survives_a_power_cut_while_it_becomes_a_raid1_and_back() {
    survives_if_asked(
        &[64; 3],
        &[
            change(
                "braid pool create data --layout md-raid1 --mount /own/data $1 $2",
                "raid1 whole 2",
            ),
            change("braid pool convert data --layout md-raid5", "raid5 whole 2"),
            change("braid pool convert data --layout md-raid1", "raid1 whole 2"),
        ],
    );
}

#[test]
fn an_md_raid6_that_was_a_raid5_survives_a_power_cut_while_it_grows() {
    survives_if_asked(
        &[64; 5],
        &[
            change(
                "braid pool create data --layout md-raid5 --mount /own/data $1 $2 $3",
                "raid5 whole 3",
            ),
            change("braid pool convert data --layout md-raid6 $4", "raid6 whole 4"),
            change("braid pool add data $5", "raid6 whole 5"),
        ],
    );
}

fn change(command: &'static str, then: &'static str) -> Change {
    Change { first: "", command, then, has_write_hole: false }
}

fn survives_if_asked(sizes_mib: &[u64], changes: &[Change]) {
    if std::env::var_os(ASKED).is_some() {
        survives(changes.len(), sizes_mib, changes);
    } else {
        println!("skipped: takes many minutes; {ASKED}=1 does it, {ASKED}=7/20 a part of it");
    }
}

/// `unasked`: how many of the changes are made if nobody asks for more.
fn survives(unasked: usize, sizes_mib: &[u64], changes: &[Change]) {
    let chosen = Chosen::by_the_user();
    let changes = match chosen {
        Chosen::OneEach => changes.get(..unasked).unwrap_or(changes),
        Chosen::Every { .. } | Chosen::Of(_) => changes,
    };
    let recorded = |each: &Change| {
        let Change { first, command, then, .. } = each;
        format!(
            "{first}\nat_work; {command} --yes; at_rest\nbraid pool status data | xargs | grep -o '{then}'"
        )
    };
    let commands: Vec<String> = changes.iter().map(recorded).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let Some(recorded) = Recorded::new(sizes_mib, WRITER, &commands) else { return };
    let moments = recorded.moments();
    let both =
        moments.iter().flat_map(|moment| [Way::Resume, Way::Abandon].map(|way| (moment, way)));
    let cuts: Vec<Cut> = both
        .map(|(moment, way)| {
            let of = &changes[moment.command];
            let then = of.then;
            let before = moment.command.checked_sub(1).map_or("", |before| changes[before].then);
            let mend = if way == Way::Resume { RESUME } else { ABANDON };
            let number = moment.command + 1;
            Cut {
                moment,
                way,
                may_lose: of.has_write_hole,
                says: format!("{}: {way:?} {}", of.command, moment.says),
                script: format!(
                    "NUMBER={number}\nBEFORE='{before}'\nTHEN='{then}'\n{BOOT}\n{mend}\n{LOOK}"
                ),
            }
        })
        .collect();
    let all = cuts.len();
    cut(&recorded, chosen.of(cuts), all);
}

/// What is done after the reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Resume,
    Abandon,
}

pub struct Cut<'a> {
    moment: &'a Moment,
    way: Way,
    /// What had been synced may be damaged by no fault of ours.
    may_lose: bool,
    says: String,
    script: String,
}

impl<'a> Cut<'a> {
    /// One after which all that was promised is expected.
    pub fn new(moment: &'a Moment, says: String, script: String) -> Cut<'a> {
        Cut { moment, way: Way::Resume, may_lose: false, says, script }
    }
}

/// Cuts the power at these moments.
pub fn cut(recorded: &Recorded, cuts: Vec<Cut>, all: usize) {
    let some = Mutex::new(cuts.into_iter());
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(Cut { moment, says, script, .. }) = some.lock().unwrap().next() else {
                return;
            };
            let result = recorded.after(moment, &script);
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
    assert!(!results.is_empty(), "{ASKED} chooses none of the {all} cuts");
    assert_eq!(failed, Vec::<&str>::new());
}

const ASKED: &str = "BRAID_EVERY_CUT";

/// Which cuts.
pub enum Chosen {
    /// In each change that loses nothing one, in the midst of its moments; gone on with and
    /// abandoned in turns.
    OneEach,
    /// The first, and how many further the next.
    Every { first: usize, step: usize },
    /// Those whose command and moment have one of these words, between `|`.
    Of(String),
}

impl Chosen {
    pub fn by_the_user() -> Chosen {
        let Ok(word) = std::env::var(ASKED) else { return Chosen::OneEach };
        match word.split_once('/') {
            Some((first, step)) => {
                let step = step.parse().unwrap();
                assert!(step > 0, "{ASKED}={word}: every cut is /1");
                Chosen::Every { first: first.parse().unwrap(), step }
            }
            None if word == "1" => Chosen::Every { first: 0, step: 1 },
            None => Chosen::Of(word),
        }
    }

    pub fn of(self, cuts: Vec<Cut>) -> Vec<Cut> {
        match self {
            Chosen::OneEach => one_each(cuts),
            Chosen::Every { first, step } => cuts.into_iter().skip(first).step_by(step).collect(),
            Chosen::Of(words) => {
                let is_meant = |cut: &Cut| words.split('|').any(|words| cut.says.contains(words));
                cuts.into_iter().filter(is_meant).collect()
            }
        }
    }
}

fn one_each(cuts: Vec<Cut>) -> Vec<Cut> {
    let mut chosen: Vec<Cut> = Vec::new();
    let mut rest = cuts;
    while let Some(command) = rest.first().map(|cut| cut.moment.command) {
        let (of_this, others): (Vec<Cut>, Vec<Cut>) =
            rest.into_iter().partition(|cut| cut.moment.command == command);
        rest = others;
        let has_both = of_this.iter().any(|cut| cut.way == Way::Abandon);
        let way = if has_both && command % 2 == 1 { Way::Abandon } else { Way::Resume };
        let fit: Vec<Cut> =
            of_this.into_iter().filter(|cut| cut.way == way && !cut.may_lose).collect();
        let middle = fit.len() / 2;
        chosen.extend(fit.into_iter().nth(middle));
    }
    chosen
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

const BOOT: &str = r#"
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
mounted() { mountpoint -q /own/data || { mkdir -p /own/data; mount -o noatime$1 $what /own/data >> /tmp/boot 2>&1; }; }
[ -z "$what" ] || mounted || true

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
else
    [ -z "$mend" ] || fail "the doctor says that something was interrupted"
fi
resume() { $mend > /tmp/said 2>&1 || { cat /tmp/said; fail "resume failed"; }; }
"#;

const RESUME: &str = r#"
[ $was != interrupted ] || resume
case $was in untouched) want=$BEFORE ;; *) want=$THEN ;; esac
"#;

const ABANDON: &str = r#"
case $was in untouched) want=$BEFORE ;; *) want=$THEN ;; esac
if [ $was != interrupted ]; then
    ! braid pool abandon data > /tmp/said 2>&1 || { cat /tmp/said; fail "abandon found something"; }
elif braid pool abandon data > /tmp/said 2>&1; then
    was="abandoned: $(xargs < /tmp/said)"
    mend=$(braid pool doctor --no-smart --json | grep -c '"interrupted"' || true)
    [ "$mend" = 0 ] || fail "abandoned, and interrupted still"
    if grep -q "everything is as before" /tmp/said; then want=$BEFORE; else want=any; fi
    if [ ! "$BEFORE" ] && [ $want != any ]; then
        braid pool create data --layout btrfs-raid1 --mount /own/other $1 $2 --dry-run > /tmp/said 2>&1 ||
            { cat /tmp/said; fail "the disks aren't empty again"; }
    fi
else
    grep -q "braid pool resume data" /tmp/said || { cat /tmp/said; fail "abandon doesn't say how to go on"; }
    was="refused: $(xargs < /tmp/said)"
    resume
fi
"#;

const LOOK: &str = r#"
count=0
if [ "$want" ]; then
    # Who hasn't gone on has a pool that lacks a member, which fstab doesn't mount.
    mounted || [ "$was" = finished ] || mounted ,degraded || fail "not mounted"
    mountpoint -q /own/data || fail "not mounted"
    if [ -s /own/sums ]; then
        sha256sum --check --quiet /own/sums || fail "files aren't what they were"
        count=$(wc -l < /own/sums)
    fi
fi
# No bitmap fits on members as small as these that were a raid0's.
bad() { braid pool doctor --no-smart data --json | tr -d '\n' | tr '{' '\n' | grep '"code"' | grep -vE '"(scrub-overdue|low-unallocated|old-btrfs-progs|degraded-option|no-bitmap)"' || true; }
if [ "$want" ] && [ "$was" != untouched ]; then
    case $was in abandoned*)
        # What was begun may have left something: what the doctor says against it is done as it stands.
        for again in 1 2 3; do
            # A disk that isn't blank any more would be named only by whoever erases it.
            for disk in $VM_DISKS; do [ "$(wipefs $disk)" ] || blkdiscard -z $disk || true; done
            mend=$(bad | head -n 1 | sed 's/.*"mend": "\(\([^"\\]\|\\.\)*\)".*/\1/; s/\\"/"/g')
            [ "$mend" ] || break
            case $mend in *scrub*|*mdadm*|sed*) yes= ;; *) yes=--yes ;; esac
            echo "mending: $mend"
            sh -c "$mend $yes" > /tmp/said 2>&1 || { cat /tmp/said; fail "$mend failed"; }
            for array in /dev/md/*; do [ ! -e $array ] || mdadm --wait $array || true; done
        done
    esac
    # A raid0 has nothing to compare.
    braid pool status data | grep -q md-raid0 || braid pool scrub start --wait data > /tmp/said 2>&1 ||
        { cat /tmp/said; fail "the scrub found something"; }
    [ "$want" = any ] || braid pool status data | xargs | grep -q "$want" || fail "it isn't $want"
    bad=$(bad)
    [ -z "$bad" ] || fail "the doctor finds $bad"
fi
echo "it was $was; $count files are what they were; now: $(braid pool status data 2>&1 | tail -n 1 | xargs)"
"#;
