//! SFTP over the system's `ssh`, with its keys, its known hosts, its config.

use super::{LARGEST_BYTES, Name, Store, StoreError, bounded, id_of, size_of};
use crate::Error;
use crate::throttle::{PIECE, Throttle};
use braid_replica::ssh_said::{SshFailure, ssh_failure};
use bytes::Bytes;
use russh_sftp::client::SftpSession;
use russh_sftp::client::error::Error as SftpError;
use russh_sftp::protocol::{OpenFlags, StatusCode};
use rustic_core::{FileType, Id};
use std::io::SeekFrom;
use std::ops::Range;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

pub(super) struct SftpStore {
    command: Vec<String>,
    folder: String,
    throttle: Arc<Throttle>,
    runtime: Runtime,
    session: Mutex<Option<Arc<Connection>>>,
    /// For names of files that aren't whole yet.
    parts: AtomicU64,
}

struct Connection {
    session: SftpSession,
    /// Ended with it.
    _child: Child,
}

/// Of one answer.
const PATIENCE_SECONDS: u64 = 60;
/// Folders that are listed at the same time: each takes some round trips, and packs are in 256.
const LISTED_AT_ONCE: usize = 32;
/// What a shell says of an own command that it can't run.
const NOT_RUN: [&str; 2] = ["Permission denied", "not found"];
/// What a name goes on with that isn't whole yet.
const PART: &str = ".part-";
/// So old nobody writes it any more.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// What is run; the server's standard streams are SFTP.
pub(super) fn command(host: &str, port: Option<u16>, own: Option<&str>) -> Vec<String> {
    if let Some(own) = own {
        return ["sh", "-c", own].map(str::to_owned).to_vec();
    }
    // A dead connection is noticed after 45 s; nobody is asked for a password.
    let mut words: Vec<String> = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"]
        .into_iter()
        .chain(["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"])
        .map(str::to_owned)
        .collect();
    if let Some(port) = port {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    // It takes an IPv6 address without brackets.
    words.extend(["-s", "--", &host.replace(['[', ']'], ""), "sftp"].map(str::to_owned));
    words
}

impl SftpStore {
    pub(super) fn new(
        command: Vec<String>,
        folder: &str,
        throttle: Arc<Throttle>,
    ) -> Result<SftpStore, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Error::Refused(format!("no threads: {error}")))?;
        let folder = folder.trim_end_matches('/').to_owned();
        let parts = AtomicU64::new(0);
        Ok(SftpStore { command, folder, throttle, runtime, session: Mutex::new(None), parts })
    }

    fn path(&self, inside: &str) -> String {
        format!("{}/{inside}", self.folder)
    }

    /// Does it in the connection, which is made when there is none; one that failed otherwise than
    /// by an answer isn't used again.
    fn with<T, F>(&self, what: impl FnOnce(Arc<Connection>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, SftpError>>,
    {
        let connection = self.connection()?;
        let outcome = self.runtime.block_on(what(Arc::clone(&connection)));
        outcome.map_err(|error| {
            if !matches!(error, SftpError::Status(_)) {
                let mut session = self.lock();
                if session.as_ref().is_some_and(|now| Arc::ptr_eq(now, &connection)) {
                    *session = None;
                }
            }
            said(&error)
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Connection>>> {
        self.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        let mut session = self.lock();
        if let Some(there) = &*session {
            return Ok(Arc::clone(there));
        }
        let new = Arc::new(self.runtime.block_on(self.connect())?);
        *session = Some(Arc::clone(&new));
        Ok(new)
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let (program, words) = self.command.split_first().ok_or(StoreError::Absent)?;
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| StoreError::Final(format!("{program}: {error}")))?;
        let (Some(into), Some(from), Some(mut errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StoreError::Final(format!("{program}: no pipes")));
        };
        match SftpSession::new(tokio::io::join(from, into)).await {
            Ok(session) => {
                session.set_timeout(PATIENCE_SECONDS);
                // A pipe that nobody reads would stop it.
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
                });
                Ok(Connection { session, _child: child })
            }
            Err(error) => {
                // What ssh says tells more; it ends when its input has.
                let _ = child.start_kill();
                let mut text = String::new();
                let _ = errors.take(2000).read_to_string(&mut text).await;
                let text = text.trim();
                let text = if text.is_empty() { error.to_string() } else { text.to_owned() };
                Err(match ssh_failure(&text) {
                    SshFailure::Lasting => StoreError::Final(text),
                    _ if NOT_RUN.iter().any(|words| text.contains(words)) => {
                        StoreError::Final(text)
                    }
                    SshFailure::Nameless => StoreError::Nameless(text),
                    SshFailure::Passing => StoreError::Passing(text),
                })
            }
        }
    }

    /// What is in folders, of which one that isn't there has nothing.
    fn files(&self, folders: Vec<String>) -> Result<Vec<(String, Option<u64>)>, StoreError> {
        self.with(|on| async move {
            let (mut all, mut folders) = (vec![], folders.into_iter());
            let mut under_way = JoinSet::new();
            loop {
                for folder in folders.by_ref().take(LISTED_AT_ONCE - under_way.len()) {
                    let on = Arc::clone(&on);
                    under_way.spawn(async move { files_of(&on.session, folder).await });
                }
                match under_way.join_next().await {
                    None => return Ok(all),
                    Some(Ok(found)) => all.extend(found?),
                    Some(Err(broken)) => {
                        return Err(SftpError::UnexpectedBehavior(broken.to_string()));
                    }
                }
            }
        })
    }
}

async fn files_of(
    session: &SftpSession,
    folder: String,
) -> Result<Vec<(String, Option<u64>)>, SftpError> {
    match session.read_dir(folder).await {
        Ok(entries) => {
            Ok(entries.map(|entry| (entry.file_name(), entry.metadata().size)).collect())
        }
        Err(SftpError::Status(status)) if status.status_code == StatusCode::NoSuchFile => {
            Ok(vec![])
        }
        Err(error) => Err(error),
    }
}

impl Store for SftpStore {
    fn list(&self, kind: FileType) -> Result<Vec<(Id, u32)>, StoreError> {
        let folder = self.path(kind.dirname());
        let mut folders = vec![folder.clone()];
        match kind {
            FileType::Config => {
                let about = self.with(|on| async move { on.session.metadata(folder).await });
                return match about {
                    Ok(about) => Ok(vec![(Id::default(), size_of(about.size.unwrap_or(0))?)]),
                    Err(StoreError::Absent) => Ok(vec![]),
                    Err(other) => Err(other),
                };
            }
            FileType::Pack => {
                let inner = self.files(vec![folder.clone()])?;
                folders = inner.iter().map(|(name, _)| format!("{folder}/{name}")).collect();
            }
            _ => {}
        }
        let mut all = vec![];
        for (name, size) in self.files(folders)? {
            if let Some(id) = id_of(&name) {
                all.push((id, size_of(size.unwrap_or(0))?));
            }
        }
        Ok(all)
    }

    fn read(&self, name: &Name, part: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        let path = self.path(&name.path());
        let throttle = Arc::clone(&self.throttle);
        self.with(|on| async move {
            let mut file = on.session.open(path).await?;
            let mut content = vec![];
            match part {
                None => {
                    file.take(LARGEST_BYTES + 1).read_to_end(&mut content).await?;
                }
                Some(part) => {
                    file.seek(SeekFrom::Start(part.start)).await?;
                    let length = part.end.saturating_sub(part.start);
                    content.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
                    file.read_exact(&mut content).await?;
                }
            }
            throttle.pass(content.len());
            Ok(Bytes::from(content))
        })
        .and_then(bounded)
    }

    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError> {
        let path = self.path(&name.path());
        let folder = path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        // None of ours looks like it, nor one of restic's.
        let number = self.parts.fetch_add(1, Ordering::Relaxed);
        let part = format!("{path}{PART}{}-{number}", std::process::id());
        let throttle = Arc::clone(&self.throttle);
        self.with(|on| async move {
            let flags = OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::WRITE;
            let mut opened = on.session.open_with_flags(part.clone(), flags).await;
            if let (Err(SftpError::Status(status)), Some(folder)) = (&opened, folder)
                && status.status_code == StatusCode::NoSuchFile
            {
                // Another may have made it meanwhile.
                let _ = on.session.create_dir(folder).await;
                opened = on.session.open_with_flags(part.clone(), flags).await;
            }
            let mut file = opened?;
            for piece in content.iter().flat_map(|bytes| bytes.chunks(PIECE)) {
                throttle.pass(piece.len());
                file.write_all(piece).await?;
            }
            file.flush().await?;
            file.sync_all().await?;
            file.close().await?;
            // The protocol's rename replaces nothing.
            let renamed = on.session.rename(part.clone(), path.clone()).await;
            if renamed.is_err() && on.session.try_exists(path.clone()).await? {
                on.session.remove_file(path.clone()).await?;
                return on.session.rename(part, path).await;
            }
            renamed
        })
    }

    fn remove(&self, name: &Name) -> Result<(), StoreError> {
        let path = self.path(&name.path());
        match self.with(|on| async move { on.session.remove_file(path).await }) {
            Err(StoreError::Absent) => Ok(()),
            other => other,
        }
    }

    fn create(&self) -> Result<(), StoreError> {
        let (root, relative) = match self.folder.strip_prefix('/') {
            Some(rest) => ("/", rest),
            None => ("", self.folder.as_str()),
        };
        let mut folders = vec![];
        let mut path = root.to_owned();
        for part in relative.split('/').filter(|part| !part.is_empty()) {
            if !path.is_empty() && !path.ends_with('/') {
                path.push('/');
            }
            path.push_str(part);
            folders.push(path.clone());
        }
        folders.extend(["data", "index", "keys", "locks", "snapshots"].map(|it| self.path(it)));
        for folder in folders {
            self.with(|on| async move {
                match on.session.try_exists(folder.clone()).await? {
                    true => Ok(()),
                    false => on.session.create_dir(folder).await,
                }
            })?;
        }
        Ok(())
    }

    fn tidy(&self) -> Result<(), StoreError> {
        let data = self.path(FileType::Pack.dirname());
        for (name, _) in self.files(vec![data.clone()])? {
            let folder = format!("{data}/{name}");
            let listed = folder.clone();
            let entries = self.with(|on| async move { on.session.read_dir(listed).await });
            for entry in entries.into_iter().flatten() {
                let name = entry.file_name();
                let is_part = name.split_once(PART).is_some_and(|(id, _)| id_of(id).is_some());
                let changed =
                    UNIX_EPOCH + Duration::from_secs(entry.metadata().mtime.map_or(0, u64::from));
                // Another computer's may be on its way.
                if is_part && changed.elapsed().is_ok_and(|age| age > LEFT_BEHIND) {
                    let path = format!("{folder}/{name}");
                    self.with(|on| async move { on.session.remove_file(path).await })?;
                }
            }
        }
        Ok(())
    }
}

fn said(error: &SftpError) -> StoreError {
    match error {
        // What reading to an end makes of a file that ends before (`read_exact`).
        SftpError::IO(text) if text.contains("early eof") => {
            StoreError::Damaged("it is too short".to_owned())
        }
        SftpError::Status(status) => match status.status_code {
            StatusCode::NoSuchFile => StoreError::Absent,
            StatusCode::PermissionDenied | StatusCode::OpUnsupported => {
                StoreError::Forbidden(error.to_string())
            }
            _ => StoreError::Passing(error.to_string()),
        },
        other => StoreError::Passing(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_is_told_an_ipv6_address_as_it_takes_one() {
        let words = command("me@[2001:db8::1]", Some(2222), None);
        assert!(words.ends_with(&["-s", "--", "me@2001:db8::1", "sftp"].map(str::to_owned)));
        assert!(words.contains(&"2222".to_owned()));
    }
}
