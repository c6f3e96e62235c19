use super::{Compared, Suite};
use crate::emulator::{DirectionModel, Loss};
use crate::report::{Host, Report, Row, Run};
use braid_units::format_duration;
use std::fmt::Write;

/// The comparison in Markdown: one table per case and kernel.
pub fn markdown(suite: Suite, compared: &[Compared], command: &str) -> String {
    let mut text = format!("# {}\n\n", suite.title());
    // Writing to a String can't fail.
    let _ = writeln!(text, "Made by `{command}`.\n\n{READING} {}", left_out(suite));
    for Compared { findings, .. } in compared {
        let scenario = &findings.report.scenario;
        let _ = writeln!(text, "\n## {}\n", scenario.description);
        for link in &scenario.links {
            let (down, up) = (shape(&link.model.down), shape(&link.model.up));
            let _ = writeln!(text, "- `{}`: {down} down, {up} up", link.model.name);
        }
        for report in findings.reports() {
            let _ = writeln!(text, "\n**{}**\n", kernel(&report.host));
            text.push_str(&table(&cells(report)));
            let engines = |note: &&String| !note.starts_with("measured in a VM");
            for note in report.notes.iter().filter(engines) {
                let _ = writeln!(text, "\nNote: {note}");
            }
        }
        for failure in &findings.failures {
            let line = failure.lines().next().unwrap_or_default();
            let _ = writeln!(text, "\nNot measured: {line}");
        }
    }
    text
}

/// What a reader must know about all tables.
pub(super) const READING: &str = "Mbit/s of payload, in brackets the share of what the links carry \
    alone, one after the other, under the same kernel. UDP: also the share lost and the share that \
    came out of order. Figures under different kernels stand in different tables and can't be \
    compared: in the VM (User Mode Linux) system calls are a hundred times slower, so that Samba \
    is limited by the CPU there. Engines of Ethernet take cables as they are, and cross routed \
    lines by GRETAP.";

/// What isn't compared, and why.
pub(super) fn left_out(suite: Suite) -> String {
    let (names, why) = suite.left_out();
    format!("Left out: {}: {why}.", names.join(", "))
}

/// The name of a report's kernel.
pub(super) fn kernel(host: &Host) -> String {
    let place = if host.vm { "In a VM" } else { "On the host" };
    format!("{place}: Linux {}, {}, {} cores", host.kernel, host.cpu, host.cores)
}

/// A direction's figures, as written in a scenario.
pub(super) fn shape(direction: &DirectionModel) -> String {
    let mut text = format!("{}", direction.capacity.mean_rate());
    if !direction.delay.is_zero() {
        let _ = write!(text, ", {}", format_duration(direction.delay));
    }
    if direction.loss != Loss::None {
        let _ = write!(text, ", loss {}", direction.loss.mean());
    }
    text
}

/// One row per engine, one column per traffic; above them, the links alone.
pub(super) fn cells(report: &Report) -> Vec<Vec<String>> {
    let rows = report.rows();
    let traffics = report.scenario.traffic_names();
    let events = !report.scenario.events.is_empty();
    let mut engines: Vec<&str> = Vec::new();
    for row in &rows {
        if !engines.contains(&row.engine) {
            engines.push(row.engine);
        }
    }
    let mut cells = vec![std::iter::once("engine".to_owned()).chain(traffics.clone()).collect()];
    for (name, figure) in [
        ("*all links, each alone*", (|run: &Run| run.sum_of_links_mbps) as fn(&Run) -> _),
        ("*best link*", |run: &Run| run.best_link_mbps),
    ] {
        let of = |traffic: &String| {
            let mut same = rows.iter().filter(|row| row.traffic == traffic);
            same.find_map(|row| row.median(figure))
                .map_or_else(|| "–".to_owned(), |mbps| format!("{mbps:.1}"))
        };
        cells.push(std::iter::once(name.to_owned()).chain(traffics.iter().map(of)).collect());
    }
    for engine in engines {
        let of = |traffic: &String| {
            let row = rows.iter().find(|row| row.engine == engine && row.traffic == traffic);
            row.map_or_else(|| "–".to_owned(), |row| cell(row, events))
        };
        cells.push(std::iter::once(engine.to_owned()).chain(traffics.iter().map(of)).collect());
    }
    cells
}

fn cell(row: &Row<'_>, events: bool) -> String {
    let Some(mbps) = row.median(|run| run.goodput_mbps) else { return "–".to_owned() };
    let mut text = format!("{mbps:.1}");
    if let Some(ratio) = row.median(|run| run.ratio) {
        let _ = write!(text, " ({:.0} %)", ratio * 100.0);
    }
    if let (Some(lost), Some(reordered)) =
        (row.median(|run| run.udp_loss), row.median(|run| run.reordered))
    {
        let _ = write!(text, ", {:.1} % / {:.0} %", lost * 100.0, reordered * 100.0);
    }
    if events && let Some(stall) = row.median(|run| run.longest_stall_ms) {
        let _ = write!(text, ", stall {:.1} s", stall / 1e3);
    }
    text
}

fn table(cells: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (number, row) in cells.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let dashes: Vec<&str> =
                (0..row.len()).map(|column| if column == 0 { ":--" } else { "--:" }).collect();
            let _ = writeln!(text, "|{}|", dashes.join("|"));
        }
    }
    text
}
