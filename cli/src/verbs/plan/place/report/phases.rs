//! Plans for objectives that change, one after the other.

use super::{Printed, words::latency};
use crate::verbs::{
    error::{CliError, CliResult},
    output::Report,
};
use serde_json::{Value, json};
use vitempo::plan::multi_dnn::Placing;

/// Plans by the time at which their objectives begin; the first at 0.
pub struct PrintedPhases(pub Vec<(u64, Placing)>);

impl PrintedPhases {
    fn first(&self) -> CliResult<Printed<'_>> {
        let first = self.0.first().ok_or_else(|| CliError::ours("there is no plan"))?;
        Ok(Printed(&first.1))
    }
}

impl Report for PrintedPhases {
    fn table(&self) -> String {
        let one = |(from_ns, placing): &(u64, Placing)| match self.0.len() {
            1 => Printed(placing).table(),
            _ => format!("From {} on\n\n{}", latency(*from_ns as f64), Printed(placing).table()),
        };
        self.0.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    fn csv(&self) -> CliResult<String> {
        match self.0.len() {
            1 => self.first()?.csv(),
            _ => Err(CliError::user("CSV has one plan; objectives change here")
                .hint("--format json has all of them")),
        }
    }

    fn json(&self) -> CliResult<Value> {
        let mut plan = self.first()?.json()?;
        let later = self.0.iter().skip(1).map(|(from_ns, placing)| {
            Ok(json!({"from_ns": from_ns, "plan": Printed(placing).json()?}))
        });
        plan["later"] = later.collect::<CliResult<Vec<Value>>>()?.into();
        Ok(plan)
    }
}
