//! The process is killed during a write, the disk is full, the file is damaged: what was written
//! survives, and recording continues.

use braid_history::{Event, EventKind, Level, Recorder, Sample, Series, Settings, Severity, Store};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: u64 = 64 << 20;
/// 2025-10-09.
const START: i64 = 1_760_000_000;

fn sample() -> Sample {
    Sample { up: true, rx_bytes: 7, tx_bytes: 3, sent: 5, lost: 1, rtt_us: Some(20_000) }
}

fn settings(file: &Path) -> Settings {
    Settings { file: file.into(), limit_bytes: LIMIT, write_every: Duration::from_millis(50) }
}

fn start(settings: Settings) -> (Recorder, std::thread::JoinHandle<()>) {
    let (recorder, mut keeping) = Recorder::new(settings);
    (recorder, std::thread::spawn(move || keeping.run()))
}

fn event(text: &str) -> Event {
    Event {
        unix: START,
        kind: EventKind::LinkDown,
        severity: Severity::Warning,
        subject: "dsl".into(),
        text: text.into(),
    }
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs an otherwise ignored test of this program in a process of its own.
fn child(name: &str, folder: &Path, wrapped: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match wrapped {
        [] => Command::new(&program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(&program);
            command
        }
    };
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("HISTORY_FOLDER", folder).stdin(Stdio::null());
    command
}

fn folder_given() -> std::path::PathBuf {
    std::env::var_os("HISTORY_FOLDER").expect("run by another test").into()
}

#[test]
#[ignore = "the process that others kill"]
fn writes_until_killed() {
    let mut store = Store::open(&folder_given().join("history.db"), LIMIT).unwrap();
    for batch in 0.. {
        let begin = Level::Hour.start(START) + batch * 600;
        let rows: Vec<_> = (0..60)
            .flat_map(|n| ["a", "b", "c"].map(|link| (begin + n * 10, Series::Link(link.into()))))
            .map(|(at, series)| (at, series, sample().into()))
            .collect();
        store.write(&rows, &[event(&batch.to_string())]).unwrap();
        if batch % 6 == 5 {
            store.prune(begin).unwrap();
        }
    }
}

#[test]
fn killed_in_mid_write_it_has_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.db");
    for round in 0..12 {
        let _ = std::fs::remove_file(&file);
        for ending in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.path().join(format!("history.db{ending}")));
        }
        let mut process =
            child("writes_until_killed", folder.path(), &[]).stdout(Stdio::null()).spawn().unwrap();
        wait_until("it writes", || {
            let events = || Store::open_to_read(&file).and_then(|store| store.events(None, 100));
            file.exists() && events().is_ok_and(|events| events.len() > round)
        });
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        process.kill().unwrap();
        process.wait().unwrap();
        let mut store = Store::open(&file, LIMIT).unwrap();
        let written = store.events(None, usize::MAX).unwrap().len();
        assert!(written > round, "{written}");
        for link in ["a", "b", "c"] {
            let series = Series::Link(link.into());
            let hours = store.read(&series, Level::Hour, 0, i64::MAX).unwrap();
            let seconds: u32 = hours.iter().map(|(_, hour)| hour.seconds).sum();
            assert_eq!(seconds as usize, written * 60, "round {round}");
        }
        store.write(&[(START, Series::Tunnel, sample().into())], &[]).unwrap();
    }
}

#[test]
#[ignore = "is run where the disk is small"]
fn keeps_history_on_a_small_disk() {
    let folder = folder_given();
    let (recorder, thread) = start(settings(&folder.join("history.db")));
    let link = Series::Link("dsl".into());
    recorder.samples(START, vec![(link.clone(), sample())]);
    wait_until("it writes", || recorder.health().written_bytes > 0);
    assert_eq!(recorder.health().trouble, None);

    fill(&folder);
    recorder.event(event("on a full disk"));
    for second in 1..200 {
        recorder.samples(START + second, vec![(link.clone(), sample())]);
        std::thread::sleep(Duration::from_millis(1));
    }
    wait_until("it says that the disk is full", || recorder.health().trouble.is_some());
    let points = || recorder.points(&link, Level::Hour, 0, i64::MAX).unwrap().points;
    assert_eq!(points().iter().map(|(_, b)| b.seconds).sum::<u32>(), 200, "nothing is lost");

    std::fs::remove_file(folder.join("filler")).unwrap();
    wait_until("it writes again", || recorder.health().trouble.is_none());
    recorder.stop();
    thread.join().unwrap();
    let store = Store::open_to_read(&folder.join("history.db")).unwrap();
    let hours = store.read(&link, Level::Hour, 0, i64::MAX).unwrap();
    assert_eq!(hours.iter().map(|(_, hour)| hour.seconds).sum::<u32>(), 200);
    assert_eq!(store.events(None, 10).unwrap()[0].text, "on a full disk");
    println!("the small disk was lived through");
}

fn fill(folder: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(folder.join("filler")).unwrap();
    while file.write_all(&[b'x'; 512]).is_ok() {}
}

#[test]
fn a_full_disk_costs_nothing_as_long_as_memory_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=256k small \"$HISTORY_FOLDER\" && exec \"$0\" \"$@\"";
    let can = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: mounting needs root");
        return;
    }
    let wrapped = ["unshare", "-m", "sh", "-c", mount];
    let output = child("keeps_history_on_a_small_disk", folder.path(), &wrapped).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(told.contains("the small disk was lived through"), "{told}");
}

#[test]
fn a_broken_file_is_put_aside_and_a_new_one_begins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.db");
    std::fs::write(&file, "this was a database once".repeat(1000)).unwrap();
    let (recorder, thread) = start(settings(&file));
    recorder.event(event("after the break"));
    wait_until("it writes", || recorder.health().written_bytes > 0);
    recorder.stop();
    thread.join().unwrap();
    assert!(folder.path().join("history.db.broken").exists());
    let store = Store::open_to_read(&file).unwrap();
    assert_eq!(store.events(None, 10).unwrap().len(), 1);
}

#[test]
fn who_gives_samples_never_waits_and_losses_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, keeping) = Recorder::new(settings(&folder.path().join("history.db")));
    // Nobody takes the samples.
    for second in 0..1000 {
        recorder.samples(START + second, vec![(Series::Tunnel, sample())]);
    }
    let dropped = recorder.health().dropped;
    assert!((500..1000).contains(&dropped), "{dropped}");
    drop(keeping);
}

#[test]
fn what_is_not_written_yet_is_told_too_and_what_was_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.db");
    let slow = Settings { write_every: Duration::from_secs(3600), ..settings(&file) };
    let (recorder, thread) = start(slow.clone());
    for second in 0..100 {
        recorder.samples(START + second, vec![(Series::Tunnel, sample())]);
    }
    let seconds = |recorder: &Recorder, level| {
        let points = recorder.points(&Series::Tunnel, level, START, START + 200).unwrap().points;
        points.iter().map(|(_, bucket)| bucket.seconds).sum::<u32>()
    };
    for level in [Level::Second, Level::TenSeconds, Level::Minute] {
        assert_eq!(seconds(&recorder, level), 100);
    }
    assert_eq!(recorder.health().written_bytes, 0);
    recorder.stop();
    thread.join().unwrap();
    let (recorder, thread) = start(slow);
    recorder.samples(START + 100, vec![(Series::Tunnel, sample())]);
    assert_eq!(seconds(&recorder, Level::Minute), 101);
    assert_eq!(recorder.series().unwrap(), [Series::Tunnel]);
    recorder.stop();
    thread.join().unwrap();
}
