use super::Body;
use super::figures::{moment, percent, rate, size};
use crate::form::Form;
use crate::reports::{Part, Report, ReportKind, ReportLine, Reports, Row};
use braid_control::request::Refusal;
use braid_plot::{Curve, Style, svg};
use form_urlencoded::Serializer;
use maud::{Markup, PreEscaped, html};

/// The view below `/reports` at this path.
pub fn show(reports: &dyn Reports, rest: &[&str], query: &Form) -> Option<Body> {
    let text = |key| query.get(key).unwrap_or_default();
    let shown = match rest {
        [] => reports.all().map(|lines| all(reports, &lines)),
        ["open"] => reports.open(text("name")).map(|report| one(text("name"), &report)),
        ["compare"] => {
            let names = [text("first"), text("second")];
            let both = reports
                .open(names[0])
                .and_then(|first| reports.open(names[1]).map(|second| (first, second)));
            both.map(|(first, second)| compare(names, &first, &second))
        }
        _ => return None,
    };
    Some(Body::of(shown, refused))
}

fn refused(refusal: &Refusal) -> Markup {
    html! {
        p.alarm role="alert" { (refusal) }
        p { a href="/reports" { "Back to the reports" } }
    }
}

fn all(reports: &dyn Reports, lines: &[ReportLine]) -> Markup {
    let folder = reports.folder();
    let figures: Vec<&ReportLine> =
        lines.iter().filter(|line| line.kind == ReportKind::Figures).collect();
    html! {
        section.card {
            @if lines.is_empty() { p.dim { "There is no report in " code { (folder) } "." } }
            @else { div.wide tabindex="0" role="region" aria-label="Reports" { table {
                thead { tr { th { "Report" } th { "Form" } th { "Written" } th { "Size" } } }
                tbody { @for line in lines { tr {
                    th scope="row" { a href=(address(line)) { (line.name) } }
                    td { @match line.kind { ReportKind::Figures => "figures", ReportKind::Page => "page" } }
                    td { (moment(line.written_unix)) }
                    td { (size(line.bytes)) }
                } } }
            } } }
        }
        @if figures.len() > 1 { section.card {
            h2 { "Compare two" }
            form.fields method="get" action="/reports/compare" {
                (choose("The first", "first", &figures, 1))
                (choose("The second", "second", &figures, 0))
                button.main { "Compare" }
            }
        } }
        p.dim { "A report comes here by " code { "braid lab run SCENARIO --json " (folder) "/NAME.json" } "; "
            code { "--report" } " writes a page." }
    }
}

fn choose(label: &str, name: &str, figures: &[&ReportLine], chosen: usize) -> Markup {
    html! { label { (label) " " select name=(name) {
        @for (at, line) in figures.iter().enumerate() {
            option value=(line.name) selected[at == chosen] { (line.name) }
        }
    } } }
}

fn address(line: &ReportLine) -> String {
    let view = match line.kind {
        ReportKind::Figures => "open",
        ReportKind::Page => "page",
    };
    let query = Serializer::new(String::new()).append_pair("name", &line.name).finish();
    format!("/reports/{view}?{query}")
}

fn crumbs(here: &str) -> Markup {
    html! { nav aria-label="Where this is" { a href="/reports" { "Reports" } " / " (here) } }
}

fn one(name: &str, report: &Report) -> Markup {
    html! {
        (crumbs(name))
        @for part in &report.parts { section.card {
            (heading(part))
            div.wide tabindex="0" role="region" aria-label={ "Medians of " (part.scenario) } { table {
                thead { tr { th { "Engine" } th { "Traffic" } th { "Runs" } th { "Rate" } th { "Of the links' sum" }
                    th { "Longest stall" } th { "Round trip p50 / p95" } th { "Loss" } th { "CPU home / concentrator" } } }
                tbody { @for row in &part.rows { tr {
                    th scope="row" { (row.engine) }
                    td { (row.traffic) }
                    td { (row.runs) }
                    td { (known(row.goodput_mbps, rate)) }
                    td { (known(row.ratio, percent)) }
                    td { (known(row.longest_stall_ms, ms)) }
                    td { (known(row.ping_p50_ms, ms)) " / " (known(row.ping_p95_ms, ms)) }
                    td { (known(row.loss, percent)) }
                    td { (known(row.cpu_home_s, seconds)) " / " (known(row.cpu_concentrator_s, seconds)) }
                } } }
            } }
            @for traffic in traffics(&part.rows) { (plot(traffic, &curves_of(part, traffic))) }
        } }
        (cut_short(report))
    }
}

fn heading(part: &Part) -> Markup {
    html! { h2 { (part.scenario) } p.dim { (part.host) } }
}

fn cut_short(report: &Report) -> Markup {
    html! { @if report.cut_short { p.dim { "There are more; these are the first." } } }
}

/// Two reports side by side: what both have measured, the second relative to the first.
fn compare(names: [&str; 2], first: &Report, second: &Report) -> Markup {
    let pairs = pairs(first, second);
    html! {
        (crumbs("compared"))
        p { "The first is " strong { (names[0]) } ", the second " strong { (names[1]) } "." }
        @if pairs.is_empty() { p.alarm { "They have no scenario in common." } }
        @for (one, other) in &pairs { section.card {
            h2 { (one.scenario) }
            @if one.host == other.host { p.dim { (one.host) } }
            @else {
                p.alarm { "Measured on different machines, kernels or versions, which may explain \
                           differences." }
                p.dim { "The first: " (one.host) } p.dim { "The second: " (other.host) }
            }
            @let rows = matching(one, other);
            @if rows.is_empty() { p.dim { "No engine and traffic is in both." } }
            @else { div.wide tabindex="0" role="region" aria-label={ "Both of " (one.scenario) } { table {
                thead { tr { th { "Engine" } th { "Traffic" } th { "Rate" } th { "Second by first" } th { "Longest stall" }
                    th { "Round trip p95" } th { "Loss" } } }
                tbody { @for (a, b) in &rows { tr {
                    th scope="row" { (a.engine) }
                    td { (a.traffic) }
                    td { (both(a.goodput_mbps, b.goodput_mbps, rate)) }
                    td { (known(by(a.goodput_mbps, b.goodput_mbps), percent)) }
                    td { (both(a.longest_stall_ms, b.longest_stall_ms, ms)) }
                    td { (both(a.ping_p95_ms, b.ping_p95_ms, ms)) }
                    td { (both(a.loss, b.loss, percent)) }
                } } }
            } } }
            @for (a, b) in rows.iter().take(MOST_PLOTS) {
                (plot(&format!("{} · {}", a.engine, a.traffic),
                    &[("the first", a.series.as_slice()), ("the second", b.series.as_slice())]))
            }
            @let left = left_out(one, other);
            @if !left.is_empty() { p.dim { "In one of them only: " (left.join(", ")) } }
        } }
        (cut_short(first)) (cut_short(second))
    }
}

/// Maximum number of plots; more would be useless.
const MOST_PLOTS: usize = 12;
/// The page has this many colours.
const MOST_CURVES: usize = 8;

/// Scenarios in both reports.
fn pairs<'r>(first: &'r Report, second: &'r Report) -> Vec<(&'r Part, &'r Part)> {
    let other = |part: &'r Part| {
        let found = second.parts.iter().find(|other| other.scenario == part.scenario)?;
        Some((part, found))
    };
    first.parts.iter().filter_map(other).collect()
}

fn same(a: &Row, b: &Row) -> bool {
    a.engine == b.engine && a.traffic == b.traffic
}

fn matching<'p>(one: &'p Part, other: &'p Part) -> Vec<(&'p Row, &'p Row)> {
    let found = |row: &'p Row| Some((row, other.rows.iter().find(|other| same(row, other))?));
    one.rows.iter().filter_map(found).collect()
}

fn left_out(one: &Part, other: &Part) -> Vec<String> {
    let alone = |rows: &[Row], others: &[Row]| -> Vec<String> {
        let alone = rows.iter().filter(|row| !others.iter().any(|other| same(row, other)));
        alone.map(|row| format!("{} ({})", row.engine, row.traffic)).collect()
    };
    [alone(&one.rows, &other.rows), alone(&other.rows, &one.rows)].concat()
}

/// Kinds of traffic with known rates over time.
fn traffics(rows: &[Row]) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| !row.series.is_empty()) {
        if !found.contains(&row.traffic.as_str()) && found.len() < MOST_PLOTS {
            found.push(&row.traffic);
        }
    }
    found
}

fn curves_of<'p>(part: &'p Part, traffic: &str) -> Vec<(&'p str, &'p [(f64, f64)])> {
    let rows = part.rows.iter().filter(|row| row.traffic == traffic && !row.series.is_empty());
    rows.take(MOST_CURVES).map(|row| (row.engine.as_str(), row.series.as_slice())).collect()
}

fn plot(title: &str, curves: &[(&str, &[(f64, f64)])]) -> Markup {
    let ends = curves.iter().filter_map(|(_, points)| points.last());
    let end = ends.map(|(time, _)| *time).fold(0.0, f64::max);
    if end <= 0.0 {
        return html! {};
    }
    let curves: Vec<Curve<'_>> = curves
        .iter()
        .enumerate()
        .map(|(number, (name, points))| Curve {
            name,
            style: Style::Thin(number),
            points: points.to_vec(),
        })
        .collect();
    html! { h3 { (title) } div.plot { (PreEscaped(svg(&curves, &[], end, "Mbit/s"))) } }
}

fn known(value: Option<f64>, text: fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

fn both(first: Option<f64>, second: Option<f64>, text: fn(f64) -> String) -> String {
    match (first, second) {
        (None, None) => "–".to_owned(),
        _ => format!("{} → {}", known(first, text), known(second, text)),
    }
}

fn by(first: Option<f64>, second: Option<f64>) -> Option<f64> {
    let (first, second) = (first?, second?);
    (first > 0.0).then_some(second / first)
}

fn ms(ms: f64) -> String {
    super::figures::ms(Some(ms))
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(scenario: &str, rows: &[(&str, &str, f64)]) -> Part {
        let row = |(engine, traffic, mbps): &(&str, &str, f64)| Row {
            engine: (*engine).into(),
            traffic: (*traffic).into(),
            goodput_mbps: Some(*mbps),
            series: vec![(0.0, *mbps), (1.0, *mbps)],
            ..Row::default()
        };
        Part { scenario: scenario.into(), rows: rows.iter().map(row).collect(), ..Part::default() }
    }

    #[test]
    fn what_both_have_is_compared_and_the_rest_is_named() {
        let first = Report {
            parts: vec![part("3g", &[("tunnel", "down", 10.0), ("mptcp", "down", 8.0)])],
            ..Report::default()
        };
        let second = Report {
            parts: vec![
                part("mix", &[]),
                part("3g", &[("tunnel", "down", 12.5), ("ecmp", "up", 1.0)]),
            ],
            ..Report::default()
        };
        let shown = compare(["a.json", "b.json"], &first, &second).into_string();
        assert!(shown.contains("10.0 Mbit/s → 12.5 Mbit/s") && shown.contains("125 %"), "{shown}");
        assert!(shown.contains("In one of them only: mptcp (down), ecmp (up)"), "{shown}");
        assert_eq!(shown.matches("class=\"chart\"").count(), 1, "{shown}");
        let none = compare(["a", "b"], &first, &Report::default()).into_string();
        assert!(none.contains("no scenario in common"));
    }

    #[test]
    fn what_has_no_figure_or_no_time_makes_no_plot() {
        assert_eq!(plot("x", &[("a", &[]), ("b", &[(0.0, 1.0)])]).into_string(), "");
        assert_eq!(by(Some(0.0), Some(3.0)), None);
        assert_eq!(both(None, Some(5.0), ms), "– → 5.0 ms");
    }
}
