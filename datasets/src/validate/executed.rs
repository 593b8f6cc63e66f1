//! Compares the precision that ran with the one asked for. Engines may fall back silently, e.g.
//! from f16 to f32, and a predictor for the precision asked for would then be trained on another.
//! Reported once per environment and precision, with the first row.

use super::{Inspection, Readable, Severity};
use crate::{journal::Entry, tables::model_measurements};
use std::collections::{BTreeMap, HashMap};
use vitempo_graph::{Executed, Precision, Status};

/// Model runs of one environment that ran in another precision: where the first stands, and how
/// many there are.
type Departures<'a> = BTreeMap<(&'a str, &'static str, &'static str), (String, usize, usize)>;

impl Inspection<'_> {
    pub(super) fn check_executed(&mut self, readable: &Readable) {
        let asked: HashMap<&str, Precision> = readable
            .environments
            .iter()
            .flatten()
            .map(|row| (row.id.as_str(), row.environment.precision))
            .collect();
        let mut departures = Departures::new();
        let mut compare = |id,
                           asked: Precision,
                           executed: Option<Executed>,
                           status: &Status,
                           place: (String, usize)| {
            let Some(ran) = executed
                .map(|e| e.precision)
                .filter(|&ran| *status == Status::Ok && !agree(asked, ran))
            else {
                return;
            };
            departures.entry((id, asked.name(), ran.name())).or_insert((place.0, place.1, 0)).2 +=
                1;
        };
        let file = model_measurements::SCHEMA.file_name();
        for (row, run) in readable.runs.iter().flatten().enumerate() {
            let id = run.key.environment_id.as_str();
            if let Some(&asked) = asked.get(id) {
                compare(id, asked, run.executed, &run.status, (file.clone(), row));
            }
        }
        let ids: Vec<(usize, String)> = readable
            .journal
            .entries
            .iter()
            .enumerate()
            .filter_map(|(i, entry)| Some((i, run_of(entry)?.environment.id())))
            .collect();
        for (index, id) in &ids {
            if let Some(profile) = run_of(&readable.journal.entries[*index]) {
                compare(
                    id,
                    profile.environment.precision,
                    profile.executed,
                    &profile.status,
                    readable.journal.place(*index),
                );
            }
        }
        for ((id, asked, ran), (file, row, runs)) in departures {
            let what = format!("{runs} model runs in {id} were asked for {asked} and ran in {ran}");
            self.find(Severity::Warning, "executed-precision", &file, Some(row), what);
        }
    }
}

fn run_of(entry: &Entry) -> Option<&vitempo_graph::ModelProfile> {
    match entry {
        Entry::Run(profile) => Some(profile),
        Entry::Model(_) => None,
    }
}

/// Signed and unsigned bytes are both what is called int8.
fn agree(asked: Precision, ran: Precision) -> bool {
    let int8 = |p| matches!(p, Precision::I8 | Precision::U8);
    asked == ran || (int8(asked) && int8(ran))
}
