//! Reports as HTML.

use super::{Record, Report, Row, Run};
pub use braid_plot::escape;
use braid_plot::{Band, Curve, STROKES, Style, svg};
use braid_units::format_duration;
use std::fmt::Write;

/// A self-contained page: for each kernel, a table of medians, and rates and delays over time with
/// the events marked.
pub fn html(reports: &[&Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let scenario = &first.scenario;
    let mut body = format!("<p>{}</p>\n", escape(&scenario.description));
    for report in reports {
        section(&mut body, report);
    }
    document(&scenario.name, &body)
}

/// A whole page around `body`.
pub fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title} – Braid lab</title>\n<style>{STYLE}{STROKES}</style></head>\n<body><main>\n\
         <h1>{title}</h1>\n{body}</main></body></html>\n"
    )
}

/// Rates and delays over time, for each engine and traffic.
pub fn over_time(page: &mut String, report: &Report) {
    for row in report.rows() {
        details(page, report, &row);
    }
}

/// The results under one kernel.
fn section(page: &mut String, report: &Report) {
    let scenario = &report.scenario;
    if report.host.vm {
        page.push_str("<h1>In a VM</h1>\n");
    }
    let _ = writeln!(
        page,
        "<p class=\"host\">{} · {} cores · Linux {} · braid {} · {} a run · seed {}</p>",
        escape(&report.host.cpu),
        report.host.cores,
        escape(&report.host.kernel),
        escape(&report.host.braid),
        format_duration(scenario.duration),
        scenario.seed,
    );
    for note in &report.notes {
        let _ = writeln!(page, "<p class=\"host\">Note: {}</p>", escape(note));
    }
    overview(page, report);
    links(page, report);
    page.push_str("<h2>Medians</h2>\n");
    table(page, report);
    over_time(page, report);
}

/// One bar per engine and traffic with goodput; the sum of the links is the full width.
pub fn overview(page: &mut String, report: &Report) {
    let rows = report.rows();
    let mut traffics: Vec<&str> = Vec::new();
    for row in &rows {
        if row.median(|run| run.goodput_mbps).is_some() && !traffics.contains(&row.traffic) {
            traffics.push(row.traffic);
        }
    }
    for traffic in traffics {
        let rows: Vec<&Row<'_>> = rows.iter().filter(|row| row.traffic == traffic).collect();
        let sum = rows.iter().find_map(|row| row.median(|run| run.sum_of_links_mbps));
        let goodputs = rows.iter().filter_map(|row| row.median(|run| run.goodput_mbps));
        let scale = goodputs.chain(sum).fold(1e-9, f64::max);
        let _ = writeln!(page, "<h2>{}</h2>\n<div class=\"bars\">", escape(traffic));
        for row in rows {
            let Some(goodput) = row.median(|run| run.goodput_mbps) else { continue };
            let ratio = row.median(|run| run.ratio);
            bar(page, row.engine, goodput, ratio, scale, "bar");
        }
        if let Some(sum) = sum {
            bar(page, "sum of links", sum, None, scale, "bar sum");
        }
        page.push_str("</div>\n");
    }
}

fn bar(page: &mut String, name: &str, mbps: f64, ratio: Option<f64>, scale: f64, class: &str) {
    let share = ratio.map_or_else(String::new, |ratio| format!(" · {:.0} %", ratio * 100.0));
    let _ = writeln!(
        page,
        "<span>{}</span><div><div class=\"{class}\" style=\"width:{:.1}%\"></div></div>\
         <b>{mbps:.2} Mbit/s{share}</b>",
        escape(name),
        mbps / scale * 100.0,
    );
}

fn links(page: &mut String, report: &Report) {
    page.push_str(
        "<details><summary>Links</summary><div class=\"wide\"><table><tr><th>link</th><th>down \
         Mbit/s</th><th>up Mbit/s</th><th>one-way delay ms</th><th>loss</th><th>MTU</th>\
         <th>NAT</th></tr>\n",
    );
    for link in &report.scenario.links {
        let model = &link.model;
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{:.1} + 0…{:.1}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escape(&model.name),
            model.down.capacity.mean_rate().mbit(),
            model.up.capacity.mean_rate().mbit(),
            model.down.delay.as_secs_f64() * 1e3,
            model.down.jitter.as_secs_f64() * 1e3,
            model.down.loss.mean(),
            model.mtu,
            if model.nat { "yes" } else { "no" },
        );
    }
    page.push_str("</table></div></details>\n");
}

fn table(page: &mut String, report: &Report) {
    page.push_str(
        "<div class=\"wide\"><table><tr><th>engine</th><th>traffic</th><th>runs</th>\
         <th>Mbit/s</th><th>of the sum</th><th>best link</th><th>longest stall ms</th>\
         <th>ping ms p50 / p95 / p99 / max</th><th>pings lost</th><th>loss</th><th>reordered</th>\
         <th>CPU s home / concentrator</th><th>overhead</th><th>more</th></tr>\n",
    );
    for row in report.rows() {
        let of = |figure: &dyn Fn(&Run) -> Option<f64>, digits: usize| {
            number(row.median(figure), digits)
        };
        let percent = |share: Option<f64>, digits: usize| match share {
            Some(share) => format!("{:.digits$} %", share * 100.0),
            None => "–".to_owned(),
        };
        let cells = [
            escape(row.engine),
            escape(row.traffic),
            row.records.len().to_string(),
            of(&|run| run.goodput_mbps, 2),
            percent(row.median(|run| run.ratio), 0),
            of(&|run| run.best_link_mbps, 2),
            of(&|run| run.longest_stall_ms, 0),
            joined(&[
                row.median(|run| Some(run.ping_ms?.p50)),
                row.median(|run| Some(run.ping_ms?.p95)),
                row.median(|run| Some(run.ping_ms?.p99)),
                row.median(|run| Some(run.ping_ms?.max)),
            ]),
            of(&|run| run.ping_lost.map(|lost| lost as f64), 0),
            percent(row.median(|run| run.udp_loss), 2),
            percent(row.median(|run| run.reordered), 1),
            joined(&[
                row.median(|run| Some(run.cpu_seconds?.home)),
                row.median(|run| Some(run.cpu_seconds?.concentrator)),
            ]),
            of(&|run| run.overhead_ratio, 3),
            more(&row),
        ];
        let _ = writeln!(page, "<tr><td>{}</td></tr>", cells.join("</td><td>"));
    }
    page.push_str("</table></div>\n");
}

/// Figures of voice and web traffic, which have no column.
fn more(row: &Row<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(lost) = row.median_detail(|d| d.voice.map(|voice| voice.lost as f64)) {
        let late = row.median_detail(|d| d.voice.map(|voice| voice.late as f64));
        let sent = row.median_detail(|d| d.voice.map(|voice| voice.sent as f64));
        parts.push(format!(
            "voice: {lost:.0} lost, {} late of {}",
            number(late, 0),
            number(sent, 0)
        ));
        let p99 = row.median_detail(|d| Some(d.voice?.delay_ms?.p99));
        parts.push(format!("one way p99 {} ms", number(p99, 1)));
    }
    if let Some(jitter) = row.median_detail(|d| d.datagrams.map(|d| d.jitter_ms)) {
        parts.push(format!("jitter {jitter:.1} ms"));
    }
    parts.extend(super::web::in_a_line(row));
    parts.join("; ")
}

/// Plots of the repetition whose goodput is nearest to the median.
fn details(page: &mut String, report: &Report, row: &Row<'_>) {
    let typical = row.median(|run| run.goodput_mbps);
    let distance = |record: &&&Record| match (record.run.goodput_mbps, typical) {
        (Some(mbps), Some(typical)) => (mbps - typical).abs(),
        _ => 0.0,
    };
    let nearest = row.records.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(record) = nearest else { return };
    let seconds = report.scenario.duration.as_secs_f64();
    let bands = bands(report);
    let shifted: Vec<(f64, f64)> = record
        .run
        .series
        .iter()
        .flatten()
        .map(|(time, mbps)| (time + record.detail.start_s, *mbps))
        .collect();
    let _ = writeln!(
        page,
        "<section><h3>{} · {} <small>repetition {}</small></h3>",
        escape(row.engine),
        escape(row.traffic),
        record.run.repetition
    );
    if !shifted.is_empty() {
        let up = row.traffic.contains("-up-");
        let mut curves: Vec<Curve<'_>> = record
            .detail
            .links
            .iter()
            .enumerate()
            .map(|(number, link)| Curve {
                name: &link.name,
                style: Style::Thin(number),
                points: link
                    .points
                    .iter()
                    .map(|(t, d, u)| (*t, if up { *u } else { *d }))
                    .collect(),
            })
            .collect();
        for curve in &mut curves {
            curve.points = smoothed(&curve.points);
        }
        if curves.len() > 1 {
            let sum = summed(&curves);
            curves.push(Curve { name: "sum of the links", style: Style::Dashed, points: sum });
        }
        let goodput = smoothed(&shifted);
        curves.push(Curve { name: "goodput", style: Style::Bold, points: goodput });
        page.push_str(&svg(&curves, &bands, seconds, "Mbit/s"));
    }
    if !record.detail.pings.is_empty() {
        let start = record.detail.start_s;
        let points = record.detail.pings.iter().map(|(t, ms)| (t + start, *ms)).collect();
        let curve = Curve { name: "round trip", style: Style::Dots(0), points };
        page.push_str(&svg(&[curve], &bands, seconds, "ms"));
    }
    page.push_str("</section>\n");
}

/// The mean of the points within half a second around each: bursts of a few packets make 100 ms
/// bins unreadable.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const AROUND: usize = 2;
    let window = |at: usize| {
        let from = at.saturating_sub(AROUND);
        points.get(from..(at + AROUND + 1).min(points.len())).unwrap_or_default()
    };
    let mean = |part: &[(f64, f64)]| {
        part.iter().map(|(_, value)| value).sum::<f64>() / part.len().max(1) as f64
    };
    points.iter().enumerate().map(|(at, (time, _))| (*time, mean(window(at)))).collect()
}

/// The sum of the curves' values; they have the same times.
fn summed(curves: &[Curve<'_>]) -> Vec<(f64, f64)> {
    let Some(first) = curves.first() else { return Vec::new() };
    let times = first.points.iter().enumerate();
    times
        .map(|(at, (time, _))| {
            let values = curves.iter().filter_map(|curve| curve.points.get(at));
            (*time, values.map(|(_, value)| value).sum())
        })
        .collect()
}

fn bands(report: &Report) -> Vec<Band> {
    let scenario = &report.scenario;
    let end = scenario.duration;
    let mut bands = Vec::new();
    for event in &scenario.events {
        let names: Vec<&str> = event
            .links
            .iter()
            .filter_map(|link| scenario.links.get(*link))
            .map(|link| link.model.name.as_str())
            .collect();
        let who = if names.len() > 1 && names.len() == scenario.links.len() {
            "all links".to_owned()
        } else {
            names.join(", ")
        };
        for at in event.times(end) {
            let to = event.lasting().map_or(at, |time| at.saturating_add(time)).min(end);
            bands.push(Band {
                from: at.as_secs_f64(),
                to: to.as_secs_f64(),
                label: format!("{who}: {}", event.action),
            });
        }
    }
    bands
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn joined(values: &[Option<f64>]) -> String {
    if values.iter().all(Option::is_none) {
        return "–".to_owned();
    }
    let texts: Vec<String> = values.iter().map(|value| number(*value, 1)).collect();
    texts.join(" / ")
}

const STYLE: &str = "
:root{color-scheme:light dark;--fg:#1c2330;--dim:#667085;--line:#d9dee7;--bg:#fff;--card:#f6f8fb;--band:#f3b4a455}
@media(prefers-color-scheme:dark){:root{--fg:#e6e9ef;--dim:#98a2b3;--line:#343b48;--bg:#12161d;--card:#1a202a;--band:#b4533f55}}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:980px;margin:0 auto;padding:2rem 1rem}
h1{margin:0}h2{margin:2rem 0 .6rem;font-size:1.15rem}h3{margin:0 0 .4rem;font-size:1rem}
small,.host{color:var(--dim);font-weight:400}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right}
th{color:var(--dim);font-weight:600}td:first-child,td:nth-child(2),th:first-child,th:nth-child(2){text-align:left}
section{background:var(--card);border-radius:10px;padding:1rem;margin:1rem 0}
.bars{display:grid;grid-template-columns:max-content 1fr max-content;gap:.35rem .8rem;align-items:center;font-variant-numeric:tabular-nums}
.bar{height:1.1rem;background:#2f6fde;border-radius:3px;min-width:2px}.bar.sum{background:var(--line)}
svg{display:block}.chart{padding:0 12px 0 52px}.dots{fill:none;stroke-width:3.2}.grid{stroke:var(--line);stroke-width:1}
.tick,.event{fill:var(--dim);font:11px system-ui,sans-serif}.event{font-size:10px}
.band{fill:var(--band)}.line{fill:none;stroke-width:1.4;stroke-linejoin:round}
.line.bold{stroke:var(--fg);stroke-width:2.4}.line.dashed{stroke:var(--dim);stroke-dasharray:5 4}
@media(max-width:640px){.tick.odd{display:none}}
.legend{margin:.2rem 0 0;font-size:13px}.legend span{margin-right:.9rem}
.legend i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.3rem;vertical-align:-1px}
i.bold{background:var(--fg)}i.dashed{background:var(--dim)}
.f0,.b0{fill:#2f6fde;background:#2f6fde}.f1,.b1{fill:#e0722f;background:#e0722f}.f2,.b2{fill:#2fa866;background:#2fa866}.f3,.b3{fill:#b03fc4;background:#b03fc4}
.f4,.b4{fill:#c9a21a;background:#c9a21a}.f5,.b5{fill:#1aa7b8;background:#1aa7b8}.f6,.b6{fill:#d43d63;background:#d43d63}.f7,.b7{fill:#7a6ff0;background:#7a6ff0}
";
