//! [`Rising`]: sequences of channels that rise from stage to stage.
//!
//! Every rising sequence is as likely as any other, without rejection: `tail[s][j]` counts the
//! rising sequences over the stages from `s` on that start with the `j`-th value of stage `s` or a
//! later one, so a stage's value is found by one search in its row.

/// Counts of rising sequences by stage and first value.
#[derive(Clone, Debug)]
pub(crate) struct Rising {
    values: Vec<Vec<u16>>,
    tail: Vec<Vec<f64>>,
}

impl Rising {
    /// For the values each stage may take, in rising order.
    pub(crate) fn new(values: Vec<Vec<u16>>) -> Self {
        let tail = tails(&values, |_, _| 1.0, 0.0, 1.0, |a, b| a + b, |a, b| a * b);
        Self { values, tail }
    }

    /// Whether any sequence over the stages from `stage` on rises.
    pub(crate) fn possible(&self, stage: usize) -> bool {
        self.tail[stage][0] > 0.0
    }

    /// Index of a value for `stage`, above `previous`, drawn with `unit` from [0, 1). There must be
    /// one that later stages can rise above.
    pub(crate) fn index(&self, stage: usize, previous: u16, unit: f64) -> usize {
        let first = self.values[stage].partition_point(|&v| v <= previous);
        let tail = &self.tail[stage][first..];
        let at = unit * tail.first().copied().unwrap_or(0.0);
        first + tail.partition_point(|&t| t > at).saturating_sub(1)
    }
}

/// Number of architectures over the stages from each stage on, by the first value that its channels
/// may have, where the `j`-th value of stage `s` allows `weight(s, j)` blocks. Saturates.
pub(crate) fn sizes(values: &[Vec<u16>], weight: impl Fn(usize, usize) -> u128) -> Vec<Vec<u128>> {
    tails(values, weight, 0, 1, u128::saturating_add, u128::saturating_mul)
}

/// `tail[s][j]`: the sum over `j' >= j` of `weight(s, j')` times the tail of stage `s + 1` above
/// that value. Rows end in a zero.
fn tails<T: Copy>(
    values: &[Vec<u16>],
    weight: impl Fn(usize, usize) -> T,
    zero: T,
    one: T,
    add: impl Fn(T, T) -> T,
    multiply: impl Fn(T, T) -> T,
) -> Vec<Vec<T>> {
    let mut tail: Vec<Vec<T>> = values.iter().map(|row| vec![zero; row.len() + 1]).collect();
    for stage in (0..values.len()).rev() {
        for (j, &value) in values[stage].iter().enumerate().rev() {
            let later = match values.get(stage + 1) {
                Some(next) => tail[stage + 1][next.partition_point(|&v| v <= value)],
                None => one,
            };
            tail[stage][j] = add(tail[stage][j + 1], multiply(weight(stage, j), later));
        }
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;
    use std::collections::HashMap;

    #[test]
    fn every_rising_sequence_is_as_likely() {
        let values = vec![vec![1, 4, 9], vec![2, 3, 5], vec![3, 4, 6]];
        let rising = Rising::new(values.clone());
        let mut generator = Generator::new(11);
        let mut seen: HashMap<[u16; 3], u32> = HashMap::new();
        for _ in 0..12_000 {
            let mut sequence = [0; 3];
            let mut previous = 0;
            for (stage, slot) in sequence.iter_mut().enumerate() {
                previous = values[stage][rising.index(stage, previous, generator.unit())];
                *slot = previous;
            }
            *seen.entry(sequence).or_default() += 1;
        }
        let mut all = 0;
        for a in &values[0] {
            for b in values[1].iter().filter(|&b| b > a) {
                for c in values[2].iter().filter(|&c| c > b) {
                    let count = seen.get(&[*a, *b, *c]).copied().unwrap_or(0);
                    all += 1;
                    assert!((1500..1950).contains(&count), "{a} {b} {c}: {count}");
                }
            }
        }
        assert_eq!((all, seen.len()), (7, 7));
        let all = |weight: fn(usize, usize) -> u128| -> Vec<u128> {
            sizes(&values, weight).iter().map(|row| row[0]).collect()
        };
        assert_eq!(all(|_, _| 1), [7, 6, 3]);
        assert_eq!(all(|s, _| [2, 3, 5][s]), [7 * 30, 6 * 15, 15]);
    }

    #[test]
    fn nothing_rises() {
        let rising = Rising::new(vec![vec![8], vec![8]]);
        assert!(!rising.possible(0) && rising.possible(1));
        assert_eq!(sizes(&[vec![8], vec![8]], |_, _| u128::MAX), [[0, 0], [u128::MAX, 0]]);
    }
}
