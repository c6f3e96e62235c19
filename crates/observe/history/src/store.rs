use crate::bucket::Bucket;
use crate::event::Event;
use crate::level::Level;
use crate::series::Series;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The database file. All methods may block on the disk.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    series: HashMap<Series, i64>,
    limit_bytes: u64,
    written_bytes: u64,
}

/// Why something couldn't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite reported an error.
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    /// The file exists but can't be used.
    #[error("{}: {error}", file.display())]
    File {
        /// The database.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl StoreError {
    /// Whether the file isn't a database, or is damaged.
    pub fn is_broken(&self) -> bool {
        let StoreError::Database(error) = self else { return false };
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        )
    }
}

/// Number of series with sums of ten seconds; further ones and devices only have minutes and hours.
/// Keeps writes below 1 MB an hour.
const MOST_WITH_TEN_SECONDS: i64 = 24;
/// Maximum number of events kept; the oldest are removed.
const MOST_EVENTS: i64 = 20_000;
/// SQLite's own default.
const PAGE: u64 = 4096;
/// Bytes of one frame in the write-ahead log besides its page
/// (https://www.sqlite.org/fileformat2.html, section 4.1).
const FRAME_HEAD: u64 = 24;
/// The file's share of the limit; the rest is for the write-ahead log.
const FILE_SHARE: f64 = 0.75;
/// How long to wait for another process that reads.
const BUSY: Duration = Duration::from_secs(2);
/// The version of the tables below; a file with another number belongs to another program.
const SCHEMA: i64 = 1;

/// A sum's key is its start and its series in one number: new rows are always appended to a table,
/// so that a batch touches few pages and leaves them full.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE IF NOT EXISTS event (
        id INTEGER PRIMARY KEY, unix INTEGER NOT NULL, kind TEXT NOT NULL,
        severity TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL
    ) STRICT;
";

fn table_of_sums(level: Level) -> String {
    let table = table(level);
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
            key INTEGER PRIMARY KEY, seconds INTEGER NOT NULL, up_seconds INTEGER NOT NULL,
            rx_bytes INTEGER NOT NULL, tx_bytes INTEGER NOT NULL, sent INTEGER NOT NULL,
            lost INTEGER NOT NULL, rtt_sum_us INTEGER NOT NULL, rtt_count INTEGER NOT NULL,
            rtt_max_us INTEGER NOT NULL
        ) STRICT"
    )
}

fn adding(level: Level) -> String {
    let table = table(level);
    format!(
        "INSERT INTO {table} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT DO UPDATE SET
            seconds = seconds + excluded.seconds, up_seconds = up_seconds + excluded.up_seconds,
            rx_bytes = rx_bytes + excluded.rx_bytes, tx_bytes = tx_bytes + excluded.tx_bytes,
            sent = sent + excluded.sent, lost = lost + excluded.lost,
            rtt_sum_us = rtt_sum_us + excluded.rtt_sum_us,
            rtt_count = rtt_count + excluded.rtt_count,
            rtt_max_us = max(rtt_max_us, excluded.rtt_max_us)"
    )
}

fn table(level: Level) -> &'static str {
    match level {
        Level::Second | Level::TenSeconds => "ten_seconds",
        Level::Minute => "minute",
        Level::Hour => "hour",
    }
}

/// Bits for a series' number in a key.
const SERIES_BITS: u32 = 16;

fn key(start: i64, series: i64) -> i64 {
    (start << SERIES_BITS) | series
}

impl Store {
    /// Opens or creates the file, which never grows beyond `limit_bytes` (including its log and
    /// index).
    ///
    /// # Errors
    /// SQLite's error; [`StoreError::is_broken`] if the file isn't a database.
    pub fn open(file: &Path, limit_bytes: u64) -> Result<Store, StoreError> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(BUSY)?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != 0 && version != SCHEMA {
            let what = format!("a newer braid wrote it (format {version}); move it away");
            let error = io::Error::new(io::ErrorKind::InvalidData, what);
            return Err(StoreError::File { file: file.to_owned(), error });
        }
        // NORMAL in WAL mode: written data survives a kill at once, and a power cut from the next
        // checkpoint on; it is consistent after either
        // (https://www.sqlite.org/pragma.html#pragma_synchronous).
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -512;
             PRAGMA trusted_schema = OFF;",
        )?;
        let pages = ((limit_bytes as f64 * FILE_SHARE) as u64 / PAGE).max(16);
        connection.pragma_update(
            None,
            "max_page_count",
            i64::try_from(pages).unwrap_or(i64::MAX),
        )?;
        if version == 0 {
            connection.execute_batch(TABLES)?;
            for level in Level::WRITTEN {
                connection.execute_batch(&table_of_sums(level))?;
            }
            connection.pragma_update(None, "user_version", SCHEMA)?;
        }
        let mut store = Store { connection, series: HashMap::new(), limit_bytes, written_bytes: 0 };
        store.read_series()?;
        Ok(store)
    }

    /// Opens it for reading, while another process may write it.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn open_to_read(file: &Path) -> Result<Store, StoreError> {
        // If its log exists, even a reader must write the index beside it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "query_only", true)?;
        let mut store =
            Store { connection, series: HashMap::new(), limit_bytes: 0, written_bytes: 0 };
        store.read_series()?;
        Ok(store)
    }

    /// Adds sums of ten seconds, at all levels, and events: all of it or nothing.
    ///
    /// # Errors
    /// SQLite's error, such as that the disk is full.
    pub fn write(
        &mut self,
        rows: &[(i64, Series, Bucket)],
        events: &[Event],
    ) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        let mut series = self.series.clone();
        {
            let mut name = transaction.prepare_cached(
                "INSERT INTO series (name) VALUES (?1) ON CONFLICT DO UPDATE SET name = name RETURNING id",
            )?;
            let mut sums: BTreeMap<(Level, i64), Bucket> = BTreeMap::new();
            for (start, of, bucket) in rows {
                let id = match series.get(of) {
                    Some(id) => *id,
                    None => name.query_row([of.to_string()], |row| row.get(0))?,
                };
                // After years of changing names, new ones can't be told apart any longer.
                if id >= 1 << SERIES_BITS {
                    continue;
                }
                series.insert(of.clone(), id);
                for level in Level::WRITTEN {
                    let fine = id <= MOST_WITH_TEN_SECONDS && !matches!(of, Series::Device(_));
                    if level != Level::TenSeconds || fine {
                        let key = (level, key(level.start(*start), id));
                        sums.entry(key).or_default().add(bucket);
                    }
                }
            }
            for ((level, key), bucket) in sums {
                transaction.prepare_cached(&adding(level))?.execute(params![
                    key,
                    bucket.seconds,
                    bucket.up_seconds,
                    signed(bucket.rx_bytes),
                    signed(bucket.tx_bytes),
                    signed(bucket.sent),
                    signed(bucket.lost),
                    signed(bucket.rtt_sum_us),
                    bucket.rtt_count,
                    bucket.rtt_max_us,
                ])?;
            }
            let mut note = transaction.prepare_cached(
                "INSERT INTO event (unix, kind, severity, subject, text) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for event in events {
                let (kind, severity) = (event.kind.as_str(), event.severity.as_str());
                note.execute(params![event.unix, kind, severity, event.subject, event.text])?;
            }
        }
        transaction.commit()?;
        self.series = series;
        self.checkpoint()
    }

    /// Removes what is too old, and more if the file approaches its limit.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn prune(&mut self, now: i64) -> Result<(), StoreError> {
        for level in Level::WRITTEN {
            self.forget(level, level.start(now.saturating_sub(level.kept())))?;
        }
        self.connection.execute(
            "DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?1",
            [MOST_EVENTS],
        )?;
        // The finest first: they are the most, and the coarser levels contain their sums.
        for level in Level::WRITTEN {
            while self.is_nearly_full()? && self.forget_a_tenth(level)? {}
        }
        self.checkpoint()
    }

    /// Sums of a series at a level that begin from `from` until before `to`.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn read(
        &self,
        series: &Series,
        level: Level,
        from: i64,
        to: i64,
    ) -> Result<Vec<(i64, Bucket)>, StoreError> {
        let Some(id) = self.series.get(series) else { return Ok(Vec::new()) };
        let bound = |unix: i64| key(unix.clamp(0, i64::MAX >> SERIES_BITS), 0);
        let mut rows = self.connection.prepare_cached(&format!(
            "SELECT key >> {SERIES_BITS}, seconds, up_seconds, rx_bytes, tx_bytes, sent, lost,
                 rtt_sum_us, rtt_count, rtt_max_us
             FROM {} WHERE key >= ?1 AND key < ?2 AND key & {} = ?3",
            table(level),
            (1 << SERIES_BITS) - 1
        ))?;
        let found = rows.query_map(params![bound(from), bound(to), id], bucket)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The newest events, newest first; only those earlier than `before` (Unix seconds) if it is
    /// given.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn events(&self, before: Option<i64>, most: usize) -> Result<Vec<Event>, StoreError> {
        let mut rows = self.connection.prepare_cached(
            "SELECT unix, kind, severity, subject, text FROM event
             WHERE unix < ?1 ORDER BY id DESC LIMIT ?2",
        )?;
        let before = before.unwrap_or(i64::MAX);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let found = rows.query_map(params![before, most], event)?;
        // Kinds written by a newer program are unknown here.
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// All series in the file.
    pub fn series(&self) -> Vec<Series> {
        let mut all: Vec<Series> = self.series.keys().cloned().collect();
        all.sort();
        all
    }

    /// Bytes written to the disk since it was opened: pages of the log, and pages of the file at
    /// checkpoints.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Copies the log into the file, so that it starts over and stays short.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        let (frames, moved): (i64, i64) =
            self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                Ok((row.get(1)?, row.get(2)?))
            })?;
        let (frames, moved) = (unsigned(frames), unsigned(moved));
        self.written_bytes += frames * (PAGE + FRAME_HEAD) + moved * PAGE;
        Ok(())
    }

    fn is_nearly_full(&self) -> Result<bool, StoreError> {
        let number = |pragma: &str| -> Result<u64, StoreError> {
            Ok(unsigned(self.connection.query_row(pragma, [], |row| row.get(0))?))
        };
        let used = number("PRAGMA page_count")?.saturating_sub(number("PRAGMA freelist_count")?);
        let most = (self.limit_bytes as f64 * FILE_SHARE) as u64;
        // A day's sums of ten seconds and the tree above them fit into the rest.
        Ok(used * PAGE > most / 10 * 9)
    }

    /// Removes the oldest tenth; returns `false` if there is nothing left.
    fn forget_a_tenth(&mut self, level: Level) -> Result<bool, StoreError> {
        let ends = format!("SELECT min(key), max(key) FROM {}", table(level));
        let ends: (Option<i64>, Option<i64>) =
            self.connection.query_row(&ends, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(first), Some(last)) = ends else { return Ok(false) };
        let (first, last) = (first >> SERIES_BITS, last >> SERIES_BITS);
        self.forget(level, first + ((last - first) / 10).max(level.width()))
    }

    /// Removes what began before; returns `false` if there is nothing.
    fn forget(&mut self, level: Level, before: i64) -> Result<bool, StoreError> {
        let delete = format!("DELETE FROM {} WHERE key < ?1", table(level));
        Ok(self.connection.execute(&delete, [key(before.max(0), 0)])? > 0)
    }

    fn read_series(&mut self) -> Result<(), StoreError> {
        let mut rows = self.connection.prepare("SELECT name, id FROM series")?;
        let found = rows.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let mut series = HashMap::new();
        for row in found {
            let (name, id) = row?;
            if let Ok(name) = name.parse() {
                series.insert(name, id);
            }
        }
        drop(rows);
        self.series = series;
        Ok(())
    }
}

fn bucket(row: &Row<'_>) -> rusqlite::Result<(i64, Bucket)> {
    let number = |at| -> rusqlite::Result<u64> { Ok(unsigned(row.get(at)?)) };
    let small =
        |at| -> rusqlite::Result<u32> { Ok(u32::try_from(number(at)?).unwrap_or(u32::MAX)) };
    let bucket = Bucket {
        seconds: small(1)?,
        up_seconds: small(2)?,
        rx_bytes: number(3)?,
        tx_bytes: number(4)?,
        sent: number(5)?,
        lost: number(6)?,
        rtt_sum_us: number(7)?,
        rtt_count: small(8)?,
        rtt_max_us: small(9)?,
    };
    Ok((row.get(0)?, bucket))
}

fn event(row: &Row<'_>) -> rusqlite::Result<Option<Event>> {
    let (kind, severity): (String, String) = (row.get(1)?, row.get(2)?);
    let (Ok(kind), Ok(severity)) = (kind.parse(), severity.parse()) else { return Ok(None) };
    Ok(Some(Event { unix: row.get(0)?, kind, severity, subject: row.get(3)?, text: row.get(4)? }))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Severity};

    const NOW: i64 = 1_800_000_000;

    fn bucket_of(rx_bytes: u64) -> Bucket {
        Bucket {
            seconds: 10,
            up_seconds: 9,
            rx_bytes,
            tx_bytes: rx_bytes / 9,
            sent: 12_345,
            lost: 17,
            rtt_sum_us: 423_456,
            rtt_count: 10,
            rtt_max_us: 98_765,
        }
    }

    fn open(folder: &tempfile::TempDir) -> Store {
        Store::open(&folder.path().join("history.db"), 64 << 20).unwrap()
    }

    #[test]
    fn sums_come_back_at_every_level_and_are_added_to() {
        let folder = tempfile::tempdir().unwrap();
        let link = Series::Link("dsl".into());
        let mut store = open(&folder);
        let start = Level::Hour.start(NOW);
        let rows: Vec<_> =
            (0..12).map(|n| (start + n * 10, link.clone(), bucket_of(100))).collect();
        store.write(&rows[..6], &[]).unwrap();
        drop(store);
        let mut store = open(&folder);
        store.write(&rows[6..], &[]).unwrap();
        store.write(&rows[11..], &[]).unwrap();
        let read = |level| store.read(&link, level, 0, i64::MAX).unwrap();
        assert_eq!(read(Level::TenSeconds).len(), 12);
        let minutes = read(Level::Minute);
        assert_eq!(minutes.iter().map(|(_, b)| b.rx_bytes).collect::<Vec<_>>(), [600, 700]);
        let [(at, hour)] = read(Level::Hour)[..] else { panic!("one hour") };
        assert_eq!((at, hour.rx_bytes, hour.seconds, hour.rtt_max_us), (start, 1300, 130, 98_765));
        let other = Series::Link("lte".into());
        assert_eq!(store.read(&other, Level::Hour, 0, i64::MAX).unwrap(), []);
        assert_eq!(store.series(), [link]);
    }

    #[test]
    fn events_come_back_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder);
        let event = |unix, text: &str| Event {
            unix,
            kind: EventKind::LinkDown,
            severity: Severity::Warning,
            subject: "dsl".into(),
            text: text.into(),
        };
        store.write(&[], &[event(5, "first"), event(6, "second")]).unwrap();
        store.write(&[], &[event(7, "third")]).unwrap();
        let texts = |before, most| -> Vec<String> {
            store.events(before, most).unwrap().into_iter().map(|event| event.text).collect()
        };
        assert_eq!(texts(None, 10), ["third", "second", "first"]);
        assert_eq!(texts(None, 1), ["third"]);
        assert_eq!(texts(Some(7), 10), ["second", "first"]);
    }

    #[test]
    fn six_links_write_less_than_a_megabyte_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder);
        let series: Vec<Series> = (0..6)
            .map(|n| Series::Link(format!("link{n}")))
            .chain([Series::Tunnel, Series::Peer("concentrator".into())])
            .collect();
        let mut hourly = Vec::new();
        for hour in 0..24 * 2 {
            let before = store.written_bytes();
            for part in 0..6 {
                let begin = NOW + hour * 3600 + part * 600;
                let starts = (0..60).map(|n| Level::TenSeconds.start(begin) + n * 10);
                let rows: Vec<_> = starts
                    .flat_map(|at| {
                        series.iter().map(move |s| (at, s.clone(), bucket_of(8_000_000)))
                    })
                    .collect();
                store.write(&rows, &[]).unwrap();
            }
            store.prune(NOW + (hour + 1) * 3600).unwrap();
            hourly.push(store.written_bytes() - before);
        }
        let worst = hourly.iter().max().unwrap();
        println!("at most {worst} bytes an hour");
        assert!(*worst < 1 << 20, "{worst} bytes in an hour");
        // After a day the finest level stops growing.
        let rows = store.read(&series[0], Level::TenSeconds, 0, i64::MAX).unwrap().len();
        assert!((8640..8640 + 361).contains(&rows), "{rows}");
    }

    #[test]
    fn the_file_stays_below_its_limit_and_the_newest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history.db");
        let limit = 4 << 20;
        let mut store = Store::open(&file, limit).unwrap();
        let links: Vec<Series> = (0..20).map(|n| Series::Link(n.to_string())).collect();
        let mut now = NOW;
        for _ in 0..200 {
            let rows: Vec<_> = (0..60)
                .flat_map(|n| links.iter().map(move |s| (n * 10, s.clone(), bucket_of(1 << 40))))
                .map(|(at, series, bucket)| (now + at, series, bucket))
                .collect();
            now += 600;
            store.write(&rows, &[]).unwrap();
            store.prune(now).unwrap();
            let on_disk: u64 = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.file_name() != "history.db-shm")
                .map(|entry| entry.metadata().unwrap().len())
                .sum();
            assert!(on_disk <= limit, "{on_disk}");
        }
        let newest = store.read(&links[3], Level::Hour, now - 7200, now).unwrap();
        assert!(!newest.is_empty());
    }

    #[test]
    fn what_is_no_database_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history.db");
        std::fs::write(&file, "no database, but long enough to be looked at ".repeat(50)).unwrap();
        assert!(Store::open(&file, 64 << 20).unwrap_err().is_broken());
        assert!(!Store::open(&folder.path().join("no/such"), 64 << 20).unwrap_err().is_broken());
    }
}
