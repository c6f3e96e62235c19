//! What a target can do for a repository's files: list, read, write, remove. One try each; who
//! tries again is the [courier](crate::courier).

mod folder;
mod http;
mod rest;
mod s3;
mod sftp;

use crate::Error;
use crate::target::Target;
use crate::target_options::TargetOptions;
use crate::throttle::Throttle;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use rustic_core::{FileType, Id};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// No file of a repository is larger: restic's packs have 128 MiB at the most, its indexes less.
const LARGEST_BYTES: u64 = 1 << 30;

/// One try's failure.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// There is no such file.
    #[error("it isn't there")]
    Absent,
    /// The file is truncated or otherwise corrupt; others may be fine.
    #[error("{0}")]
    Damaged(String),
    /// It may work the next time.
    #[error("{0}")]
    Passing(String),
    /// The target's name has no address now; it may have one when the network is there.
    #[error("{0}")]
    Nameless(String),
    /// Neither this nor any other request will work until somebody does something.
    #[error("{0}")]
    Final(String),
    /// This one request is forbidden, as at an append-only target; others may work.
    #[error("{0}")]
    Forbidden(String),
}

/// What a name is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub kind: FileType,
    pub id: Id,
}

impl Name {
    pub(crate) fn new(kind: FileType, id: &Id) -> Name {
        Name { kind, id: *id }
    }

    /// Its path in a repository whose `data` has a folder for each first byte.
    pub(crate) fn path(&self) -> String {
        let id = self.id.to_hex();
        match self.kind {
            FileType::Config => "config".to_owned(),
            FileType::Pack => {
                format!("data/{}/{}", id.get(..2).unwrap_or_default(), id.as_str())
            }
            other => format!("{}/{}", other.dirname(), id.as_str()),
        }
    }
}

pub(crate) trait Store: Send + Sync {
    /// All of this kind with their sizes.
    fn list(&self, kind: FileType) -> Result<Vec<(Id, u32)>, StoreError>;
    /// All of it, or a part.
    fn read(&self, name: &Name, part: Option<Range<u64>>) -> Result<Bytes, StoreError>;
    /// Afterwards the file is there whole, as durably as the target can tell, or not at all.
    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError>;
    /// No error if it wasn't there.
    fn remove(&self, name: &Name) -> Result<(), StoreError>;
    /// Prepares the target for its first file.
    fn create(&self) -> Result<(), StoreError>;
    /// Removes what killed writers left behind.
    fn tidy(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// By the target's clock.
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
    /// Whether it can lock files; if not, why.
    fn can_lock(&self) -> Result<(), StoreError> {
        let text = "only S3 servers can lock files; make this target append-only instead";
        Err(StoreError::Final(text.to_owned()))
    }
    /// Locks this version of it until then. Returns when the lock expires, which may be later: an
    /// existing lock isn't shortened.
    fn lock(&self, _name: &Name, _until: Timestamp) -> Result<Timestamp, StoreError> {
        self.can_lock().map(|()| Timestamp::MIN)
    }
    /// When its lock expires, if it has one.
    fn lock_end(&self, _name: &Name) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }
}

/// Opens the store of a target.
pub(crate) fn open(
    target: &Target,
    target_options: &TargetOptions,
    throttle: &Arc<Throttle>,
) -> Result<Arc<dyn Store>, Error> {
    let (throttle, limits) = (Arc::clone(throttle), target_options.time_limits);
    Ok(match target {
        Target::Folder(path) => Arc::new(folder::FolderStore::new(path.clone(), throttle)),
        Target::S3 { endpoint, bucket, prefix } => {
            let secrets = target_options.secrets.clone();
            let store = s3::S3Store::new(endpoint, bucket, prefix, secrets, throttle, limits)?;
            Arc::new(store.locking(target_options.lock))
        }
        Target::Sftp { host, port, path } => Arc::new(sftp::SftpStore::new(
            sftp::command(host, *port, target_options.sftp_command.as_deref()),
            path,
            throttle,
        )?),
        Target::Rest(url) => {
            let secrets = &target_options.secrets;
            Arc::new(rest::RestStore::new(url.clone(), secrets, throttle, limits)?)
        }
    })
}

/// A listed file's id; none for files that aren't a repository's.
fn id_of(name: &str) -> Option<Id> {
    (name.len() == 64).then(|| name.parse().ok()).flatten()
}

fn size_of(bytes: u64) -> Result<u32, StoreError> {
    u32::try_from(bytes).map_err(|_| StoreError::Final("a file is larger than 4 GiB".to_owned()))
}

/// What was read: at most one byte more than a repository's largest file.
fn bounded(content: Bytes) -> Result<Bytes, StoreError> {
    if content.len() as u64 > LARGEST_BYTES {
        return Err(StoreError::Damaged("it is larger than 1 GiB".to_owned()));
    }
    Ok(content)
}

fn total(content: &[Bytes]) -> usize {
    content.iter().map(Bytes::len).sum()
}

/// When a span that begins at a time ends.
pub(crate) fn after(time: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}
