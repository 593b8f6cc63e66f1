//! [`Grid`]: compares all systems and this planner over the stitching paper's 5 x 5 grid of
//! objectives, with one query of each task at once, in every order of arrival.
//!
//! Each configuration is planned on its own. Violations are summed over the grid, queries per
//! second are its mean; the planner runs twice: for the fewest violations, and for the most queries
//! per second.

use super::{PlacingError, Request, problem};
use crate::plan::stitch::systems::objectives;
use vitempo_planners::{
    multi_dnn::{MultiDnnPlan, Objective, Proof, Score, plan, systems::Named, systems::Orders},
    stitch::{Zoo, slo::Ranges},
};

/// One system over the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct GridRow {
    /// Name of a system, or of this planner with its objective.
    pub name: String,
    /// Number of queries that violate their objective.
    pub violated: u64,
    /// Total number.
    pub queries: u64,
    /// Queries per second when saturated; mean over configurations.
    pub queries_per_s: f64,
    /// Number of configurations in which it can run.
    pub configurations: usize,
}

/// All systems over the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Systems, then this planner by each objective.
    pub rows: Vec<GridRow>,
    /// Queries that violate their objective in every plan.
    pub least_violated: u64,
    /// Configurations in which no plan violates fewer than the one found.
    pub proven: usize,
    /// Total number.
    pub configurations: usize,
    /// Share of queries that run whole, cut and stitched, in the plans for fewest violations.
    pub shares: Vec<(String, f64)>,
    /// Configurations in which the best system that does not stitch violates more, and fewer.
    pub beside_unstitched: (usize, usize),
}

impl Grid {
    /// The rows of this planner: for the fewest violations, and for the most queries per second.
    #[must_use]
    pub fn planned(&self) -> &[GridRow] {
        self.rows.get(Named::ALL.len()..).unwrap_or_default()
    }
}

#[derive(Default)]
struct Sum {
    violated: u64,
    queries: u64,
    queries_per_s: f64,
    configurations: usize,
}

impl Sum {
    fn add(&mut self, score: &Score) {
        self.violated += score.violated;
        self.queries += score.queries;
        self.queries_per_s += score.queries_per_s();
        self.configurations += 1;
    }

    fn row(self, name: String) -> GridRow {
        GridRow {
            name,
            violated: self.violated,
            queries: self.queries,
            queries_per_s: self.queries_per_s / self.configurations.max(1) as f64,
            configurations: self.configurations,
        }
    }
}

/// Plans every configuration of the grid, with all options of the request except the objectives.
///
/// # Errors
/// [`PlacingError`] naming the task, processor or field at fault.
pub fn grid(zoo: &Zoo, request: &Request) -> Result<Grid, PlacingError> {
    let orders = Orders::of(zoo)?;
    let configurations = objectives(zoo, &orders.fixed, Ranges::grid)?;
    let mut systems: Vec<Sum> = Named::ALL.iter().map(|_| Sum::default()).collect();
    let (mut fewest, mut fastest) = (Sum::default(), Sum::default());
    let mut plans: Vec<MultiDnnPlan> = Vec::new();
    for slos in &configurations {
        for objective in [Objective::Violations, Objective::Throughput] {
            let asked = Request { objective, ..request.clone() };
            let found = plan(&problem(zoo, slos.clone(), &asked)?, &orders, request.settings)?;
            if objective == Objective::Throughput {
                fastest.add(&found.score);
                continue;
            }
            fewest.add(&found.score);
            for (sum, compared) in systems.iter_mut().zip(&found.compared) {
                if let Ok(score) = &compared.score {
                    sum.add(score);
                }
            }
            plans.push(found);
        }
    }
    let rows = Named::ALL.iter().zip(systems).map(|(named, sum)| sum.row(named.to_string()));
    let ours = [
        fewest.row("planned together, fewest violations".to_owned()),
        fastest.row("planned together, most queries/s".to_owned()),
    ];
    Ok(Grid {
        rows: rows.chain(ours).collect(),
        least_violated: plans.iter().map(|plan| plan.bound.violated).sum(),
        proven: plans.iter().filter(|plan| fewest_proven(plan)).count(),
        configurations: configurations.len(),
        shares: shares(&plans),
        beside_unstitched: beside_unstitched(&plans),
    })
}

fn fewest_proven(plan: &MultiDnnPlan) -> bool {
    matches!(plan.proof, Proof::Enumerated | Proof::First)
}

fn shares(plans: &[MultiDnnPlan]) -> Vec<(String, f64)> {
    let Some(first) = plans.first() else { return Vec::new() };
    let mean = |index: usize| {
        plans.iter().map(|plan| plan.shares()[index].1).sum::<f64>() / plans.len() as f64
    };
    let kinds = first.shares();
    kinds.iter().enumerate().map(|(index, (kind, _))| (kind.to_string(), mean(index))).collect()
}

fn beside_unstitched(plans: &[MultiDnnPlan]) -> (usize, usize) {
    let of = |plan: &MultiDnnPlan| {
        let (_, other) = plan.best_system(|named| matches!(named, Named::Baseline(_)))?;
        Some((plan.score.violated, other.violated))
    };
    let found: Vec<(u64, u64)> = plans.iter().filter_map(of).collect();
    let more = found.iter().filter(|(ours, other)| other > ours).count();
    let fewer = found.iter().filter(|(ours, other)| other < ours).count();
    (more, fewer)
}
