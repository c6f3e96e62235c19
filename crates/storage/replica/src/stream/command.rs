use super::StreamError;
use braid_pool::uuid::Uuid;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One command of a stream; paths are below the subvolume's root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the system calls of the same names")]
pub enum Command<'a> {
    /// The whole subvolume comes.
    Subvolume { uuid: Uuid, transaction: u64 },
    /// What changed against a parent comes.
    Snapshot { uuid: Uuid, transaction: u64, parent: Uuid },
    /// An empty file.
    MakeFile { path: &'a Path },
    /// An empty folder.
    MakeFolder { path: &'a Path },
    /// A device, fifo or socket.
    MakeNode { path: &'a Path, mode: u32, device: u64 },
    /// A symbolic link.
    Symlink { path: &'a Path, target: &'a Path },
    /// Another name, maybe elsewhere.
    Rename { from: &'a Path, to: &'a Path },
    /// A hard link.
    Link { path: &'a Path, existing: &'a Path },
    /// A file's name goes.
    Unlink { path: &'a Path },
    /// An empty folder goes.
    RemoveFolder { path: &'a Path },
    /// An extended attribute.
    SetXattr { path: &'a Path, name: &'a OsStr, value: &'a [u8] },
    /// An extended attribute goes.
    RemoveXattr { path: &'a Path, name: &'a OsStr },
    /// Data.
    Write { path: &'a Path, offset: u64, data: &'a [u8] },
    /// Compressed data, as on the disk.
    WriteCompressed { path: &'a Path, offset: u64, compressed: Compressed, data: &'a [u8] },
    /// Data shared with another file.
    Clone {
        path: &'a Path,
        offset: u64,
        length: u64,
        lender: Uuid,
        lender_path: &'a Path,
        lender_offset: u64,
    },
    /// A new size.
    Truncate { path: &'a Path, size: u64 },
    /// Permission bits.
    Mode { path: &'a Path, mode: u32 },
    /// Owner and group.
    Owner { path: &'a Path, user: u32, group: u32 },
    /// Access and modification times: seconds and nanoseconds.
    Times { path: &'a Path, accessed: (i64, u32), modified: (i64, u32) },
    /// `fallocate(2)`.
    Allocate { path: &'a Path, mode: u32, offset: u64, length: u64 },
    /// Data that a stream without data (for estimates) leaves out.
    Extent { length: u64 },
    /// Nothing to do: attributes that kernels don't send yet.
    Nothing,
    /// The stream is complete.
    End,
}

/// How compressed data is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Bytes of the file that it makes.
    pub file_length: u64,
    /// Bytes that it unpacks to.
    pub unpacked_length: u64,
    /// Where among these the file's bytes begin.
    pub unpacked_offset: u64,
    /// The method, as the kernel counts them.
    pub method: u32,
    /// The encryption, as the kernel counts them.
    pub encryption: u32,
}

impl<'a> Command<'a> {
    /// Reads the command `number` of a stream of `version` from its attributes.
    ///
    /// # Errors
    /// An unknown number; a missing or wrong attribute.
    pub fn read(version: u32, number: u16, body: &'a [u8]) -> Result<Command<'a>, StreamError> {
        let attributes = Attributes::read(version, number, body)?;
        let a = &attributes;
        Ok(match number {
            1 => Command::Subvolume { uuid: a.uuid(UUID)?, transaction: a.number(TRANSACTION)? },
            2 => Command::Snapshot {
                uuid: a.uuid(UUID)?,
                transaction: a.number(TRANSACTION)?,
                parent: a.uuid(CLONE_UUID)?,
            },
            3 => Command::MakeFile { path: a.path(PATH)? },
            4 => Command::MakeFolder { path: a.path(PATH)? },
            5..=7 => Command::MakeNode {
                path: a.path(PATH)?,
                mode: a.short(MODE)?,
                device: a.number(DEVICE)?,
            },
            8 => Command::Symlink { path: a.path(PATH)?, target: a.path(PATH_LINK)? },
            9 => Command::Rename { from: a.path(PATH)?, to: a.path(PATH_TO)? },
            10 => Command::Link { path: a.path(PATH)?, existing: a.path(PATH_LINK)? },
            11 => Command::Unlink { path: a.path(PATH)? },
            12 => Command::RemoveFolder { path: a.path(PATH)? },
            13 => Command::SetXattr {
                path: a.path(PATH)?,
                name: OsStr::from_bytes(a.get(XATTR_NAME)?),
                value: a.get(XATTR_DATA)?,
            },
            14 => Command::RemoveXattr {
                path: a.path(PATH)?,
                name: OsStr::from_bytes(a.get(XATTR_NAME)?),
            },
            15 => Command::Write {
                path: a.path(PATH)?,
                offset: a.number(OFFSET)?,
                data: a.get(DATA)?,
            },
            16 => Command::Clone {
                path: a.path(PATH)?,
                offset: a.number(OFFSET)?,
                length: a.number(CLONE_LENGTH)?,
                lender: a.uuid(CLONE_UUID)?,
                lender_path: a.path(CLONE_PATH)?,
                lender_offset: a.number(CLONE_OFFSET)?,
            },
            17 => Command::Truncate { path: a.path(PATH)?, size: a.number(SIZE)? },
            18 => Command::Mode { path: a.path(PATH)?, mode: a.short(MODE)? },
            19 => {
                Command::Owner { path: a.path(PATH)?, user: a.short(USER)?, group: a.short(GROUP)? }
            }
            20 => Command::Times {
                path: a.path(PATH)?,
                accessed: a.time(ACCESSED)?,
                modified: a.time(MODIFIED)?,
            },
            21 => Command::End,
            22 => Command::Extent { length: a.number(SIZE)? },
            // FILEATTR is defined but never sent.
            24 => Command::Nothing,
            23 => Command::Allocate {
                path: a.path(PATH)?,
                mode: a.short(ALLOCATE_MODE)?,
                offset: a.number(OFFSET)?,
                length: a.number(SIZE)?,
            },
            25 => Command::WriteCompressed {
                path: a.path(PATH)?,
                offset: a.number(OFFSET)?,
                compressed: Compressed {
                    file_length: a.number(FILE_LENGTH)?,
                    unpacked_length: a.number(UNPACKED_LENGTH)?,
                    unpacked_offset: a.number(UNPACKED_OFFSET)?,
                    method: a.optional_short(COMPRESSION)?,
                    encryption: a.optional_short(ENCRYPTION)?,
                },
                data: a.get(DATA)?,
            },
            other => return Err(StreamError::UnknownCommand(other)),
        })
    }
}

// Attributes' numbers, as `enum btrfs_send_attr` has them.
const UUID: usize = 1;
const TRANSACTION: usize = 2;
const SIZE: usize = 4;
const MODE: usize = 5;
const USER: usize = 6;
const GROUP: usize = 7;
const DEVICE: usize = 8;
const MODIFIED: usize = 10;
const ACCESSED: usize = 11;
const XATTR_NAME: usize = 13;
const XATTR_DATA: usize = 14;
const PATH: usize = 15;
const PATH_TO: usize = 16;
const PATH_LINK: usize = 17;
const OFFSET: usize = 18;
const DATA: usize = 19;
const CLONE_UUID: usize = 20;
const CLONE_PATH: usize = 22;
const CLONE_OFFSET: usize = 23;
const CLONE_LENGTH: usize = 24;
const ALLOCATE_MODE: usize = 25;
const FILE_LENGTH: usize = 27;
const UNPACKED_LENGTH: usize = 28;
const UNPACKED_OFFSET: usize = 29;
const COMPRESSION: usize = 30;
const ENCRYPTION: usize = 31;
const COUNT: usize = 32;

struct Attributes<'a> {
    command: u16,
    found: [Option<&'a [u8]>; COUNT],
}

impl<'a> Attributes<'a> {
    fn read(version: u32, command: u16, body: &'a [u8]) -> Result<Self, StreamError> {
        let mut found = [None; COUNT];
        let mut rest = body;
        while !rest.is_empty() {
            let (kind, after) = take_u16(rest).ok_or_else(|| missing(command, 0))?;
            // Since version 2 data comes last and has no length of its own.
            let (value, after) = if version >= 2 && usize::from(kind) == DATA {
                (after, &[][..])
            } else {
                let (length, after) = take_u16(after).ok_or_else(|| missing(command, kind))?;
                after.split_at_checked(length.into()).ok_or_else(|| missing(command, kind))?
            };
            if let Some(place) = found.get_mut(usize::from(kind)) {
                *place = Some(value);
            }
            rest = after;
        }
        Ok(Attributes { command, found })
    }

    fn get(&self, kind: usize) -> Result<&'a [u8], StreamError> {
        self.found.get(kind).copied().flatten().ok_or_else(|| missing(self.command, kind as u16))
    }

    fn array<const N: usize>(&self, kind: usize) -> Result<[u8; N], StreamError> {
        self.get(kind)?.try_into().map_err(|_| missing(self.command, kind as u16))
    }

    fn number(&self, kind: usize) -> Result<u64, StreamError> {
        self.array(kind).map(u64::from_le_bytes)
    }

    /// A number that is sent in 64 bits, or since version 2 in 32.
    fn short(&self, kind: usize) -> Result<u32, StreamError> {
        if self.get(kind)?.len() == 4 {
            return self.array(kind).map(u32::from_le_bytes);
        }
        u32::try_from(self.number(kind)?).map_err(|_| missing(self.command, kind as u16))
    }

    fn optional_short(&self, kind: usize) -> Result<u32, StreamError> {
        if self.found.get(kind).copied().flatten().is_none() { Ok(0) } else { self.short(kind) }
    }

    fn uuid(&self, kind: usize) -> Result<Uuid, StreamError> {
        self.array(kind).map(Uuid::from_bytes)
    }

    fn path(&self, kind: usize) -> Result<&'a Path, StreamError> {
        Ok(Path::new(OsStr::from_bytes(self.get(kind)?)))
    }

    fn time(&self, kind: usize) -> Result<(i64, u32), StreamError> {
        let bytes: [u8; 12] = self.array(kind)?;
        let wrong = || missing(self.command, kind as u16);
        let (seconds, nanos) = bytes.split_at(8);
        Ok((
            i64::from_le_bytes(seconds.try_into().map_err(|_| wrong())?),
            u32::from_le_bytes(nanos.try_into().map_err(|_| wrong())?),
        ))
    }
}

fn take_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_le_bytes(*number), rest))
}

fn missing(command: u16, attribute: u16) -> StreamError {
    StreamError::Attribute { command, attribute }
}
