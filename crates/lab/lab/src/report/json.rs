use super::Web;
use crate::traffic::statistics::Percentiles;
use serde::{Deserialize, Serialize};

/// What `--json` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Name of the scenario.
    pub scenario: String,
    /// Where it was measured.
    pub host: Host,
    /// Every run and traffic, in the order of measurement.
    pub runs: Vec<Run>,
    /// What was measured in a VM because this kernel lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<Box<Results>>,
}

/// The machine that measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// Model of the CPU.
    pub cpu: String,
    /// Usable logical CPUs.
    pub cores: usize,
    /// Version of this program.
    pub braid: String,
    /// Whether it is one of the lab's VMs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vm: bool,
}

/// One traffic of one run. What doesn't apply to it is `None` (`null`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The engine's name as on the command line (`tunnel:balance-rr`, `link:3g-1`).
    pub engine: String,
    /// The traffic's name, such as `tcp-down-1-cubic`.
    pub traffic: String,
    /// From 1.
    pub repetition: u32,
    /// Payload delivered to the application from the traffic's start to its
    /// stop, slow start included, in Mbit/s (10^6).
    pub goodput_mbps: Option<f64>,
    /// Sum of what each link carries alone, median of the repetitions; see `docs/reference/lab.md`.
    pub sum_of_links_mbps: Option<f64>,
    /// The largest of these.
    pub best_link_mbps: Option<f64>,
    /// Goodput ÷ sum of links.
    pub ratio: Option<f64>,
    /// Longest time without new bytes of any flow between its first byte and
    /// the end.
    pub longest_stall_ms: Option<f64>,
    /// Round-trip times.
    pub ping_ms: Option<PingMs>,
    /// Pings never answered.
    pub ping_lost: Option<u64>,
    /// Share of the datagrams lost, 0 to 1; of voice: lost or later than
    /// 150 ms.
    pub udp_loss: Option<f64>,
    /// Share of the received datagrams that came after a younger one, 0 to 1.
    pub reordered: Option<f64>,
    /// CPU time of the engine's processes over the run.
    pub cpu_seconds: Option<CpuSeconds>,
    /// IP bytes on the links per payload byte, divided by plain TCP's 1500 ÷ 1448; see
    /// `docs/reference/lab.md`.
    pub overhead_ratio: Option<f64>,
    /// Times of objects and pages.
    pub web: Option<Web>,
    /// Seconds since the traffic's start, and goodput in the 100 ms from there.
    pub series: Option<Vec<(f64, f64)>>,
}

/// Percentiles of round-trip times in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PingMs {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Slowest.
    pub max: f64,
}

impl From<Percentiles> for PingMs {
    fn from(p: Percentiles) -> Self {
        PingMs { p50: p.p50, p95: p.p95, p99: p.p99, max: p.max }
    }
}

/// User and system time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// Of the processes at home, seconds.
    pub home: f64,
    /// Of the processes at the concentrator, seconds.
    pub concentrator: f64,
}

impl Host {
    /// This machine.
    pub fn this() -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo
            .lines()
            .find(|line| line.starts_with("model name") || line.starts_with("Model"))
            .and_then(|line| line.split_once(':'))
            .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, m)| m.trim().to_owned());
        Host {
            kernel: kernel.trim().to_owned(),
            cpu: model,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            braid: env!("CARGO_PKG_VERSION").to_owned(),
            vm: cpuinfo.contains("User Mode Linux"),
        }
    }
}

impl Results {
    /// The file's text.
    pub fn to_json(&self) -> String {
        // Our own types without maps of odd keys always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
