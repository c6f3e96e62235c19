use super::failure::{Failure, FailureKind, print_line, tell};
use super::status_table::columns;
use super::{Global, JsonFlag};
use braid_control::client::ClientError;
use braid_control::config::Config;
use braid_control::request::HistoryQuery;
use braid_history::{By, Level, Period, Periods, Points, Series, Store, unix_now};
use braid_units::ByteSize;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "Hours, days and months are in this host's time zone. A running tunnel is asked; otherwise its history file is read.\n\nExamples:\n  braid history\n  braid history --link dsl --by month\n  braid history --by hour --last 48 --csv\n  braid history --json | jq '.periods[-1].rx_bytes'"
)]
pub struct History {
    #[command(flatten)]
    _json: JsonFlag,
    /// Only traffic over this link; without it, all traffic through the tunnel
    #[arg(long, value_name = "NAME", conflicts_with = "peer")]
    link: Option<String>,
    /// Only traffic to and from this peer (on a concentrator: a home)
    #[arg(long, value_name = "NAME")]
    peer: Option<String>,
    /// Only traffic of this LAN device
    #[arg(long, value_name = "NAME", conflicts_with_all = ["link", "peer"])]
    device: Option<String>,
    /// A row for each hour, day or month
    #[arg(long, value_enum, default_value = "day")]
    by: Rows,
    /// Number of rows, up to now [default: 24 hours, 31 days, 12 months]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=30_000))]
    last: Option<u32>,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rows {
    Hour,
    Day,
    Month,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    series: Series,
    by: By,
    periods: Vec<Period>,
}

impl History {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (by, usual) = match self.by {
            Rows::Hour => (By::Hour, 24),
            Rows::Day => (By::Day, 31),
            Rows::Month => (By::Month, 12),
        };
        let series = match (&self.link, &self.peer, &self.device) {
            (Some(link), ..) => Series::Link(link.clone()),
            (None, Some(peer), _) => Series::Peer(peer.clone()),
            (None, None, Some(device)) => Series::Device(device.clone()),
            (None, None, None) => Series::Tunnel,
        };
        let periods = Periods::here(by);
        let now = unix_now();
        let from = periods.begin(now, self.last.unwrap_or(usual));
        let known = Known::of(global)?;
        let series_known = known.series()?;
        if !series_known.contains(&series) {
            return Err(unknown(&series, &series_known));
        }
        let points = known.points(&series, from, now + 1)?;
        let report = Report { series, by, periods: periods.sums(&points.points) };
        if self.csv {
            return print_line(&csv(&report.periods));
        }
        global.print(&report, || table(&report.periods))
    }
}

/// Where history is read from.
enum Known {
    Running(braid_control::client::Client),
    File(Store),
}

impl Known {
    fn of(global: &Global) -> Result<Known, Failure> {
        let client = global.client()?;
        match client.history_overview() {
            Ok(_) => return Ok(Known::Running(client)),
            Err(ClientError::NotRunning(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let file = file_of(&global.load_config()?);
        if !file.exists() {
            let message = format!("no history yet: there is no {}", file.display());
            return Err(Failure::failed(message));
        }
        tell("no tunnel is running: this is its stored history");
        Ok(Known::File(
            Store::open_to_read(&file)
                .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?,
        ))
    }

    fn series(&self) -> Result<Vec<Series>, Failure> {
        match self {
            Known::Running(client) => Ok(client.history_overview()?.series),
            Known::File(store) => Ok(store.series()),
        }
    }

    fn points(&self, series: &Series, from: i64, to: i64) -> Result<Points, Failure> {
        // Minutes, because some time zones aren't whole hours off.
        const MOST: u32 = 31 * 24 * 60;
        match self {
            Known::Running(client) => {
                let query = HistoryQuery { series: series.clone(), from, to, most: Some(MOST) };
                Ok(client.history(&query)?)
            }
            Known::File(store) => {
                let level = Level::for_range(from, to, to, i64::from(MOST));
                let level = if level == Level::Second { Level::TenSeconds } else { level };
                let points = store.read(series, level, level.start(from), to);
                let points = points.map_err(|error| Failure::failed(error.to_string()))?;
                Ok(Points { width_s: level.width(), points })
            }
        }
    }
}

/// The history database of this config's tunnel.
pub fn file_of(config: &Config) -> PathBuf {
    config.history.file.clone().unwrap_or_else(|| {
        let interface = &config.interface;
        interface.state_dir.join(format!("{}.history.db", interface.name))
    })
}

fn unknown(series: &Series, known: &[Series]) -> Failure {
    let names: Vec<String> = known.iter().map(ToString::to_string).collect();
    let what = match names.is_empty() {
        true => "there is no history yet".to_owned(),
        false => format!("there is history of {}", names.join(", ")),
    };
    Failure::new(FailureKind::Failed, format!("no history of {series}; {what}"))
}

const HEAD: [&str; 8] = ["WHEN", "DOWN", "UP", "SUM", "MEAN", "DELAY", "LOSS", "UP TIME"];

fn table(periods: &[Period]) -> String {
    if periods.is_empty() {
        return "nothing in that time".to_owned();
    }
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(periods.iter().map(row));
    columns(&rows).join("\n")
}

fn row(period: &Period) -> Vec<String> {
    let sum = &period.sum;
    let size = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
    let none = || "-".to_owned();
    let both = sum.rx_bytes.saturating_add(sum.tx_bytes);
    let mean = (sum.seconds > 0)
        .then(|| format!("{:.2} Mbit/s", both as f64 * 8e-6 / f64::from(sum.seconds)));
    vec![
        period.name.clone(),
        size(sum.rx_bytes),
        size(sum.tx_bytes),
        size(both),
        mean.unwrap_or_else(none),
        sum.rtt_ms().map_or_else(none, |ms| format!("{ms:.1} ms")),
        sum.loss().map_or_else(none, |loss| format!("{:.2} %", loss * 100.0)),
        sum.up_share().map_or_else(none, |share| format!("{:.1} %", share * 100.0)),
    ]
}

fn csv(periods: &[Period]) -> String {
    let head = "name,start_unix,rx_bytes,tx_bytes,seconds,up_seconds,sent,lost,rtt_ms,rtt_max_ms";
    let line = |period: &Period| {
        let sum = &period.sum;
        let rtt = sum.rtt_ms().map_or_else(String::new, |ms| format!("{ms:.3}"));
        let most = f64::from(sum.rtt_max_us) / 1e3;
        format!(
            "{},{},{},{},{},{},{},{},{rtt},{}",
            period.name,
            period.start_unix,
            sum.rx_bytes,
            sum.tx_bytes,
            sum.seconds,
            sum.up_seconds,
            sum.sent,
            sum.lost,
            if sum.rtt_count > 0 { format!("{most:.3}") } else { String::new() }
        )
    };
    let lines = std::iter::once(head.to_owned()).chain(periods.iter().map(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_history::Bucket;

    fn period() -> Period {
        let sum = Bucket {
            seconds: 3600,
            up_seconds: 1800,
            rx_bytes: 9_000_000_000,
            tx_bytes: 0,
            sent: 1000,
            lost: 5,
            rtt_sum_us: 50_000,
            rtt_count: 2,
            rtt_max_us: 30_000,
        };
        Period { start_unix: 1_760_000_000, name: "2025-10-09".into(), sum }
    }

    #[test]
    fn a_day_is_one_row() {
        let expected = "\
WHEN        DOWN  UP  SUM  MEAN          DELAY    LOSS    UP TIME
2025-10-09  9GB   0B  9GB  20.00 Mbit/s  25.0 ms  0.50 %  50.0 %";
        assert_eq!(table(&[period()]), expected);
        assert_eq!(table(&[]), "nothing in that time");
    }

    #[test]
    fn what_is_not_known_is_empty_in_csv() {
        let idle = Period { sum: Bucket { seconds: 1, ..Bucket::default() }, ..period() };
        let text = csv(&[period(), idle]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "2025-10-09,1760000000,9000000000,0,3600,1800,1000,5,25.000,30.000");
        assert_eq!(lines[2], "2025-10-09,1760000000,0,0,1,0,0,0,,");
        let commas = |line: &&str| line.matches(',').count();
        assert!(lines.iter().all(|line| commas(line) == 9));
    }
}
