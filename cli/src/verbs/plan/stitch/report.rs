//! A plan of stitched variants as a table, JSON and CSV: the order, who runs what, who misses what
//! by how much, and what is in memory.

use super::super::super::{
    error::CliResult,
    output::{Report, Table, percent, thousands},
};
use serde_json::Value;
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::plan::stitch::{
    Selection, planning::Stitching, preloading::Preloading, record::Rehearsal,
};
use vitempo::planners::{
    Evidence,
    cost::End,
    duration,
    stitch::{Assignment, Choice, Order, Slo},
};

/// Most orders in the table: the best.
const MOST_SHOWN: usize = 24;

/// A plan, to be printed.
pub struct Printed(pub Stitching);

fn accuracy(bp: u32) -> String {
    format!("{:.2} %", f64::from(bp) / 100.0)
}

fn latency(ns: u64) -> String {
    Latency::from_ns(ns as f64).to_string()
}

/// Whether an objective is kept, and how surely: `yes`, `by forecast` where the upper end of the
/// interval is too late, else by how much it is missed.
fn kept(choice: &Choice, slo: Slo) -> String {
    let mut missed = Vec::new();
    if choice.short_bp > 0 {
        missed.push(format!("{:.2} points short", f64::from(choice.short_bp) / 100.0));
    }
    if choice.late_ns > 0 {
        missed.push(format!("{} late", latency(choice.late_ns)));
    }
    match (missed.is_empty(), choice.latency_ns.at(End::Upper) <= slo.latency_ns) {
        (false, _) => format!("no: {}", missed.join(", ")),
        (true, true) => "yes".to_owned(),
        (true, false) => "by forecast".to_owned(),
    }
}

impl Printed {
    /// Each task with its objective and what it runs.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &str, Slo, Option<&Choice>)> {
        let tasks =
            self.0.zoo.tasks().iter().zip(&self.0.slos).zip(&self.0.plan.choices).enumerate();
        tasks.map(|(index, ((task, slo), choice))| {
            (index, task.name.as_str(), *slo, choice.as_ref())
        })
    }

    pub(super) fn variants(&self, task: usize, choice: &Choice) -> Vec<&str> {
        let names = self.0.zoo.tasks().get(task).map_or(&[][..], |task| task.variants.as_slice());
        choice
            .stitched
            .variants
            .iter()
            .map(|&variant| names.get(variant).map_or("?", String::as_str))
            .collect()
    }

    /// Positions whose subgraph is not in memory, counted from 1; none where nothing is said about
    /// memory.
    pub(super) fn fetched(&self, task: usize, choice: &Choice) -> Vec<usize> {
        let Some(preloading) = &self.0.preloading else { return Vec::new() };
        let positions = choice.stitched.variants.iter().enumerate();
        positions
            .filter(|&(position, &variant)| !preloading.loaded.holds(task, position, variant))
            .map(|(position, _)| position + 1)
            .collect()
    }

    fn choices(&self) -> String {
        let mut table = Table::new(
            &["Task", "Stitched of", "Accuracy", "Asked", "Latency", "Asked", "Kept"],
            2,
        );
        for (task, name, slo, choice) in self.rows() {
            let asked = (accuracy(slo.accuracy_bp), latency(slo.latency_ns));
            let cells = match choice {
                Some(choice) => {
                    let found = (
                        self.variants(task, choice).join(" | "),
                        accuracy(choice.stitched.accuracy_bp),
                        duration(choice.latency_ns),
                    );
                    [found.0, found.1, asked.0, found.2, asked.1, kept(choice, slo)]
                }
                None => [
                    "-".to_owned(),
                    "-".to_owned(),
                    asked.0,
                    "-".to_owned(),
                    asked.1,
                    "no: no variant keeps it".to_owned(),
                ],
            };
            table.row(std::iter::once(name.to_owned()).chain(cells));
        }
        table.to_text()
    }

    fn order_list(&self) -> String {
        let mut table = Table::new(&["", "Order", "Kept", "Mean latency", "Busiest processor"], 2);
        let shown = |(index, (order, _)): &(usize, &(Order, Option<Assignment>))| {
            *index < MOST_SHOWN || *order == self.0.plan.order
        };
        let listed = self.0.each.iter().enumerate().filter(shown);
        for (order, best) in listed.map(|(_, listed)| listed) {
            let mark = if *order == self.0.plan.order { "*" } else { "" };
            let cells = match best {
                Some(best) => [
                    self.kept_count(best),
                    latency(best.mean_latency_ns() as u64),
                    latency(best.bottleneck_ns),
                ],
                None => ["a task cannot run".to_owned(), "-".to_owned(), "-".to_owned()],
            };
            table.row([mark.to_owned(), self.0.zoo.named(order)].into_iter().chain(cells));
        }
        let (all, mut text) = (self.0.orders.len(), table.to_text());
        if all > MOST_SHOWN {
            let _ = writeln!(text, "the best {MOST_SHOWN} of {all} orders");
        }
        if self.0.preloading.is_some() {
            text += "orders: with every subgraph in memory\n";
        }
        text
    }

    fn kept_count(&self, plan: &Assignment) -> String {
        format!(
            "{} of {}",
            self.0.slos.len() - plan.violations.min(self.0.slos.len()),
            self.0.slos.len()
        )
    }

    fn memory(&self, preloading: &Preloading) -> String {
        let mut text = String::new();
        let kilobytes = |bytes: u64| format!("{} kB", thousands(bytes.div_ceil(1000)));
        let Preloading { loaded, budget_bytes, full_bytes, keeps, proven } = preloading;
        let share = |bytes: u64| percent(bytes as f64 / (*full_bytes).max(1) as f64);
        let _ = writeln!(
            text,
            "In memory: {} of the {} that all subgraphs take, budget {} ({})",
            kilobytes(loaded.memory_bytes()),
            kilobytes(*full_bytes),
            kilobytes(*budget_bytes),
            share(*budget_bytes)
        );
        let proven = match proven {
            Some(true) => ", and no choice within the budget keeps more",
            Some(false) => "; a better choice is not ruled out",
            None => "",
        };
        let _ = writeln!(
            text,
            "It keeps the objectives above before all others, and {} of {} of a grid of those \
            that may be asked later{proven}",
            keeps.0, keeps.1
        );
        let mut table = Table::new(&["Task", "Position", "Loaded"], 3);
        for (task, found) in self.0.zoo.tasks().iter().enumerate() {
            for position in 0..self.0.zoo.positions() {
                let held: Vec<&str> = found
                    .variants
                    .iter()
                    .enumerate()
                    .filter(|(variant, _)| loaded.holds(task, position, *variant))
                    .map(|(_, name)| name.as_str())
                    .collect();
                let held = if held.is_empty() { "-".to_owned() } else { held.join(", ") };
                table.row([found.name.clone(), (position + 1).to_string(), held]);
            }
        }
        text + &table.to_text()
    }

    fn systems(&self) -> String {
        let mut table = Table::new(&["System", "Missed, alone", "Missed, at once", "Queries/s"], 1);
        for outcome in &self.0.systems {
            table.row([
                outcome.system.clone(),
                percent(outcome.alone.rate()),
                percent(outcome.at_once.rate()),
                format!("{:.1}", outcome.queries_per_s),
            ]);
        }
        let outcomes = self.0.systems.first().map_or(0, |system| system.alone.of);
        let note = format!(
            "of {outcomes} outcomes: a grid of objectives, tasks, and orders in which these \
            arrive   ({})",
            Evidence::Simulation
        );
        format!("{}{note}\n", table.to_text())
    }

    /// What engines said.
    fn live(&self, rehearsal: &Rehearsal) -> String {
        let mut table = Table::new(
            &["Order, live", "Predicted", "Measured", "Missed, predicted", "Missed, measured"],
            1,
        );
        for tried in &rehearsal.orders {
            let misses =
                [tried.predicted_misses, tried.measured_misses].map(|count| count.to_string());
            table.row(
                [tried.order.join("-"), latency(tried.predicted_ns), latency(tried.measured_ns)]
                    .into_iter()
                    .chain(misses),
            );
        }
        let mut text = table.to_text();
        if let Some(regret) = rehearsal.regret() {
            let _ = writeln!(
                text,
                "mean latencies over tasks; live regret of the order chosen: {}   ({})",
                percent(regret),
                Evidence::Live
            );
        }
        let count = rehearsal.tried.len();
        if let Some((ns, share)) = rehearsal.error(|tried| Some(tried.summed_ns)) {
            let ns = latency(ns as u64);
            let _ = writeln!(
                text,
                "{count} stitched variants run: the sum of their subgraphs as measured is {} off \
                on average ({ns})",
                percent(share)
            );
        }
        if let Some((ns, share)) = rehearsal.error(|tried| tried.forecast_ns) {
            let _ = writeln!(
                text,
                "the sum of their forecasts is {} off ({})",
                percent(share),
                latency(ns as u64)
            );
        }
        text
    }

    /// What is printed below the choices.
    fn notes(&self) -> String {
        let mut text = String::new();
        let goal = if self.0.selection == Selection::AsPrinted {
            "least mean latency, as algorithm 1 is printed"
        } else {
            "fewest missed objectives, then the least accuracy missing, then least mean latency"
        };
        let _ = writeln!(
            text,
            "{} objectives kept: {goal}, of {} orders   ({})",
            self.kept_count(&self.0.plan),
            self.0.orders.len(),
            Evidence::CostModel
        );
        let _ = writeln!(
            text,
            "mean latency {}; one query of each task takes {} of the busiest processor",
            latency(self.0.plan.mean_latency_ns() as u64),
            latency(self.0.plan.bottleneck_ns)
        );
        if self.rows().any(|(_, _, slo, choice)| {
            choice.is_some_and(|choice| kept(choice, slo) == "by forecast")
        }) {
            let _ = writeln!(
                text,
                "by forecast: kept by the forecast, but not at the upper end of its interval"
            );
        }
        for (task, name, _, choice) in self.rows() {
            let fetched = choice.map(|choice| self.fetched(task, choice)).unwrap_or_default();
            if !fetched.is_empty() {
                let positions: Vec<String> = fetched.iter().map(usize::to_string).collect();
                let _ = writeln!(
                    text,
                    "{name}: position {} does not fit into memory and is fetched first, which its \
                    latency contains",
                    positions.join(", ")
                );
            }
        }
        for (task, report) in self.0.zoo.tasks().iter().zip(&self.0.tasks) {
            let _ = writeln!(text, "accuracy of {}: {}", task.name, report.accuracy.how);
        }
        if let Some(what) = &self.0.accuracy_is {
            let _ = writeln!(text, "accuracy is {what}");
        }
        text
    }
}

impl Report for Printed {
    fn table(&self) -> String {
        let processors: String = self
            .0
            .environments
            .iter()
            .map(|(name, environment)| format!("{name}: {environment}\n"))
            .collect();
        let others =
            if self.0.each.len() > 1 { format!("\n{}", self.order_list()) } else { String::new() };
        let memory = self
            .0
            .preloading
            .as_ref()
            .map_or_else(String::new, |preloading| format!("\n{}", self.memory(preloading)));
        let systems =
            if self.0.systems.is_empty() { String::new() } else { format!("\n{}", self.systems()) };
        let live =
            self.0.measured.as_ref().map_or_else(String::new, |measured| {
                format!("\n{}", self.live(&measured.rehearsal))
            });
        format!(
            "Order: {}\n{processors}\n{}\n{}{others}{memory}{systems}{live}",
            self.0.zoo.named(&self.0.plan.order),
            self.choices(),
            self.notes()
        )
    }

    fn csv(&self) -> CliResult<String> {
        self.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        Ok(self.to_json())
    }
}
