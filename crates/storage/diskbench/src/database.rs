//! Real database servers, started for the benchmark only: data on the pool, a socket in a folder of
//! their own, no network, no root.

mod mariadb;
mod postgresql;
mod transactions;

use crate::account::Account;
use crate::error::BenchError;
use crate::lifeline;
use crate::remains;
use braid_disks::tool::{self, ToolError};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server starts and stops within this.
const PATIENCE: Duration = Duration::from_secs(120);
/// A run of transactions ends within this.
const LONGEST_RUN: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Server {
    /// MariaDB with InnoDB: doublewrite and fsync at every commit, as it is by default.
    MariaDb,
    /// PostgreSQL: fsync at every commit, as it is by default.
    PostgreSql,
}

/// One that runs; it is ended and its data removed when dropped.
#[derive(Debug)]
pub struct Running {
    server: Server,
    child: Child,
    data: TempDir,
    socket: TempDir,
}

/// What differs from server to server.
struct Commands {
    /// Makes the files of an empty database.
    initialize: Vec<OsString>,
    /// The server itself, in the foreground.
    serve: Vec<OsString>,
    /// The client; it reads the file whose name follows the last word.
    client: Vec<OsString>,
    /// How the client is told to read a file.
    read_file: fn(&Path) -> OsString,
}

impl Server {
    /// Both.
    pub const ALL: [Server; 2] = [Server::MariaDb, Server::PostgreSql];

    /// The package that contains it, by Debian's name.
    pub const fn package(self) -> &'static str {
        match self {
            Server::MariaDb => "mariadb-server",
            Server::PostgreSql => "postgresql",
        }
    }

    fn commands(self, data: &Path, socket: &Path, user: &Account) -> Result<Commands, BenchError> {
        match self {
            Server::MariaDb => mariadb::commands(data, socket, user),
            Server::PostgreSql => postgresql::commands(data, socket, user),
        }
    }

    /// Who it runs as.
    fn account(self) -> Result<Account, BenchError> {
        let names: &[&str] = match self {
            Server::MariaDb => &["mysql", "nobody"],
            Server::PostgreSql => &["postgres", "nobody"],
        };
        Account::find(names).ok_or_else(|| {
            BenchError::failed(&self.to_string(), "there is no user to run it as (nobody)")
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Server::MariaDb => "MariaDB",
            Server::PostgreSql => "PostgreSQL",
        })
    }
}

impl Running {
    /// Starts one with its data in a new folder in `folder`.
    ///
    /// # Errors
    /// [`ToolError::Missing`] when it isn't installed; then nothing was made.
    pub fn start(server: Server, folder: &Path) -> Result<Running, BenchError> {
        let user = server.account()?;
        // Checked first, so that nothing is made for a server that isn't installed.
        server.commands(folder, folder, &user)?;
        let make = |at: &Path| {
            let made = remains::folder_in(at).and_then(|made| {
                fs::set_permissions(made.path(), fs::Permissions::from_mode(0o700))?;
                chown(made.path(), Some(user.uid), Some(user.gid))?;
                Ok(made)
            });
            made.map_err(BenchError::io(format!("making a folder in {}", at.display())))
        };
        // A socket's path has room for some 100 bytes.
        let (data, socket) = (make(folder)?, make(&std::env::temp_dir())?);
        let commands = server.commands(data.path(), socket.path(), &user)?;
        run(&as_user(&user, &commands.initialize), PATIENCE)?;
        let log = socket.path().join("log");
        let out = File::create(&log).map_err(BenchError::io("making the server's log"))?;
        let both = out.try_clone().map_err(BenchError::io("making the server's log"))?;
        let words = as_user(&user, &commands.serve);
        let child = Command::new(&words[0])
            .args(&words[1..])
            .env("LC_ALL", "C.UTF-8")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(both)
            .spawn()
            .map_err(BenchError::io(format!("starting {server}")))?;
        let mut running = Running { server, child, data, socket };
        running.wait_until_it_answers(&log)?;
        running.script("prepare", &transactions::prepare())?;
        Ok(running)
    }

    /// Runs this many transactions, one after the other like one client; returns how long they
    /// took.
    ///
    /// # Errors
    /// When the transactions can't be written to a file, or the server's client can't be run,
    /// fails, or takes too long.
    pub fn transact(&self, count: u32) -> Result<Duration, BenchError> {
        let script = self.write_script("run", &transactions::run(count))?;
        let begun = Instant::now();
        self.client(&script, LONGEST_RUN)?;
        Ok(begun.elapsed())
    }

    /// The table's contents: rows, sum of balances. To check that the transactions were made.
    ///
    /// # Errors
    /// As [`Running::transact`]; [`BenchError::Failed`] when the answer isn't two numbers.
    pub fn totals(&self) -> Result<(u64, u64), BenchError> {
        let said = self.script("totals", transactions::TOTALS)?;
        let mut numbers = said.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        let mut next = || numbers.next()?.parse().ok();
        let totals = (|| Some((next()?, next()?)))();
        totals.ok_or_else(|| BenchError::failed(&self.server.to_string(), &said))
    }

    /// Ends it and removes its data.
    ///
    /// # Errors
    /// [`BenchError::Io`] when its data can't be removed; the server has ended then.
    pub fn stop(mut self) -> Result<(), BenchError> {
        self.end();
        std::fs::remove_dir_all(self.data.path())
            .map_err(BenchError::io(format!("removing the data of {}", self.server)))
    }

    fn wait_until_it_answers(&mut self, log: &Path) -> Result<(), BenchError> {
        let begun = Instant::now();
        let script = self.write_script("hello", "SELECT 1;\n")?;
        loop {
            let answer = self.client(&script, PATIENCE);
            let ended = self.child.try_wait().map_err(BenchError::io("waiting for the server"))?;
            if answer.is_ok() && ended.is_none() {
                return Ok(());
            }
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let said = fs::read_to_string(log).unwrap_or_default();
                return Err(BenchError::failed(&self.server.to_string(), &said));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn script(&self, name: &str, text: &str) -> Result<String, BenchError> {
        let script = self.write_script(name, text)?;
        self.client(&script, PATIENCE)
    }

    fn write_script(&self, name: &str, text: &str) -> Result<PathBuf, BenchError> {
        let path = self.socket.path().join(name).with_extension("sql");
        fs::write(&path, text).map_err(BenchError::io("writing the transactions"))?;
        Ok(path)
    }

    fn client(&self, script: &Path, limit: Duration) -> Result<String, BenchError> {
        let user = self.server.account()?;
        let commands = self.server.commands(self.data.path(), self.socket.path(), &user)?;
        let mut words = commands.client;
        words.push((commands.read_file)(script));
        run(&words, limit)
    }

    /// On SIGTERM both write what they hold and exit.
    fn end(&mut self) {
        let pid = self.child.id().to_string();
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = tool::ask("kill", &["-TERM", &pid], PATIENCE);
        }
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The same command without root's rights.
fn as_user(user: &Account, words: &[OsString]) -> Vec<OsString> {
    let privileges = [
        format!("--reuid={}", user.uid).into(),
        format!("--regid={}", user.gid).into(),
        "--clear-groups".into(),
    ];
    let mut all: Vec<OsString> = vec![lifeline::PROGRAM.into()];
    // Then both end at once, also if their bench has died.
    all.extend(lifeline::arguments("QUIT", &privileges, words));
    all
}

/// A server's program: from PATH, or from where its package hides it.
fn program(names: &[&str], folders: &[PathBuf]) -> Result<OsString, BenchError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from);
    let all: Vec<PathBuf> =
        folders.iter().cloned().chain(std::env::split_paths(&path)).chain(usual).collect();
    let found = names
        .iter()
        .find_map(|name| all.iter().map(|folder| folder.join(name)).find(|path| path.is_file()));
    let missing =
        || ToolError::Missing(names.first().map_or_else(String::new, |name| (*name).to_owned()));
    Ok(found.ok_or_else(missing)?.into_os_string())
}

fn run(words: &[OsString], limit: Duration) -> Result<String, BenchError> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((program, arguments)) = words.split_first() else { return Ok(String::new()) };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = tool::ask(program, &arguments, limit)?;
    match answer.status {
        Some(0) => Ok(answer.out),
        _ => Err(BenchError::failed(program, &[answer.out, answer.err].join("\n"))),
    }
}
