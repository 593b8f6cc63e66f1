//! The choices of systems for the same tasks and objectives: six baselines, and stitching (section
//! 5.1).
//!
//! | system | variant of a task | where it runs |
//! |---|---|---|
//! | SV-AO | the most accurate original; among equals the fastest | |
//! | SV-LO | the fastest original; among equals the most accurate | |
//! | AV | the fastest original that meets the objective; else the one with the best minimum of its two relative slacks | |
//! | ..-P | | cut into subgraphs, in the fixed order |
//! | ..-NP | | whole, on the processor on which it ends first, tasks in the order of arrival |
//! | stitched | by [`super::Optimiser`], objective by objective | cut, in the order found |
//!
//! The paper does not define the processor of a whole variant, nor the choice of AV when no variant
//! meets the objective: these rules are vitempo's. Baselines choose by the latencies of the fixed
//! order, or of the fastest processor where they do not cut.

use super::{Assignment, Optimiser, Order, Slo, StitchError, Zoo, loaded::Loaded};
use std::{cmp::Reverse, fmt};
use vitempo_graph::Budget;

/// How a system chooses variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The most accurate original.
    MostAccurate,
    /// The fastest original.
    Fastest,
    /// The fastest original that meets the objective.
    Adaptive,
    /// A stitched variant, objective by objective.
    Stitched,
}

/// One way to serve tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// How it chooses variants.
    pub selection: Selection,
    /// Whether it cuts them into subgraphs on several processors; stitching always does.
    pub cut: bool,
}

impl System {
    /// The six baselines.
    pub const BASELINES: [Self; 6] = [
        Self { selection: Selection::MostAccurate, cut: true },
        Self { selection: Selection::MostAccurate, cut: false },
        Self { selection: Selection::Fastest, cut: true },
        Self { selection: Selection::Fastest, cut: false },
        Self { selection: Selection::Adaptive, cut: true },
        Self { selection: Selection::Adaptive, cut: false },
    ];
    /// Stitched variants in the best order.
    pub const STITCHED: Self = Self { selection: Selection::Stitched, cut: true };
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selection = match self.selection {
            Selection::MostAccurate => "SV-AO",
            Selection::Fastest => "SV-LO",
            Selection::Adaptive => "AV",
            Selection::Stitched => return f.pad("stitched"),
        };
        f.pad(&format!("{selection}-{}", if self.cut { "P" } else { "NP" }))
    }
}

/// The setting of all systems.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Tasks and processors.
    pub zoo: &'a Zoo,
    /// The order of systems that do not choose one (the paper's: NPU-GPU-CPU).
    pub fixed: &'a Order,
    /// The orders from which stitching chooses.
    pub orders: &'a [Order],
    /// The subgraphs in memory for stitching, and the order that they were loaded for; `None`: all,
    /// in any order. The variants of baselines are always loaded.
    pub loaded: Option<(&'a Order, &'a Loaded)>,
    /// Of the searches for stitched variants and of simulations; `None`: without end.
    pub budget: Option<&'a Budget>,
}

/// The choice of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The variants by position.
    pub variants: Vec<usize>,
    /// Basis points.
    pub accuracy_bp: u32,
    /// The order of a cut variant; `None`: whole, on any one processor.
    pub order: Option<Order>,
}

impl Setting<'_> {
    /// The choices of a system, by configuration, then task.
    ///
    /// # Errors
    /// [`StitchError`] when a task cannot run, or a configuration does not match the tasks.
    pub fn choose(
        &self,
        system: System,
        configurations: &[Vec<Slo>],
    ) -> Result<Vec<Vec<Chosen>>, StitchError> {
        if system.selection == Selection::Stitched {
            return Ok(self.stitched(configurations)?.0);
        }
        self.zoo.check_order(self.fixed)?;
        self.zoo.check_configurations(configurations)?;
        let originals: Vec<Vec<Original>> = (0..self.zoo.tasks().len())
            .map(|task| self.originals(task, system.cut))
            .collect::<Result<_, _>>()?;
        let chosen = |(originals, slo): (&Vec<Original>, &Slo)| {
            let Original { variant, accuracy_bp, .. } = system.selection.among(originals, *slo);
            Chosen {
                variants: vec![variant; self.zoo.positions()],
                accuracy_bp,
                order: system.cut.then(|| self.fixed.clone()),
            }
        };
        Ok(configurations
            .iter()
            .map(|slos| originals.iter().zip(slos).map(chosen).collect())
            .collect())
    }

    /// In the order that subgraphs are loaded for, a task runs only loaded ones if it can run with
    /// these; else it fetches the missing ones. Also returns the number of orders that were not
    /// searched to their end, because the budget ended.
    pub(super) fn stitched(
        &self,
        configurations: &[Vec<Slo>],
    ) -> Result<(Vec<Vec<Chosen>>, usize), StitchError> {
        let (best, left) = match self.loaded {
            None => {
                Optimiser::new(self.zoo, self.orders)?.best_within(configurations, self.budget)?
            }
            Some((order, loaded)) => {
                let usable = loaded.or_fetched(self.zoo, order);
                Optimiser::new(self.zoo, std::slice::from_ref(order))?
                    .among(&usable)
                    .best_within(configurations, self.budget)?
            }
        };
        let chosen = |assignment: Assignment| {
            let Assignment { order, choices, .. } = assignment;
            let of = |stitched: super::Stitched| Chosen {
                variants: stitched.variants,
                accuracy_bp: stitched.accuracy_bp,
                order: Some(order.clone()),
            };
            choices.into_iter().flatten().map(|choice| of(choice.stitched)).collect()
        };
        Ok((best.into_iter().map(chosen).collect(), left))
    }

    fn originals(&self, task: usize, cut: bool) -> Result<Vec<Original>, StitchError> {
        let found = &self.zoo.tasks()[task];
        let original = |variant: usize| {
            let whole = vec![variant; self.zoo.positions()];
            let ns = if cut {
                self.zoo.latency_ns(task, self.fixed, &whole).map(|ns| ns.point())
            } else {
                self.on_fastest(task, variant)
            };
            ns.map(|latency_ns| Original {
                variant,
                accuracy_bp: found.accuracy.of(&whole),
                latency_ns,
            })
        };
        let originals: Vec<Original> = (0..found.variants.len()).filter_map(original).collect();
        let orders = || {
            if cut { self.zoo.named(self.fixed) } else { "one piece on any processor".to_owned() }
        };
        if originals.is_empty() {
            Err(StitchError::Impossible { task: found.name.clone(), orders: orders() })
        } else {
            Ok(originals)
        }
    }

    fn on_fastest(&self, task: usize, variant: usize) -> Option<u64> {
        (0..self.zoo.processors().len())
            .filter_map(|processor| {
                self.whole_ns(task, &vec![variant; self.zoo.positions()], processor)
            })
            .min()
    }

    /// Latency with all positions on one processor, ns.
    pub(super) fn whole_ns(
        &self,
        task: usize,
        variants: &[usize],
        processor: usize,
    ) -> Option<u64> {
        let order = Order::new(vec![processor; self.zoo.positions()]);
        self.zoo.latency_ns(task, &order, variants).map(|ns| ns.point())
    }
}

#[derive(Clone, Copy)]
struct Original {
    variant: usize,
    accuracy_bp: u32,
    latency_ns: u64,
}

impl Original {
    /// The smaller of its two relative slacks.
    fn slack(self, slo: Slo) -> f64 {
        let accuracy = f64::from(self.accuracy_bp) / f64::from(slo.accuracy_bp.max(1)) - 1.0;
        let latency = 1.0 - self.latency_ns as f64 / slo.latency_ns.max(1) as f64;
        accuracy.min(latency)
    }
}

impl Selection {
    /// One of some originals, of which there is at least one.
    fn among(self, originals: &[Original], slo: Slo) -> Original {
        let fastest = |o: &&Original| (o.latency_ns, Reverse(o.accuracy_bp), o.variant);
        let found = match self {
            Self::MostAccurate => {
                originals.iter().min_by_key(|o| (Reverse(o.accuracy_bp), o.latency_ns, o.variant))
            }
            Self::Fastest | Self::Stitched => originals.iter().min_by_key(fastest),
            Self::Adaptive => {
                let keeps = originals
                    .iter()
                    .filter(|o| slo.is_met_by(o.accuracy_bp, o.latency_ns))
                    .min_by_key(fastest);
                keeps.or_else(|| {
                    originals.iter().rev().max_by(|a, b| a.slack(slo).total_cmp(&b.slack(slo)))
                })
            }
        };
        found.copied().unwrap_or(Original { variant: 0, accuracy_bp: 0, latency_ns: u64::MAX })
    }
}
