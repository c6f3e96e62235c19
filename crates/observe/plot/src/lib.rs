//! Plots as SVG in HTML, or as files of their own ([`picture`]). In HTML, styling is up to the
//! page, by the classes `line`, `area`, `dots`, `grid`, `tick`, `band`, `event`, `bold`, `dashed`,
//! and one for each colour (`c0` to `c7` for strokes, `f0` to `f7` for fills, `b0` to `b7` for
//! backgrounds in the legend). A `chart` surrounds a plot, and leaves room for numbers at its left;
//! if it is narrow, every second mark (`odd`) may be hidden.
//!
//! A plot is as wide as its container and has a fixed height: data is stretched, text and lines are
//! not. So it can be read on a phone.

#![forbid(unsafe_code)]

use std::fmt::Write;

/// The data's width in its own units, stretched over the plot's width.
const WIDTH: f64 = 900.0;
/// Total height, CSS pixels.
const HEIGHT: f64 = 250.0;
/// Space above the data.
const TOP: f64 = 24.0;
/// Space below the data, for time marks.
const BOTTOM: f64 = 30.0;
/// Height of the data.
const INNER: f64 = HEIGHT - TOP - BOTTOM;

/// A line or cloud of points over time.
pub struct Curve<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// How it is drawn.
    pub style: Style,
    /// Points: seconds, value.
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Thin, in the colour of this number.
    Thin(usize),
    /// Thick, in the text's colour.
    Bold,
    /// Dashed, in a faint colour.
    Dashed,
    /// Points in the colour of this number.
    Dots(usize),
}

/// A marked time span.
pub struct Band {
    /// Seconds.
    pub from: f64,
    /// Seconds.
    pub to: f64,
    /// What happened then.
    pub label: String,
}

/// The time axis of a plot.
#[derive(Clone, Debug)]
pub struct Span {
    /// Beginning, seconds since any moment.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Marks below it: position and text.
    pub marks: Vec<(f64, String)>,
    /// Points further apart than this aren't connected, seconds.
    pub gap: f64,
}

impl Span {
    /// From zero, with seconds as marks.
    pub fn of_seconds(seconds: f64) -> Span {
        let (step, _) = ticks(seconds.max(1e-3), 10);
        let count = (seconds / step + 1e-9).floor() as usize;
        let mark = |number| number as f64 * step;
        let marks = (0..=count).map(|number| (mark(number), format!("{} s", tidy(mark(number)))));
        Span { from: 0.0, to: seconds.max(1e-3), marks: marks.collect(), gap: f64::INFINITY }
    }

    fn share(&self, time: f64) -> f64 {
        let length = (self.to - self.from).max(1e-3);
        ((time - self.from) / length).clamp(0.0, 1.0)
    }

    fn x(&self, time: f64) -> f64 {
        self.share(time) * WIDTH
    }

    fn percent(&self, time: f64) -> f64 {
        self.share(time) * 100.0
    }

    /// Ranges of times without a gap, as indices.
    fn runs(&self, times: &[f64]) -> Vec<std::ops::Range<usize>> {
        let mut runs = Vec::new();
        let mut begin = 0;
        for at in 1..=times.len() {
            if at == times.len() || times[at] - times[at - 1] > self.gap {
                runs.push(begin..at);
                begin = at;
            }
        }
        runs
    }
}

/// An SVG element with axes from zero, bands, curves and a legend.
pub fn svg(curves: &[Curve<'_>], bands: &[Band], seconds: f64, unit: &str) -> String {
    let label = curves.iter().map(|curve| curve.name).collect::<Vec<_>>().join(", ");
    lines(curves, bands, &Span::of_seconds(seconds), unit, &label)
}

/// Like [`svg`], over any span. `label` is for screen readers.
pub fn lines(curves: &[Curve<'_>], bands: &[Band], span: &Span, unit: &str, label: &str) -> String {
    let mut svg = head(label);
    data(&mut svg, curves, bands, span, unit);
    svg.push_str("</svg></div>\n");
    legend(&mut svg, curves.iter().map(|curve| (curve.name, curve.style)));
    svg
}

/// Like [`svg`], as a file that needs no page around it.
pub fn picture(curves: &[Curve<'_>], bands: &[Band], seconds: f64, unit: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<style>{PICTURE_STYLE}{STROKES}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <svg x=\"{LEFT}\" y=\"{ABOVE}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" overflow=\"visible\">\n",
        LEFT + WIDTH + RIGHT,
        ABOVE + HEIGHT + LEGEND
    );
    data(&mut svg, curves, bands, &Span::of_seconds(seconds), unit);
    svg.push_str("</svg>\n");
    let room = WIDTH / curves.len().max(1) as f64;
    let y = ABOVE + HEIGHT + TO_LEGEND;
    for (at, curve) in (0..).zip(curves) {
        let x = LEFT + room * f64::from(at);
        let _ = writeln!(
            svg,
            "<line class=\"{}\" x1=\"{x:.0}\" x2=\"{:.0}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text x=\"{:.0}\" y=\"{}\">{}</text>",
            line_class(curve.style),
            x + 24.0,
            x + 30.0,
            y + 4.0,
            escape(curve.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Space around a picture's plot, and below it for the legend.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 30.0;
const ABOVE: f64 = 10.0;
const LEGEND: f64 = 40.0;
/// From the plot down to the middle of the legend.
const TO_LEGEND: f64 = 22.0;

const PICTURE_STYLE: &str = ".grid{stroke:#ddd}.tick{fill:#666}.band{fill:#888;opacity:.15}\
    .event{fill:#666}.line,.dots{fill:none;stroke-width:1.5}.dots{stroke-width:3}\
    .bold{stroke:#222;stroke-width:2.5}.dashed{stroke:#999;stroke-dasharray:4 3}";

/// Strokes' colours, `c0` to `c7`, as CSS: those of pictures and of the lab's reports.
pub const STROKES: &str = ".c0{stroke:#2f6fde}.c1{stroke:#e0722f}.c2{stroke:#2fa866}\
    .c3{stroke:#b03fc4}.c4{stroke:#c9a21a}.c5{stroke:#1aa7b8}.c6{stroke:#d43d63}\
    .c7{stroke:#7a6ff0}";

/// What is between a plot's beginning and end.
fn data(svg: &mut String, curves: &[Curve<'_>], bands: &[Band], span: &Span, unit: &str) {
    let highest = curves.iter().flat_map(|c| &c.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let (step_y, top) = ticks(highest.max(1e-3), 5);
    let x = |t: f64| span.x(t);
    let y = |v: f64| (1.0 - (v / top).clamp(0.0, 1.0)) * INNER;
    for number in 0..=(top / step_y).round() as usize {
        let value = number as f64 * step_y;
        line_across(svg, y(value), &tidy(value), false);
    }
    below(svg, span, unit);
    begin_stretched(svg);
    for band in bands {
        // Keeps an instantaneous event visible.
        let width = (x(band.to) - x(band.from)).max(2.0);
        let _ = writeln!(
            svg,
            "<rect class=\"band\" x=\"{:.1}\" width=\"{width:.1}\" height=\"{INNER}\">\
             <title>{}</title></rect>",
            x(band.from),
            escape(&band.label)
        );
    }
    for curve in curves {
        draw(svg, curve, span, y);
    }
    svg.push_str("</svg>\n");
    for band in bands {
        let _ = writeln!(
            svg,
            "<text class=\"event\" x=\"{:.2}%\" dx=\"3\" y=\"{:.1}\">{}</text>",
            span.percent(band.from),
            TOP + 9.0,
            escape(&band.label)
        );
    }
}

fn line_class(style: Style) -> String {
    match style {
        Style::Dots(color) => format!("dots c{}", color % 8),
        Style::Thin(color) => format!("line c{}", color % 8),
        Style::Dashed => "line dashed".to_owned(),
        Style::Bold => "line bold".to_owned(),
    }
}

fn draw(svg: &mut String, curve: &Curve<'_>, span: &Span, y: impl Fn(f64) -> f64) {
    let class = line_class(curve.style);
    if let Style::Dots(_) = curve.style {
        // Lines without length and with round ends: dots that aren't stretched.
        let dots = curve
            .points
            .iter()
            .map(|(time, value)| format!("M{:.1} {:.1}h0", span.x(*time), y(*value)));
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" {UNSTRETCHED} stroke-linecap=\"round\" d=\"{}\">\
             <title>{}</title></path>",
            dots.collect::<String>(),
            escape(curve.name)
        );
        return;
    }
    let times: Vec<f64> = curve.points.iter().map(|(time, _)| *time).collect();
    for run in span.runs(&times) {
        let points: Vec<String> = curve.points[run]
            .iter()
            .map(|(time, value)| format!("{:.1},{:.1}", span.x(*time), y(*value)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"{class}\" {UNSTRETCHED} points=\"{}\"><title>{}</title></polyline>",
            points.join(" "),
            escape(curve.name)
        );
    }
}

/// A part of a sum, in both directions.
pub struct Layer<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Number of its colour.
    pub color: usize,
    /// Values above the axis; as many as there are times.
    pub down: Vec<f64>,
    /// Values below the axis.
    pub up: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Direction {
    Down,
    Up,
}

impl Layer<'_> {
    fn side(&self, direction: Direction) -> &[f64] {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }
}

/// Stacked layers: one direction above the axis, the other below it.
pub fn stacked(
    layers: &[Layer<'_>],
    times: &[f64],
    span: &Span,
    unit: &str,
    label: &str,
) -> String {
    let value = |values: &[f64], at: usize| values.get(at).copied().unwrap_or(0.0).max(0.0);
    let highest = |direction| {
        let sum = |at| layers.iter().map(|layer| value(layer.side(direction), at)).sum::<f64>();
        (0..times.len()).map(sum).fold(0.0, f64::max)
    };
    let (above, beneath) = (highest(Direction::Down), highest(Direction::Up));
    let (step, _) = ticks((above + beneath).max(1e-3), 6);
    let ends = |value: f64| (value / step).ceil().max(1.0) * step;
    let (top, bottom) = (ends(above), ends(beneath));
    let y = |value: f64| (top - value) / (top + bottom) * INNER;
    let mut svg = head(label);
    for number in -((bottom / step).round() as i64)..=(top / step).round() as i64 {
        let value = number as f64 * step;
        line_across(&mut svg, y(value), &tidy(value.abs()), number == 0);
    }
    below(&mut svg, span, unit);
    begin_stretched(&mut svg);
    for (sign, direction) in [(1.0, Direction::Down), (-1.0, Direction::Up)] {
        let mut base = vec![0.0; times.len()];
        for layer in layers {
            let sums: Vec<f64> = base
                .iter()
                .enumerate()
                .map(|(at, base)| base + value(layer.side(direction), at))
                .collect();
            for run in span.runs(times) {
                let corner = |at: usize, height: f64| {
                    format!("{:.0},{:.0}", span.x(times[at]), y(sign * height))
                };
                let outline = run.clone().map(|at| corner(at, sums[at]));
                let back = run.rev().map(|at| corner(at, base[at]));
                let points: Vec<String> = outline.chain(back).collect();
                let _ = writeln!(
                    svg,
                    "<polygon class=\"area f{}\" points=\"{}\"><title>{}</title></polygon>",
                    layer.color % 8,
                    points.join(" "),
                    escape(layer.name)
                );
            }
            base = sums;
        }
    }
    svg.push_str("</svg>\n");
    let _ = writeln!(
        svg,
        "<text class=\"event\" x=\"4\" y=\"{:.1}\">down</text>\
         <text class=\"event\" x=\"4\" y=\"{:.1}\">up</text>",
        TOP + 13.0,
        HEIGHT - BOTTOM - 5.0
    );
    svg.push_str("</svg></div>\n");
    legend(&mut svg, layers.iter().map(|layer| (layer.name, Style::Thin(layer.color))));
    svg
}

/// Numbers are left of the element and must stay visible.
fn head(label: &str) -> String {
    let label = escape(label);
    format!(
        "<div class=\"chart\"><svg width=\"100%\" height=\"{HEIGHT}\" overflow=\"visible\" \
         role=\"img\" aria-label=\"{label}\">\n"
    )
}

/// Keeps strokes' width, however their surroundings are stretched (SVG 2, section 8.13).
const UNSTRETCHED: &str = "vector-effect=\"non-scaling-stroke\"";

fn begin_stretched(svg: &mut String) {
    let _ = writeln!(
        svg,
        "<svg y=\"{TOP}\" width=\"100%\" height=\"{INNER}\" viewBox=\"0 0 {WIDTH} {INNER}\" \
         preserveAspectRatio=\"none\">"
    );
}

fn line_across(svg: &mut String, y: f64, text: &str, is_axis: bool) {
    let class = if is_axis { "grid axis" } else { "grid" };
    let y = y + TOP;
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text class=\"tick\" text-anchor=\"end\" x=\"-6\" y=\"{:.1}\">{text}</text>",
        y + 4.0,
    );
}

fn below(svg: &mut String, span: &Span, unit: &str) {
    let step = match span.marks.as_slice() {
        [(first, _), (second, _), ..] => (second - first).max(1e-3),
        _ => 1.0,
    };
    for (time, text) in &span.marks {
        // A mark stays odd, or not, for as long as it is shown.
        let is_odd = (time / step + 1e-6).floor().rem_euclid(2.0) >= 1.0;
        // Labels at an edge stay inside.
        let anchor = match span.share(*time) {
            share if share < 0.05 => "start",
            share if share > 0.95 => "end",
            _ => "middle",
        };
        let _ = writeln!(
            svg,
            "<text class=\"tick{}\" text-anchor=\"{anchor}\" x=\"{:.2}%\" y=\"{:.1}\">{}</text>",
            if is_odd { " odd" } else { "" },
            span.percent(*time),
            HEIGHT - BOTTOM + 16.0,
            escape(text)
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" text-anchor=\"end\" x=\"-6\" y=\"10\">{}</text>",
        escape(unit)
    );
}

fn legend<'a>(svg: &mut String, entries: impl Iterator<Item = (&'a str, Style)>) {
    svg.push_str("<p class=\"legend\">");
    for (name, style) in entries {
        let class = match style {
            Style::Thin(color) | Style::Dots(color) => format!("b{}", color % 8),
            Style::Bold => "bold".to_owned(),
            Style::Dashed => "dashed".to_owned(),
        };
        let _ = write!(svg, "<span><i class=\"{class}\"></i>{}</span> ", escape(name));
    }
    svg.push_str("</p>\n");
}

/// A round step with at most `count` ticks up to `highest`, and the end of the scale.
fn ticks(highest: f64, count: usize) -> (f64, f64) {
    let rough = highest / count as f64;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * magnitude);
    (step, (highest / step).ceil() * step)
}

fn tidy(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Escapes text for HTML and SVG content or attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_where_nothing_was_measured() {
        let span = Span { from: 0.0, to: 100.0, marks: Vec::new(), gap: 2.0 };
        let times = [0.0, 1.0, 2.0, 50.0, 51.0];
        assert_eq!(span.runs(&times), [0..3, 3..5]);
        assert_eq!(span.runs(&[]), []);
        let layer = Layer { name: "dsl", color: 1, down: vec![1.0; 5], up: vec![1.0; 5] };
        let drawn = stacked(&[layer], &times, &span, "Mbit/s", "rates");
        assert_eq!(drawn.matches("<polygon").count(), 4);
        let points = times.iter().map(|time| (*time, 1.0)).collect();
        let curve = Curve { name: "dsl", style: Style::Thin(1), points };
        assert_eq!(lines(&[curve], &[], &span, "ms", "delay").matches("<polyline").count(), 2);
    }

    #[test]
    fn a_picture_is_xml_with_all_curves_and_their_names() {
        let points = vec![(0.0, 1.0), (9.0, 3.0)];
        let styles = [Style::Thin(1), Style::Bold, Style::Dashed, Style::Dots(2)];
        let curves = styles.map(|style| Curve { name: "a & <b>", style, points: points.clone() });
        let bands = [Band { from: 1.0, to: 2.0, label: "\"x\" <&>".to_owned() }];
        let drawn = picture(&curves, &bands, 10.0, "ms");
        let mut reader = quick_xml::Reader::from_str(&drawn);
        let (mut open, mut drawings) = (0, 0);
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Start(tag) => {
                    open += 1;
                    drawings += usize::from(matches!(tag.name().as_ref(), b"polyline" | b"path"));
                }
                quick_xml::events::Event::End(_) => open -= 1,
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!((open, drawings), (0, 4), "{drawn}");
        assert!(
            drawn.starts_with("<svg xmlns=") && drawn.matches("a &amp; &lt;b&gt;").count() == 8
        );
    }

    #[test]
    fn names_are_text_and_nothing_else() {
        let layer = Layer { name: "<script>\"&", color: 0, down: vec![1.0], up: vec![] };
        let drawn = stacked(&[layer], &[0.0], &Span::of_seconds(1.0), "<b>", "\"x\"");
        assert!(!drawn.contains("<script") && !drawn.contains("<b>"), "{drawn}");
        assert!(drawn.contains("aria-label=\"&quot;x&quot;\""), "{drawn}");
    }
}
