//! [`score`]: violations and queries per second of every system, on engines and in the simulator.

use super::{PlanRecord, Record, TasksStudy};
use serde::Serialize;

/// One system over the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub system: String,
    /// Configurations in which it can run.
    pub configurations: usize,
    /// Share of queries that violate their objective in the simulator.
    pub simulated: f64,
    /// The same on engines.
    pub live: f64,
    /// Largest difference between two runs of all orders in that share.
    pub repeats: f64,
    /// Queries per second when saturated, in the simulator; mean over configurations.
    pub simulated_per_s: f64,
    /// The same on engines, mean over runs.
    pub live_per_s: f64,
    /// Largest difference between two runs in that rate; `None` with one run.
    pub repeats_per_s: Option<f64>,
}

/// All systems for the first tasks of the zoo.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Names of the tasks.
    pub tasks: Vec<String>,
    /// By system.
    pub rows: Vec<Row>,
    /// Share of queries that violate their objective in every plan, by the cost model.
    pub least: f64,
    /// Distinct plans that ran.
    pub plans: usize,
    /// Largest difference of results from those of whole models, as a share of the largest value.
    pub apart: Option<f64>,
}

/// The scores of a record; plans that did not run yet count nowhere.
#[must_use]
pub fn score(record: &Record) -> Vec<Scores> {
    record.studies.iter().map(|study| of_study(study, record.rounds)).collect()
}

fn of_study(study: &TasksStudy, rounds: usize) -> Scores {
    let mut names: Vec<&str> = Vec::new();
    for planned in study.configurations.iter().flat_map(|c| &c.systems) {
        if !names.contains(&planned.system.as_str()) {
            names.push(&planned.system);
        }
    }
    let per_order = orders(study) * study.tasks.len();
    let queries = study.configurations.len() * per_order;
    let least: u64 = study.configurations.iter().map(|c| c.least_violated).sum();
    Scores {
        tasks: study.tasks.clone(),
        rows: names.into_iter().filter_map(|name| row(study, name, rounds)).collect(),
        least: least as f64 / queries.max(1) as f64,
        plans: study.plans.iter().filter(|plan| !plan.at_once.is_empty()).count(),
        apart: study.plans.iter().filter_map(|plan| plan.apart).reduce(f64::max),
    }
}

/// Orders of arrival.
fn orders(study: &TasksStudy) -> usize {
    (1..=study.tasks.len()).product()
}

fn row(study: &TasksStudy, system: &str, rounds: usize) -> Option<Row> {
    let per_run = orders(study) * study.tasks.len();
    let (mut configurations, mut simulated, mut queries) = (0, 0, 0);
    let mut live = vec![0; rounds];
    let (mut simulated_per_s, mut per_s) = (0.0, vec![0.0; rounds]);
    for configuration in &study.configurations {
        let found = configuration.systems.iter().find(|planned| planned.system == system);
        let Some(planned) = found else { continue };
        let plan = &study.plans[planned.plan];
        if plan.at_once.is_empty() {
            continue;
        }
        configurations += 1;
        queries += per_run;
        simulated += planned.violated;
        simulated_per_s += planned.queries_per_s;
        per_s.truncate(plan.spans_ns.len());
        for (rate, &ns) in per_s.iter_mut().zip(&plan.spans_ns) {
            *rate += plan.waiting as f64 / (ns.max(1) as f64 / 1e9);
        }
        for (round, violated) in live.iter_mut().enumerate() {
            *violated += violations(plan, &configuration.objectives, round, orders(study));
        }
    }
    if configurations == 0 {
        return None;
    }
    let share = |violated: usize| violated as f64 / queries as f64;
    let (least, most) = (live.iter().min()?, live.iter().max()?);
    per_s.iter_mut().for_each(|rate| *rate /= configurations as f64);
    let slowest = per_s.iter().copied().reduce(f64::min)?;
    let fastest = per_s.iter().copied().reduce(f64::max)?;
    Some(Row {
        system: system.to_owned(),
        configurations,
        simulated: share(simulated as usize),
        live: live.iter().map(|&violated| share(violated)).sum::<f64>() / rounds as f64,
        repeats: share(most - least),
        simulated_per_s: simulated_per_s / configurations as f64,
        live_per_s: per_s.iter().sum::<f64>() / per_s.len() as f64,
        repeats_per_s: (per_s.len() > 1).then_some(fastest - slowest),
    })
}

/// Queries of one run of all orders that violate these objectives.
fn violations(plan: &PlanRecord, objectives: &[(u32, u64)], round: usize, orders: usize) -> usize {
    let own = plan.at_once.iter().filter(|query| query.round / orders == round);
    let is_violated = |query: &&super::Query| {
        let (accuracy_bp, latency_ns) = objectives[query.task];
        let way = plan.ways[query.task].get(query.way);
        let is_accurate = way.is_some_and(|way| way.accuracy_bp >= accuracy_bp);
        !is_accurate || query.latency_ns.is_none_or(|ns| ns > latency_ns)
    };
    own.filter(is_violated).count()
}

#[cfg(test)]
mod tests {
    use super::super::{Configuration, Planned, Query};
    use super::*;
    use vitempo::plan::run::PlanWay;

    fn way(accuracy_bp: u32) -> PlanWay {
        PlanWay { kind: "whole".to_owned(), variants: Vec::new(), accuracy_bp, pieces: Vec::new() }
    }

    /// Two tasks, two orders, run twice: four rounds of two queries.
    fn plan(latencies: [[u64; 2]; 4]) -> PlanRecord {
        let at_once = latencies.iter().enumerate().flat_map(|(round, own)| {
            own.iter().enumerate().map(move |(task, &ns)| Query {
                round,
                task,
                way: 0,
                latency_ns: Some(ns),
            })
        });
        PlanRecord {
            ways: vec![vec![way(9000)], vec![way(8000)]],
            priorities: vec![0, 0],
            at_once: at_once.collect(),
            waiting: 20,
            spans_ns: vec![500_000_000, 400_000_000],
            apart: None,
        }
    }

    fn study(objectives: Vec<(u32, u64)>, plans: Vec<PlanRecord>) -> TasksStudy {
        let planned = |plan: usize| Planned {
            system: format!("system {plan}"),
            plan,
            violated: 1,
            queries_per_s: 50.0,
        };
        let systems = (0..plans.len()).map(planned).collect();
        let configurations = vec![Configuration { objectives, systems, least_violated: 1 }];
        TasksStudy { tasks: vec!["a".to_owned(), "b".to_owned()], configurations, plans }
    }

    #[test]
    fn violations_are_counted_for_each_objective_and_each_run() {
        let plans = vec![plan([[10, 20], [10, 20], [10, 20], [10, 40]])];
        let scores = of_study(&study(vec![(9000, 15), (8000, 30)], plans.clone()), 2);
        let [row] = &scores.rows[..] else { panic!("{scores:?}") };
        // None of four queries in the first run, one of four in the second.
        assert_eq!((row.live, row.repeats, row.simulated), (0.125, 0.25, 0.25));
        assert_eq!((row.live_per_s, row.repeats_per_s), (45.0, Some(10.0)));
        assert_eq!((row.simulated_per_s, scores.least), (50.0, 0.25));
        let stricter = of_study(&study(vec![(9001, 15), (8000, 30)], plans), 2);
        assert_eq!(stricter.rows[0].live, 0.625, "the first task is never accurate enough");
    }

    #[test]
    fn plans_that_did_not_run_have_no_row() {
        let mut not_run = plan([[1, 1]; 4]);
        not_run.at_once.clear();
        let scores = of_study(&study(vec![(0, 5), (0, 5)], vec![not_run, plan([[1, 1]; 4])]), 2);
        assert_eq!((scores.rows.len(), scores.plans), (1, 1));
        assert_eq!(scores.rows[0].system, "system 1");
    }
}
