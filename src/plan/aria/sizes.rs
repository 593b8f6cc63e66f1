//! [`Sizes`]: the resolutions and sizes of regions that a plan chooses from, in whole patches.

use super::{AriaCostsError, CostNote};

/// Resolutions of figure 2 and of the baselines, px; for other patches rounded down to whole ones.
const LEVELS: [(usize, usize); 4] = [(238, 322), (294, 350), (294, 490), (406, 658)];
/// Sizes of regions that the paper mentions, px.
const REGIONS: [(usize, usize); 4] = [(168, 168), (238, 238), (238, 322), (294, 350)];

/// Heights and widths to choose from, px; where a list is empty, the paper's sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Resolutions of full frames.
    pub levels: Vec<(usize, usize)>,
    /// Sizes of regions.
    pub regions: Vec<(usize, usize)>,
}

impl Sizes {
    /// Rows and columns of patches of each resolution, rising.
    pub(super) fn of_levels(
        &self,
        patch: usize,
        note: &mut dyn FnMut(CostNote),
    ) -> Result<Vec<[usize; 2]>, AriaCostsError> {
        let mut levels = whole_patches(&self.levels, &LEVELS, patch, note)?;
        levels.sort_by_key(|[rows, cols]| rows * cols);
        Ok(levels)
    }

    /// Rows and columns of patches of each size of regions that fits a level. A given size that fits
    /// none is an error, one of the paper's is left out.
    pub(super) fn of_regions(
        &self,
        patch: usize,
        levels: &[[usize; 2]],
        note: &mut dyn FnMut(CostNote),
    ) -> Result<Vec<[usize; 2]>, AriaCostsError> {
        let mut regions = whole_patches(&self.regions, &REGIONS, patch, note)?;
        let fits = |&[rows, cols]: &[usize; 2]| {
            levels.iter().any(|level| rows <= level[0] && cols <= level[1])
        };
        if let Some([rows, cols]) = regions.iter().find(|size| !fits(size))
            && !self.regions.is_empty()
        {
            let (height, width) = (rows * patch, cols * patch);
            return Err(AriaCostsError::RegionTooLarge { height, width });
        }
        regions.retain(fits);
        Ok(regions)
    }
}

/// Each size in whole patches, without duplicates.
fn whole_patches(
    given: &[(usize, usize)],
    default: &[(usize, usize)],
    patch: usize,
    note: &mut dyn FnMut(CostNote),
) -> Result<Vec<[usize; 2]>, AriaCostsError> {
    let mut all: Vec<[usize; 2]> = Vec::new();
    for &(height, width) in if given.is_empty() { default } else { given } {
        let [rows, cols] = [height / patch, width / patch];
        if rows == 0 || cols == 0 {
            return Err(AriaCostsError::NoPatchFits { height, width, patch });
        }
        if !given.is_empty() && (height % patch, width % patch) != (0, 0) {
            note(CostNote::RoundedDown { height, width, rows, cols, patch });
        }
        if !all.contains(&[rows, cols]) {
            all.push([rows, cols]);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_patches_and_wrong_ones_are_named() {
        let mut notes = Vec::new();
        let mut of = |levels: &[(usize, usize)], patch| {
            let sizes = Sizes { levels: levels.to_vec(), ..Sizes::default() };
            sizes.of_levels(patch, &mut |note| notes.push(note)).map_err(|e| e.to_string())
        };
        assert_eq!(of(&[], 14), Ok(vec![[17, 23], [21, 25], [21, 35], [29, 47]]));
        assert_eq!(of(&[], 16), Ok(vec![[14, 20], [18, 21], [18, 30], [25, 41]]));
        assert!(of(&[(8, 30)], 16).is_err_and(|e| e.contains("holds no patch")));
        assert_eq!(of(&[(33, 32), (32, 32)], 16), Ok(vec![[2, 2]]));
        let rounded = CostNote::RoundedDown { height: 33, width: 32, rows: 2, cols: 2, patch: 16 };
        assert_eq!(notes, [rounded]);
    }

    #[test]
    fn regions_fit_some_level_and_given_ones_that_fit_none_are_refused() {
        let regions = Sizes::default().of_regions(14, &[[17, 20]], &mut |_| {});
        assert_eq!(regions.ok(), Some(vec![[12, 12], [17, 17]]));
        let of = |region| {
            let sizes = Sizes { regions: vec![region], ..Sizes::default() };
            // An upright level has more rows, a lying one more columns.
            sizes.of_regions(16, &[[20, 10], [10, 30]], &mut |_| {}).map_err(|e| e.to_string())
        };
        assert_eq!(of((160, 480)), Ok(vec![[10, 30]]));
        assert_eq!(of((320, 160)), Ok(vec![[20, 10]]));
        assert!(of((320, 480)).is_err_and(|e| e.contains("320x480")));
    }
}
