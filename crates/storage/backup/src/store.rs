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
    /// It is shorter, or otherwise not what it should be; others may be well.
    #[error("{0}")]
    Damaged(String),
    /// It may go well another time.
    #[error("{0}")]
    Passing(String),
    /// The target's name has no address now; it may have one when the network is there.
    #[error("{0}")]
    Nameless(String),
    /// It won't, unless somebody does something; so won't what else is asked.
    #[error("{0}")]
    Final(String),
    /// This one thing is forbidden, as an append-only target does; others may go well.
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
    /// It is there whole, and safe as far as the target can say, or not there.
    fn write(&self, name: &Name, content: &[Bytes]) -> Result<(), StoreError>;
    /// Gone is gone: no error when it wasn't there.
    fn remove(&self, name: &Name) -> Result<(), StoreError>;
    /// Before the first file.
    fn create(&self) -> Result<(), StoreError>;
    /// Removes what writers left that were killed, where such a thing is left.
    fn tidy(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// By the target's clock.
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
    /// Whether it can lock what it has; why not, else.
    fn can_lock(&self) -> Result<(), StoreError> {
        let text = "only S3 servers lock what they have; let this target only append instead";
        Err(StoreError::Final(text.to_owned()))
    }
    /// Nobody deletes this version of it before then; the end of its lock, which may be a later one
    /// that it has already.
    fn lock(&self, _name: &Name, _until: Timestamp) -> Result<Timestamp, StoreError> {
        self.can_lock().map(|()| Timestamp::MIN)
    }
    /// The end of its lock, if it has one.
    fn lock_end(&self, _name: &Name) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }
}

/// What reaches it.
pub(crate) fn open(
    target: &Target,
    target_options: &TargetOptions,
    throttle: &Arc<Throttle>,
) -> Result<Arc<dyn Store>, Error> {
    let throttle = Arc::clone(throttle);
    Ok(match target {
        Target::Folder(path) => Arc::new(folder::FolderStore::new(path.clone(), throttle)),
        Target::S3 { endpoint, bucket, prefix } => {
            let secrets = target_options.secrets.clone();
            let store = s3::S3Store::new(endpoint, bucket, prefix, secrets, throttle)?;
            Arc::new(store.locking(target_options.lock))
        }
        Target::Sftp { host, port, path } => Arc::new(sftp::SftpStore::new(
            sftp::command(host, *port, target_options.sftp_command.as_deref()),
            path,
            throttle,
        )?),
        Target::Rest(url) => {
            Arc::new(rest::RestStore::new(url.clone(), &target_options.secrets, throttle)?)
        }
    })
}

/// A listed file's id; what else lies there is none of ours.
fn id_of(name: &str) -> Option<Id> {
    (name.len() == 64).then(|| name.parse().ok()).flatten()
}

fn size_of(bytes: u64) -> Result<u32, StoreError> {
    u32::try_from(bytes).map_err(|_| StoreError::Final("a file is larger than 4 GiB".to_owned()))
}

/// What was read, up to a byte more than a file of a repository may have.
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
