use crate::exact_path::ExactPath;
use crate::subvolume::SendKind;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};

/// The snapshot that comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The name it shall have.
    pub name: ExactPath,
    /// What its stream is.
    pub stream: Unfinished,
    /// The source's transaction.
    pub transaction: u64,
    /// When its root folder was modified, in seconds and nanoseconds: streams
    /// make new files there under passing names and don't set this right again.
    pub modified: (i64, i64),
}

/// A replica that was begun, and how: only the very same stream can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The snapshot.
    pub uuid: Uuid,
    /// Against what its difference was sent.
    pub parent: Option<Uuid>,
    /// How the stream was written.
    pub kind: SendKind,
}
