//! [`Front`]: the result of a search, as a table, CSV, JSON, ONNX files and plots.

use super::{
    super::{
        error::{CliError, CliResult},
        files,
        output::{Report, Table, ns, si},
        predict::memory,
    },
    verify,
};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};
use vitempo::graph::onnx::WeightFill;
use vitempo::memory::MemoryForecast;
use vitempo::search::{
    Candidate, Device, Objective, Outcome, SearchError, folder, front_json,
    memories as memories_of,
    verify::{Verified, spread},
};
use vitempo::search_space::Space;
use vitempo_report::front;

/// Rows of the table; files hold all.
const SHOWN: usize = 20;

pub struct Front<'s> {
    pub space: &'s Space,
    pub objective: &'s dyn Objective,
    pub devices: &'s [Device<'s>],
    pub outcome: &'s Outcome,
    /// Memory of each member on each device, where that of its engine is known.
    pub memories: Vec<Vec<Option<MemoryForecast>>>,
    /// Measurements, for each device.
    pub verified: Vec<Verified>,
}

/// Memory of each member of a front on each device.
pub fn memories(
    devices: &[Device<'_>],
    outcome: &Outcome,
) -> CliResult<Vec<Vec<Option<MemoryForecast>>>> {
    let of_member = |member: &Candidate| {
        memories_of(devices, &member.architecture)
            .map_err(|error| CliError::from(SearchError::from(error)))
    };
    outcome.front.iter().map(of_member).collect()
}

impl Front<'_> {
    /// The front as ONNX files with an index, instead of the front that the folder has.
    pub fn write_models(
        &self,
        folder: &Path,
        no_weights: bool,
        seed: u64,
    ) -> CliResult<Vec<PathBuf>> {
        let weights = if no_weights { WeightFill::Omitted } else { WeightFill::Seeded(seed) };
        folder::clear(folder)?;
        Ok(folder::write(folder, self.space, self.outcome, weights)?)
    }

    /// The front as CSV, JSON and plots.
    pub fn write_results(&self, folder: &Path) -> CliResult {
        files::write(&folder.join(folder::CSV), self.csv()?.as_bytes())?;
        files::write(&folder.join(folder::JSON), format!("{:#}\n", self.json()?).as_bytes())?;
        for (name, svg) in front::plots(self.devices, self.objective, self.outcome) {
            files::write(&folder.join(name), svg.as_bytes())?;
        }
        Ok(())
    }

    fn score(&self, score: f64) -> String {
        if self.objective.stands_in().is_some() { si(score as u64) } else { format!("{score:.6}") }
    }
}

impl Report for Front<'_> {
    fn table(&self) -> String {
        let front = &self.outcome.front;
        let mut text = format!(
            "Search of {}   {} candidates, {} on the front\n\n",
            self.space.name(),
            self.outcome.candidates,
            front.len()
        );
        for device in self.devices {
            let ceiling =
                device.ceiling.map_or_else(|| "no ceiling".to_owned(), |c| format!("at most {c}"));
            let memory = device
                .memory_ceiling
                .map_or_else(String::new, |bytes| format!(", memory at most {}B", si(bytes)));
            let environment = device.bundle.environment().describe();
            let _ = writeln!(text, "Latency    {ceiling}{memory}   {environment}");
        }
        let stand_in = self
            .objective
            .stands_in()
            .map_or_else(String::new, |sentence| format!("   (a stand-in: {sentence})"));
        let _ = writeln!(text, "Objective  {}{stand_in}\n", self.objective.name());
        let mut headings = vec!["Encoding", "Score"];
        headings.extend(self.devices.iter().flat_map(|_| ["Latency", "Interval", "Memory"]));
        let mut table = Table::new(&headings, 1);
        let members = spread(front.len(), SHOWN).into_iter();
        for (member, memories) in
            members.filter_map(|place| front.get(place).zip(self.memories.get(place)))
        {
            let cells = member.latencies.iter().zip(memories).flat_map(|(l, memory)| {
                let peak = memory.map(|m| format!("{}B", si(m.peak_bytes.point())));
                [
                    l.point().to_string(),
                    format!("[{} .. {}]", l.lower(), l.upper()),
                    peak.unwrap_or_else(|| "-".to_owned()),
                ]
            });
            table.row(
                [member.architecture.encode(), self.score(member.score)].into_iter().chain(cells),
            );
        }
        text += &table.to_text();
        if front.len() > SHOWN {
            let _ = writeln!(
                text,
                "... spread evenly over the front of {}; --format csv and --out have all",
                front.len()
            );
        }
        self.verified.iter().for_each(|verified| text += &verify::table(verified));
        text
    }

    fn csv(&self) -> CliResult<String> {
        let latency_columns = [
            "encoding",
            "objective",
            "score",
            "environment",
            "latency_ns",
            "lower_ns",
            "upper_ns",
            "level",
        ];
        let mut table = Table::new(&[&latency_columns, memory::COLUMNS].concat(), 2);
        for (member, memories) in self.outcome.front.iter().zip(&self.memories) {
            for ((device, latency), memory) in
                self.devices.iter().zip(&member.latencies).zip(memories)
            {
                let numbers = [latency.point(), latency.lower(), latency.upper()].map(ns);
                let words = [
                    member.architecture.encode(),
                    self.objective.name().to_owned(),
                    member.score.to_string(),
                    device.bundle.environment().id(),
                ];
                let level = [latency.level.to_string()];
                let memory = memory::cells(memory.as_ref());
                table.row(words.into_iter().chain(numbers).chain(level).chain(memory));
            }
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let Self { space, objective, devices, outcome, memories, verified } = self;
        let mut json = front_json(space, *objective, devices, outcome, memories);
        json["verified"] = verified.iter().map(verify::json).collect();
        Ok(json)
    }
}
