//! Parts of a plan for several models, in words.

use crate::verbs::output::percent;
use serde_json::{Value, json};
use vitempo::graph::Latency;
use vitempo::planners::multi_dnn::{Contention, MultiDnnPlan, Objective, PlacedWay, Proof, Score};
use vitempo::planners::{
    duration,
    stitch::{HandOver, Loading, Zoo},
};

pub fn latency(ns: f64) -> String {
    Latency::from_ns(ns).to_string()
}

/// The origin of times of loading.
pub fn loading(zoo: &Zoo) -> &'static str {
    match zoo.loading() {
        Loading::Measured => "compiling and loading: measured, subgraph by subgraph",
        Loading::Forecast => "compiling and loading: forecast from operators and weights",
        Loading::Stated => "compiling and loading: from the costs file",
        Loading::Unknown => "compiling and loading: not known",
    }
}

/// The same as one word.
pub fn loading_name(zoo: &Zoo) -> &'static str {
    match zoo.loading() {
        Loading::Measured => "measured",
        Loading::Forecast => "forecast",
        Loading::Stated => "file",
        Loading::Unknown => "unknown",
    }
}

/// The hand-over that costs contain, and where it comes from.
pub fn hand_over(zoo: &Zoo) -> String {
    let each = match zoo.hand_over() {
        HandOver::Unknown => {
            return "hand-over of a subgraph: not known, costs do not contain it (--hand-over, or a \
                record of `vitempo plan stitch --live`)"
                .to_owned();
        }
        HandOver::Given(ns) => {
            return format!(
                "hand-over of a subgraph: {}, given (--hand-over), in all costs",
                latency(*ns as f64)
            );
        }
        HandOver::Measured(each) => each,
    };
    let on = |(name, ns)| format!("{} on `{name}`", duration(ns));
    let each: Vec<String> = zoo.processors().iter().zip(each.iter().copied()).map(on).collect();
    format!("hand-over of a subgraph: {}, measured, in all costs", each.join(", "))
}

/// The same as JSON, in the order of the processors.
pub fn hand_over_json(zoo: &Zoo) -> Value {
    let from = match zoo.hand_over() {
        HandOver::Unknown => return json!({"from": "unknown", "piece_ns": null}),
        HandOver::Given(_) => "given",
        HandOver::Measured(_) => "measured",
    };
    let each: Vec<_> = (0..zoo.processors().len()).map(|p| zoo.hand_over().on(p)).collect();
    json!({"from": from, "piece_ns": each})
}

/// What is known about busy processors.
pub fn contention(zoo: &Zoo, contention: &Contention) -> String {
    let names = zoo.processors();
    let each = contention.factors().iter().enumerate().flat_map(|(one, row)| {
        let others = row.iter().enumerate().filter(move |(other, _)| *other != one);
        others.map(move |(other, factor)| {
            format!("`{}` takes {factor:.2} x while `{}` is busy", names[one], names[other])
        })
    });
    let each: Vec<String> = each.collect();
    match each.is_empty() {
        true => "not known: busy processors may slow each other down more than planned".to_owned(),
        false => format!("known, and part of the plan: {}", each.join(", ")),
    }
}

pub fn accuracy(bp: u32) -> String {
    format!("{:.2} %", f64::from(bp) / 100.0)
}

/// `a, b, a`, and `(one piece)` where neighbouring positions on one processor are not separated.
pub fn placed_on(way: &PlacedWay) -> String {
    let repeats = way.processors.windows(2).any(|pair| pair[0] == pair[1]);
    let alone = way.processors.iter().all(|name| *name == way.processors[0]);
    match (alone && way.joined, repeats && way.joined) {
        (true, _) => way.processors[0].clone(),
        (false, true) => format!("{} (neighbours in one piece)", way.processors.join(" | ")),
        (false, false) => way.processors.join(" | "),
    }
}

pub fn variants(way: &PlacedWay) -> String {
    match way.variants.iter().all(|name| *name == way.variants[0]) {
        true => way.variants[0].clone(),
        false => way.variants.join(" | "),
    }
}

pub fn violated(score: &Score) -> String {
    format!("{} ({} of {})", percent(score.violation_rate()), score.violated, score.queries)
}

/// What a plan gains over a system: `3 fewer violated, 1.20 x the queries/s`.
pub fn gain(plan: &Score, other: &Score) -> String {
    let faster = plan.queries_per_s() / other.queries_per_s();
    let violated = match other.violated.cmp(&plan.violated) {
        std::cmp::Ordering::Greater => format!("{} fewer violated", other.violated - plan.violated),
        std::cmp::Ordering::Equal => "as many violated".to_owned(),
        std::cmp::Ordering::Less => format!("{} more violated", plan.violated - other.violated),
    };
    format!("{violated}, {faster:.2} x the queries/s")
}

pub const fn goal(objective: Objective) -> &'static str {
    match objective {
        Objective::Violations => {
            "fewest violated, then most queries/s, then least energy, then least latency"
        }
        Objective::Throughput => {
            "most queries/s, then fewest violated, then least energy, then least latency"
        }
    }
}

pub fn proof(plan: &MultiDnnPlan) -> String {
    let first = match plan.objective {
        Objective::Violations => "no plan violates fewer",
        Objective::Throughput => "no plan answers more queries/s",
    };
    match plan.proof {
        Proof::Enumerated => {
            "proven best: every plan with up to four ways of each task was evaluated".to_owned()
        }
        Proof::SingleWays => "not proven: every plan with one way of each task was evaluated; of \
            those with several ways, the best found"
            .to_owned(),
        Proof::First => format!("proven: {first}; the rest is the best found"),
        Proof::Open => "not proven: the best found".to_owned(),
    }
}

pub const fn proof_name(proof: Proof) -> &'static str {
    match proof {
        Proof::Enumerated => "enumerated",
        Proof::SingleWays => "single_ways",
        Proof::First => "first_criterion",
        Proof::Open => "open",
    }
}
