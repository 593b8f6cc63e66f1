//! [`Accuracy`]: accuracies of stitched variants, in basis points (0.01 percentage points).
//!
//! | kind | accuracy of a stitched variant | how the fastest above a bound is found |
//! |---|---|---|
//! | [`Additive`] | the highest less a drop per subgraph | dynamic programming over the Pareto front of (drop, latency) |
//! | [`Monotone`] | any function that rises with each subgraph's accuracy (eqs. 2-4) | depth-first search without dominated subgraphs |
//! | [`Table`] | listed one by one | depth-first search with exact bounds for every prefix |
//!
//! Eq. 2 gives a subgraph the accuracy of the variant it is taken from; eqs. 3 and 4 fit a function
//! of these. A fitted estimator is a [`Monotone`] (fit it with monotone constraints), or implements
//! [`Accuracy`] itself with bounds in `at_most`.

use super::{StitchError, zoo::MOST_POSITIONS};
use std::{fmt, sync::Arc};

/// An accuracy of 100 %.
pub const WHOLE_BP: u32 = 10_000;

/// Accuracies of all stitched variants of one task.
pub trait Accuracy: fmt::Debug + Send + Sync {
    /// Number of positions, and of variants at each.
    fn shape(&self) -> (usize, usize);

    /// Accuracy of the stitched variant that takes position j from variant `stitched[j]`.
    fn of(&self, stitched: &[usize]) -> u32;

    /// Upper bound on the accuracy of all stitched variants with this prefix.
    fn at_most(&self, beginning: &[usize]) -> u32;

    /// Whether taking this position from `variant` instead of `than` makes no stitched variant less
    /// accurate. `false` where this is not known.
    fn no_worse(&self, _position: usize, variant: usize, than: usize) -> bool {
        variant == than
    }

    /// The drops, where accuracy is a sum.
    fn additive(&self) -> Option<&Additive> {
        None
    }
}

fn refuse(reason: impl Into<String>) -> StitchError {
    StitchError::Accuracy { reason: reason.into() }
}

fn check_shape(positions: usize, variants: usize) -> Result<(), StitchError> {
    let fits = (1..=MOST_POSITIONS).contains(&positions) && variants > 0;
    if fits {
        Ok(())
    } else {
        Err(refuse(format!(
            "{variants} variants of {positions} subgraphs; at least one, of 1 to {MOST_POSITIONS}"
        )))
    }
}

fn check_range(accuracies: &[u32]) -> Result<(), StitchError> {
    match accuracies.iter().find(|&&bp| bp > WHOLE_BP) {
        Some(bp) => Err(refuse(format!("{bp} basis points; 100 % is {WHOLE_BP}"))),
        None => Ok(()),
    }
}

/// The highest accuracy less a drop per subgraph, not below 0. Drops are counted in parts of a
/// basis point, and sums rounded up: no accuracy is overestimated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Additive {
    highest_bp: u32,
    /// Parts that make a basis point.
    parts: u32,
    drops: Vec<Vec<u32>>,
    /// The least drop of each position and all later ones.
    least_rest: Vec<u32>,
}

impl Additive {
    /// `drops_bp` by position and variant.
    ///
    /// # Errors
    /// [`StitchError::Accuracy`] for no or unequal positions and for accuracies above 100 %.
    pub fn new(highest_bp: u32, drops_bp: Vec<Vec<u32>>) -> Result<Self, StitchError> {
        Self::in_parts(highest_bp, 1, drops_bp)
    }

    fn in_parts(highest_bp: u32, parts: u32, drops: Vec<Vec<u32>>) -> Result<Self, StitchError> {
        let variants = drops.first().map_or(0, Vec::len);
        check_shape(drops.len(), variants)?;
        check_range(&[highest_bp])?;
        if drops.iter().any(|row| row.len() != variants) {
            return Err(refuse("positions have different numbers of variants"));
        }
        let drops: Vec<Vec<u32>> = drops
            .into_iter()
            .map(|row| row.into_iter().map(|d| d.min(WHOLE_BP * parts)).collect())
            .collect();
        let mut least_rest = vec![0; drops.len() + 1];
        for (position, row) in drops.iter().enumerate().rev() {
            least_rest[position] =
                least_rest[position + 1] + row.iter().min().copied().unwrap_or(0);
        }
        Ok(Self { highest_bp, parts, drops, least_rest })
    }

    /// Shares each original variant's drop below the best of them evenly among its subgraphs:
    /// originals get their exact accuracy, stitched variants one in between.
    ///
    /// # Errors
    /// [`StitchError::Accuracy`] for no variants, no positions, and accuracies above 100 %.
    pub fn of_originals(accuracies_bp: &[u32], positions: usize) -> Result<Self, StitchError> {
        check_shape(positions, accuracies_bp.len())?;
        let highest = accuracies_bp.iter().max().copied().unwrap_or(0);
        // Each position has an equal share of each drop.
        let drops: Vec<u32> = accuracies_bp.iter().map(|&bp| highest - bp).collect();
        Self::in_parts(highest, positions as u32, vec![drops; positions])
    }

    /// The drop of a subgraph, in parts of a basis point.
    pub(super) fn drop_of(&self, position: usize, variant: usize) -> u32 {
        let drop = self.drops.get(position).and_then(|row| row.get(variant)).copied();
        drop.unwrap_or(WHOLE_BP * self.parts)
    }

    /// The accuracy after a drop.
    pub(super) fn after(&self, drop: u32) -> u32 {
        self.highest_bp.saturating_sub(drop.div_ceil(self.parts))
    }

    /// The largest drop for this accuracy, in parts; `None` where the highest accuracy is too low.
    pub(super) fn allowed_drop(&self, at_least_bp: u32) -> Option<u32> {
        if at_least_bp == 0 {
            return Some(u32::MAX);
        }
        Some(self.highest_bp.checked_sub(at_least_bp)? * self.parts)
    }
}

impl Accuracy for Additive {
    fn shape(&self) -> (usize, usize) {
        (self.drops.len(), self.drops.first().map_or(0, Vec::len))
    }

    fn of(&self, stitched: &[usize]) -> u32 {
        self.at_most(stitched)
    }

    fn at_most(&self, beginning: &[usize]) -> u32 {
        let dropped: u32 = beginning
            .iter()
            .enumerate()
            .map(|(position, &variant)| self.drop_of(position, variant))
            .sum();
        self.after(dropped + self.least_rest.get(beginning.len()).copied().unwrap_or(0))
    }

    fn no_worse(&self, position: usize, variant: usize, than: usize) -> bool {
        self.drop_of(position, variant) <= self.drop_of(position, than)
    }

    fn additive(&self) -> Option<&Additive> {
        Some(self)
    }
}

/// Estimates the accuracy of a stitched variant from those of the variants its subgraphs were taken
/// from, by position; basis points.
pub type Estimate = Arc<dyn Fn(&[u32]) -> u32 + Send + Sync>;

/// A monotone estimator: it does not fall when a subgraph is taken from a more accurate variant
/// (eqs. 2-4).
#[derive(Clone)]
pub struct Monotone {
    /// Eq. 2: X(s_j^i) = A(v^i).
    originals_bp: Vec<u32>,
    positions: usize,
    highest_bp: u32,
    estimate: Estimate,
}

impl Monotone {
    /// An estimator from the accuracies of the original variants. The caller must ensure that the
    /// estimate rises with each of its arguments.
    ///
    /// # Errors
    /// [`StitchError::Accuracy`] for no variants, no positions, and accuracies above 100 %.
    pub fn new(
        originals_bp: Vec<u32>,
        positions: usize,
        estimate: Estimate,
    ) -> Result<Self, StitchError> {
        check_shape(positions, originals_bp.len())?;
        check_range(&originals_bp)?;
        let highest_bp = originals_bp.iter().max().copied().unwrap_or(0);
        Ok(Self { originals_bp, positions, highest_bp, estimate })
    }
}

impl fmt::Debug for Monotone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monotone")
            .field("originals_bp", &self.originals_bp)
            .field("positions", &self.positions)
            .finish_non_exhaustive()
    }
}

impl Accuracy for Monotone {
    fn shape(&self) -> (usize, usize) {
        (self.positions, self.originals_bp.len())
    }

    fn of(&self, stitched: &[usize]) -> u32 {
        self.at_most(stitched)
    }

    fn at_most(&self, beginning: &[usize]) -> u32 {
        let mut features = [self.highest_bp; MOST_POSITIONS];
        for (feature, &variant) in features.iter_mut().zip(beginning) {
            *feature = self.originals_bp.get(variant).copied().unwrap_or(0);
        }
        (self.estimate)(&features[..self.positions])
    }

    fn no_worse(&self, _position: usize, variant: usize, than: usize) -> bool {
        self.originals_bp.get(variant) >= self.originals_bp.get(than)
    }
}

/// The accuracy of each stitched variant, measured or estimated one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    variants: usize,
    /// The highest accuracy of all stitched variants with the same first n choices, for n from 0 to
    /// the number of positions.
    highest_bp: Vec<Vec<u32>>,
}

impl Table {
    /// `accuracies_bp` has all V^S of them, the last position changing fastest.
    ///
    /// # Errors
    /// [`StitchError::Accuracy`] when there are not V^S.
    pub fn new(
        positions: usize,
        variants: usize,
        accuracies_bp: Vec<u32>,
    ) -> Result<Self, StitchError> {
        check_shape(positions, variants)?;
        check_range(&accuracies_bp)?;
        let expected = variants.checked_pow(positions as u32);
        if expected != Some(accuracies_bp.len()) {
            return Err(refuse(format!(
                "{} of them for {variants}^{positions} stitched variants",
                accuracies_bp.len()
            )));
        }
        let mut highest_bp = vec![accuracies_bp];
        while highest_bp.len() <= positions {
            let longest = highest_bp.last().map_or(&[][..], Vec::as_slice);
            let shorter = longest
                .chunks(variants)
                .map(|chunk| chunk.iter().max().copied().unwrap_or(0))
                .collect();
            highest_bp.push(shorter);
        }
        highest_bp.reverse();
        Ok(Self { variants, highest_bp })
    }
}

impl Accuracy for Table {
    fn shape(&self) -> (usize, usize) {
        (self.highest_bp.len().saturating_sub(1), self.variants)
    }

    fn of(&self, stitched: &[usize]) -> u32 {
        self.at_most(stitched)
    }

    fn at_most(&self, beginning: &[usize]) -> u32 {
        let code = beginning.iter().fold(0, |code, variant| code * self.variants + variant);
        self.highest_bp.get(beginning.len()).and_then(|level| level.get(code)).copied().unwrap_or(0)
    }
}
