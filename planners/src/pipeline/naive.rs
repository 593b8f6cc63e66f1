//! Baselines without a plan, as negative controls: a plan must be better.

use super::Cut;

/// Equal numbers of operators on each processor, in the given order. Processors beyond the number
/// of nodes stay idle.
#[must_use]
pub fn equal_counts(nodes: usize, order: &[usize]) -> Vec<Cut> {
    let stages = order.len().min(nodes);
    let bound = |index: usize| index * nodes / stages.max(1);
    order
        .iter()
        .take(stages)
        .enumerate()
        .map(|(index, &processor)| Cut { processor, from: bound(index), to: bound(index + 1) })
        .collect()
}

/// Everything on one processor.
#[must_use]
pub fn whole(nodes: usize, processor: usize) -> Vec<Cut> {
    vec![Cut { processor, from: 0, to: nodes }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_differ_by_one_at_most() {
        let cuts = equal_counts(7, &[2, 0, 1]);
        assert_eq!(
            cuts.iter().map(|c| (c.processor, c.to - c.from)).collect::<Vec<_>>(),
            [(2, 2), (0, 2), (1, 3)]
        );
        assert_eq!(equal_counts(2, &[0, 1, 2]).len(), 2);
        assert!(equal_counts(0, &[0]).is_empty());
    }
}
