use crate::exact_path::ExactPath;
use crate::subvolume::SendKind;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};

/// The snapshot to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The name for it.
    pub name: ExactPath,
    /// What its stream is.
    pub stream: StreamId,
    /// The source's transaction.
    pub transaction: u64,
    /// When its root folder was modified, in seconds and nanoseconds: streams create new files
    /// there under temporary names and don't restore this.
    pub modified: (i64, i64),
}

/// Identifies a stream: only the same stream can continue a replica that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamId {
    /// The snapshot.
    pub uuid: Uuid,
    /// The parent of the difference sent.
    pub parent: Option<Uuid>,
    /// How the stream was written.
    pub kind: SendKind,
}
