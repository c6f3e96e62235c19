//! Plots as SVG elements. How they look is the page's: the classes `line`, `area`,
//! `grid`, `tick`, `band`, `event`, `bold`, `dashed`, and a number for each colour (`c0` to
//! `c7` strokes, `f0` to `f7` fills, `b0` to `b7` backgrounds of the legend).

#![forbid(unsafe_code)]

use std::fmt::Write;

/// Size of a plot in SVG units.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 270.0;
/// Room for the axes' numbers.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 30.0;

/// A line or cloud of points over time.
pub struct Curve<'a> {
    /// For the legend.
    pub name: &'a str,
    /// How it is drawn.
    pub style: Style,
    /// Seconds, value.
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
    /// Points.
    Dots(usize),
}

/// A time span that is marked.
pub struct Band {
    /// Seconds.
    pub from: f64,
    /// Seconds.
    pub to: f64,
    /// What was then.
    pub label: String,
}

/// What a plot is over.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it begins, seconds since any moment.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What is written below it, and where.
    pub marks: Vec<(f64, String)>,
    /// Between points that are further apart than this nothing is drawn, seconds.
    pub gap: f64,
}

impl Span {
    /// From zero on, with seconds below.
    pub fn of_seconds(seconds: f64) -> Span {
        let (step, _) = ticks(seconds.max(1e-3), 10);
        let count = (seconds / step + 1e-9).floor() as usize;
        let mark = |number| number as f64 * step;
        let marks = (0..=count).map(|number| (mark(number), format!("{} s", tidy(mark(number)))));
        Span { from: 0.0, to: seconds.max(1e-3), marks: marks.collect(), gap: f64::INFINITY }
    }

    fn x(&self, time: f64) -> f64 {
        let length = (self.to - self.from).max(1e-3);
        LEFT + ((time - self.from) / length).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Runs of times without a gap between, as indices.
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

/// As [`svg`], over any span. `label` is what a screen reader says of it.
pub fn lines(curves: &[Curve<'_>], bands: &[Band], span: &Span, unit: &str, label: &str) -> String {
    let highest = curves.iter().flat_map(|c| &c.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let (step_y, top) = ticks(highest.max(1e-3), 5);
    let x = |t: f64| span.x(t);
    let y = |v: f64| HEIGHT - BOTTOM - (v / top).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
    let mut svg = head(label);
    for band in bands {
        // An event of a moment is still to be seen.
        let width = (x(band.to) - x(band.from)).max(2.0);
        let _ = writeln!(
            svg,
            "<rect class=\"band\" x=\"{:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            x(band.from),
            HEIGHT - TOP - BOTTOM,
            escape(&band.label)
        );
        let _ = writeln!(
            svg,
            "<text class=\"event\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(band.from) + 3.0,
            TOP + 9.0,
            escape(&band.label)
        );
    }
    for number in 0..=(top / step_y).round() as usize {
        let value = number as f64 * step_y;
        line_across(&mut svg, y(value), &tidy(value), false);
    }
    below(&mut svg, span, unit);
    for curve in curves {
        match curve.style {
            Style::Dots(color) => {
                for (time, value) in &curve.points {
                    let _ = writeln!(
                        svg,
                        "<circle class=\"f{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.6\"/>",
                        color % 8,
                        x(*time),
                        y(*value)
                    );
                }
            }
            Style::Thin(_) | Style::Bold | Style::Dashed => {
                let class = match curve.style {
                    Style::Thin(color) => format!("line c{}", color % 8),
                    Style::Dashed => "line dashed".to_owned(),
                    Style::Bold | Style::Dots(_) => "line bold".to_owned(),
                };
                let times: Vec<f64> = curve.points.iter().map(|(time, _)| *time).collect();
                for run in span.runs(&times) {
                    let points: Vec<String> = curve.points[run]
                        .iter()
                        .map(|(time, value)| format!("{:.1},{:.1}", x(*time), y(*value)))
                        .collect();
                    let _ = writeln!(
                        svg,
                        "<polyline class=\"{class}\" points=\"{}\"><title>{}</title></polyline>",
                        points.join(" "),
                        escape(curve.name)
                    );
                }
            }
        }
    }
    svg.push_str("</svg>\n");
    legend(&mut svg, curves.iter().map(|curve| (curve.name, curve.style)));
    svg
}

/// A part of a sum, with what goes each way.
pub struct Layer<'a> {
    /// For the legend.
    pub name: &'a str,
    /// Number of its colour.
    pub color: usize,
    /// Above the axis; as many as there are times.
    pub down: Vec<f64>,
    /// Below the axis.
    pub up: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Way {
    Down,
    Up,
}

impl Layer<'_> {
    fn side(&self, way: Way) -> &[f64] {
        match way {
            Way::Down => &self.down,
            Way::Up => &self.up,
        }
    }
}

/// Layers on one another: one way above the axis, the other below it.
pub fn stacked(
    layers: &[Layer<'_>],
    times: &[f64],
    span: &Span,
    unit: &str,
    label: &str,
) -> String {
    let value = |values: &[f64], at: usize| values.get(at).copied().unwrap_or(0.0).max(0.0);
    let highest = |way| {
        let sum = |at| layers.iter().map(|layer| value(layer.side(way), at)).sum::<f64>();
        (0..times.len()).map(sum).fold(0.0, f64::max)
    };
    let (above, beneath) = (highest(Way::Down), highest(Way::Up));
    let (step, _) = ticks((above + beneath).max(1e-3), 6);
    let ends = |value: f64| (value / step).ceil().max(1.0) * step;
    let (top, bottom) = (ends(above), ends(beneath));
    let room = HEIGHT - TOP - BOTTOM;
    let y = |value: f64| TOP + (top - value) / (top + bottom) * room;
    let mut svg = head(label);
    for number in -((bottom / step).round() as i64)..=(top / step).round() as i64 {
        let value = number as f64 * step;
        line_across(&mut svg, y(value), &tidy(value.abs()), number == 0);
    }
    below(&mut svg, span, unit);
    for (sign, way) in [(1.0, Way::Down), (-1.0, Way::Up)] {
        let mut base = vec![0.0; times.len()];
        for layer in layers {
            let sums: Vec<f64> = base
                .iter()
                .enumerate()
                .map(|(at, base)| base + value(layer.side(way), at))
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
    let _ = writeln!(
        svg,
        "<text class=\"event\" x=\"{0:.1}\" y=\"{1:.1}\">down</text><text class=\"event\" x=\"{0:.1}\" y=\"{2:.1}\">up</text>",
        LEFT + 4.0,
        TOP + 10.0,
        HEIGHT - BOTTOM - 4.0
    );
    svg.push_str("</svg>\n");
    legend(&mut svg, layers.iter().map(|layer| (layer.name, Style::Thin(layer.color))));
    svg
}

fn head(label: &str) -> String {
    let label = escape(label);
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n")
}

fn line_across(svg: &mut String, y: f64, text: &str, is_axis: bool) {
    let class = if is_axis { "grid axis" } else { "grid" };
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
        WIDTH - RIGHT,
        LEFT - 6.0,
        y + 4.0,
    );
}

fn below(svg: &mut String, span: &Span, unit: &str) {
    for (time, text) in &span.marks {
        let _ = writeln!(
            svg,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            span.x(*time),
            HEIGHT - BOTTOM + 16.0,
            escape(text)
        );
    }
    let _ = writeln!(svg, "<text class=\"tick\" x=\"4\" y=\"10\">{}</text>", escape(unit));
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

/// A round step that makes at most `count` of them up to `highest`, and the
/// end of the scale.
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

/// Text as HTML and SVG content or attribute.
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
    fn names_are_text_and_nothing_else() {
        let layer = Layer { name: "<script>\"&", color: 0, down: vec![1.0], up: vec![] };
        let drawn = stacked(&[layer], &[0.0], &Span::of_seconds(1.0), "<b>", "\"x\"");
        assert!(!drawn.contains("<script") && !drawn.contains("<b>"), "{drawn}");
        assert!(drawn.contains("aria-label=\"&quot;x&quot;\""), "{drawn}");
    }
}
