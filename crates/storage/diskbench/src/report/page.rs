use super::Report;
use super::bars::{Bar, svg};
use super::table::rows;
use crate::measure::Subject;
use braid_plot::escape;
use std::fmt::Write;

/// A self-contained page: a chart for each thing measured, then the table.
pub fn html(report: &Report) -> String {
    let mut page = String::from(HEAD);
    let disks: Vec<String> = report.disks.iter().map(super::DiskReport::describe).collect();
    let _ = writeln!(
        page,
        "<p>{} · Linux {} · {} runs of {} s each</p>\n\
         <p>Bars: medians; thin lines: from the lowest to the highest run; red marks: the model.</p>",
        escape(&disks.join(", ")),
        escape(&report.kernel),
        report.runs,
        report.seconds,
    );
    for subject in subjects(report) {
        let _ = writeln!(page, "<h2>{}</h2>", escape(&subject.to_string()));
        page.push_str(&svg(&bars(report, subject)));
    }
    page.push_str("<h2>All figures</h2>\n<table>\n");
    for (index, row) in rows(report).iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        let cells: String =
            row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        let _ = writeln!(page, "<tr>{cells}</tr>");
    }
    page.push_str("</table>\n");
    for line in report.layouts.iter().flat_map(|layout| &layout.findings.skipped) {
        let _ = writeln!(page, "<p>{}</p>", escape(line));
    }
    page.push_str("</main></body></html>\n");
    page
}

/// In the order they were first measured.
fn subjects(report: &Report) -> Vec<Subject> {
    let mut found: Vec<Subject> = Vec::new();
    for layout in &report.layouts {
        for measurement in &layout.findings.measurements {
            if !found.contains(&measurement.subject) {
                found.push(measurement.subject);
            }
        }
    }
    found
}

fn bars(report: &Report, subject: Subject) -> Vec<Bar<'_>> {
    let of = |layout: &'_ super::LayoutReport| {
        let name = layout.name();
        move |measurement| Bar { name: name.clone(), measurement }
    };
    report
        .layouts
        .iter()
        .flat_map(|layout| {
            layout
                .findings
                .measurements
                .iter()
                .filter(move |each| each.subject == subject)
                .map(of(layout))
        })
        .collect()
}

const HEAD: &str = r#"<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>braid pool bench</title>
<style>
:root { color-scheme: light dark; --text: #1f2328; --back: #fff; --bar: #4c78a8; --soft: #d0d7de; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --back: #0d1117; --soft: #30363d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0; }
main { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; } svg text { font-size: 13px; fill: var(--text); }
.bar { fill: var(--bar); } .whisker { stroke: var(--text); stroke-width: 1.5; } .model { stroke: #e45756; stroke-width: 2.5; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .25rem .7rem; border-bottom: 1px solid var(--soft); white-space: nowrap; }
</style></head>
<body><main>
<h1>braid pool bench</h1>
"#;
