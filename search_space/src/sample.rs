//! Samples distinct architectures, as a function of the space, the seed and the position alone.
//!
//! Position i draws from its own stream of the seed until the architecture differs from those of
//! positions 0 to i - 1, so that a larger sample of the same seed begins with the smaller one.

use crate::{Architecture, Generator, Space, SpaceError};
use std::collections::HashSet;

/// Draws in a row that may give nothing new before the space counts as exhausted.
const MOST_REPEATED_DRAWS: usize = 100_000;

/// Most architectures that room is made for at once; asking for more grows as it goes.
const RESERVED: usize = 1 << 20;

/// After so many architectures the caller is asked whether to go on.
const ASKED_EVERY: usize = 256;

impl Space {
    /// One architecture: the first of [`Space::sample_many`].
    #[must_use]
    pub fn sample(&self, seed: u64) -> Architecture {
        self.draw(&mut Generator::stream(seed, 0))
    }

    /// `count` distinct architectures. The i-th is the same for any count.
    ///
    /// # Errors
    /// [`SpaceError::TooSmall`] when the space has fewer; [`SpaceError::Exhausted`] when it has
    /// hardly more and the rest is not found; [`SpaceError::Memory`] when they take too much.
    pub fn sample_many(&self, count: usize, seed: u64) -> Result<Vec<Architecture>, SpaceError> {
        self.sample_while(count, seed, || true)
    }

    /// The same while `go_on` holds, which is asked now and then; then what was found by then.
    ///
    /// # Errors
    /// As [`Space::sample_many`].
    pub fn sample_while(
        &self,
        count: usize,
        seed: u64,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Vec<Architecture>, SpaceError> {
        let size = self.size();
        if (count as u128) > size {
            return Err(SpaceError::TooSmall { space: self.name().to_owned(), size, asked: count });
        }
        let mut seen: HashSet<Architecture> = HashSet::with_capacity(count.min(RESERVED));
        let mut samples = Vec::with_capacity(count.min(RESERVED));
        for index in 0..count {
            if index % ASKED_EVERY == 0 && !go_on() {
                break;
            }
            if seen.try_reserve(1).is_err() || samples.try_reserve(1).is_err() {
                let space = self.name().to_owned();
                return Err(SpaceError::Memory { space, found: index, asked: count });
            }
            let mut stream = Generator::stream(seed, index as u64);
            let fresh = (0..MOST_REPEATED_DRAWS)
                .map(|_| self.draw(&mut stream))
                .find(|architecture| seen.insert(*architecture));
            match fresh {
                Some(architecture) => samples.push(architecture),
                None => {
                    return Err(SpaceError::Exhausted {
                        space: self.name().to_owned(),
                        size,
                        found: index,
                        asked: count,
                    });
                }
            }
        }
        Ok(samples)
    }
}
