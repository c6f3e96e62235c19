//! Graphs of the past.

use braid_control::status::Status;
use braid_history::{Bucket, Level, Points, Recorder, Series};
use braid_plot::{Curve, Layer, Style, lines, stacked};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use maud::{Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};

/// The time span of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    Live,
    Hour,
    Day,
    Month,
    Year,
}

/// Maximum number of points read from the history.
const MOST_READ: i64 = 1500;
/// Maximum number of points in a graph: more can't be told apart and make a page large.
const MOST_POINTS: usize = 180;

impl Span {
    pub const ALL: [Span; 5] = [Span::Live, Span::Hour, Span::Day, Span::Month, Span::Year];

    /// Parses the span in an address; `usual` if there is none or it is unknown.
    pub fn parse(text: Option<&str>, usual: Span) -> Span {
        Span::ALL.into_iter().find(|span| Some(span.word()) == text).unwrap_or(usual)
    }

    pub fn word(self) -> &'static str {
        match self {
            Span::Live => "live",
            Span::Hour => "hour",
            Span::Day => "day",
            Span::Month => "month",
            Span::Year => "year",
        }
    }

    pub fn seconds(self) -> i64 {
        match self {
            Span::Live => 120,
            Span::Hour => 3600,
            Span::Day => 24 * 3600,
            Span::Month => 31 * 24 * 3600,
            Span::Year => 365 * 24 * 3600,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Span::Live => "2 minutes",
            Span::Hour => "hour",
            Span::Day => "day",
            Span::Month => "month",
            Span::Year => "year",
        }
    }
}

/// The end of the tunnel at which a series was recorded. Down is towards homes at either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Home,
    Concentrator,
}

impl End {
    pub fn of(status: &Status) -> End {
        if status.listen.is_empty() { End::Home } else { End::Concentrator }
    }

    /// Sorts received and sent into down and up.
    pub fn down_and_up<T>(self, received: T, sent: T) -> (T, T) {
        match self {
            End::Home => (received, sent),
            End::Concentrator => (sent, received),
        }
    }
}

/// Links to the same graph over other spans.
pub fn spans(here: Span, place: &str) -> Markup {
    html! {
        p.spans aria-label="Time shown" role="group" {
            @for span in Span::ALL {
                @let address = format!("{place}?span={}", span.word());
                @if span == here { a href=(address) aria-current="true" { (span.text()) } }
                @else { a href=(address) { (span.text()) } }
            }
        }
    }
}

/// The rates of some series, stacked.
pub fn rates(
    recorder: Option<&Recorder>,
    series: &[(String, Series)],
    end: End,
    span: Span,
    now: i64,
) -> Markup {
    let Some(recorder) = recorder else { return nothing_kept() };
    let mut read = Vec::new();
    for (name, series) in series {
        match points(recorder, series, span, now) {
            Ok(points) => read.push((name.as_str(), points)),
            Err(why) => return html! { p.dim { (why) } },
        }
    }
    let width = read.iter().map(|(_, points)| points.width_s).max().unwrap_or(1);
    let times: BTreeSet<i64> =
        read.iter().flat_map(|(_, points)| &points.points).map(|(at, _)| *at).collect();
    if times.len() < 2 {
        return html! { p.dim { "There is no data for this time yet." } };
    }
    let layers: Vec<Layer<'_>> = read
        .iter()
        .enumerate()
        .map(|(color, (name, points))| {
            let known: BTreeMap<i64, &Bucket> =
                points.points.iter().map(|(at, b)| (*at, b)).collect();
            let rate = |bytes: fn(&Bucket) -> u64| {
                let at =
                    |at| known.get(at).map_or(0.0, |bucket| mbit(bytes(bucket), bucket.seconds));
                times.iter().map(at).collect()
            };
            let (down, up) = end.down_and_up(rate(|b| b.rx_bytes), rate(|b| b.tx_bytes));
            Layer { name, color, down, up }
        })
        .collect();
    let peak = |down: bool| {
        let of = |layer: &Layer<'_>, at: usize| if down { layer.down[at] } else { layer.up[at] };
        let sums = (0..times.len()).map(|at| layers.iter().map(|layer| of(layer, at)).sum::<f64>());
        super::figures::rate(sums.fold(0.0, f64::max))
    };
    let label = format!(
        "Rates of {} over the last {}: at most {} down, {} up",
        layers.iter().map(|layer| layer.name).collect::<Vec<_>>().join(", "),
        span.text(),
        peak(true),
        peak(false)
    );
    let times: Vec<f64> = times.into_iter().map(|at| at as f64).collect();
    html! { (PreEscaped(stacked(&layers, &times, &axis(span, now, width), "Mbit/s", &label))) }
}

/// Delay and loss of one series.
pub fn quality(recorder: Option<&Recorder>, series: &Series, span: Span, now: i64) -> Markup {
    let Some(recorder) = recorder else { return html! {} };
    let points = match points(recorder, series, span, now) {
        Ok(points) if points.points.len() > 1 => points,
        _ => return html! {},
    };
    let of = |value: fn(&Bucket) -> Option<f64>| -> Vec<(f64, f64)> {
        points.points.iter().filter_map(|(at, b)| Some((*at as f64, value(b)?))).collect()
    };
    let axis = axis(span, now, points.width_s);
    let graph = |name: &str, unit: &str, points: Vec<(f64, f64)>, color| {
        let mean = points.iter().map(|(_, value)| value).sum::<f64>() / points.len().max(1) as f64;
        let label = format!("{name} over the last {}: {mean:.1} {unit} on average", span.text());
        let curve = Curve { name, style: Style::Thin(color), points };
        PreEscaped(lines(&[curve], &[], &axis, unit, &label))
    };
    html! {
        h2 { "Delay" }
        (graph("round trip", "ms", of(Bucket::rtt_ms), 5))
        h2 { "Loss" }
        (graph("lost of what was sent", "%", of(|b| Some(b.loss()? * 100.0)), 6))
    }
}

fn nothing_kept() -> Markup {
    html! { p.dim { "History is disabled: see " code { "[history]" } " in the config." } }
}

fn points(recorder: &Recorder, series: &Series, span: Span, now: i64) -> Result<Points, String> {
    let from = now - span.seconds();
    let level = match span {
        Span::Live => Level::Second,
        _ => Level::for_range(from, now, now, MOST_READ),
    };
    let level =
        if span != Span::Live && level == Level::Second { Level::TenSeconds } else { level };
    // The current second isn't complete yet.
    let level = match series {
        Series::Device(_) if level < Level::Minute => Level::Minute,
        _ => level,
    };
    let points = recorder.points(series, level, from, now).map_err(|why| why.to_string())?;
    let points = match series {
        Series::Device(_) => without_gaps(points, from, now),
        _ => points,
    };
    Ok(coarser(points, span))
}

/// For devices, seconds without traffic aren't stored: unknown means zero.
fn without_gaps(points: Points, from: i64, now: i64) -> Points {
    let width_s = points.width_s.max(1);
    let known: BTreeMap<i64, Bucket> = points.points.into_iter().collect();
    let Some(first) = known.keys().next().map(|first| (*first).max(from)) else {
        return Points { width_s, points: Vec::new() };
    };
    let begin = first - first.rem_euclid(width_s);
    let step = usize::try_from(width_s).unwrap_or(1);
    let whole = |at: i64| {
        let bucket = known.get(&at).copied().unwrap_or_default();
        (at, Bucket { seconds: u32::try_from(width_s).unwrap_or(u32::MAX), ..bucket })
    };
    Points { width_s, points: (begin..now).step_by(step).map(whole).collect() }
}

/// Merges sums, so that no span has too many.
fn coarser(points: Points, span: Span) -> Points {
    let most = i64::try_from(MOST_POINTS).unwrap_or(i64::MAX);
    let factor = (span.seconds() / points.width_s.max(1) + most - 1) / most;
    if factor <= 1 {
        return points;
    }
    let width_s = points.width_s * factor;
    let mut sums: BTreeMap<i64, Bucket> = BTreeMap::new();
    for (at, bucket) in &points.points {
        sums.entry(at - at.rem_euclid(width_s)).or_default().add(bucket);
    }
    Points { width_s, points: sums.into_iter().collect() }
}

fn mbit(bytes: u64, seconds: u32) -> f64 {
    bytes as f64 * 8e-6 / f64::from(seconds.max(1))
}

fn axis(span: Span, now: i64, width: i64) -> braid_plot::Span {
    let (from, to) = (now - span.seconds(), now);
    let zone = TimeZone::system();
    let at = |unix: i64| Some(Timestamp::from_second(unix).ok()?.to_zoned(zone.clone()));
    braid_plot::Span {
        from: from as f64,
        to: to as f64,
        marks: marks(span, from, to, at),
        gap: width as f64 * 2.5,
    }
}

fn marks(span: Span, from: i64, to: i64, at: impl Fn(i64) -> Option<Zoned>) -> Vec<(f64, String)> {
    let (step, format) = match span {
        Span::Live => (20, "%H:%M:%S"),
        Span::Hour => (600, "%H:%M"),
        Span::Day => (4 * 3600, "%H:%M"),
        Span::Month => (5 * 86_400, "%-d %b"),
        Span::Year => (61 * 86_400, "%b %Y"),
    };
    // If days are shown, midnight is a mark, whatever the zone.
    let offset = at(to).map_or(0, |to| i64::from(to.offset().seconds()));
    let first = (from + offset).div_euclid(step) * step + step - offset;
    let times = (0..).map(|n| first + n * step).take_while(|time| *time <= to);
    times.filter_map(|time| Some((time as f64, at(time)?.strftime(format).to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_has_too_many_points_and_none_is_lost() {
        let bucket = Bucket { seconds: 60, rx_bytes: 7, ..Bucket::default() };
        let points = (0..1440).map(|n| (1_800_000_000 + n * 60, bucket)).collect();
        let day = coarser(Points { width_s: 60, points }, Span::Day);
        assert_eq!(day.width_s, 480);
        assert!((180..=181).contains(&day.points.len()), "{}", day.points.len());
        assert_eq!(day.points.iter().map(|(_, b)| b.rx_bytes).sum::<u64>(), 1440 * 7);
        let live = Points { width_s: 1, points: vec![(1, bucket), (2, bucket)] };
        assert_eq!(coarser(live.clone(), Span::Live), live);
    }

    #[test]
    fn marks_are_whole_hours_of_the_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(5));
        let at = |unix| Some(Timestamp::from_second(unix).ok()?.to_zoned(zone.clone()));
        let now: i64 = 1_800_000_123;
        let marks = marks(Span::Day, now - 86_400, now, at);
        let texts: Vec<&str> = marks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["16:00", "20:00", "00:00", "04:00", "08:00", "12:00"]);
        assert!(marks.iter().all(|(time, _)| (*time as i64 - (now - 86_400)) >= 0));
    }
}
