//! Checks that backups are complete and undamaged.

use super::Vault;
use crate::Error;
use crate::heard;
use crate::quiet::caught;
use rustic_core::{CheckOptions, ReadSubsetOption};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// How much of the data was read, percent.
    pub read_percent: f64,
    /// What is wrong; empty if nothing is.
    pub errors: Vec<String>,
    /// The damaged packs, by the beginning of their names.
    pub damaged_packs: BTreeSet<String>,
    /// Harmless oddities.
    pub remarks: Vec<String>,
}

impl Vault {
    /// Checks that everything the backups need is there; reads a random `percent` of the data and
    /// verifies its digests.
    ///
    /// # Errors
    /// The target can't be reached; what is wrong in it is in the report.
    pub fn check(&self, percent: f64) -> Result<CheckReport, Error> {
        let heard = heard::listen();
        let repository = self.repository(false)?;
        let subset = match percent >= 100.0 {
            true => ReadSubsetOption::All,
            false => ReadSubsetOption::Percentage(percent),
        };
        let options = CheckOptions::default().read_data(percent > 0.0).read_data_subset(subset);
        let (_, listed) = self.lost_of(&self.named_packs(&repository)?)?;
        self.courier.take_for_listed(Some(listed.into_iter().collect()));
        let checked = caught(|| repository.check(options));
        self.courier.take_for_listed(None);
        if let Some(failure) = self.courier.failure() {
            return Err(failure);
        }
        let results = match checked {
            Ok(results) => self.told(results)?,
            Err(said) => return Err(self.courier.error_of(said)),
        };
        drop(heard);
        let mut report = CheckReport {
            read_percent: percent.clamp(0.0, 100.0),
            errors: vec![],
            damaged_packs: BTreeSet::new(),
            remarks: vec![],
        };
        for (level, finding) in &results.0 {
            let text = finding.to_string();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            // By a program that may not be here; the next backup does so.
            let text = text.split_once(" To repair:").map_or(text.as_str(), |(what, _)| what);
            let text = text.to_owned();
            // The level has no name outside of the library.
            match format!("{level:?}") == "Error" {
                true => {
                    report.damaged_packs.extend(pack_in(&text));
                    report.errors.push(text);
                }
                false => report.remarks.push(text),
            }
        }
        Ok(report)
    }
}

/// The beginning of its name.
fn pack_in(text: &str) -> Option<String> {
    let (_, after) = text.split_once("pack ")?;
    let digits = after.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
    (digits.len() >= 8).then_some(digits)
}
