//! Plans for several models at once, and all systems over a grid of SLOs, as tables, CSV and
//! JSON.

mod grid;
mod phases;
pub mod words;

pub use grid::PrintedGrid;
pub use phases::PrintedPhases;

use crate::verbs::{
    error::CliResult,
    output::{Report, Table, percent, thousands},
};
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::{
    plan::multi_dnn::Placing,
    planners::multi_dnn::{Objective, PlacedTask, PlacedWay, Score, systems::Named},
};
use words::{
    accuracy, contention, gain, goal, latency, loading, placed_on, proof, proof_name, variants,
    violated,
};

/// A plan, to be printed.
pub struct Printed<'a>(pub &'a Placing);

impl Printed<'_> {
    fn rows(&self) -> impl Iterator<Item = (&PlacedTask, &PlacedWay)> {
        self.0.plan.tasks.iter().flat_map(|task| task.ways.iter().map(move |way| (task, way)))
    }

    fn tasks(&self) -> String {
        let headings =
            ["Task", "Runs", "Variants", "On", "Priority", "Accuracy", "Alone", "Queries"];
        let mut table = Table::new(&headings, 4);
        for (task, way) in self.rows() {
            table.row([
                task.name.clone(),
                way.kind.to_string(),
                variants(way),
                placed_on(way),
                task.priority.to_string(),
                accuracy(way.accuracy_bp),
                latency(way.alone_ns as f64),
                way.queries.to_string(),
            ]);
        }
        table.to_text()
    }

    fn outcomes(&self) -> String {
        let headings = ["Task", "Violated", "Of", "Mean latency", "Longest", "Asked", "Accuracy"];
        let mut table = Table::new(&headings, 1);
        for (task, slo) in self.0.plan.tasks.iter().zip(&self.0.slos) {
            table.row([
                task.name.clone(),
                task.violated.to_string(),
                task.queries.to_string(),
                latency(task.mean_latency_ns),
                latency(task.longest_ns as f64),
                latency(slo.latency_ns as f64),
                accuracy(slo.accuracy_bp),
            ]);
        }
        table.to_text()
    }

    fn systems(&self) -> String {
        let plan = &self.0.plan;
        let headings = ["System", "Violated", "Queries/s", "Mean latency", "This plan against it"];
        let mut table = Table::new(&headings, 1);
        let cells = |name: String, score: &Score, gain: String| {
            let rate = format!("{:.1}", score.queries_per_s());
            [name, violated(score), rate, latency(score.mean_latency_ns()), gain]
        };
        table.row(cells("this plan".to_owned(), &plan.score, String::new()));
        for compared in &plan.compared {
            let name = match compared.fits_memory {
                true => compared.system.to_string(),
                false => format!("{} (does not fit into memory)", compared.system),
            };
            match &compared.score {
                Ok(score) => table.row(cells(name, score, gain(&plan.score, score))),
                Err(_) => {
                    let cannot = ["cannot run", "-", "-", "-"].map(str::to_owned);
                    table.row([name].into_iter().chain(cannot));
                }
            }
        }
        table.to_text()
    }

    fn notes(&self) -> String {
        let plan = &self.0.plan;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}; {:.1} queries/s saturated   ({}, {})",
            violated(&plan.score),
            plan.score.queries_per_s(),
            goal(plan.objective),
            plan.evidence
        );
        let least = plan.bound.saturated_ns_with(plan.score.violated).max(1) as f64;
        let _ = writeln!(
            text,
            "{}; every plan violates at least {} of {} (gap {}) and answers at most {:.1} queries/s \
            (gap {}); {} plans evaluated",
            proof(plan),
            plan.bound.violated,
            plan.score.queries,
            percent(plan.violation_gap()),
            plan.score.saturated_queries as f64 / (least / 1e9),
            percent(plan.throughput_gap()),
            thousands(plan.evaluations)
        );
        let _ = writeln!(text, "contention: {}", contention(&self.0.zoo, &self.0.contention));
        let _ = writeln!(text, "{}", words::hand_over(&self.0.zoo));
        if self.0.cold {
            let _ = writeln!(text, "{}", loading(&self.0.zoo));
        }
        let shares: Vec<String> = plan
            .shares()
            .iter()
            .map(|(kind, share)| format!("{} {kind}", percent(*share)))
            .collect();
        let _ = writeln!(text, "queries run {}", shares.join(", "));
        let _ = writeln!(
            text,
            "subgraphs of the plan: {} kB",
            thousands(plan.memory_bytes.div_ceil(1000))
        );
        match plan.score.energy_nj {
            Some(nj) => {
                let per_query = nj / plan.score.queries.max(1);
                let each = vitempo::planners::energy(per_query);
                let _ = writeln!(text, "energy above idle: {each} a query");
            }
            None => {
                let _ = writeln!(text, "energy: not known without the power of each processor");
            }
        }
        if let Some(frame) = &self.0.frame {
            let _ = writeln!(text, "{frame}");
        }
        if let Some((named, score)) = plan.best_system(|named| matches!(named, Named::Baseline(_)))
        {
            let _ = writeln!(
                text,
                "against {named}, the best system that does not stitch: {}",
                gain(&plan.score, &score)
            );
        }
        if self.0.at_once {
            let _ = writeln!(text, "one query of each task at once, over all orders of arrival");
        }
        text
    }
}

/// The origin of times of loading; nothing where everything is loaded.
fn loading_name(placing: &Placing) -> Option<&'static str> {
    placing.cold.then(|| words::loading_name(&placing.zoo))
}

fn score_json(score: &Score) -> Value {
    json!({
        "violated": score.violated,
        "queries": score.queries,
        "queries_per_s": score.queries_per_s(),
        "saturated_ns": score.saturated_ns,
        "energy_nj": score.energy_nj,
        "mean_latency_ns": score.mean_latency_ns(),
    })
}

impl Report for Printed<'_> {
    fn table(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.tasks(), self.outcomes(), self.systems(), self.notes())
    }

    fn csv(&self) -> CliResult<String> {
        let headings = [
            "task",
            "kind",
            "variants",
            "processors",
            "joined",
            "priority",
            "accuracy_bp",
            "alone_ns",
            "queries",
            "task_violated",
            "task_queries",
        ];
        let mut table = Table::new(&headings, 4);
        for (task, way) in self.rows() {
            table.row([
                task.name.clone(),
                way.kind.to_string(),
                way.variants.join("|"),
                way.processors.join("|"),
                way.joined.to_string(),
                task.priority.to_string(),
                way.accuracy_bp.to_string(),
                way.alone_ns.to_string(),
                way.queries.to_string(),
                task.violated.to_string(),
                task.queries.to_string(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let plan = &self.0.plan;
        let way = |way: &PlacedWay| {
            json!({
                "kind": way.kind.to_string(),
                "variants": way.variants,
                "processors": way.processors,
                "joined": way.joined,
                "accuracy_bp": way.accuracy_bp,
                "alone_ns": way.alone_ns,
                "queries": way.queries,
            })
        };
        let tasks = plan.tasks.iter().zip(&self.0.slos).map(|(task, slo)| {
            json!({
                "name": task.name,
                "priority": task.priority,
                "ways": task.ways.iter().map(way).collect::<Vec<_>>(),
                "slo": {"accuracy_bp": slo.accuracy_bp, "latency_ns": slo.latency_ns},
                "violated": task.violated,
                "queries": task.queries,
                "mean_latency_ns": task.mean_latency_ns,
                "longest_ns": task.longest_ns,
            })
        });
        let systems = plan.compared.iter().map(|compared| {
            json!({
                "name": compared.system.to_string(),
                "score": compared.score.as_ref().ok().map(score_json),
                "cannot_run": compared.score.as_ref().err(),
                "fits_memory": compared.fits_memory,
            })
        });
        let shares: serde_json::Map<String, Value> =
            plan.shares().iter().map(|(kind, share)| (kind.to_string(), json!(share))).collect();
        Ok(json!({
            "objective": match plan.objective {
                Objective::Violations => "violations",
                Objective::Throughput => "throughput",
            },
            "tasks": tasks.collect::<Vec<_>>(),
            "score": score_json(&plan.score),
            "bound": {
                "violated": plan.bound.violated,
                "saturated_ns": plan.bound.saturated_ns_with(plan.score.violated),
            },
            "gap": {"violations": plan.violation_gap(), "throughput": plan.throughput_gap()},
            "proof": proof_name(plan.proof),
            "evaluations": plan.evaluations,
            "systems": systems.collect::<Vec<_>>(),
            "shares": shares,
            "contention_known": plan.contention_known,
            "slowdown": plan.contention_known.then(|| self.0.contention.factors()),
            "memory_bytes": plan.memory_bytes,
            "frame": self.0.frame,
            "loading": loading_name(self.0),
            "hand_over": words::hand_over_json(&self.0.zoo),
            "evidence": plan.evidence,
        }))
    }
}
