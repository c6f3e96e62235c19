use super::begin::{Begin, StreamId};
use super::stored::StoredNow;
use crate::exact_path::ExactPath;
use crate::manifest::Line;
use crate::old_system::{CloneWork, OldSystem};
use crate::register::Order;
use crate::subvolume::SendKind;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};

/// The version of what is said here; both ends must have the same.
pub const PROTOCOL: u32 = 3;

/// Everything but the stream itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// First message of the end that started the other: what to do.
    Open(Open),
    /// The sink's first message.
    Inventory(Inventory),
    /// The source will send this snapshot.
    Begin(Begin),
    /// The sink has this many blocks of it, with this hash.
    Ready {
        /// Whole blocks that needn't be sent again.
        blocks: u64,
        /// The chain over these.
        chain: [u8; 32],
    },
    /// The source's stream doesn't begin as the sink's did: start over.
    Restart,
    /// The stream is complete.
    End {
        /// How many blocks it had.
        blocks: u64,
        /// The chain over all.
        chain: [u8; 32],
    },
    /// The replica is complete, read-only and on the disk.
    Done,
    /// What the source did, for a pull: JSON of its report.
    Report(String),
    /// Some lines of a manifest, sorted by path.
    Lines(Vec<Line>),
    /// Some stored streams.
    Stored(Vec<StoredNow>),
    /// The system that is cloned.
    OldSystem(Box<OldSystem>),
    /// The source (or a manifest) has no more.
    Bye,
    /// Why it can't continue. With `passing`, trying again may help.
    Failed {
        /// For the user.
        why: String,
        /// Whether to try again.
        passing: bool,
    },
}

/// What the other end should do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Open {
    /// [`PROTOCOL`]
    pub protocol: u32,
    /// The work.
    pub work: Work,
    /// Who wants it, if that is to be recorded.
    #[serde(default)]
    pub order: Option<Order>,
}

/// A kind of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Receive snapshots into this folder.
    Sink {
        /// Which.
        folder: ExactPath,
    },
    /// Send snapshots.
    Source {
        /// Which.
        selection: Selection,
        /// Maximum bytes per second.
        limit: Option<u64>,
    },
    /// List each file below a folder.
    Manifest {
        /// Which.
        folder: ExactPath,
    },
    /// List the stored streams in a folder, which may have none.
    Stored {
        /// Which.
        folder: ExactPath,
        /// Read the files of these snapshots' streams; `None` for all.
        read: Option<Vec<Uuid>>,
    },
    /// Help to clone the system.
    Clone(CloneWork),
}

/// Which snapshots are meant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Selection {
    /// A snapshot, or a folder with snapshots.
    pub path: ExactPath,
    /// Only the newest of each subvolume.
    pub newest: bool,
    /// Everything is sent to a place that had replicas of these but has none any more.
    #[serde(default)]
    pub anew: bool,
}

/// What a sink has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inventory {
    /// Host, filesystem and folder: the source remembers the replica by this.
    pub place: String,
    /// The read-only subvolumes in the folder.
    pub present: Vec<Present>,
    /// A replica that was begun.
    pub unfinished: Option<StreamId>,
    /// The best kind of stream that can be applied there.
    pub accepts: SendKind,
    /// Those present that must not become parents any more.
    #[serde(default)]
    pub not_to_build_on: Vec<Uuid>,
}

/// A snapshot that a sink has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Present {
    /// Its name in the folder.
    pub name: ExactPath,
    /// Its own UUID.
    pub uuid: Uuid,
    /// Of what it is a replica.
    pub received: Option<Uuid>,
}

impl Present {
    /// Whether streams may call it `uuid`.
    pub fn is_known_as(&self, uuid: Uuid) -> bool {
        self.received == Some(uuid) || self.uuid == uuid
    }
}
