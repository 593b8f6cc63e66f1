//! Which architectures a [sample](crate::Dataset::load_sample) has: whole ones, in an order that
//! only seed and architecture decide, so that a larger sample has all of a smaller one. The order is
//! not that of [`split`](crate::split): both sides of a split lose the same share. Real models are
//! few and nothing replaces them, so they come first, with up to half of the rows, or with what the
//! others leave.

use crate::{
    DatasetError,
    parquet::Asked,
    source::Source,
    split::rank,
    tables::{model_measurements, models},
};
use std::collections::{BTreeMap, HashSet};

/// Columns of model runs that say how many rows of operators an architecture has.
const COLUMNS: [&str; 3] = ["environment_id", "architecture", "operators"];

/// What an architecture has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Rows of operators.
    rows: u64,
    /// Whether it was not sampled from a space.
    is_real: bool,
}

/// The architectures that were measured in the environments that are wanted.
pub(crate) fn sizes(
    source: &Source,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, Size>, DatasetError> {
    let asked = Asked { columns: Some(&COLUMNS), ..Asked::of_environments(wanted) };
    let runs = source.read(&model_measurements::SCHEMA, asked)?;
    let mut sizes: BTreeMap<String, Size> = BTreeMap::new();
    let mut add = |architecture: &str, rows: u64, is_real: bool| {
        if !sizes.contains_key(architecture) {
            sizes.insert(architecture.to_owned(), Size::default());
        }
        if let Some(size) = sizes.get_mut(architecture) {
            size.rows = size.rows.saturating_add(rows);
            size.is_real |= is_real;
        }
    };
    for row in 0..runs.rows() {
        add(runs.text("architecture", row), runs.integer("operators", row), false);
    }
    for run in source.journal()?.runs().filter(|run| wanted(&run.environment.id())) {
        add(&run.model.architecture, run.operators.len() as u64, run.model.space.is_none());
    }
    let models = source.read(&models::SCHEMA, Asked::columns(&["architecture", "space"]))?;
    for row in (0..models.rows()).filter(|row| models.optional_text("space", *row).is_none()) {
        if let Some(size) = sizes.get_mut(models.text("architecture", row)) {
            size.is_real = true;
        }
    }
    Ok(sizes)
}

/// The first architectures of the order that together have at most `most` rows.
pub(crate) fn within(most: u64, sizes: &BTreeMap<String, Size>, seed: u64) -> HashSet<String> {
    let rank_of = |architecture: &str| rank(seed, &format!("sample {architecture}"));
    let mut order: Vec<(bool, f64, &String, u64)> = sizes
        .iter()
        .map(|(architecture, size)| (!size.is_real, rank_of(architecture), architecture, size.rows))
        .collect();
    order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(b.2)));
    let (real, others) = order.split_at(order.partition_point(|(sampled, ..)| !sampled));
    let for_real = rows_of(real).min((most / 2).max(most.saturating_sub(rows_of(others))));
    first(for_real, real).chain(first(most - for_real, others)).cloned().collect()
}

/// Whether a sample has rows of operators.
pub(crate) fn has_rows(sample: &HashSet<String>, sizes: &BTreeMap<String, Size>) -> bool {
    sample.iter().any(|architecture| sizes[architecture].rows > 0)
}

/// The fewest rows with which a sample has some; `None` where no architecture has any. It draws
/// dozens of samples, which only an error is worth.
pub(crate) fn least(sizes: &BTreeMap<String, Size>, seed: u64) -> Option<u64> {
    let has_rows = |most| has_rows(&within(most, sizes, seed), sizes);
    // A larger sample has all of a smaller one.
    let (mut without, mut with) =
        (0, sizes.values().fold(0, |sum: u64, s| sum.saturating_add(s.rows)));
    if !has_rows(with) {
        return None;
    }
    while without + 1 < with {
        let middle = without + (with - without) / 2;
        *(if has_rows(middle) { &mut with } else { &mut without }) = middle;
    }
    Some(with)
}

fn rows_of(order: &[(bool, f64, &String, u64)]) -> u64 {
    order.iter().fold(0, |sum, (.., rows)| sum.saturating_add(*rows))
}

/// The first architectures that together have at most so many rows.
fn first<'a>(
    mut left: u64,
    order: &'a [(bool, f64, &'a String, u64)],
) -> impl Iterator<Item = &'a String> {
    order.iter().map_while(move |(_, _, architecture, rows)| {
        left = left.checked_sub(*rows)?;
        Some(*architecture)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_sample_has_all_of_a_smaller_one() {
        let size = |rows, is_real| Size { rows, is_real };
        let sizes: BTreeMap<String, Size> = (0..40)
            .map(|i| (format!("a{i}"), size(1 + i % 7, false)))
            .chain((0..6).map(|i| (format!("r{i}"), size(20 + i, true))))
            .collect();
        let all: u64 = sizes.values().map(|size| size.rows).sum();
        let mut smaller = HashSet::new();
        for most in 0..=all {
            let sample = within(most, &sizes, 9);
            let rows = |of: &str| -> u64 {
                sample.iter().filter(|a| a.starts_with(of)).map(|a| sizes[a].rows).sum()
            };
            let of_others = all - (20..26).sum::<u64>();
            let for_real = (most / 2).max(most.saturating_sub(of_others));
            assert!(rows("") <= most && rows("r") <= for_real, "{most}");
            assert!(sample.is_superset(&smaller), "{most}");
            assert_eq!(sample.is_empty(), Some(most) < least(&sizes, 9), "{most}");
            smaller = sample;
        }
        assert_eq!(smaller.len(), sizes.len(), "all of it fits");
    }
}
