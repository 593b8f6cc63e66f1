//! The plans of the systems that the stitching paper compares, as [`Policy`] values of one problem.
//!
//! | system | variants | where |
//! |---|---|---|
//! | six baselines | [`crate::stitch::systems`] | -P: cut, in a fixed order; -NP: whole, on the processor where it is expected to end first |
//! | SparseLoom | algorithm 1 as printed | in the order it chooses |
//! | stitched, tasks alone | [`Optimiser::best`]: fewest violations when each task has the device alone | in the order it chooses |
//!
//! Algorithm 1 defines no variant for a task of which none meets its objective in any order. Here,
//! such a task runs the variant of [`Optimiser::best`] in the chosen order. All tasks have the same
//! priority.

use super::{
    Evaluator, Problem,
    model::Model,
    policy::{Policy, Way},
};
use crate::stitch::{
    Optimiser, Order, Reading, StitchError, Zoo,
    systems::{Chosen, Setting, System},
};
use std::fmt;

/// A system that a plan is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A system that does not stitch.
    Baseline(System),
    /// Algorithm 1 as printed.
    SparseLoom,
    /// Stitching by the fewest violations when each task has the device alone.
    StitchedAlone,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline(system) => system.fmt(f),
            Self::SparseLoom => f.pad("SparseLoom"),
            Self::StitchedAlone => f.pad("stitched, tasks alone"),
        }
    }
}

impl Named {
    /// All systems: the paper's seven, then stitching with [`Optimiser::best`].
    pub const ALL: [Self; 8] = [
        Self::Baseline(System::BASELINES[0]),
        Self::Baseline(System::BASELINES[1]),
        Self::Baseline(System::BASELINES[2]),
        Self::Baseline(System::BASELINES[3]),
        Self::Baseline(System::BASELINES[4]),
        Self::Baseline(System::BASELINES[5]),
        Self::SparseLoom,
        Self::StitchedAlone,
    ];
}

/// Orders of processors that systems choose from.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The order of systems that do not choose one (the paper's: NPU-GPU-CPU).
    pub fixed: Order,
    /// The orders of SparseLoom and of stitching.
    pub chosen_from: Vec<Order>,
}

impl Orders {
    /// The fixed order has the processors in listed order, repeated. SparseLoom's orders have each
    /// processor once where there are enough of them, else any order.
    ///
    /// # Errors
    /// [`StitchError::Zoo`] for too many orders.
    pub fn of(zoo: &Zoo) -> Result<Self, StitchError> {
        let (processors, positions) = (zoo.processors().len(), zoo.positions());
        let fixed = Order::new((0..positions).map(|position| position % processors).collect());
        let chosen_from = match positions <= processors {
            true => crate::stitch::orders::each_once(processors, positions)?,
            false => crate::stitch::orders::any(processors, positions)?,
        };
        Ok(Self { fixed, chosen_from })
    }
}

impl Evaluator<'_> {
    /// The plan of a system.
    ///
    /// # Errors
    /// [`StitchError`] where a task cannot run in the system's orders.
    pub fn plan_of(&self, system: Named, orders: &Orders) -> Result<Policy, StitchError> {
        let problem = self.model.problem;
        let chosen = match system {
            Named::Baseline(baseline) => {
                let (fixed, from) = (&orders.fixed, orders.chosen_from.as_slice());
                let setting =
                    Setting { zoo: problem.zoo, fixed, orders: from, loaded: None, budget: None };
                setting.choose(baseline, std::slice::from_ref(&problem.slos))?.pop()
            }
            Named::SparseLoom => Some(printed(problem, &orders.chosen_from)?),
            Named::StitchedAlone => Some(alone(problem, &orders.chosen_from)?),
        };
        let chosen = chosen.unwrap_or_default();
        let ways: Vec<Vec<Way>> =
            chosen.iter().enumerate().map(|(task, c)| ways(&self.model, task, c)).collect();
        Ok(Policy { priorities: vec![0; ways.len()], ways })
    }
}

fn ways(model: &Model<'_>, task: usize, chosen: &Chosen) -> Vec<Way> {
    let variant = model.variant_of(task, &chosen.variants);
    match &chosen.order {
        Some(order) => vec![Way { order: model.order_of(order), variant, joined: false }],
        None => model.whole_on_each(task, variant),
    }
}

fn alone(problem: &Problem<'_>, orders: &[Order]) -> Result<Vec<Chosen>, StitchError> {
    let best = Optimiser::new(problem.zoo, orders)?.best(std::slice::from_ref(&problem.slos))?;
    let found = best.into_iter().next();
    Ok(found.map_or_else(Vec::new, |found| {
        let of = |choice: crate::stitch::Choice| chosen(choice, &found.order);
        found.choices.iter().flatten().cloned().map(of).collect()
    }))
}

fn chosen(choice: crate::stitch::Choice, order: &Order) -> Chosen {
    Chosen {
        variants: choice.stitched.variants,
        accuracy_bp: choice.stitched.accuracy_bp,
        order: Some(order.clone()),
    }
}

fn printed(problem: &Problem<'_>, orders: &[Order]) -> Result<Vec<Chosen>, StitchError> {
    let slos = std::slice::from_ref(&problem.slos);
    let found = Optimiser::new(problem.zoo, orders)?.as_printed(slos, Reading::Algorithm)?;
    let Some(found) = found.into_iter().next() else { return Ok(Vec::new()) };
    let rest = alone(problem, std::slice::from_ref(&found.order))?;
    let of = |(choice, rest): (Option<crate::stitch::Choice>, Chosen)| {
        choice.map_or(rest, |choice| chosen(choice, &found.order))
    };
    Ok(found.choices.into_iter().zip(rest).map(of).collect())
}
