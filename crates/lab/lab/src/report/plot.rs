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
pub(super) struct Curve<'a> {
    pub(super) name: &'a str,
    pub(super) style: Style,
    /// Seconds, value.
    pub(super) points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
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
pub(super) struct Band {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) label: String,
}

/// An SVG element with axes from zero, bands, curves and a legend.
pub(super) fn svg(curves: &[Curve<'_>], bands: &[Band], seconds: f64, unit: &str) -> String {
    let highest = curves.iter().flat_map(|c| &c.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let (step_y, top) = ticks(highest.max(1e-3), 5);
    let (step_x, _) = ticks(seconds.max(1e-3), 10);
    let x = |t: f64| LEFT + (t / seconds.max(1e-3)).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    let y = |v: f64| HEIGHT - BOTTOM - (v / top).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
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
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{3:.1}\" y2=\"{3:.1}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{1:.1}\" y=\"{2:.1}\">{4}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(value) + 4.0,
            y(value),
            tidy(value)
        );
    }
    for number in 0..=(seconds / step_x + 1e-9).floor() as usize {
        let value = number as f64 * step_x;
        let _ = writeln!(
            svg,
            "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{} s</text>",
            x(value),
            HEIGHT - BOTTOM + 16.0,
            tidy(value)
        );
    }
    let _ = writeln!(svg, "<text class=\"tick\" x=\"4\" y=\"10\">{}</text>", escape(unit));
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
                let points: Vec<String> = curve
                    .points
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
    svg.push_str("</svg>\n<p class=\"legend\">");
    for curve in curves {
        let class = match curve.style {
            Style::Thin(color) | Style::Dots(color) => format!("b{}", color % 8),
            Style::Bold => "bold".to_owned(),
            Style::Dashed => "dashed".to_owned(),
        };
        let _ = write!(svg, "<span><i class=\"{class}\"></i>{}</span> ", escape(curve.name));
    }
    svg.push_str("</p>\n");
    svg
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
