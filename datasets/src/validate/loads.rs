//! Checks loads on other cores: a successful model run beside a load has its record, one without a
//! load has none, and the load's cores are not those of the model.

use super::{Inspection, Readable};
use crate::{journal::Entry, tables::model_measurements};
use std::collections::HashMap;
use vitempo_graph::{Environment, LoadRecord, Status};

impl Inspection<'_> {
    pub(super) fn check_loads(&mut self, readable: &Readable) {
        let environments: HashMap<(&str, &str), &Environment> = readable
            .environments
            .iter()
            .flatten()
            .map(|row| ((row.id.as_str(), row.variant.as_str()), &row.environment))
            .collect();
        let file = model_measurements::SCHEMA.file_name();
        for (row, run) in readable.runs.iter().flatten().enumerate() {
            let key = (run.key.environment_id.as_str(), run.environment_variant.as_str());
            if let Some(environment) = environments.get(&key) {
                self.check_load(&file, row, environment, run.load.as_ref(), &run.status);
            }
        }
        for (index, entry) in readable.journal.entries.iter().enumerate() {
            let Entry::Run(profile) = entry else { continue };
            let (file, line) = readable.journal.place(index);
            let load = profile.load.as_ref();
            self.check_load(&file, line, &profile.environment, load, &profile.status);
        }
    }

    fn check_load(
        &mut self,
        file: &str,
        row: usize,
        environment: &Environment,
        load: Option<&LoadRecord>,
        status: &Status,
    ) {
        let what = match (&environment.beside, load) {
            (Some(name), None) if *status == Status::Ok => {
                format!("there is no record of the load `{name}`")
            }
            (None, Some(_)) => "the environment has no load".to_owned(),
            (Some(_), Some(load)) => {
                match load.cores.iter().find(|c| environment.cores.contains(c)) {
                    Some(core) => format!("core {core} is both the load's and the model's"),
                    None if load.alone == Default::default() => {
                        "the load did nothing alone".to_owned()
                    }
                    None => return,
                }
            }
            _ => return,
        };
        self.error("impossible-load", file, row, format!("column `load_json`: {what}"));
    }
}
