//! Small models: sampled transformers and convolutional networks of a tenth of a millisecond to a few
//! milliseconds, as many of each.

use super::{Sample, SamplingError, sample};
use vitempo_search_space::{Space, SpaceError};

/// Name of the inventory.
pub const NAME: &str = "small-models";

const SPACES: [(&str, &str); 2] = [
    ("hybrid-vit-small", include_str!("spaces/hybrid-vit-small.toml")),
    ("mbconv-small", include_str!("spaces/mbconv-small.toml")),
];

/// Samples small models; of an odd number, one more is a transformer.
pub(super) fn small(count: usize, seed: u64) -> Result<Vec<Sample>, SamplingError> {
    let shares = [count.div_ceil(2), count / 2];
    let mut samples = Vec::with_capacity(count);
    for ((name, toml), share) in SPACES.into_iter().zip(shares).filter(|(_, share)| *share > 0) {
        samples.extend(sample(&space(name, toml)?, share, seed)?);
    }
    Ok(samples)
}

fn space(name: &str, toml: &str) -> Result<Space, SpaceError> {
    Space::parse(name, toml)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::Work;

    #[test]
    fn as_many_of_each_and_all_small() {
        let samples = small(41, 1).expect("samples");
        let of = |space| samples.iter().filter(|sample| sample.space == space).count();
        assert_eq!((of("hybrid-vit-small"), of("mbconv-small")), (21, 20));
        for sample in &samples {
            let macs = Work::of_graph(&sample.graph).macs;
            assert!((1e6..3e8).contains(&(macs as f64)), "{}: {macs}", sample.name);
        }
        assert_eq!(small(1, 1).expect("one").len(), 1);
    }
}
