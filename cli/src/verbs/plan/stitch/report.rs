//! A plan of stitched variants as a table, JSON and CSV: the order, the variant of each task and by
//! how much it violates its SLO, and the subgraphs in memory.

use super::{
    super::super::{
        error::CliResult,
        output::{Report, Table},
    },
    super::place::words,
    sections::{self, latency},
};
use serde_json::Value;
use std::fmt::Write;
use vitempo::plan::stitch::{
    PrintedSearch, Selection,
    preloading::OrderChoice,
    stitching::{Searched, SloStatus, Stitching},
};
use vitempo::planners::{
    Evidence, duration,
    stitch::{Assignment, Order},
};

/// Largest number of orders in the table; the best are listed.
const MOST_SHOWN: usize = 24;

/// A plan, to be printed.
pub struct Printed(pub Stitching);

fn accuracy(bp: u32) -> String {
    format!("{:.2} %", f64::from(bp) / 100.0)
}

/// Whether an SLO is met: `yes`, `by forecast`, else by how much it is violated.
fn status(status: SloStatus) -> String {
    let (short_bp, late_ns) = match status {
        SloStatus::Met => return "yes".to_owned(),
        SloStatus::MetByForecast => return "by forecast".to_owned(),
        SloStatus::NoVariant => return "no: no variant meets it".to_owned(),
        SloStatus::Violated { short_bp, late_ns } => (short_bp, late_ns),
    };
    let short = (short_bp > 0).then(|| format!("{:.2} points short", f64::from(short_bp) / 100.0));
    let late = (late_ns > 0).then(|| format!("{} late", latency(late_ns)));
    format!("no: {}", short.into_iter().chain(late).collect::<Vec<_>>().join(", "))
}

/// A latency of a plan; `-` where no task has a variant.
fn of_choices(plan: &Assignment, ns: u64) -> String {
    match plan.choices.iter().flatten().next() {
        Some(_) => latency(ns),
        None => "-".to_owned(),
    }
}

/// The mean latency over tasks.
fn mean_latency(plan: &Assignment) -> String {
    of_choices(plan, plan.mean_latency_ns() as u64)
}

impl Printed {
    fn choices(&self) -> String {
        let headings = ["Task", "Stitched of", "Accuracy", "Asked", "Latency", "Asked", "SLO met"];
        let mut table = Table::new(&headings, 2);
        let dash = || "-".to_owned();
        for task in self.0.planned() {
            table.row([
                task.name.to_owned(),
                task.variants().map_or_else(dash, |variants| variants.join(" | ")),
                task.choice.map_or_else(dash, |choice| accuracy(choice.stitched.accuracy_bp)),
                accuracy(task.slo.accuracy_bp),
                task.choice.map_or_else(dash, |choice| duration(choice.latency_ns)),
                latency(task.slo.latency_ns),
                status(task.status()),
            ]);
        }
        table.to_text()
    }

    fn order_list(&self) -> String {
        let mut table =
            Table::new(&["", "Order", "SLOs met", "Mean latency", "Busiest processor"], 2);
        let shown = |(index, (order, _)): &(usize, &(Order, Option<Assignment>))| {
            *index < MOST_SHOWN || *order == self.0.plan.order
        };
        let listed = self.0.each.iter().enumerate().filter(shown);
        for (order, best) in listed.map(|(_, listed)| listed) {
            let mark = if *order == self.0.plan.order { "*" } else { "" };
            let cells = match best {
                Some(best) => [self.met(best), mean_latency(best), latency(best.bottleneck_ns)],
                None => ["a task cannot run".to_owned(), "-".to_owned(), "-".to_owned()],
            };
            table.row([mark.to_owned(), self.0.zoo.named(order)].into_iter().chain(cells));
        }
        let (all, mut text) = (self.0.orders.len(), table.to_text());
        if all > MOST_SHOWN {
            let shown = MOST_SHOWN.min(self.0.each.len());
            let _ = writeln!(text, "the best {shown} of {all} orders");
        }
        if self.0.preloading.is_some() {
            text += "orders: with every subgraph in memory\n";
        }
        text
    }

    fn met(&self, plan: &Assignment) -> String {
        format!("{} of {}", self.0.slos_met(plan), self.0.slos.len())
    }

    /// How the order was chosen within the memory, where that is not by comparing all orders.
    fn order_choice(&self) -> String {
        match self.0.preloading.as_ref().map(|preloading| preloading.order) {
            Some(OrderChoice::AllInMemory) => {
                "the order was chosen as if every subgraph were in memory\n".to_owned()
            }
            Some(OrderChoice::WithinMemory { orders_left: left @ 1.. }) => format!(
                "{left} of {} orders were not compared within the memory, because the budget ended \
                (--budget) or a time of loading is not known: one of them may be better\n",
                self.0.orders.len()
            ),
            _ => String::new(),
        }
    }

    /// The notes below the table of choices.
    fn notes(&self) -> String {
        let mut text = String::new();
        let goal = if self.0.selection == Selection::AsPrinted {
            "least mean latency, as algorithm 1 is printed"
        } else {
            "fewest violated SLOs, then the least accuracy missing, then least mean latency"
        };
        let _ = writeln!(
            text,
            "{} SLOs met: {goal}, of {} orders{}   ({})",
            self.met(&self.0.plan),
            self.0.orders.len(),
            if self.0.preloading.is_some() { ", with what stays in memory" } else { "" },
            Evidence::CostModel
        );
        let _ = writeln!(
            text,
            "mean latency {}; one query of each task takes {} of the busiest processor",
            mean_latency(&self.0.plan),
            of_choices(&self.0.plan, self.0.plan.bottleneck_ns)
        );
        let Searched { orders_left, violations_at_least, printed } = self.0.search;
        if let Some(PrintedSearch { orders_left, latency_at_least_ns }) =
            printed.filter(|printed| printed.orders_left > 0)
        {
            let chosen = self.0.plan.choices.iter().flatten().count().max(1) as u64;
            let _ = writeln!(
                text,
                "the budget ended (--budget): algorithm 1 did not compare {orders_left} of {} \
                orders; in each order the mean latency of these tasks is at least {}",
                self.0.orders.len(),
                latency(latency_at_least_ns / chosen)
            );
        }
        if orders_left > 0 {
            let _ = writeln!(
                text,
                "the budget ended (--budget): {orders_left} of {} orders were not searched to \
                their end; in each order at least {violations_at_least} tasks violate their SLO",
                self.0.orders.len()
            );
        }
        text += &self.order_choice();
        if self.0.planned().any(|task| task.status() == SloStatus::MetByForecast) {
            let _ = writeln!(
                text,
                "by forecast: met by the forecast, but not at the upper end of its interval"
            );
        }
        for task in self.0.planned() {
            let fetched = task.fetched().unwrap_or_default();
            if !fetched.is_empty() {
                let positions: Vec<String> = fetched.iter().map(usize::to_string).collect();
                let _ = writeln!(
                    text,
                    "{}: position {} is not in memory and is fetched first, which its latency \
                    contains",
                    task.name,
                    positions.join(", ")
                );
            }
        }
        for refusal in &self.0.cannot_run {
            let _ = writeln!(text, "{refusal}");
        }
        for (task, source) in self.0.zoo.tasks().iter().zip(&self.0.tasks) {
            let _ = writeln!(text, "accuracy of {}: {}", task.name, source.accuracy.how);
        }
        if let Some(what) = &self.0.accuracy_is {
            let _ = writeln!(text, "accuracy is {what}");
        }
        let _ = writeln!(text, "{}", words::hand_over(&self.0.zoo));
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
        let memory = self.0.preloading.as_ref().map_or_else(String::new, |preloading| {
            format!("\n{}", sections::memory(&self.0, preloading))
        });
        let loading = sections::loading(&self.0);
        let systems = match self.0.systems.outcomes.is_empty() {
            true => String::new(),
            false => format!("\n{}", sections::systems(&self.0.systems)),
        };
        let live = self
            .0
            .measured
            .as_ref()
            .map_or_else(String::new, |measured| format!("\n{}", sections::live(measured)));
        format!(
            "Order: {}\n{processors}\n{}\n{}{others}{memory}{systems}{loading}{live}",
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
