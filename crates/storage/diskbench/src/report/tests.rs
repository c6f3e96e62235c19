use super::*;
use crate::measure::Run;
use crate::sectors::Moved;
use crate::statistic::Statistic;
use crate::workload::{Unit, Workload};

fn measured(workload: Workload, figures: &[f64], bytes: [u64; 2]) -> Measurement {
    let moved = |bytes| Moved { read_bytes: bytes, written_bytes: 0 };
    let run =
        |figure: &f64| Run { figure: *figure, p99_seconds: None, disks: bytes.map(moved).to_vec() };
    Measurement {
        subject: Subject::Files(workload),
        unit: Unit::BytesPerSecond,
        runs: figures.iter().map(run).collect(),
        figure: Statistic::of(figures.iter().copied()).unwrap(),
        model: None,
    }
}

fn report() -> Report {
    let disk = |path: &str| DiskReport {
        path: path.to_owned(),
        kind: DiskKind::Hdd,
        rotational: true,
        size_bytes: 4_000_000_000_000,
        alone: Some(DiskSpeed { read: 2e8, write: 1e8, random_read: 90.0, random_write: 80.0 }),
    };
    let findings = Findings {
        measurements: vec![
            measured(Workload::ReadOne, &[3.8e8, 3.6e8, 3.7e8], [500, 500]),
            measured(Workload::ReadMany, &[3.9e8, 3.9e8, 3.9e8], [1, 3]),
            measured(Workload::WriteOne, &[9e7, 8e7, 1e8], [0, 0]),
        ],
        skipped: vec!["MariaDB: not measured <here>".to_owned()],
    };
    let layout = LayoutReport {
        layout: Some("md-raid10-f2".parse().unwrap()),
        pool: None,
        disks: vec!["/dev/a".to_owned(), "/dev/b".to_owned()],
        findings,
    };
    Report::new("6.18".to_owned(), 3, 1.0, vec![disk("/dev/a"), disk("/dev/b")], vec![layout])
}

#[test]
fn the_model_of_the_disks_measured_alone_stands_beside() {
    let report = report();
    let models: Vec<Option<f64>> =
        report.layouts[0].findings.measurements.iter().map(|each| each.model).collect();
    assert_eq!(models, [Some(4e8), Some(4e8), Some(9e7)]);
    let row = row_of(&report.layouts[0], &report.layouts[0].findings.measurements[1]);
    assert_eq!(row[5..], ["0 %", "400.0 MB/s", "25/75 %"]);
    assert_eq!(rows(&report)[3][7], "–", "nothing was moved");
}

#[test]
fn plan_reads_the_speeds_that_bench_writes() {
    let text = serde_json::to_string(&report().speeds).unwrap();
    let speeds: Speeds = serde_json::from_str(&text).unwrap();
    speeds.check().unwrap();
    assert_eq!(speeds.layouts[0].read_one, 3.7e8);
    assert_eq!(speeds.disks[1].disk.as_deref(), Some("/dev/b"));
}

#[test]
fn the_page_has_bars_marks_and_no_foreign_tags() {
    let page = html(&report());
    assert_eq!(page.matches("<rect class=\"bar\"").count(), 3);
    assert_eq!(page.matches("<line class=\"model\"").count(), 3);
    assert!(page.contains("not measured &lt;here&gt;"));
    for (open, close) in [("<svg", "</svg>"), ("<table", "</table>"), ("<tr>", "</tr>")] {
        assert_eq!(page.matches(open).count(), page.matches(close).count());
    }
}
