//! What fio answers (fio(1), "JSON OUTPUT").

use crate::error::BenchError;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FioAnswer {
    /// Read by all programs together.
    pub read: Transfer,
    /// Written by all together.
    pub written: Transfer,
    /// How long fsync took, if it was called.
    pub fsync: Option<FsyncTimes>,
}

/// Bytes and requests in a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Bytes moved.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
    /// From the first request to the last one's end, fsync at the end included; 0 when nothing was
    /// moved.
    pub seconds: f64,
}

/// How long fsync took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FsyncTimes {
    /// How often.
    pub count: u64,
    /// On average.
    pub mean_seconds: f64,
    /// 99 of 100 took no longer; `None` if fio doesn't report it.
    pub p99_seconds: Option<f64>,
}

impl Transfer {
    /// `None` when nothing was moved.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes as f64 / self.seconds)
    }

    /// `None` when nothing was moved.
    pub fn requests_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.requests as f64 / self.seconds)
    }
}

impl FioAnswer {
    /// Reads what `--output-format=json --group_reporting` printed; fio may say other things before
    /// it.
    ///
    /// # Errors
    /// [`BenchError::Unreadable`] when it isn't such an answer of one group of jobs by fio 3 or
    /// later, [`BenchError::Failed`] when it says that the job failed.
    pub fn parse(text: &str) -> Result<FioAnswer, BenchError> {
        let wrong = |what: String| BenchError::Unreadable(what);
        let from = text.find('{').ok_or_else(|| wrong("there is no JSON in it".to_owned()))?;
        let found: Json =
            serde_json::from_str(&text[from..]).map_err(|error| wrong(error.to_string()))?;
        // Before version 3 the same names had other units.
        let major =
            found.version.strip_prefix("fio-").and_then(|version| version.split('.').next());
        if major.and_then(|major| major.parse::<u32>().ok()).is_none_or(|major| major < 3) {
            return Err(wrong(format!("it is {}; fio 3 or later is needed", found.version)));
        }
        let [job] = found.jobs.as_slice() else {
            return Err(wrong(format!("it has {} groups of jobs, not 1", found.jobs.len())));
        };
        if job.error != 0 {
            let why = std::io::Error::from_raw_os_error(job.error);
            return Err(BenchError::failed("fio", &why.to_string()));
        }
        Ok(FioAnswer {
            read: job.read.transfer(),
            written: job.write.transfer(),
            fsync: job.sync.as_ref().and_then(JsonSync::times),
        })
    }
}

#[derive(Deserialize)]
struct Json {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Vec<JsonJob>,
}

#[derive(Deserialize)]
struct JsonJob {
    error: i32,
    read: JsonTransfer,
    write: JsonTransfer,
    #[serde(default)]
    sync: Option<JsonSync>,
}

#[derive(Deserialize)]
struct JsonTransfer {
    io_bytes: u64,
    total_ios: u64,
    /// Milliseconds.
    runtime: u64,
}

impl JsonTransfer {
    fn transfer(&self) -> Transfer {
        // Less than a millisecond counts as one.
        let at_least = u64::from(self.io_bytes > 0);
        let seconds = self.runtime.max(at_least) as f64 / 1e3;
        Transfer { bytes: self.io_bytes, requests: self.total_ios, seconds }
    }
}

#[derive(Deserialize)]
struct JsonSync {
    #[serde(default)]
    total_ios: u64,
    lat_ns: JsonTimes,
}

/// Nanoseconds.
#[derive(Deserialize)]
struct JsonTimes {
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

impl JsonSync {
    fn times(&self) -> Option<FsyncTimes> {
        (self.total_ios > 0).then(|| FsyncTimes {
            count: self.total_ios,
            mean_seconds: self.lat_ns.mean / 1e9,
            p99_seconds: self.lat_ns.percentile.get("99.000000").map(|nanos| nanos / 1e9),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = include_str!("fio_answer/fio-3.33-write.json");
    const FSYNC: &str = include_str!("fio_answer/fio-3.33-fsync.json");

    #[test]
    fn a_real_answer_is_read() {
        let write = FioAnswer::parse(WRITE).unwrap();
        assert_eq!(write.read, Transfer { bytes: 0, requests: 0, seconds: 0.0 });
        assert_eq!(write.read.bytes_per_second(), None);
        assert_eq!(write.written.bytes, write.written.requests << 20);
        assert!(write.written.bytes_per_second().unwrap() > 1e6);
        let fsync = FioAnswer::parse(FSYNC).unwrap().fsync.unwrap();
        assert_eq!(fsync.count, 226);
        assert!((fsync.mean_seconds - 0.003_501_019).abs() < 1e-9);
        assert!((fsync.p99_seconds.unwrap() - 0.021_889_024).abs() < 1e-9);
    }

    #[test]
    fn words_before_the_answer_are_skipped() {
        let text =
            format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{WRITE}");
        assert_eq!(FioAnswer::parse(&text).unwrap(), FioAnswer::parse(WRITE).unwrap());
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let old = WRITE.replace("fio-3.33", "fio-2.16");
        let failed = WRITE.replacen("\"error\" : 0", "\"error\" : 28", 1);
        for (text, says) in [
            ("", "no JSON"),
            ("{\"fio version\": \"fio-3.1\", \"jobs\": []}", "0 groups"),
            (&old, "fio 3 or later"),
            (&failed, "No space left"),
            (&WRITE[..400], "EOF"),
        ] {
            let error = FioAnswer::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
