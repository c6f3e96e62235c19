//! Reports of the lab in a folder, for the page. Their writers aren't trusted: only plain files of
//! bounded size are read, and only figures are used.

use braid_control::request::Refusal;
use braid_lab::report::{Results, Run};
use braid_lab::traffic::statistics::median;
use braid_page::reports::{Part, Report, ReportKind, ReportLine, Reports, Row};
use serde::Deserialize;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// A folder of reports.
pub struct ReportFolder(PathBuf);

/// 1800 runs of ten seconds, as `braid lab compare --repeat 3` makes, have less than 10 KB each.
const LARGEST: u64 = 16 << 20;
/// Maximum files listed, the newest.
const MOST_FILES: usize = 200;
/// Maximum directory entries read.
const MOST_NAMES: usize = 10_000;
/// Maximum rows shown of a report.
const MOST_ROWS: usize = 300;
/// Maximum points drawn of a row.
const MOST_POINTS: usize = 1000;
/// Maximum characters shown of a text.
const MOST_CHARACTERS: usize = 100;

impl ReportFolder {
    /// `None` if it doesn't exist.
    pub fn open(folder: PathBuf) -> Option<ReportFolder> {
        folder.is_dir().then_some(ReportFolder(folder))
    }

    fn read(&self, name: &str, kind: ReportKind) -> Result<Vec<u8>, Refusal> {
        let none = || Refusal::NotFound("there is no such report".into());
        if kind_of(name) != Some(kind) {
            return Err(none());
        }
        // A symbolic link, or a pipe that waits for a writer, isn't a report.
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(i32::try_from(flags).unwrap_or_default())
            .open(self.0.join(name))
            .map_err(|_| none())?;
        bounded(file).ok_or_else(|| {
            Refusal::Invalid(format!("that is not a plain file, or is larger than {LARGEST} bytes"))
        })
    }
}

fn bounded(file: File) -> Option<Vec<u8>> {
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > LARGEST {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LARGEST).then_some(bytes)
}

/// Its kind by name, if it is a listed file.
fn kind_of(name: &str) -> Option<ReportKind> {
    let listed = !name.starts_with('.') && !name.contains(['/', '\0']) && name.len() <= 200;
    let (_, ending) = name.rsplit_once('.').filter(|_| listed)?;
    match ending {
        "json" => Some(ReportKind::Figures),
        "html" => Some(ReportKind::Page),
        _ => None,
    }
}

impl Reports for ReportFolder {
    fn folder(&self) -> String {
        self.0.display().to_string()
    }

    fn all(&self) -> Result<Vec<ReportLine>, Refusal> {
        let failed = |error| Refusal::Failed(format!("{}: {error}", self.0.display()));
        let entries = fs::read_dir(&self.0).map_err(failed)?;
        let line = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let kind = kind_of(&name)?;
            // Metadata of the link itself, not of its target.
            let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let written = about.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let written_unix = i64::try_from(written.as_secs()).unwrap_or(i64::MAX);
            Some(ReportLine { name, kind, written_unix, bytes: about.len() })
        };
        let mut lines: Vec<ReportLine> =
            entries.take(MOST_NAMES).flatten().filter_map(line).collect();
        lines.sort_by(|a, b| b.written_unix.cmp(&a.written_unix).then(a.name.cmp(&b.name)));
        lines.truncate(MOST_FILES);
        Ok(lines)
    }

    fn open(&self, name: &str) -> Result<Report, Refusal> {
        let text = self.read(name, ReportKind::Figures)?;
        // Try one format after the other: parsing both at once would hold every number three times.
        let one = || serde_json::from_slice(&text).map(|results| vec![results]);
        let compared = || serde_json::from_slice(&text).map(|Compared { cases }| cases);
        let measured = one().or_else(|_| compared()).map_err(|_| {
            Refusal::Invalid("that file isn't a result written by `braid lab run --json`".into())
        })?;
        Ok(report(measured))
    }

    fn page(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        self.read(name, ReportKind::Page)
    }
}

/// What `--json` of `compare` writes.
#[derive(Deserialize)]
struct Compared {
    cases: Vec<Results>,
}

fn report(measured: Vec<Results>) -> Report {
    let mut waiting: Vec<Results> = measured.into_iter().rev().collect();
    let mut report = Report::default();
    let mut left = MOST_ROWS;
    while let Some(results) = waiting.pop() {
        if left == 0 {
            report.cut_short = true;
            break;
        }
        let (part, cut_short) = part(&results, left);
        left -= part.rows.len();
        report.cut_short |= cut_short;
        report.parts.push(part);
        waiting.extend(results.vm.map(|vm| *vm));
    }
    report
}

/// At most `most` rows, and whether there are more.
fn part(results: &Results, most: usize) -> (Part, bool) {
    let host = &results.host;
    let place = if host.vm { " · in a VM" } else { "" };
    let host = format!(
        "{} · {} cores · Linux {} · braid {}{place}",
        short(&host.cpu),
        host.cores,
        short(&host.kernel),
        short(&host.braid)
    );
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    let mut cut_short = false;
    for run in &results.runs {
        let same =
            |group: &Vec<&Run>| group[0].engine == run.engine && group[0].traffic == run.traffic;
        match groups.iter().position(same) {
            Some(number) => groups[number].push(run),
            None if groups.len() < most => groups.push(vec![run]),
            None => cut_short = true,
        }
    }
    let scenario = match results.host.vm {
        true => format!("{} (VM)", short(&results.scenario)),
        false => short(&results.scenario),
    };
    (Part { scenario, host, rows: groups.iter().map(|runs| row(runs)).collect() }, cut_short)
}

/// The row for the repetitions of one engine and traffic; at least one.
fn row(runs: &[&Run]) -> Row {
    let of = |figure: fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| figure(run)).collect();
        median(&values)
    };
    let goodput_mbps = of(|run| run.goodput_mbps);
    let distance = |run: &&&Run| match (run.goodput_mbps, goodput_mbps) {
        (Some(mbps), Some(typical)) => (mbps - typical).abs(),
        _ => 0.0,
    };
    let typical = runs.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let points = typical.and_then(|run| run.series.as_ref());
    Row {
        engine: short(&runs[0].engine),
        traffic: short(&runs[0].traffic),
        runs: runs.len(),
        goodput_mbps,
        ratio: of(|run| run.ratio),
        longest_stall_ms: of(|run| run.longest_stall_ms),
        ping_p50_ms: of(|run| Some(run.ping_ms?.p50)),
        ping_p95_ms: of(|run| Some(run.ping_ms?.p95)),
        loss: of(|run| run.udp_loss),
        cpu_home_s: of(|run| Some(run.cpu_seconds?.home)),
        cpu_concentrator_s: of(|run| Some(run.cpu_seconds?.concentrator)),
        series: points.into_iter().flatten().take(MOST_POINTS).copied().collect(),
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MOST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn results(scenario: &str, mbps: &[f64]) -> serde_json::Value {
        let host = json!({ "kernel": "6", "cpu": "x", "cores": 2, "braid": "1" });
        let run = |(number, mbps): (usize, &f64)| {
            json!({ "engine": "tunnel", "traffic": "down", "repetition": number, "goodput_mbps": mbps,
                    "series": [[0.0, mbps], [1.0, mbps]] })
        };
        let runs: Vec<_> = mbps.iter().enumerate().map(run).collect();
        json!({ "scenario": scenario, "host": host, "runs": runs })
    }

    fn folder() -> (tempfile::TempDir, ReportFolder) {
        let folder = tempfile::tempdir().unwrap();
        let reports = ReportFolder::open(folder.path().to_owned()).unwrap();
        (folder, reports)
    }

    #[test]
    fn figures_are_medians_and_a_comparison_has_a_part_for_each_case() {
        let (folder, reports) = folder();
        let write = |name: &str, value: &serde_json::Value| {
            fs::write(folder.path().join(name), value.to_string()).unwrap();
        };
        write("one.json", &results("3g", &[9.0, 1.0, 10.0]));
        write(
            "all.json",
            &json!({ "suite": "wan", "cases": [results("a", &[1.0]), results("b", &[2.0])] }),
        );
        let mut in_vm = results("3g", &[1.0]);
        in_vm["vm"] = results("3g", &[2.0]);
        in_vm["vm"]["host"]["vm"] = json!(true);
        write("vm.json", &in_vm);
        let one = reports.open("one.json").unwrap();
        let row = &one.parts[0].rows[0];
        assert_eq!((row.runs, row.goodput_mbps, row.series[0].1), (3, Some(9.0), 9.0));
        let names = |name: &str| {
            let parts = reports.open(name).unwrap().parts;
            parts.into_iter().map(|part| part.scenario).collect::<Vec<_>>()
        };
        assert_eq!(names("all.json"), ["a", "b"]);
        assert_eq!(names("vm.json"), ["3g", "3g (VM)"]);
        assert_eq!(reports.all().unwrap().len(), 3);
    }

    #[test]
    fn hostile_files_are_no_reports() {
        let (folder, reports) = folder();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("secret"), "x").unwrap();
        symlink("/etc/passwd", path("link.html")).unwrap();
        symlink("secret", path("own.json")).unwrap();
        fs::create_dir(path("folder.html")).unwrap();
        Command::new("mkfifo").arg(path("pipe.json")).status().unwrap();
        File::create(path("large.html")).unwrap().set_len(LARGEST + 1).unwrap();
        fs::write(path("nonsense.json"), "[".repeat(100_000)).unwrap();
        fs::write(path("other.json"), "{\"scenario\":\"<script>\"}").unwrap();
        for name in
            ["link.html", "folder.html", "../secret.html", "secret", ".html", "large.html", ""]
        {
            assert!(reports.page(name).is_err(), "{name}");
        }
        for name in
            ["own.json", "pipe.json", "nonsense.json", "other.json", "/etc/x.json", "a\0.json"]
        {
            assert!(reports.open(name).is_err(), "{name}");
        }
        let listed: Vec<String> =
            reports.all().unwrap().into_iter().map(|line| line.name).collect();
        assert!(!listed.iter().any(|name| name.contains("link") || name.contains("pipe")));
    }

    #[test]
    fn a_report_of_any_size_is_shown_in_bounds() {
        let (folder, reports) = folder();
        let long = "x".repeat(100_000);
        let run = |number: usize| {
            json!({ "engine": format!("{number}{long}"), "traffic": "a\u{1b}[31m", "repetition": 1,
                    "series": vec![(1.0, 2.0); 5000] })
        };
        let mut report = results("3g", &[]);
        report["runs"] = (0..40).map(run).collect();
        fs::write(folder.path().join("r.json"), report.to_string()).unwrap();
        let shown = reports.open("r.json").unwrap();
        let row = &shown.parts[0].rows[0];
        assert_eq!((row.engine.len(), row.series.len()), (MOST_CHARACTERS, MOST_POINTS));
        assert_eq!(row.traffic, "a[31m");
        let many =
            |number: usize| json!({ "engine": number.to_string(), "traffic": "", "repetition": 1 });
        report["runs"] = (0..=MOST_ROWS).map(many).collect();
        fs::write(folder.path().join("r.json"), report.to_string()).unwrap();
        let shown = reports.open("r.json").unwrap();
        assert!(shown.cut_short && shown.parts[0].rows.len() == MOST_ROWS);
    }
}
