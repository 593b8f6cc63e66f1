//! [`Generator`]: the random numbers of this crate.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
//! It is our own, so that the same seed gives the same architectures with every version of every
//! library.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    state: u64,
}

impl Generator {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Stream number `index` of a seed, in constant time.
    #[must_use]
    pub fn stream(seed: u64, index: u64) -> Self {
        Self { state: mix(mix(seed.wrapping_add(GOLDEN)) ^ index.wrapping_mul(GOLDEN)) }
    }

    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform over `0..bound`, without bias (Lemire, "Fast random integer generation in an
    /// interval", 2019); 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform over [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// One of several, each as likely as the others; `None` when there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len() as u64) as usize).copied()
    }
}

/// One of the values, each as likely as the others; of a list that a checked space holds, so never
/// an empty one.
pub(crate) fn one_of<T: Copy>(from: &[T], generator: &mut Generator) -> T {
    from[generator.below(from.len() as u64) as usize]
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_algorithm() {
        let mut generator = Generator::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        for number in expected {
            assert_eq!(generator.bits(), number);
        }
    }

    #[test]
    fn bounds_hold_and_every_value_comes() {
        let mut generator = Generator::new(3);
        for bound in 1..40u64 {
            let mut seen = vec![0u32; bound as usize];
            for _ in 0..bound * 200 {
                seen[generator.below(bound) as usize] += 1;
            }
            assert!(seen.iter().all(|&n| n > 100 && n < 320), "{bound}: {seen:?}");
        }
        assert_eq!(generator.below(0), 0);
        assert_eq!(generator.pick::<u8>(&[]), None);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&generator.unit())));
    }

    #[test]
    fn streams_differ() {
        let first: std::collections::HashSet<u64> =
            (0..10_000).map(|i| Generator::stream(7, i).bits()).collect();
        assert_eq!(first.len(), 10_000);
        assert_ne!(Generator::stream(7, 0), Generator::stream(8, 0));
    }
}
