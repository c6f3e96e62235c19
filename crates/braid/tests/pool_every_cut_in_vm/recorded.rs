//! A host's disks as a power cut would have left them: one machine runs commands while all it
//! writes to its disks is recorded; up to any of these writes they are written again, for another
//! machine that starts from there.

use crate::BRAID;
use braid_units::ByteSize;
use braid_vm::{DiskEvent, DiskImage, Recording, Vm};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Holds the host's own files: journal, fstab, mount point. On a disk as the others, so that they
/// are of the same moment.
const OWN_DISK_MIB: u64 = 24;
/// Where a btrfs has its first superblock; what was written before is found by it only.
const SUPERBLOCK: u64 = 64 << 10;
/// A machine on a busy host is slow; one that stands still (seen once, the second kernel waited in
/// its idle loop) is to fail while there is time to run the test again.
const TIME_LIMIT: Duration = Duration::from_secs(600);

pub struct Recorded {
    sizes_mib: Vec<u64>,
    recording: Recording,
    commands: Vec<Range<usize>>,
}

/// A moment at which the power is cut.
pub struct Moment {
    /// Which of the commands was running.
    pub command: usize,
    /// How many of the recorded writes were done.
    pub writes: usize,
    /// For people.
    pub says: String,
}

impl Recorded {
    /// Runs `before` and then the commands in a machine with empty disks of these sizes. A script
    /// finds the disks as `$1`, `$2`…, and what has to outlive the machine in `/own`.
    pub fn new(sizes_mib: &[u64], before: &str, commands: &[&str]) -> Option<Recorded> {
        if let Err(why) = Vm::find() {
            println!("skipped: {why}");
            return None;
        }
        let disks = empty_disks(sizes_mib);
        let folder = tempfile::tempdir_in(braid_loop_disks::fast_folder()).unwrap();
        let record = folder.path().join("record");
        let mut script = format!(
            "mkfs.ext4 -q ${{VM_DISKS%% *}}\n{PRELUDE}\nmkdir -p $BRAID_POOL_CONFIG_ROOT/etc/mdadm\n{before}\n"
        );
        for (number, command) in commands.iter().enumerate() {
            script += &format!("at '{number}'\n{command}\n");
        }
        script += &format!("at '{}'\n", commands.len());
        let output = machine(&disks).record(&record).run(["bash", "-c", &script]).unwrap();
        assert!(output.success(), "status {}:\n{}", output.status, output.console);
        println!("recorded:\n{}", output.console);
        let recording = Recording::read(&record, &disks).unwrap();
        let begins: Vec<usize> = (0..=commands.len())
            .map(|number| position(&recording, 0, &format!("now at {number};")).unwrap())
            .collect();
        let commands = begins.windows(2).map(|pair| pair[0]..pair[1]).collect();
        Some(Recorded { sizes_mib: sizes_mib.to_vec(), recording, commands })
    }

    /// Around each line of each command's journal, and between two of them.
    pub fn moments(&self) -> Vec<Moment> {
        let of = |(command, range): (usize, &Range<usize>)| {
            let lines = self.journal_lines(range);
            // What is written after the last line is the user's.
            let end = lines.last().map_or(range.end, |(last, _)| self.safe(*last..range.end));
            let ends = lines.iter().skip(1).map(|(at, _)| *at).chain([end]);
            let parts = lines.iter().zip(ends).flat_map(|((begin, says), end)| {
                let named = |(at, how)| (at, format!("{how} {says}"));
                self.between(*begin..end).into_iter().map(named).collect::<Vec<_>>()
            });
            let moment = move |(writes, says)| Moment { command, writes, says };
            parts.map(moment).collect::<Vec<_>>()
        };
        self.commands.iter().enumerate().flat_map(of).collect()
    }

    /// After each write that changes what a crash would leave: a btrfs' superblock, or the last of
    /// some writes to another disk. `is_btrfs` is asked for disks from 0, the own one.
    pub fn states(&self, is_btrfs: impl Fn(usize) -> bool) -> Vec<Moment> {
        let events = self.recording.events();
        let changes = |number: &usize| {
            let event = &events[*number];
            match is_btrfs(event.disk) {
                true => event.offset() == SUPERBLOCK,
                false => events.get(number + 1).is_none_or(|next| next.disk != event.disk),
            }
        };
        let of = |(command, range): (usize, &Range<usize>)| {
            let moment = move |(number, after): (usize, usize)| {
                let disk = events[after].disk;
                let says = format!("state {number}, after a write to disk {disk}");
                Moment { command, writes: after + 1, says }
            };
            range.clone().filter(changes).enumerate().map(moment).collect::<Vec<_>>()
        };
        self.commands.iter().enumerate().flat_map(of).collect()
    }

    /// A new machine with the disks as they were then runs a script; what it printed, also if it
    /// failed.
    pub fn after(&self, moment: &Moment, script: &str) -> Result<String, String> {
        let disks = empty_disks(&self.sizes_mib);
        self.recording.replay(&disks, moment.writes).unwrap();
        let text = format!("{PRELUDE}\nCOMMAND={}\n{script}", moment.command);
        match machine(&disks).run(["bash", "-c", &text]) {
            Ok(output) if output.success() => Ok(output.console),
            Ok(output) => Err(format!("status {}:\n{}", output.status, output.console)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// When each line first was on the disk.
    fn journal_lines(&self, range: &Range<usize>) -> Vec<(usize, String)> {
        let mut lines = Vec::new();
        let mut wanted: Vec<(String, String)> =
            vec![("\"event\":\"plan\"".to_owned(), "the plan is written down".to_owned())];
        // Steps are journalled in their order, once each.
        for step in 0..99 {
            for event in ["begun", "done", "kept"] {
                wanted.push((
                    format!("\"event\":\"{event}\",\"step\":{step}}}"),
                    format!("step {} is {event}", step + 1),
                ));
            }
        }
        wanted.push(("\"event\":\"finished\"".to_owned(), "all is done".to_owned()));
        for number in range.clone() {
            let event = self.recording.events()[number];
            if event.disk != 0 {
                continue;
            }
            let data = self.recording.data(&event).unwrap();
            wanted.retain(|(text, says)| {
                let found = contains(&data, text);
                if found {
                    lines.push((number, says.clone()));
                }
                !found
            });
        }
        lines
    }

    /// When what is written to the own disk from the beginning of this range on is complete:
    /// something is written to another.
    fn safe(&self, range: Range<usize>) -> usize {
        let first = self.recording.events()[range.clone()].iter().position(is_others);
        first.map_or(range.end, |first| range.start + first)
    }

    /// Before the line of the journal, when it is safe, and then, the more is written to other
    /// disks the more often.
    fn between(&self, range: Range<usize>) -> Vec<(usize, &'static str)> {
        let safe = self.safe(range.clone());
        let mut moments = vec![(range.start, "before")];
        if safe == range.end {
            return moments;
        }
        moments.push((safe, "when"));
        let is_written = |number: &usize| {
            let event = &self.recording.events()[*number];
            is_others(event) && !event.is_emptying()
        };
        let others: Vec<usize> = (safe..range.end).filter(is_written).collect();
        let times = match others.len() {
            0..2 => 0,
            2..100 => 1,
            100..1000 => 2,
            _ => 4,
        };
        moments.extend(
            (1..=times).map(|time| (others[others.len() * time / (times + 1)], "a while after")),
        );
        moments
    }
}

fn is_others(event: &DiskEvent) -> bool {
    event.disk != 0
}

fn empty_disks(sizes_mib: &[u64]) -> Vec<DiskImage> {
    let all = std::iter::once(&OWN_DISK_MIB).chain(sizes_mib);
    all.map(|mib| DiskImage::temporary(ByteSize::from_bytes(mib << 20)).unwrap()).collect()
}

fn machine(disks: &[DiskImage]) -> Vm {
    let programs = Path::new(BRAID).parent().unwrap();
    let vm = Vm::find()
        .unwrap()
        .host_name("alpha")
        .time_limit(TIME_LIMIT)
        .writable(programs)
        .variable("PROGRAMS", programs)
        .variable("BRAID_POOL_STATE_DIR", "/own/pools")
        .variable("BRAID_POOL_CONFIG_ROOT", "/own/root");
    disks.iter().fold(vm, |vm, disk| vm.disk(disk))
}

fn position(recording: &Recording, from: usize, text: &str) -> Option<usize> {
    let holds =
        |event: &DiskEvent| event.disk == 0 && contains(&recording.data(event).unwrap(), text);
    recording.events().iter().skip(from).position(holds).map(|found| from + found)
}

fn contains(data: &[u8], text: &str) -> bool {
    data.windows(text.len()).any(|part| part == text.as_bytes())
}

const PRELUDE: &str = r#"
set -e -o pipefail
export PATH=$PROGRAMS:$PATH
set -- $VM_DISKS
mkdir -p /own
mount $1 /own
shift
at() { sync; echo "now at $1;" > /own/at; sync; echo "at $1 after $SECONDS s"; }
"#;
