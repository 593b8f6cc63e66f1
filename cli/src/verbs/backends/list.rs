//! `vitempo backends list`: every engine, found or not and why, and what it offers.

use crate::verbs::{
    error::CliResult,
    output::{self, Format, Report, Table},
};
use serde_json::json;
use vitempo::{
    engines::{self, Engine},
    profiler::Availability,
};

/// Shows every engine: found or not and why, version, path, what it offers
///
/// Example: vitempo backends list --format json
#[derive(clap::Args, Debug)]
pub struct ListArgs {
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

struct Listing(Vec<Engine>);

pub fn run(args: &ListArgs) -> CliResult {
    output::print(&Listing(engines::list()), args.format)
}

fn names<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

impl Listing {
    fn rows(&self) -> Table {
        let mut table = Table::new(
            &[
                "Engine",
                "Found",
                "Version",
                "Devices",
                "Precisions",
                "Memory formats",
                "Operator times",
                "Where, or why not",
            ],
            8,
        );
        for Engine { name, availability, .. } in &self.0 {
            let cells = match availability {
                Availability::Available(c) => {
                    let path = c
                        .path
                        .as_ref()
                        .map_or_else(|| "compiled in".to_owned(), |p| p.display().to_string());
                    let times = if c.operator_timing { "yes" } else { "no" };
                    [
                        "yes".to_owned(),
                        c.version.clone(),
                        names(&c.devices),
                        names(&c.precisions),
                        names(&c.memory_formats),
                        times.to_owned(),
                        path,
                    ]
                }
                Availability::Unavailable { reason, .. } => {
                    ["no", "-", "-", "-", "-", "-", reason].map(str::to_owned)
                }
            };
            table.row(std::iter::once((*name).to_owned()).chain(cells));
        }
        table
    }
}

impl Report for Listing {
    fn table(&self) -> String {
        let mut text = self.rows().to_text();
        for Engine { name, absent, .. } in &self.0 {
            for device in absent {
                text += &format!("{name} has no {} here: {}\n", device.processor, device.reason);
            }
        }
        for Engine { name, availability, absent, .. } in &self.0 {
            if let Availability::Unavailable { hint, .. } = availability {
                text += &format!("hint: {name}: {hint}\n");
            }
            for device in absent {
                text += &format!("hint: {name} on {}: {}\n", device.processor, device.hint);
            }
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |r: &Engine| json!({"backend": r.name, "description": r.description, "availability": r.availability, "absent_devices": r.absent});
        Ok(self.0.iter().map(row).collect())
    }
}
