//! [`with_faster`]: adds the subgraphs of faster variants to those in memory.
//!
//! The fewest bytes with which objectives are met hold the smallest variants, not the fastest. What
//! is left of the budget goes to the variants that tasks run by their present objectives: one after
//! the other the variant that improves a task most for each byte that it adds, until none fits. With
//! enough memory each task runs the variant that it runs where everything is loaded.

use super::{
    super::{Order, Slo, StitchError, Zoo, each_variant},
    Loaded,
};

/// A variant of a task, not all of whose subgraphs are loaded.
struct Candidate {
    variants: Vec<usize>,
    value: Value,
}

/// By how much a variant is below the accuracy that is asked for (basis points), and its latency
/// (ns): less is better.
type Value = (u32, u64);

/// The loaded subgraphs, with those of faster variants in what is left of the budget. One objective
/// for each task.
///
/// # Errors
/// [`StitchError::TooMany`] for too many stitched variants.
pub fn with_faster(
    mut loaded: Loaded,
    zoo: &Zoo,
    order: &Order,
    slos: &[Slo],
    budget_bytes: u64,
) -> Result<Loaded, StitchError> {
    let mut tasks = Vec::new();
    for (task, slo) in (0..zoo.tasks().len()).zip(slos) {
        tasks.push(candidates(zoo, task, order, slo)?);
    }
    loop {
        let left = budget_bytes.saturating_sub(loaded.memory_bytes());
        let mut best: Option<((u32, f64), usize, &Candidate)> = None;
        for (task, candidates) in tasks.iter().enumerate() {
            let missing = |candidate: &Candidate| missing_bytes(zoo, &loaded, task, candidate);
            let current = candidates.iter().filter(|c| missing(c).is_none()).map(|c| c.value).min();
            for candidate in candidates.iter().filter(|c| current.is_none_or(|now| c.value < now)) {
                let Some(bytes) = missing(candidate).filter(|&bytes| bytes <= left) else {
                    continue;
                };
                let (short, ns) = current.unwrap_or((u32::MAX, u64::MAX));
                let saved_ns = ns.saturating_sub(candidate.value.1) as f64;
                let gain =
                    (short.saturating_sub(candidate.value.0), saved_ns / bytes.max(1) as f64);
                if best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                    best = Some((gain, task, candidate));
                }
            }
        }
        let Some((_, task, candidate)) = best else { return Ok(loaded) };
        for (position, &variant) in candidate.variants.iter().enumerate() {
            loaded.load(zoo, task, position, variant);
        }
    }
}

/// The variants of a task that can run in an order.
fn candidates(
    zoo: &Zoo,
    task: usize,
    order: &Order,
    slo: &Slo,
) -> Result<Vec<Candidate>, StitchError> {
    let mut all = Vec::new();
    each_variant(zoo, task, order, |variants, latency_ns, accuracy_bp| {
        let value = (slo.accuracy_bp.saturating_sub(accuracy_bp), latency_ns);
        all.push(Candidate { variants: variants.to_vec(), value });
    })?;
    Ok(all)
}

/// Memory of the subgraphs that are not loaded; `None` where all are.
fn missing_bytes(zoo: &Zoo, loaded: &Loaded, task: usize, candidate: &Candidate) -> Option<u64> {
    let subgraphs = &zoo.tasks().get(task)?.subgraphs;
    let missing = candidate.variants.iter().enumerate();
    let mut missing = missing.filter(|&(position, &v)| !loaded.holds(task, position, v)).peekable();
    missing.peek()?;
    let bytes = missing.filter_map(|(position, &variant)| {
        Some(subgraphs.get(position)?.get(variant)?.memory_bytes)
    });
    Some(bytes.fold(0, u64::saturating_add))
}
