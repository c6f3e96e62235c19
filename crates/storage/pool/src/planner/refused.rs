use crate::disk::ClaimRefused;
use crate::layout::Layout;
use braid_units::ByteSize;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A disk may not be taken.
    #[error(transparent)]
    Disk(#[from] ClaimRefused),
    /// Not enough disks.
    #[error("{layout} needs {wanted} disks, not {given}")]
    TooFewDisks {
        /// The layout.
        layout: Layout,
        /// How many it needs.
        wanted: usize,
        /// How many there are.
        given: usize,
    },
    /// The smallest disk can't hold what every member has to.
    #[error("the disks are too small for {layout}")]
    TooSmall {
        /// The layout.
        layout: Layout,
    },
    /// A new disk is smaller than a member has to be.
    #[error("{disk} has {}, but a member of this pool needs {}", ByteSize::from_bytes(*has), ByteSize::from_bytes(*needs))]
    DiskTooSmall {
        /// Its path.
        disk: String,
        /// What it has, in bytes.
        has: u64,
        /// What it needs, in bytes.
        needs: u64,
    },
    /// The layout is known to lose data.
    #[error(
        "{layout}: btrfs itself calls its parity profiles unstable; a power cut can lose data. md-raid5 with ext4 is not. If you still want it, say so with --accept-unstable"
    )]
    Unstable {
        /// The layout.
        layout: Layout,
    },
    /// Two of the disks are the same.
    #[error("{first} and {second} lie on one physical disk, which would be lost as one")]
    SameDisk {
        /// Path of one.
        first: String,
        /// Path of the other.
        second: String,
    },
    /// The mount point is a system folder.
    #[error("{at} is a folder of the system: mount the pool at one of its own, such as /srv/data")]
    SystemFolder {
        /// The mount point.
        at: String,
    },
    /// A path that isn't absolute, or has characters that fstab can't take.
    #[error("{path:?} is no absolute path that fstab could hold")]
    Path {
        /// What was given.
        path: String,
    },
    /// Something else is already to be mounted there.
    #[error(
        "/etc/fstab line {line} already mounts something at {at}; choose another place or remove that line"
    )]
    MountPointTaken {
        /// The mount point.
        at: String,
        /// The line, from 1.
        line: usize,
    },
    /// The pool isn't mounted, and nothing says where.
    #[error("pool {pool} isn't mounted; mount it, or say where with --mount")]
    NotMounted {
        /// Its name.
        pool: String,
    },
    /// The array isn't running.
    #[error(
        "array {pool} isn't assembled; run `mdadm --assemble --scan`, and --run if a member is missing"
    )]
    NotAssembled {
        /// Its name.
        pool: String,
    },
    /// No such member.
    #[error("{member:?} is no member of pool {pool}; it has {members}")]
    NoSuchMember {
        /// What was given.
        member: String,
        /// The pool.
        pool: String,
        /// What it has.
        members: String,
    },
    /// Something else is under way.
    #[error("pool {pool} is busy with {what}; wait for it or cancel it")]
    Busy {
        /// The pool.
        pool: String,
        /// What is running.
        what: String,
    },
    /// A member is missing, and this needs all.
    #[error("pool {pool} is not complete ({what}); replace the missing disk first")]
    Degraded {
        /// The pool.
        pool: String,
        /// What is missing.
        what: String,
    },
    /// The stored data would not fit.
    #[error("{what} needs {} and there would be {}; free {} first, or add a disk", ByteSize::from_bytes(*needs), ByteSize::from_bytes(*has), ByteSize::from_bytes(needs.saturating_sub(*has)))]
    NoSpace {
        /// What doesn't fit.
        what: String,
        /// What it takes, in bytes.
        needs: u64,
        /// What there would be, in bytes.
        has: u64,
    },
    /// A member is lost and the others have no room for the chunks that a replace needs to start.
    #[error("the survivors are full: a replace needs {} in new chunks to begin and there would be {}; free {} first{}", ByteSize::from_bytes(*needs), ByteSize::from_bytes(*has), ByteSize::from_bytes(needs.saturating_sub(*has)), or_lend(*lend))]
    SurvivorsFull {
        /// What it takes, in bytes.
        needs: u64,
        /// What there would be, in bytes.
        has: u64,
        /// The size of a lent disk that would help, in bytes; `None` if none can be lent.
        lend: Option<u64>,
    },
    /// A disk was lent to a pool that doesn't need it.
    #[error("the pool needs no disk lent: leave out `--lend {disk}`")]
    NotLent {
        /// The disk.
        disk: String,
    },
    /// The engine can't do it, or it would not be safe.
    #[error("{what}; {instead}")]
    Impossible {
        /// What can't be done and why.
        what: String,
        /// What can.
        instead: String,
    },
}

/// The other remedy for full survivors.
fn or_lend(lend: Option<u64>) -> String {
    lend.map_or_else(String::new, |bytes| {
        let size = ByteSize::from_bytes(bytes);
        format!(", or lend the pool a further disk of at least {size} meanwhile: `--lend DISK`")
    })
}

/// A mount point: absolute, normalised, and with no characters but spaces that need octal escapes
/// in fstab.
pub(super) fn absolute(path: &str) -> Result<(), Refused> {
    let odd = |c: char| c.is_whitespace() && c != ' ' || c.is_control() || c == '\\' || c == '#';
    let part_ok = |part: &str| part != ".." && part != "." && !part.is_empty();
    let fine = path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(part_ok));
    if fine && !path.chars().any(odd) {
        Ok(())
    } else {
        Err(Refused::Path { path: path.to_owned() })
    }
}
