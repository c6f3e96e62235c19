//! Reports of `braid lab`, in a folder. Whoever wrote them: their texts are text, their pages run
//! nothing.

use braid_control::request::Refusal;

/// A folder of reports. Its methods may block for a moment.
pub trait Reports: Send + Sync {
    /// Where they are, for people.
    fn folder(&self) -> String;

    /// Newest first.
    ///
    /// # Errors
    /// Why the folder can't be read.
    fn all(&self) -> Result<Vec<ReportLine>, Refusal>;

    /// The figures in a file of `--json`.
    ///
    /// # Errors
    /// There is no such file, or it holds none.
    fn open(&self, name: &str) -> Result<Report, Refusal>;

    /// A file of `--report`, as it is.
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

/// What was measured in one call of the lab.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Each scenario and kernel: figures of two kernels are never compared.
    pub parts: Vec<Part>,
    /// There is more than is shown.
    pub cut_short: bool,
}

/// One scenario under one kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its name.
    pub scenario: String,
    /// The machine, for people.
    pub host: String,
    /// Each engine and traffic, in the order of measurement.
    pub rows: Vec<Row>,
}

/// Medians over the repetitions of one engine and traffic. What doesn't apply is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// As `tunnel:balance-rr`.
    pub engine: String,
    /// As `tcp-down-1-cubic`.
    pub traffic: String,
    /// Repetitions.
    pub runs: usize,
    /// Payload that arrived, Mbit/s.
    pub goodput_mbps: Option<f64>,
    /// Goodput by the sum of what each link carries alone.
    pub ratio: Option<f64>,
    /// Longest time without new bytes, ms.
    pub longest_stall_ms: Option<f64>,
    /// Round trips, ms.
    pub ping_p50_ms: Option<f64>,
    /// As above.
    pub ping_p95_ms: Option<f64>,
    /// Share of datagrams lost, 0 to 1.
    pub loss: Option<f64>,
    /// CPU time at home, seconds.
    pub cpu_home_s: Option<f64>,
    /// And at the concentrator.
    pub cpu_concentrator_s: Option<f64>,
    /// Goodput over time (seconds, Mbit/s) of the repetition that is nearest to the median.
    pub series: Vec<(f64, f64)>,
}
