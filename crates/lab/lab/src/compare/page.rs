use super::text::{READING, cells, kernel, left_out, shape};
use super::{Compared, Suite};
use crate::report::{Report, html};
use std::fmt::Write;

/// The comparison as a self-contained page: tables, bars, and for cases with events, the rates over
/// time.
pub fn page(suite: Suite, compared: &[Compared], command: &str) -> String {
    let escape = html::escape;
    let mut body = format!(
        "<p class=\"host\">Made by <code>{}</code>. {} {}</p>\n",
        escape(command),
        escape(READING),
        escape(&left_out(suite))
    );
    for Compared { findings, .. } in compared {
        let scenario = &findings.report.scenario;
        // Writing to a String can't fail.
        let _ = writeln!(body, "<h1>{}</h1>\n<ul>", escape(&scenario.description));
        for link in &scenario.links {
            let (down, up) = (shape(&link.model.down), shape(&link.model.up));
            let name = escape(&link.model.name);
            let _ = writeln!(body, "<li>{name}: {} down, {} up</li>", escape(&down), escape(&up));
        }
        body.push_str("</ul>\n");
        for report in findings.reports() {
            under_one_kernel(&mut body, report);
        }
        for failure in &findings.failures {
            let line = failure.lines().next().unwrap_or_default();
            let _ = writeln!(body, "<p class=\"host\">Not measured: {}</p>", escape(line));
        }
    }
    html::document(suite.title(), &body)
}

fn under_one_kernel(body: &mut String, report: &Report) {
    let escape = html::escape;
    let _ = writeln!(body, "<h2>{}</h2>", escape(&kernel(&report.host)));
    for note in &report.notes {
        let _ = writeln!(body, "<p class=\"host\">Note: {}</p>", escape(note));
    }
    body.push_str("<div class=\"wide\"><table>\n");
    for (number, row) in cells(report).iter().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        body.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let plain = if column == 0 { cell.trim_matches('*') } else { cell };
            let _ = write!(body, "<{tag}>{}</{tag}>", escape(plain));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n<details><summary>As bars</summary>\n");
    html::overview(body, report);
    body.push_str("</details>\n");
    if !report.scenario.events.is_empty() {
        body.push_str("<details><summary>Over time</summary>\n");
        html::over_time(body, report);
        body.push_str("</details>\n");
    }
}
