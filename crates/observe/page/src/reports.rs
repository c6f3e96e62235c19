//! Reports of `braid lab` in a folder. Anybody may have written them, so texts are shown as text,
//! and pages run no code.

use braid_control::request::Refusal;

/// A folder of reports. Its methods may block for a moment.
pub trait Reports: Send + Sync {
    /// Where they are, for people.
    fn folder(&self) -> String;

    /// All reports, newest first.
    ///
    /// # Errors
    /// Why the folder can't be read.
    fn all(&self) -> Result<Vec<ReportLine>, Refusal>;

    /// The figures in a `--json` file.
    ///
    /// # Errors
    /// There is no such file, or it contains none.
    fn open(&self, name: &str) -> Result<Report, Refusal>;

    /// A `--report` file, unchanged.
    ///
    /// # Errors
    /// There is no such file.
    fn page(&self, name: &str) -> Result<Vec<u8>, Refusal>;
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportLine {
    /// Its name in the folder.
    pub name: String,
    /// What is in it.
    pub kind: ReportKind,
    /// When it was written, Unix seconds.
    pub written_unix: i64,
    /// Its size.
    pub bytes: u64,
}

/// What is in a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// Figures: `.json`.
    Figures,
    /// A page with plots: `.html`.
    Page,
}

/// The measurements of one run of the lab.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// One for each scenario and kernel: figures from two kernels are never compared.
    pub parts: Vec<Part>,
    /// Whether there is more than is shown.
    pub cut_short: bool,
}

/// One scenario under one kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its name.
    pub scenario: String,
    /// The machine, for people.
    pub host: String,
    /// One for each engine and traffic, in the order of measurement.
    pub rows: Vec<Row>,
}

/// Medians over the repetitions of one engine and traffic. What doesn't apply is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Such as `tunnel:balance-rr`.
    pub engine: String,
    /// Such as `tcp-down-1-cubic`.
    pub traffic: String,
    /// Number of repetitions.
    pub runs: usize,
    /// Payload that arrived, Mbit/s.
    pub goodput_mbps: Option<f64>,
    /// Goodput divided by the sum of what each link carries alone.
    pub ratio: Option<f64>,
    /// Longest time without new bytes, ms.
    pub longest_stall_ms: Option<f64>,
    /// Median round-trip time, ms.
    pub ping_p50_ms: Option<f64>,
    /// Round-trip time at the 95th percentile, ms.
    pub ping_p95_ms: Option<f64>,
    /// Share of datagrams lost, 0 to 1.
    pub loss: Option<f64>,
    /// CPU time at home, seconds.
    pub cpu_home_s: Option<f64>,
    /// CPU time at the concentrator, seconds.
    pub cpu_concentrator_s: Option<f64>,
    /// Goodput over time (seconds, Mbit/s) of the repetition nearest to the median.
    pub series: Vec<(f64, f64)>,
}
