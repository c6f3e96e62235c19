//! Load times of objects and pages.

use super::{Report, Row};
use crate::scenario::{Page, Traffic, TrafficKind};
use crate::traffic::statistics::{Percentiles, median};
use crate::traffic::{Fetch, Measured};
use braid_units::ByteSize;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Up to this many different sizes are listed separately; more are grouped.
const MOST_SIZES: usize = 8;
/// Upper ends of the groups, in bytes; the largest size ends the last.
const CLASSES: [u64; 7] = [3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000];

/// Objects and pages of one traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Web {
    /// Objects by their size, small ones first.
    pub objects: Vec<Objects>,
    /// Whole pages, if it loads any.
    pub page: Option<Pages>,
}

/// Objects of about one size. Times begin with the request for an object: they include the
/// handshake of a new connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objects {
    /// The largest size in bytes; the only one, unless there are many sizes.
    pub up_to_bytes: u64,
    /// Number of complete objects.
    pub count: u64,
    /// Time until the first byte, in ms; `None` for uploads.
    pub first_byte_ms: Option<Percentiles>,
    /// Time until the last byte, in ms.
    pub last_byte_ms: Option<Percentiles>,
    /// The median time until the last byte over the best link alone, in ms.
    pub best_link_ms: Option<f64>,
}

/// Loads of a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pages {
    /// Total size of its objects, bytes.
    pub bytes: u64,
    /// Number of its objects.
    pub objects: u64,
    /// Number of complete loads.
    pub loads: u64,
    /// Duration of a load, in ms.
    pub load_ms: Option<Percentiles>,
    /// The median duration over the best link alone, in ms.
    pub best_link_ms: Option<f64>,
}

impl Web {
    /// The figures for `traffic`; `None` for other kinds of traffic.
    pub fn of(traffic: &Traffic, measured: &Measured) -> Option<Self> {
        let fetches = measured.fetches.as_deref().unwrap_or_default();
        match &traffic.kind {
            TrafficKind::Web { objects, .. } => {
                Some(Web { objects: by_size(objects, fetches), page: None })
            }
            TrafficKind::Pages { page, .. } => Some(Web {
                objects: by_size(page.objects(), fetches),
                page: Some(Pages::of(page, measured.pages_ms.as_deref().unwrap_or_default())),
            }),
            _ => None,
        }
    }

    /// Adds the best link's results alone: for each figure the minimum among `links`, each of which
    /// was measured several times.
    pub(crate) fn compare(&mut self, links: &[Vec<Web>]) {
        let best = |figure: &dyn Fn(&Web) -> Option<f64>| {
            let link =
                |runs: &Vec<Web>| median(&runs.iter().filter_map(figure).collect::<Vec<f64>>());
            links.iter().filter_map(link).min_by(f64::total_cmp)
        };
        for (number, objects) in self.objects.iter_mut().enumerate() {
            objects.best_link_ms = best(&|web| Some(web.objects.get(number)?.last_byte_ms?.p50));
        }
        if let Some(page) = &mut self.page {
            page.best_link_ms = best(&|web| Some(web.page.as_ref()?.load_ms?.p50));
        }
    }
}

impl Pages {
    fn of(page: &Page, loads_ms: &[f64]) -> Self {
        Pages {
            bytes: page.bytes(),
            objects: page.objects().len() as u64,
            loads: loads_ms.len() as u64,
            load_ms: Percentiles::of(loads_ms),
            best_link_ms: None,
        }
    }
}

fn by_size(sizes: &[u64], fetches: &[Fetch]) -> Vec<Objects> {
    let mut below = 0;
    let classes = classes(sizes).into_iter().map(|up_to_bytes| {
        let range = below..=up_to_bytes;
        below = up_to_bytes + 1;
        let of_class: Vec<&Fetch> = fetches.iter().filter(|f| range.contains(&f.bytes)).collect();
        let first: Vec<f64> = of_class.iter().filter_map(|fetch| fetch.first_byte_ms).collect();
        let last: Vec<f64> = of_class.iter().map(|fetch| fetch.last_byte_ms).collect();
        Objects {
            up_to_bytes,
            count: of_class.len() as u64,
            first_byte_ms: Percentiles::of(&first),
            last_byte_ms: Percentiles::of(&last),
            best_link_ms: None,
        }
    });
    classes.collect()
}

/// The upper ends of the groups that `sizes` fall into, in order.
fn classes(sizes: &[u64]) -> Vec<u64> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() <= MOST_SIZES {
        return sizes;
    }
    let largest = sizes.last().copied().unwrap_or_default();
    let mut ends: Vec<u64> = CLASSES.into_iter().filter(|end| *end < largest).collect();
    ends.push(largest);
    let mut below = 0;
    ends.retain(|end| {
        let any = sizes.iter().any(|size| (below..=*end).contains(size));
        below = end + 1;
        any
    });
    ends
}

/// A table of the objects, and a sentence about each page; empty without such traffic.
pub(super) fn markdown(report: &Report) -> String {
    let head = ["engine", "traffic", "objects", "count", "first byte ms p50 / p95"];
    let head = head.into_iter().chain(["last byte ms p50 / p95", "best link alone"]);
    let mut cells: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    let mut sentences = String::new();
    for row in report.rows() {
        for number in 0..classes_of(&row) {
            cells.push(object_cells(&row, number));
        }
        if let Some(sentence) = page_sentence(&row) {
            let _ = writeln!(sentences, "{} · {}: {sentence}", row.engine, row.traffic);
        }
    }
    if cells.len() == 1 {
        return String::new();
    }
    format!(
        "\n{}{}{sentences}",
        super::markdown_table::render(&cells),
        if sentences.is_empty() { "" } else { "\n" }
    )
}

/// Objects and pages of a row in one line, for tables without more room.
pub(super) fn in_a_line(row: &Row<'_>) -> Vec<String> {
    let objects = (0..classes_of(row)).map(|number| {
        let cells = object_cells(row, number);
        let of = |column: usize| cells.get(column).cloned().unwrap_or_default();
        format!("{} × {}: {} ms", of(3), of(2), of(5))
    });
    page_sentence(row).into_iter().chain(objects).collect()
}

/// "a page of 1.5 MB in 50 objects: 0.52 s; 0.93 s by the best link alone".
pub(super) fn page_sentence(row: &Row<'_>) -> Option<String> {
    let page = row.records.iter().find_map(|record| record.run.web.as_ref()?.page.clone())?;
    let of = |figure: &dyn Fn(&Pages) -> Option<f64>| {
        row.median(|run| figure(run.web.as_ref()?.page.as_ref()?))
    };
    let name = format!("a page of {:.1} MB in {} objects", page.bytes as f64 / 1e6, page.objects);
    let Some(p50) = of(&|page| Some(page.load_ms?.p50)) else {
        return Some(format!("{name}: never loaded as a whole"));
    };
    let mut text = format!("{name}: {:.2} s", p50 / 1e3);
    if let Some(p95) = of(&|page| Some(page.load_ms?.p95)) {
        let _ = write!(text, " (p95 {:.2} s)", p95 / 1e3);
    }
    if let Some(best) = of(&|page| page.best_link_ms) {
        let _ = write!(text, "; {:.2} s by the best link alone", best / 1e3);
    }
    Some(text)
}

fn classes_of(row: &Row<'_>) -> usize {
    row.records.first().and_then(|r| r.run.web.as_ref()).map_or(0, |web| web.objects.len())
}

fn object_cells(row: &Row<'_>, number: usize) -> Vec<String> {
    let of = |figure: &dyn Fn(&Objects) -> Option<f64>| {
        let value = row.median(|run| figure(run.web.as_ref()?.objects.get(number)?));
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"))
    };
    let two = |both: &dyn Fn(&Objects) -> Option<Percentiles>| match of(&|o| Some(both(o)?.p50)) {
        p50 if p50 == "–" => p50,
        p50 => format!("{p50} / {}", of(&|objects| Some(both(objects)?.p95))),
    };
    let web = row.records.first().and_then(|record| record.run.web.as_ref());
    let size = web.and_then(|web| web.objects.get(number)).map_or(0, |objects| objects.up_to_bytes);
    let many = web.is_some_and(|web| web.page.is_some());
    vec![
        row.engine.to_owned(),
        row.traffic.to_owned(),
        format!("{}{}", if many { "≤ " } else { "" }, ByteSize::from_bytes(size)),
        of(&|objects| Some(objects.count as f64)),
        two(&|objects| objects.first_byte_ms),
        two(&|objects| objects.last_byte_ms),
        of(&|objects| objects.best_link_ms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sizes_stand_apart_and_many_in_classes() {
        assert_eq!(classes(&[200_000, 20_000, 200_000]), [20_000, 200_000]);
        let page = Page::of(1_500_000, 50);
        let ends = classes(page.objects());
        assert!(ends.len() <= CLASSES.len() + 1 && ends.is_sorted(), "{ends:?}");
        assert_eq!(ends.last(), page.objects().iter().max());
    }

    #[test]
    fn each_object_counts_in_its_class_and_links_are_compared_one_by_one() {
        let fetch =
            |bytes: u64, ms: f64| Fetch { bytes, first_byte_ms: Some(ms / 2.0), last_byte_ms: ms };
        let web = |factor: f64| Web {
            objects: by_size(
                &[10, 100],
                &[fetch(10, 1.0 * factor), fetch(100, 9.0 / factor), fetch(10, 3.0 * factor)],
            ),
            page: None,
        };
        let mut both = web(1.0);
        assert_eq!(both.objects.iter().map(|o| o.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(both.objects[0].first_byte_ms.unwrap().max, 1.5);
        both.compare(&[vec![web(2.0)], vec![web(4.0), web(4.0)]]);
        let best: Vec<_> = both.objects.iter().map(|objects| objects.best_link_ms).collect();
        assert_eq!(best, [Some(2.0), Some(2.25)]);
    }
}
