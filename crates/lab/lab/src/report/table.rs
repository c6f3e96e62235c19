use super::markdown_table::render;
use super::{Report, Row, Run};
use std::fmt::Write;

/// The rows of medians as a Markdown table, which is also readable in a
/// terminal.
pub fn markdown(report: &Report) -> String {
    let rows = report.rows();
    let mut cells: Vec<Vec<String>> = vec![
        ["engine", "traffic", "runs", "Mbit/s", "of sum", "best link", "stall ms", "ping p50/p95"]
            .into_iter()
            .chain(["pings lost", "loss", "reordered", "CPU s h/c", "overhead"])
            .map(str::to_owned)
            .collect(),
    ];
    cells.extend(rows.iter().map(row_cells));
    let mut text = render(&cells);
    text.push_str(&super::web::markdown(report));
    for note in &report.notes {
        let _ = writeln!(text, "Note: {note}");
    }
    text
}

fn row_cells(row: &Row<'_>) -> Vec<String> {
    let of = |figure: &dyn Fn(&Run) -> Option<f64>, digits: usize| {
        row.median(figure).map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let percent = |figure: &dyn Fn(&Run) -> Option<f64>, digits: usize| {
        let share = row.median(figure);
        share.map_or_else(|| "–".to_owned(), |share| format!("{:.digits$} %", share * 100.0))
    };
    let ping = match row.median(|run| Some(run.ping_ms?.p50)) {
        Some(p50) => format!("{p50:.1} / {}", of(&|run| Some(run.ping_ms?.p95), 1)),
        None => "–".to_owned(),
    };
    let cpu = match row.median(|run| Some(run.cpu_seconds?.home)) {
        Some(home) => format!("{home:.1} / {}", of(&|run| Some(run.cpu_seconds?.concentrator), 1)),
        None => "–".to_owned(),
    };
    vec![
        row.engine.to_owned(),
        row.traffic.to_owned(),
        row.records.len().to_string(),
        of(&|run| run.goodput_mbps, 2),
        percent(&|run| run.ratio, 0),
        of(&|run| run.best_link_mbps, 2),
        of(&|run| run.longest_stall_ms, 0),
        ping,
        of(&|run| run.ping_lost.map(|lost| lost as f64), 0),
        percent(&|run| run.udp_loss, 2),
        percent(&|run| run.reordered, 1),
        cpu,
        of(&|run| run.overhead_ratio, 3),
    ]
}

/// A bar chart of the goodputs for a terminal of `width` columns, scaled to the sum of the links.
pub fn bars(report: &Report, width: usize) -> String {
    let rows = report.rows();
    let goodputs: Vec<(String, f64, Option<f64>)> = rows
        .iter()
        .filter_map(|row| {
            let goodput = row.median(|run| run.goodput_mbps)?;
            Some((row.engine.to_owned(), goodput, row.median(|run| run.ratio)))
        })
        .collect();
    let sum = rows.iter().find_map(|row| row.median(|run| run.sum_of_links_mbps));
    let scale = goodputs.iter().map(|(_, mbps, _)| *mbps).chain(sum).fold(1e-9, f64::max);
    let name_width = goodputs.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let name_width = name_width.max("sum of links".len());
    let room = width.saturating_sub(name_width + 20).clamp(10, 60);
    let mut text = String::new();
    let mut bar = |name: &str, mbps: f64, ratio: Option<f64>, mark: char| {
        let filled = (mbps / scale * room as f64).round() as usize;
        let bar: String = std::iter::repeat_n(mark, filled.min(room)).collect();
        let share = ratio.map_or_else(String::new, |ratio| format!("  {:.0} %", ratio * 100.0));
        let _ = writeln!(text, "{name:>name_width$} {bar:<room$} {mbps:>8.2}{share}");
    };
    for (name, mbps, ratio) in &goodputs {
        bar(name, *mbps, *ratio, '█');
    }
    if let Some(sum) = sum {
        bar("sum of links", sum, None, '░');
    }
    text
}
