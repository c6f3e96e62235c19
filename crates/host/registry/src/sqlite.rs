use crate::store::{Entry, Expected, Life, Store, StoreError, Written};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long another program of this machine may hold the file.
const BUSY: Duration = Duration::from_secs(3);
/// "BRDR", so that another program's file isn't taken for ours.
const APPLICATION: i32 = 0x4252_4452;

/// Version of the tables.
const VERSION: i64 = 1;

/// A store in a file, for the programs of one machine.
pub struct Sqlite {
    connection: Connection,
    /// Id of the writer, whose values live as long as it does; a new one for each program.
    writer: Option<i64>,
}

impl Sqlite {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// The file can't be opened, belongs to another program or a newer Braid, or others may read or
    /// change it.
    pub fn open(file: &Path) -> Result<Sqlite, StoreError> {
        // It contains secrets. SQLite's auxiliary files get the same mode.
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(file) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Unreachable(format!("{}: {error}", file.display())));
            }
            _ => {}
        }
        let connection = Connection::open(file).map_err(unreachable(file))?;
        connection.busy_timeout(BUSY).map_err(unreachable(file))?;
        let found: i32 = connection
            .pragma_query_value(None, "application_id", |row| row.get(0))
            .map_err(unreachable(file))?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
            .map_err(unreachable(file))?;
        if found != APPLICATION && tables > 0 {
            let file = file.display();
            return Err(StoreError::Foreign(format!("{file} is another program's database")));
        }
        let version: i64 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(unreachable(file))?;
        if version > VERSION {
            let file = file.display();
            let why = format!("{file}: a newer braid wrote it (format {version}, not {VERSION})");
            return Err(StoreError::Foreign(why));
        }
        refuse_if_exposed(file)?;
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA application_id = {APPLICATION};
                 PRAGMA user_version = {VERSION};
                 CREATE TABLE IF NOT EXISTS writer (id INTEGER PRIMARY KEY AUTOINCREMENT,
                     until_ms INTEGER NOT NULL) STRICT;
                 CREATE TABLE IF NOT EXISTS revision (last INTEGER NOT NULL) STRICT;
                 INSERT INTO revision SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM revision);
                 CREATE TABLE IF NOT EXISTS entry (key TEXT PRIMARY KEY, value TEXT NOT NULL,
                     version INTEGER NOT NULL, writer INTEGER) STRICT;"
            ))
            .map_err(unreachable(file))?;
        Ok(Sqlite { connection, writer: None })
    }

    /// Does it as a transaction, without values that have expired.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = (|| {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute("DELETE FROM writer WHERE until_ms < ?1", [now_ms()])?;
            transaction.execute(
                "DELETE FROM entry WHERE writer IS NOT NULL
                     AND writer NOT IN (SELECT id FROM writer)",
                [],
            )?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })();
        done.map_err(|error: rusqlite::Error| StoreError::Unreachable(error.to_string()))
    }
}

impl Store for Sqlite {
    fn read(&mut self) -> Result<Vec<Entry>, StoreError> {
        self.change(|transaction| {
            let mut rows =
                transaction.prepare_cached("SELECT key, value, version FROM entry ORDER BY key")?;
            let entries = rows.query_map([], |row| {
                Ok(Entry { key: row.get(0)?, value: row.get(1)?, version: row.get(2)? })
            })?;
            entries.collect()
        })
    }

    fn write(
        &mut self,
        key: &str,
        value: &str,
        expected: Expected,
        life: Life,
    ) -> Result<Written, StoreError> {
        let writer = match life {
            Life::Lasting => None,
            Life::Writer => Some(self.writer.ok_or_else(|| {
                StoreError::Refused(format!("{key}: its writer has no live lease"))
            })?),
        };
        self.change(|transaction| {
            if !is_as(transaction, key, expected)? || !lives(transaction, writer)? {
                return Ok(Written::Conflict);
            }
            transaction.execute("UPDATE revision SET last = last + 1", [])?;
            transaction.execute(
                "INSERT OR REPLACE INTO entry SELECT ?1, ?2, last, ?3 FROM revision",
                params![key, value, writer],
            )?;
            Ok(Written::Done)
        })
    }

    fn remove(&mut self, key: &str, expected: Expected) -> Result<Written, StoreError> {
        self.change(|transaction| {
            if !is_as(transaction, key, expected)? {
                return Ok(Written::Conflict);
            }
            transaction.execute("DELETE FROM entry WHERE key = ?1", [key])?;
            Ok(Written::Done)
        })
    }

    fn keep_alive(&mut self, lease: Duration) -> Result<bool, StoreError> {
        let until = now_ms().saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
        let writer = self.writer;
        let (writer, same) = self.change(|transaction| {
            if let Some(writer) = writer
                && transaction
                    .execute("UPDATE writer SET until_ms = ?1 WHERE id = ?2", [until, writer])?
                    > 0
            {
                return Ok((writer, true));
            }
            transaction.execute("INSERT INTO writer (until_ms) VALUES (?1)", [until])?;
            Ok((transaction.last_insert_rowid(), false))
        })?;
        self.writer = Some(writer);
        Ok(same)
    }
}

fn is_as(transaction: &Transaction<'_>, key: &str, expected: Expected) -> rusqlite::Result<bool> {
    let found: Option<i64> = transaction
        .query_row("SELECT version FROM entry WHERE key = ?1", [key], |row| row.get(0))
        .optional()?;
    Ok(match expected {
        Expected::Any => true,
        Expected::Absent => found.is_none(),
        Expected::Version(version) => found == Some(version),
    })
}

fn lives(transaction: &Transaction<'_>, writer: Option<i64>) -> rusqlite::Result<bool> {
    let Some(writer) = writer else { return Ok(true) };
    transaction
        .query_row("SELECT count(*) FROM writer WHERE id = ?1", [writer], |row| row.get(0))
        .map(|count: i64| count > 0)
}

/// A copy made without its mode also contains homes' keys.
fn refuse_if_exposed(file: &Path) -> Result<(), StoreError> {
    let mode = std::fs::metadata(file)
        .map_err(|error| StoreError::Unreachable(format!("{}: {error}", file.display())))?
        .mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let file = file.display();
    Err(StoreError::Exposed(format!(
        "{file} can be read or changed by others (mode {:04o}), but contains keys: `chmod 600 \
         {file}`",
        mode & 0o7777
    )))
}

fn unreachable(file: &Path) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => {
            StoreError::Foreign(format!("{} is not a database", file.display()))
        }
        _ => StoreError::Unreachable(format!("{}: {error}", file.display())),
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
