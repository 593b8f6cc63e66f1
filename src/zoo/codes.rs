//! [`Codes`]: numbers stitched variants.

use super::{ZooError, variants::Variants};
use vitempo_planners::stitch::MOST_ENUMERATED;

/// Largest number of stitched variants that are listed.
pub const MOST_LISTED: usize = MOST_ENUMERATED as usize;

/// Stitched variants by number: the variant of each position is a digit, that of the last position
/// the last.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// Variants of the task.
    pub variants: usize,
    /// Subgraphs of each.
    pub positions: usize,
}

impl Codes {
    /// The codes of the stitched variants of a task.
    #[must_use]
    pub fn of(variants: &Variants) -> Self {
        Self { variants: variants.names.len(), positions: variants.subgraphs.len() }
    }

    /// Number of stitched variants.
    #[must_use]
    pub fn all(self) -> usize {
        self.variants.saturating_pow(self.positions as u32)
    }

    /// Whether they are few enough to be listed.
    #[must_use]
    pub fn are_few(self) -> bool {
        self.all() <= MOST_LISTED
    }

    /// Returns an error if they are too many to be listed.
    ///
    /// # Errors
    /// [`ZooError::TooMany`].
    pub fn check_few(self) -> Result<(), ZooError> {
        if self.are_few() {
            return Ok(());
        }
        Err(ZooError::TooMany { variants: self.variants, positions: self.positions })
    }

    /// The variant of each position.
    pub fn digits(self, code: usize) -> impl Iterator<Item = usize> {
        (0..self.positions)
            .rev()
            .map(move |position| code / self.variants.pow(position as u32) % self.variants)
    }

    /// The code of an original variant, which is not stitched.
    #[must_use]
    pub fn original(self, variant: usize) -> usize {
        (0..self.positions).fold(0, |code, _| code * self.variants + variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_digits() {
        let codes = Codes { variants: 8, positions: 3 };
        assert_eq!(
            (codes.all(), codes.digits(0o123).collect::<Vec<_>>(), codes.original(3)),
            (512, vec![1, 2, 3], 0o333)
        );
    }
}
