//! A plan of stitched variants as a table, JSON and CSV: the order, who runs what, who misses what
//! by how much, and what is in memory.

use super::super::super::{
    error::CliResult,
    output::{Report, Table, percent, thousands},
};
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::plan::stitch::{preloading::Preloading, record::Rehearsal, systems::Judged};
use vitempo::planners::{
    Evidence,
    cost::End,
    duration,
    stitch::{Assignment, Choice, Order, Slo, Zoo},
};

/// What is to be said of a task beside its costs.
pub struct TaskReport {
    pub cuts: Vec<String>,
    pub accuracy_how: String,
    /// Stitched variants whose accuracy was measured.
    pub measured: usize,
}

/// A plan, with all it was made of.
pub struct Stitching {
    pub zoo: Zoo,
    pub tasks: Vec<TaskReport>,
    pub slos: Vec<Slo>,
    pub plan: Assignment,
    /// How many orders there were to choose from.
    pub orders: usize,
    /// The best of each order, where they are few.
    pub others: Vec<(Order, Option<Assignment>)>,
    pub preloading: Option<Preloading>,
    /// Where they were asked for.
    pub systems: Vec<Judged>,
    /// What engines said, where there are some.
    pub rehearsal: Option<Rehearsal>,
    pub as_printed: bool,
    pub accuracy_is: Option<String>,
    /// Processors, and where their predictors were measured.
    pub environments: Vec<(String, String)>,
}

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

impl Stitching {
    /// Each task with its objective and what it runs.
    fn rows(&self) -> impl Iterator<Item = (usize, &str, Slo, Option<&Choice>)> {
        let tasks = self.zoo.tasks().iter().zip(&self.slos).zip(&self.plan.choices).enumerate();
        tasks.map(|(index, ((task, slo), choice))| {
            (index, task.name.as_str(), *slo, choice.as_ref())
        })
    }

    fn variants(&self, task: usize, choice: &Choice) -> Vec<&str> {
        let names = self.zoo.tasks().get(task).map_or(&[][..], |task| task.variants.as_slice());
        choice
            .stitched
            .variants
            .iter()
            .map(|&variant| names.get(variant).map_or("?", String::as_str))
            .collect()
    }

    /// Positions whose subgraph is not in memory, counted from 1; none where nothing is said about
    /// memory.
    fn fetched(&self, task: usize, choice: &Choice) -> Vec<usize> {
        let Some(preloading) = &self.preloading else { return Vec::new() };
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
        for (order, best) in &self.others {
            let mark = if *order == self.plan.order { "*" } else { "" };
            let cells = match best {
                Some(best) => [
                    self.kept_count(best),
                    latency(best.mean_latency_ns() as u64),
                    latency(best.bottleneck_ns),
                ],
                None => ["a task cannot run".to_owned(), "-".to_owned(), "-".to_owned()],
            };
            table.row([mark.to_owned(), self.zoo.named(order)].into_iter().chain(cells));
        }
        table.to_text()
    }

    fn kept_count(&self, plan: &Assignment) -> String {
        format!("{} of {}", self.slos.len() - plan.violations.min(self.slos.len()), self.slos.len())
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
        for (task, found) in self.zoo.tasks().iter().enumerate() {
            for position in 0..self.zoo.positions() {
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

    fn judged(&self) -> String {
        let mut table = Table::new(&["System", "Missed, alone", "Missed, at once", "Queries/s"], 1);
        for judged in &self.systems {
            table.row([
                judged.system.clone(),
                percent(judged.alone.rate()),
                percent(judged.at_once.rate()),
                format!("{:.1}", judged.queries_per_s),
            ]);
        }
        let outcomes = self.systems.first().map_or(0, |judged| judged.alone.of);
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
        let goal = if self.as_printed {
            "least mean latency, as algorithm 1 is printed"
        } else {
            "fewest missed objectives, then least mean latency"
        };
        let _ = writeln!(
            text,
            "{} objectives kept: {goal}, of {} orders   ({})",
            self.kept_count(&self.plan),
            self.orders,
            Evidence::CostModel
        );
        let _ = writeln!(
            text,
            "mean latency {}; one query of each task takes {} of the busiest processor",
            latency(self.plan.mean_latency_ns() as u64),
            latency(self.plan.bottleneck_ns)
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
                    "{name}: position {} does not fit into memory and is fetched first",
                    positions.join(", ")
                );
            }
        }
        for (task, report) in self.zoo.tasks().iter().zip(&self.tasks) {
            let _ = writeln!(text, "accuracy of {}: {}", task.name, report.accuracy_how);
        }
        if let Some(what) = &self.accuracy_is {
            let _ = writeln!(text, "accuracy is {what}");
        }
        text
    }
}

impl Report for Stitching {
    fn table(&self) -> String {
        let processors: String = self
            .environments
            .iter()
            .map(|(name, environment)| format!("{name}: {environment}\n"))
            .collect();
        let others =
            if self.others.len() > 1 { format!("\n{}", self.order_list()) } else { String::new() };
        let memory = self
            .preloading
            .as_ref()
            .map_or_else(String::new, |preloading| format!("\n{}", self.memory(preloading)));
        let systems =
            if self.systems.is_empty() { String::new() } else { format!("\n{}", self.judged()) };
        let live = self
            .rehearsal
            .as_ref()
            .map_or_else(String::new, |rehearsal| format!("\n{}", self.live(rehearsal)));
        format!(
            "Order: {}\n{processors}\n{}\n{}{others}{memory}{systems}{live}",
            self.zoo.named(&self.plan.order),
            self.choices(),
            self.notes()
        )
    }

    fn csv(&self) -> CliResult<String> {
        let headings = [
            "task",
            "order",
            "variants",
            "accuracy_bp",
            "asked_accuracy_bp",
            "latency_ns",
            "lower_ns",
            "upper_ns",
            "asked_latency_ns",
            "short_bp",
            "late_ns",
            "kept",
        ];
        let mut table = Table::new(&headings, 3);
        for (task, name, slo, choice) in self.rows() {
            let number = |of: &dyn Fn(&Choice) -> u64| {
                choice.map_or_else(String::new, |choice| of(choice).to_string())
            };
            table.row([
                name.to_owned(),
                self.zoo.named(&self.plan.order),
                choice.map_or_else(String::new, |choice| self.variants(task, choice).join("|")),
                number(&|c| u64::from(c.stitched.accuracy_bp)),
                slo.accuracy_bp.to_string(),
                number(&|c| c.latency_ns.point()),
                number(&|c| c.latency_ns.at(End::Lower)),
                number(&|c| c.latency_ns.at(End::Upper)),
                slo.latency_ns.to_string(),
                number(&|c| u64::from(c.short_bp)),
                number(&|c| c.late_ns),
                choice.is_some_and(Choice::meets_slo).to_string(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let names = |order: &Order| {
            order.processors().iter().map(|&p| self.zoo.processors().get(p)).collect::<Vec<_>>()
        };
        let percent = |bp: u32| f64::from(bp) / 100.0;
        let task = |(index, name, slo, choice): (usize, &str, Slo, Option<&Choice>)| {
            let report = self.tasks.get(index);
            json!({
                "task": name, "variants": choice.map(|c| self.variants(index, c)), "accuracy": choice.map(|c| percent(c.stitched.accuracy_bp)),
                "latency_ns": choice.map(|c| c.latency_ns), "slo": {"accuracy": percent(slo.accuracy_bp), "latency_ns": slo.latency_ns},
                "short": choice.map(|c| percent(c.short_bp)), "late_ns": choice.map(|c| c.late_ns), "kept": choice.is_some_and(Choice::meets_slo),
                "fetched": choice.map(|c| self.fetched(index, c)), "cuts": report.map(|r| &r.cuts), "accuracy_how": report.map(|r| &r.accuracy_how),
            })
        };
        let order = |(order, best): &(Order, Option<Assignment>)| {
            json!({"order": names(order), "violations": best.as_ref().map(|b| b.violations), "mean_latency_ns": best.as_ref().map(Assignment::mean_latency_ns),
                "bottleneck_ns": best.as_ref().map(|b| b.bottleneck_ns)})
        };
        let preload = |p: &Preloading| {
            let held = |task: usize, position: usize| {
                let variants = self.zoo.tasks()[task].variants.iter().enumerate();
                variants
                    .filter(|(variant, _)| p.loaded.holds(task, position, *variant))
                    .map(|(_, name)| name)
                    .collect::<Vec<_>>()
            };
            let tasks = self.zoo.tasks().iter().enumerate();
            let tasks = tasks
                .map(|(task, found)| json!({"task": found.name, "loaded": (0..self.zoo.positions()).map(|position| held(task, position)).collect::<Vec<_>>()}));
            json!({"memory_bytes": p.loaded.memory_bytes(), "budget_bytes": p.budget_bytes, "full_bytes": p.full_bytes, "grid_kept": p.keeps.0, "grid": p.keeps.1,
                "proven": p.proven, "tasks": tasks.collect::<Vec<_>>()})
        };
        let system = |judged: &Judged| {
            json!({"system": judged.system, "missed_alone": judged.alone.rate(), "missed_at_once": judged.at_once.rate(), "outcomes": judged.alone.of,
                "queries_per_s": judged.queries_per_s, "evidence": judged.alone.evidence})
        };
        Ok(json!({
            "order": names(&self.plan.order), "violations": self.plan.violations, "mean_latency_ns": self.plan.mean_latency_ns(), "bottleneck_ns": self.plan.bottleneck_ns,
            "tasks": self.rows().map(task).collect::<Vec<_>>(), "orders": self.others.iter().map(order).collect::<Vec<_>>(),
            "preload": self.preloading.as_ref().map(preload), "systems": self.systems.iter().map(system).collect::<Vec<_>>(), "as_printed": self.as_printed, "accuracy_is": self.accuracy_is, "evidence": Evidence::CostModel,
            "live": self.rehearsal.as_ref().map(|rehearsal| json!({
                "tried": rehearsal.tried, "orders": rehearsal.orders, "regret": rehearsal.regret(), "evidence": Evidence::Live,
                "sums_off": rehearsal.error(|t| Some(t.summed_ns)).map(|e| e.1), "forecasts_off": rehearsal.error(|t| t.forecast_ns).map(|e| e.1),
            })),
        }))
    }
}
