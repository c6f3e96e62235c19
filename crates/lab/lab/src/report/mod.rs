//! The results of a run of the lab, and their forms: JSON for programs, Markdown and a terminal
//! table for people, HTML with plots for a browser.

pub mod html;
mod json;
mod markdown_table;
mod table;
mod web;

pub use html::html as page;
pub use json::{CpuSeconds, Host, PingMs, Results, Run};
pub use table::{bars, markdown};
pub use web::{Objects, Pages, Web};

use crate::scenario::Scenario;
use crate::traffic::statistics::median;
use crate::traffic::{Datagrams, Voice};
use serde::{Deserialize, Serialize};

/// Everything measured in one run under one kernel: figures of two kernels are never compared.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario that was run.
    pub scenario: Scenario,
    /// The machine.
    pub host: Host,
    /// What a reader must know about how it was measured.
    pub notes: Vec<String>,
    /// All runs in the order of measurement.
    pub records: Vec<Record>,
}

/// One traffic of one run, with additional data for plots.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The part that goes into the JSON.
    pub run: Run,
    /// The part that doesn't.
    pub detail: Detail,
}

/// Figures for plots and tables that aren't in the JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Detail {
    /// Rate of IP packets that left each link over time.
    pub links: Vec<LinkSeries>,
    /// Seconds since the start, round trip in ms.
    pub pings: Vec<(f64, f64)>,
    /// UDP and VoIP counts.
    pub datagrams: Option<Datagrams>,
    /// The quality of calls.
    pub voice: Option<Voice>,
    /// Seconds from the run's start to the traffic's.
    pub start_s: f64,
}

/// A link's rates over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkSeries {
    /// The link's name.
    pub name: String,
    /// Seconds since the run's start, Mbit/s down, Mbit/s up.
    pub points: Vec<(f64, f64, f64)>,
}

impl Report {
    /// The form that is written as JSON.
    pub fn results(&self) -> Results {
        Results {
            scenario: self.scenario.name.clone(),
            host: self.host.clone(),
            runs: self.records.iter().map(|record| record.run.clone()).collect(),
            vm: None,
        }
    }

    /// Adds notes that aren't there yet.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Medians over the repetitions, one row per engine and traffic, in the order of first
    /// measurement.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for record in &self.records {
            let run = &record.run;
            let same = |row: &&mut Row<'_>| row.engine == run.engine && row.traffic == run.traffic;
            match rows.iter_mut().find(same) {
                Some(row) => row.records.push(record),
                None => rows.push(Row {
                    engine: &run.engine,
                    traffic: &run.traffic,
                    records: vec![record],
                }),
            }
        }
        rows
    }
}

/// The repetitions of one engine and traffic.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The engine.
    pub engine: &'a str,
    /// The traffic.
    pub traffic: &'a str,
    /// Each repetition; at least one.
    pub records: Vec<&'a Record>,
}

impl Row<'_> {
    /// The median of a figure over the repetitions that have it.
    pub fn median(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.records.iter().filter_map(|r| figure(&r.run)).collect();
        median(&values)
    }

    /// Like [`Row::median`], for figures outside the JSON.
    pub fn median_detail(&self, figure: impl Fn(&Detail) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.records.iter().filter_map(|r| figure(&r.detail)).collect();
        median(&values)
    }
}
