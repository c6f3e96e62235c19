use super::{LayoutReport, Report};
use crate::measure::Measurement;
use crate::workload::Unit;

/// A header and one row per measurement, to be laid out in columns.
pub fn rows(report: &Report) -> Vec<Vec<String>> {
    let head = ["LAYOUT", "WHAT", "MEDIAN", "LOWEST", "HIGHEST", "SPREAD", "MODEL", "DISKS' SHARE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for layout in &report.layouts {
        rows.extend(layout.findings.measurements.iter().map(|each| row_of(layout, each)));
    }
    rows
}

/// One measurement's row.
pub fn row_of(layout: &LayoutReport, measurement: &Measurement) -> Vec<String> {
    let figure = &measurement.figure;
    let text = |value: f64| written(value, measurement.unit);
    vec![
        layout.name(),
        measurement.subject.to_string(),
        text(figure.median),
        text(figure.lowest),
        text(figure.highest),
        // One run has no spread.
        match measurement.runs.len() {
            0 | 1 => "–".to_owned(),
            _ => format!("{:.0} %", figure.spread() * 100.0),
        },
        measurement.model.map_or_else(|| "–".to_owned(), text),
        shares(&measurement.spread()),
    ]
}

/// `50/50 %`: each disk's part of the bytes moved.
fn shares(bytes: &[u64]) -> String {
    let all: u64 = bytes.iter().sum();
    if all == 0 {
        return "–".to_owned();
    }
    let share = |bytes: &u64| format!("{:.0}", *bytes as f64 / all as f64 * 100.0);
    format!("{} %", bytes.iter().map(share).collect::<Vec<_>>().join("/"))
}

/// A figure with its unit.
pub(super) fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::BytesPerSecond => format!("{:.1} MB/s", value / 1e6),
        Unit::PerSecond => format!("{value:.0} /s"),
        Unit::Seconds if value < 0.1 => format!("{:.2} ms", value * 1e3),
        Unit::Seconds => format!("{value:.2} s"),
    }
}
