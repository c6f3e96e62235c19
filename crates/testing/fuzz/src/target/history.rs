use super::input::Input;
use braid_history::{Bucket, By, Event, EventKind, Level, Periods, Series, Severity, Store};
use std::fs;
use std::sync::OnceLock;

/// Damage to a history file, a place and bytes at a time, and a clock's time. Whatever the file
/// contains, it is opened, read, written and pruned, or refused. Also the words of queries.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn history(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(series) = text.parse::<Series>() {
        assert_eq!(series.to_string().parse(), Ok(series));
    }
    let _ = (text.parse::<EventKind>(), text.parse::<Severity>());

    let mut input = Input(data);
    let now = i64::from_be_bytes(input.array());
    for by in [By::Hour, By::Day, By::Month] {
        let periods = Periods::here(by);
        let _ = (periods.begin(now, input.0.len() as u32), Periods::local_time(now));
        let bucket = Bucket { seconds: 1, rx_bytes: u64::MAX, ..Bucket::default() };
        let sums = periods.sums(&[(now, bucket), (now, bucket)]);
        assert_eq!(sums.len(), 1);
    }
    let mut file = sound_file().to_vec();
    while !input.is_empty() {
        let place = usize::from(input.u16());
        let length = usize::from(input.u8() % 9);
        for (old, new) in file.iter_mut().skip(place).zip(input.bytes(length)) {
            *old = *new;
        }
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let place = folder.path().join("history");
    fs::write(&place, &file).expect("room for some KB");
    if let Ok(mut store) = Store::open(&place, 1 << 20) {
        read(&store, now);
        let _ = store.write(&rows(now), &[event(now)]);
        let _ = store.prune(now);
        read(&store, now);
    }
    if let Ok(store) = Store::open_to_read(&place) {
        read(&store, now);
    }
}

fn read(store: &Store, now: i64) {
    for series in store.series() {
        for level in Level::WRITTEN {
            let _ = store.read(&series, level, i64::MIN, i64::MAX);
            let _ = store.read(&series, level, now, now.saturating_add(3600));
        }
    }
    let _ = store.events(None, 10);
    let _ = store.events(Some(now), 10);
}

/// A file left by a daemon in good order.
fn sound_file() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let place = folder.path().join("history");
        let mut store = Store::open(&place, 1 << 20).expect("room for some KB");
        for minute in 0..40 {
            let at = 1_790_000_000 + minute * 60;
            store.write(&rows(at), &[event(at)]).expect("room for some KB");
        }
        drop(store);
        fs::read(&place).expect("it was just written")
    })
}

fn rows(at: i64) -> Vec<(i64, Series, Bucket)> {
    let bucket =
        Bucket { seconds: 10, up_seconds: 9, rx_bytes: 7, tx_bytes: 8, ..Bucket::default() };
    let all = [Series::Tunnel, Series::Link("dsl".into()), Series::Peer("home".into())];
    all.map(|series| (at, series, bucket)).into()
}

fn event(unix: i64) -> Event {
    let (subject, text) = ("dsl".into(), "dsl doesn't work any more".into());
    Event { unix, kind: EventKind::LinkDown, severity: Severity::Warning, subject, text }
}
