//! What each disk transferred, as the kernel counts it (Documentation/admin-guide/iostats.rst).

use braid_disks::HostRoot;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The kernel counts in these, whatever the disk's sector size.
const SECTOR: u64 = 512;

/// Bytes that a disk has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Read from it.
    pub read_bytes: u64,
    /// Written to it.
    pub written_bytes: u64,
}

/// The counters of these disks (nodes such as `/dev/sda` or links to them) now; zeroes for one that
/// isn't there.
pub fn count(host: &HostRoot, disks: &[String]) -> Vec<Moved> {
    disks.iter().map(|disk| counters(host, disk).unwrap_or_default()).collect()
}

/// What was moved from `before` to `after`.
pub fn between(before: &[Moved], after: &[Moved]) -> Vec<Moved> {
    let less = |(before, after): (&Moved, &Moved)| Moved {
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
    };
    before.iter().zip(after).map(less).collect()
}

fn counters(host: &HostRoot, disk: &str) -> Option<Moved> {
    let real = Path::new(disk).canonicalize();
    let name = real.as_deref().unwrap_or(Path::new(disk)).file_name()?.to_str()?.to_owned();
    parse(&host.text(format!("sys/class/block/{name}/stat"))?)
}

/// `reads merged sectors ms writes merged sectors ms …`
fn parse(stat: &str) -> Option<Moved> {
    let mut sectors =
        [2, 6].map(|at| stat.split_ascii_whitespace().nth(at)?.parse::<u64>().ok()).into_iter();
    let mut next = || Some(sectors.next()??.saturating_mul(SECTOR));
    Some(Moved { read_bytes: next()?, written_bytes: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_read_and_subtracted() {
        let before = parse("   1 0 8 2 3 0 16 5 0 6 7 0 0 0 0 0 0").unwrap();
        assert_eq!(before, Moved { read_bytes: 4096, written_bytes: 8192 });
        let after = parse("9 0 10 2 3 0 16 5 0 6 7").unwrap();
        let moved = between(&[before], &[after]);
        assert_eq!(moved, [Moved { read_bytes: 1024, written_bytes: 0 }]);
        assert_eq!(between(&[after], &[before])[0].read_bytes, 0, "the disk was swapped meanwhile");
        for bad in ["", "1 2 3", "a b c d e f g"] {
            assert_eq!(parse(bad), None);
        }
    }

    #[test]
    fn a_disk_that_is_gone_has_moved_nothing() {
        assert_eq!(count(&HostRoot::real(), &["/dev/nope".to_owned()]), [Moved::default()]);
    }
}
