//! When btrfs was last scrubbed, as btrfs-progs records it.

use crate::host_root::HostRoot;
use braid_pool::observed::Scrub;
use braid_pool::uuid::Uuid;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last scrub according to btrfs-progs' record, `/var/lib/btrfs/scrub.status.UUID`
/// (cmds/scrub.c). It counts as ended when it ended on all these devices, at the time of the one
/// that took longest.
pub fn read(host: &HostRoot, uuid: Uuid, devids: &[u64]) -> Scrub {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match host.bytes(format!("var/lib/btrfs/scrub.status.{uuid}")) {
        Ok(text) => parse(&String::from_utf8_lossy(&text), uuid, devids, now),
        Err(error) => Scrub {
            may_not_be_read: error.kind() == io::ErrorKind::PermissionDenied,
            ..Scrub::default()
        },
    }
}

/// Per device, the errors that the last scrub could not correct, from the same record.
pub fn uncorrectable(host: &HostRoot, uuid: Uuid) -> BTreeMap<u64, u64> {
    let text = host.text(format!("var/lib/btrfs/scrub.status.{uuid}")).unwrap_or_default();
    let records = text.lines().filter_map(|line| Record::of(line, uuid));
    records.map(|(devid, record)| (devid, record.uncorrectable)).collect()
}

fn parse(text: &str, uuid: Uuid, devids: &[u64], now: Duration) -> Scrub {
    let records: HashMap<u64, Record> =
        text.lines().filter_map(|line| Record::of(line, uuid)).collect();
    let mut scrub = Scrub::default();
    let mut ends = Vec::new();
    let newest = records.keys().max().copied().unwrap_or(0);
    for devid in devids {
        let record = match records.get(devid) {
            Some(record) => record,
            // Devices are numbered as they are added. One added after the scrub holds nothing older
            // than itself.
            None if *devid > newest && newest > 0 => continue,
            None => return scrub,
        };
        scrub.uncorrectable = scrub.uncorrectable.saturating_add(record.uncorrectable);
        scrub.corrected = scrub.corrected.saturating_add(record.corrected);
        ends.push(record.ended);
    }
    let ended = ends.into_iter().try_fold(0, |latest, end| Some(end?.max(latest)));
    scrub.ended_ago = ended
        .filter(|ended| *ended > 0)
        .map(|ended| now.saturating_sub(Duration::from_secs(ended)));
    scrub
}

struct Record {
    /// Seconds since 1970; `None` when it was cancelled or runs.
    ended: Option<u64>,
    uncorrectable: u64,
    corrected: u64,
}

impl Record {
    /// Reads `UUID:DEVID|key:value|…`.
    fn of(line: &str, uuid: Uuid) -> Option<(u64, Record)> {
        let mut fields = line.split('|');
        let (of, devid) = fields.next()?.split_once(':')?;
        if of.parse() != Ok(uuid) {
            return None;
        }
        let values: HashMap<&str, u64> = fields
            .filter_map(|field| field.split_once(':'))
            .filter_map(|(key, value)| Some((key, value.trim().parse().ok()?)))
            .collect();
        let value = |key: &str| values.get(key).copied().unwrap_or(0);
        let done = value("finished") == 1 && value("canceled") == 0;
        let started = value("t_start").max(value("t_resumed"));
        Some((
            devid.parse().ok()?,
            Record {
                ended: done.then(|| started.saturating_add(value("duration"))),
                uncorrectable: value("uncorrectable_errors"),
                corrected: value("corrected_errors"),
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "8ac8330e-96d0-492c-abe2-9af491b05a40";

    fn record(devid: u64, rest: &str) -> String {
        format!(
            "{UUID}:{devid}|data_bytes_scrubbed:65536|uncorrectable_errors:1|corrected_errors:2|{rest}\n"
        )
    }

    fn parsed(text: &str) -> Scrub {
        parse(text, UUID.parse().unwrap(), &[1, 2], Duration::from_secs(5_000))
    }

    #[test]
    fn a_disk_that_was_added_since_takes_nothing_from_the_last_scrub() {
        let done = |devid| record(devid, "t_start:1000|duration:10|canceled:0|finished:1");
        let of = |devids: &[u64]| {
            let text = done(1) + &done(2);
            parse(&text, UUID.parse().unwrap(), devids, Duration::from_secs(5_000)).ended_ago
        };
        assert_eq!(of(&[1, 2, 3]), of(&[1, 2]));
        assert!(of(&[1, 2]).is_some());
    }

    #[test]
    fn it_ended_when_the_slowest_device_did() {
        let mut text = "scrub status:1\n".to_owned();
        text += &record(1, "t_start:1000|t_resumed:0|duration:10|canceled:0|finished:1");
        text += &record(2, "t_start:1000|t_resumed:0|duration:500|canceled:0|finished:1");
        let scrub = parsed(&text);
        assert_eq!(scrub.ended_ago, Some(Duration::from_secs(3_500)));
        assert_eq!((scrub.uncorrectable, scrub.corrected), (2, 4));
    }

    #[test]
    fn a_cancelled_or_missing_device_is_no_end() {
        let done = record(2, "t_start:1000|duration:10|canceled:0|finished:1");
        let cancelled = record(1, "t_start:1000|duration:10|canceled:1|finished:1");
        assert_eq!(parsed(&done).ended_ago, None);
        assert_eq!(parsed(&(done + &cancelled)).ended_ago, None);
        assert_eq!(parsed("rubbish|a:b\n:|:\n"), Scrub::default());
    }
}
