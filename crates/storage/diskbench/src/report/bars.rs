//! A bar chart as SVG: one bar per layout, a whisker from the lowest to the highest run, a mark at
//! the model's figure.

use super::table::written;
use crate::measure::Measurement;
use braid_plot::escape;
use std::fmt::Write;

const WIDTH: f64 = 820.0;
const BAR: f64 = 16.0;
const STEP: f64 = 26.0;
/// Room for names and for figures.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 110.0;

/// One bar.
pub(super) struct Bar<'a> {
    pub(super) name: String,
    pub(super) measurement: &'a Measurement,
}

pub(super) fn svg(bars: &[Bar<'_>]) -> String {
    let longest =
        |bar: &Bar| bar.measurement.figure.highest.max(bar.measurement.model.unwrap_or(0.0));
    let scale = bars.iter().map(longest).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| LEFT + value / scale * (WIDTH - LEFT - RIGHT);
    let height = bars.len() as f64 * STEP + 4.0;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
    for (index, bar) in bars.iter().enumerate() {
        let Bar { name, measurement } = bar;
        let figure = &measurement.figure;
        let top = index as f64 * STEP + 4.0;
        let middle = top + BAR / 2.0;
        let text = written(figure.median, measurement.unit);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>\
             <line class=\"whisker\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            middle + 4.0,
            escape(name),
            (x(figure.median) - LEFT).max(1.0),
            x(figure.lowest),
            x(figure.highest),
            WIDTH - RIGHT + 8.0,
            middle + 4.0,
            escape(&text),
        );
        if let Some(model) = measurement.model {
            let _ = writeln!(
                svg,
                "<line class=\"model\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"><title>model: {3}</title></line>",
                x(model),
                top - 3.0,
                top + BAR + 3.0,
                escape(&written(model, measurement.unit)),
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
