//! A plan of stitched variants as CSV and JSON.

use super::super::place::words;
use super::{
    super::super::{error::CliResult, output::Table},
    report::Printed,
};
use serde_json::{Value, json};
use vitempo::plan::stitch::{
    Selection,
    forecasts::CannotRun,
    preloading::{OrderChoice, Preloading},
    stitching::{Measured, PlannedTask},
    systems::{LeftOut, SystemOutcome},
};
use vitempo::planners::{
    Evidence,
    cost::End,
    stitch::{Assignment, Choice, Order},
};

impl Printed {
    pub(super) fn to_csv(&self) -> CliResult<String> {
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
            "slo_met",
        ];
        let mut table = Table::new(&headings, 3);
        for task in self.0.planned() {
            let slo = task.slo;
            let number = |of: &dyn Fn(&Choice) -> u64| {
                task.choice.map_or_else(String::new, |choice| of(choice).to_string())
            };
            table.row([
                task.name.to_owned(),
                self.0.zoo.named(&self.0.plan.order),
                task.variants().unwrap_or_default().join("|"),
                number(&|c| u64::from(c.stitched.accuracy_bp)),
                slo.accuracy_bp.to_string(),
                number(&|c| c.latency_ns.point()),
                number(&|c| c.latency_ns.at(End::Lower)),
                number(&|c| c.latency_ns.at(End::Upper)),
                slo.latency_ns.to_string(),
                number(&|c| u64::from(c.short_bp)),
                number(&|c| c.late_ns),
                task.choice.is_some_and(Choice::meets_slo).to_string(),
            ]);
        }
        table.to_csv()
    }

    pub(super) fn to_json(&self) -> Value {
        let names = |order: &Order| {
            order.processors().iter().map(|&p| self.0.zoo.processors().get(p)).collect::<Vec<_>>()
        };
        let percent = |bp: u32| f64::from(bp) / 100.0;
        let task = |task: PlannedTask<'_>| {
            let (choice, slo) = (task.choice, task.slo);
            let source = self.0.tasks.get(task.index);
            json!({
                "task": task.name,
                "variants": task.variants(),
                "accuracy": choice.map(|c| percent(c.stitched.accuracy_bp)),
                "latency_ns": choice.map(|c| c.latency_ns),
                "slo": {"accuracy": percent(slo.accuracy_bp), "latency_ns": slo.latency_ns},
                "short": choice.map(|c| percent(c.short_bp)),
                "late_ns": choice.map(|c| c.late_ns),
                "slo_met": choice.is_some_and(Choice::meets_slo),
                "fetched": task.fetched(),
                "cuts": source.map(|s| &s.cuts),
                "accuracy_how": source.map(|s| &s.accuracy.how),
            })
        };
        let order = |(order, best): &(Order, Option<Assignment>)| {
            json!({
                "order": names(order),
                "chosen": *order == self.0.plan.order,
                "violations": best.as_ref().map(|b| b.violations),
                "mean_latency_ns": best.as_ref().map(Assignment::mean_latency_ns),
                "bottleneck_ns": best.as_ref().map(|b| b.bottleneck_ns),
            })
        };
        let plan = &self.0.plan;
        let has_choice = plan.choices.iter().any(Option::is_some);
        json!({
            "order": names(&plan.order),
            "violations": plan.violations,
            "mean_latency_ns": has_choice.then(|| plan.mean_latency_ns()),
            "bottleneck_ns": plan.bottleneck_ns,
            "tasks": self.0.planned().map(task).collect::<Vec<_>>(),
            "orders": self.0.each.iter().map(order).collect::<Vec<_>>(),
            "search": {
                "is_complete": self.0.is_complete(),
                "orders": self.0.orders.len(),
                "orders_left": self.0.search.orders_left,
                "violations_at_least": self.0.search.violations_at_least,
                "as_printed": self.0.search.printed.map(|printed| json!({
                    "orders_left": printed.orders_left,
                    "latency_at_least_ns": printed.latency_at_least_ns,
                })),
            },
            "preload": self.0.preloading.as_ref().map(|found| self.memory_json(found)),
            "cannot_run": self.0.cannot_run.iter().map(cannot_run_json).collect::<Vec<_>>(),
            "loading": words::loading_name(&self.0.zoo),
            "hand_over": words::hand_over_json(&self.0.zoo),
            "systems": self.0.systems.outcomes.iter().map(system_json).collect::<Vec<_>>(),
            "systems_left_out": self.0.systems.left_out.iter().map(left_out_json).collect::<Vec<_>>(),
            "as_printed": self.0.selection == Selection::AsPrinted,
            "accuracy_is": self.0.accuracy_is,
            "evidence": Evidence::CostModel,
            "live": self.0.measured.as_ref().map(live_json),
        })
    }

    fn memory_json(&self, found: &Preloading) -> Value {
        let tasks = self.0.zoo.tasks().iter().enumerate().map(|(task, of)| {
            let positions = 0..self.0.zoo.positions();
            let loaded: Vec<_> = positions.map(|position| self.0.loaded(task, position)).collect();
            json!({"task": of.name, "loaded": loaded})
        });
        json!({
            "memory_bytes": found.loaded.memory_bytes(),
            "budget_bytes": found.budget_bytes,
            "full_bytes": found.full_bytes,
            "orders_left": match found.order {
                OrderChoice::WithinMemory { orders_left } => Some(orders_left),
                OrderChoice::AllInMemory => None,
            },
            "grid_met": found.keeps.0,
            "grid": found.keeps.1,
            "proven": found.bound.map(|bound| bound.is_proven()),
            "bound": found.bound.map(|b| json!({"met": b.met, "at_most": b.at_most, "weight": b.weight})),
            "tasks": tasks.collect::<Vec<_>>(),
        })
    }
}

fn cannot_run_json(refusal: &CannotRun) -> Value {
    let CannotRun { task, variant, position, processor, reason } = refusal;
    json!({
        "task": task,
        "variant": variant,
        "position": position,
        "processor": processor,
        "reason": reason,
    })
}

fn left_out_json(LeftOut { system, reason }: &LeftOut) -> Value {
    json!({"system": system, "reason": reason})
}

fn system_json(outcome: &SystemOutcome) -> Value {
    json!({
        "system": outcome.system,
        "violated_alone": outcome.alone.rate(),
        "violated_at_once": outcome.at_once.rate(),
        "outcomes": outcome.alone.of,
        "is_complete": outcome.is_complete(),
        "queries_per_s": outcome.queries_per_s,
        "evidence": outcome.alone.evidence,
    })
}

fn live_json(measured: &Measured) -> Value {
    let Measured { trials, hand_over, .. } = measured;
    json!({
        "tried": trials.tried,
        "orders": trials.orders,
        "regret": trials.regret(),
        "evidence": Evidence::Live,
        "hand_over": hand_over,
        "sums_off": trials.error(|t| Some(t.summed_ns)).map(|e| e.1),
        "sums_with_hand_over_off":
            trials.error(|t| measured.with_hand_over_ns(t)).map(|e| e.1),
        "forecasts_off": trials.error(|t| t.forecast_ns).map(|e| e.1),
    })
}
