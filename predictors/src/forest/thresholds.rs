//! [`Thresholds`]: the distinct thresholds of one column, and for a block of rows a mask per
//! threshold of the rows above it.
//!
//! A row's rank is the number of thresholds below its value. Each row sets a bit at its rank; a
//! bitwise or from the last threshold down to the first then gives every threshold the rows above
//! it. So a row is compared once with a threshold that many trees share, and with most thresholds
//! not at all.

use super::instructions::Instructions;

/// Entries of a node of the search tree of fan-out 17.
const FAN: usize = 16;
/// Most thresholds that two levels of it hold.
const TWO_LEVELS: usize = FAN * FAN - 1;

/// One bit for each of `64 * N` rows.
pub(super) type Mask<const N: usize> = [u64; N];

/// Sorted, distinct, finite thresholds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Thresholds {
    /// Padded with infinity to a power of two, larger than their number, at least [`FAN`].
    padded: Vec<f64>,
    /// The last entry of each node of the second level, or the only level.
    pivots: [f64; FAN],
    count: usize,
}

impl Thresholds {
    pub fn new(mut thresholds: Vec<f64>) -> Self {
        thresholds.sort_by(f64::total_cmp);
        thresholds.dedup();
        let count = thresholds.len();
        let size = if (FAN..=TWO_LEVELS).contains(&count) {
            FAN * FAN
        } else {
            (count + 1).next_power_of_two().max(FAN)
        };
        thresholds.resize(size, f64::INFINITY);
        let nodes = thresholds.as_chunks::<FAN>().0;
        let pivots = std::array::from_fn(|i| {
            if nodes.len() == 1 {
                nodes[0][i]
            } else {
                nodes.get(i).map_or(f64::INFINITY, |node| node[FAN - 1])
            }
        });
        Self { padded: thresholds, pivots, count }
    }

    /// Masks that [`Thresholds::fill_masks`] fills: an unused one, then one per threshold.
    pub fn masks(&self) -> usize {
        self.count + 1
    }

    /// Number of thresholds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first and longest step of a search by halving.
    #[inline(always)]
    fn half(&self) -> usize {
        (self.count + 1).next_power_of_two() / 2
    }

    /// Number of thresholds below a value that is not NaN.
    pub fn rank(&self, value: f64) -> usize {
        let mut found = 0;
        let mut half = self.half();
        while half > 0 {
            found +=
                std::hint::select_unpredictable(value > self.padded[found + half - 1], half, 0);
            half /= 2;
        }
        found
    }

    /// [`Thresholds::rank`] of a value in each column: one step over all of them after the other,
    /// so that the processor waits for many thresholds at once.
    #[inline(always)]
    pub fn rank_each(thresholds: &[Self], values: &[f64]) -> Vec<usize> {
        let mut found = vec![0; thresholds.len()];
        let mut half = thresholds.iter().map(Self::half).max().unwrap_or(0);
        while half > 0 {
            for ((found, thresholds), value) in found
                .iter_mut()
                .zip(thresholds)
                .zip(values)
                .filter(|((_, thresholds), _)| half <= thresholds.count)
            {
                *found += std::hint::select_unpredictable(
                    *value > thresholds.padded[*found + half - 1],
                    half,
                    0,
                );
            }
            half /= 2;
        }
        found
    }

    /// Index of the mask of `threshold`.
    pub fn place(&self, threshold: f64) -> usize {
        self.rank(threshold) + 1
    }

    /// Sets bit `r` of the mask of each threshold below `values[r]`; `values` has `64 * N` numbers,
    /// none of them NaN, of which the first `rows` of each 64 matter.
    #[inline]
    pub fn fill_masks<const N: usize>(
        &self,
        instructions: Instructions,
        values: &[[f64; 64]; N],
        rows: usize,
        masks: &mut [Mask<N>],
    ) {
        masks.fill([0; N]);
        let mut ranks = [[0u32; 64]; N];
        for (values, ranks) in values.iter().zip(&mut ranks) {
            self.ranks(instructions, &values[..rows.next_multiple_of(8)], ranks);
        }
        for row in 0..rows {
            for (word, ranks) in ranks.iter().enumerate() {
                masks[ranks[row] as usize][word] |= 1 << row;
            }
        }
        let mut above = [0; N];
        for mask in masks.iter_mut().rev() {
            mask.iter_mut().zip(&mut above).for_each(|(bits, above)| {
                *above |= *bits;
                *bits = *above;
            });
        }
    }

    fn ranks(&self, instructions: Instructions, values: &[f64], ranks: &mut [u32; 64]) {
        match instructions {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Instructions` says Avx512 only where the processor has them.
            Instructions::Avx512 => unsafe { self.ranks_avx512(values, ranks) },
            _ => self.ranks_by_halving(values, ranks),
        }
    }

    /// Eight rows at a time, so that their loads overlap.
    fn ranks_by_halving(&self, values: &[f64], ranks: &mut [u32; 64]) {
        for (values, ranks) in values.as_chunks::<8>().0.iter().zip(ranks.as_chunks_mut::<8>().0) {
            let mut found = [0usize; 8];
            let mut half = self.half();
            while half > 0 {
                for (rank, value) in found.iter_mut().zip(values) {
                    let more = *value > self.padded[*rank + half - 1];
                    *rank += std::hint::select_unpredictable(more, half, 0);
                }
                half /= 2;
            }
            *ranks = found.map(|rank| rank as u32);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,popcnt")]
    fn ranks_avx512(&self, values: &[f64], ranks: &mut [u32; 64]) {
        values.iter().zip(ranks).for_each(|(value, rank)| *rank = self.rank_avx512(*value) as u32);
    }

    /// [`Thresholds::rank`] by two comparisons with sixteen thresholds.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,popcnt")]
    pub fn rank_avx512(&self, value: f64) -> usize {
        let nodes = self.padded.as_chunks::<FAN>().0;
        if nodes.len() > FAN {
            return self.rank(value);
        }
        let found = below_avx512(&self.pivots, value);
        match nodes.get(found) {
            Some(node) if nodes.len() > 1 => found * FAN + below_avx512(node, value),
            _ => found,
        }
    }
}

/// How many entries are less than `value`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,popcnt")]
fn below_avx512(node: &[f64; FAN], value: f64) -> usize {
    use std::arch::x86_64::{_CMP_LT_OQ, _mm512_cmp_pd_mask, _mm512_loadu_pd, _mm512_set1_pd};
    // SAFETY: the first eight and the last eight of sixteen numbers.
    let (low, high) =
        unsafe { (_mm512_loadu_pd(node.as_ptr()), _mm512_loadu_pd(node[FAN / 2..].as_ptr())) };
    let value = _mm512_set1_pd(value);
    let (low, high) = (
        _mm512_cmp_pd_mask::<_CMP_LT_OQ>(low, value),
        _mm512_cmp_pd_mask::<_CMP_LT_OQ>(high, value),
    );
    (u16::from(low) | u16::from(high) << 8).count_ones() as usize
}
