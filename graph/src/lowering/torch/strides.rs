//! Strides of torch's tensors: the effect of views on them, and the strides of kernels' outputs.
//!
//! Strides count elements. The rules are those of ATen: `TensorIterator` for elementwise operators,
//! `computeStride` for views, and `suggest_memory_format` for the operators that keep images
//! channels last.

use crate::MemoryFormat;

/// How a tensor lies in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Extent of each dimension.
    pub sizes: Vec<usize>,
    /// Elements between neighbours along each dimension; 0 where a value is repeated.
    pub strides: Vec<usize>,
}

impl Strided {
    /// Row by row.
    #[must_use]
    pub fn contiguous(sizes: &[usize]) -> Self {
        Self::in_order(sizes, &(0..sizes.len()).collect::<Vec<_>>())
    }

    /// Dense, the dimensions in this order from the slowest to the fastest.
    #[must_use]
    pub fn in_order(sizes: &[usize], order: &[usize]) -> Self {
        let mut strides = vec![1; sizes.len()];
        let mut step = 1usize;
        for &dimension in order.iter().rev() {
            strides[dimension] = step;
            step = step.saturating_mul(sizes[dimension].max(1));
        }
        Self { sizes: sizes.to_vec(), strides }
    }

    /// In the requested memory format: only images (four dimensions) can be channels last.
    #[must_use]
    pub fn in_format(sizes: &[usize], format: MemoryFormat) -> Self {
        if format == MemoryFormat::ChannelsLast && sizes.len() == 4 {
            Self::in_order(sizes, &[0, 2, 3, 1])
        } else {
            Self::contiguous(sizes)
        }
    }

    /// Whether elements follow each other row by row.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.sizes.contains(&0)
            || self.sizes.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
                let fits = size == 1 || stride == step;
                step *= size;
                fits
            })
    }

    /// The memory format as torch derives it: channels last if strides fall in the order N, H, W, C
    /// and not also in the order N, C, H, W.
    #[must_use]
    pub fn format(&self) -> MemoryFormat {
        if self.is_like_channels_last() {
            MemoryFormat::ChannelsLast
        } else {
            MemoryFormat::ChannelsFirst
        }
    }

    fn is_like_channels_last(&self) -> bool {
        let (&[_, _, _, _], &[_, fastest, _, _]) = (&self.sizes[..], &self.strides[..]) else {
            return false;
        };
        if fastest == 0 {
            return false;
        }
        let mut least = 0;
        for dimension in [1, 3, 2, 0] {
            let (size, stride) = (self.sizes[dimension], self.strides[dimension]);
            // Where all dimensions but N have one element, channels first is meant.
            if size == 0 || stride < least || (dimension == 0 && least == fastest) {
                return false;
            }
            least = if size > 1 { stride * size } else { stride };
        }
        true
    }

    /// Whether elements neither overlap nor leave gaps.
    fn is_dense(&self) -> bool {
        let mut dimensions: Vec<(usize, usize)> = self
            .strides
            .iter()
            .copied()
            .zip(self.sizes.iter().copied())
            .filter(|&(_, size)| size != 1)
            .collect();
        dimensions.sort_unstable();
        let mut step = 1;
        dimensions.iter().all(|&(stride, size)| {
            let fits = stride == step;
            step *= size;
            fits
        })
    }

    /// The dimensions from the slowest to the fastest, where that is not their own order.
    #[must_use]
    pub fn order(&self) -> Option<Vec<i64>> {
        let mut order: Vec<usize> = (0..self.sizes.len()).collect();
        let moving: Vec<usize> =
            order.iter().copied().filter(|&d| self.sizes[d] > 1 && self.strides[d] > 0).collect();
        let mut sorted = moving.clone();
        sorted.sort_by_key(|&d| std::cmp::Reverse(self.strides[d]));
        for (&place, &dimension) in moving.iter().zip(&sorted) {
            order[place] = dimension;
        }
        (moving != sorted).then(|| order.iter().map(|&d| d as i64).collect())
    }

    /// `permute`.
    #[must_use]
    pub fn permuted(&self, perm: &[i64]) -> Option<Self> {
        let place = |&p: &i64| usize::try_from(p).ok().filter(|&p| p < self.sizes.len());
        let places: Option<Vec<usize>> = perm.iter().map(place).collect();
        let places = places.filter(|p| p.len() == self.sizes.len())?;
        Some(Self {
            sizes: places.iter().map(|&p| self.sizes[p]).collect(),
            strides: places.iter().map(|&p| self.strides[p]).collect(),
        })
    }

    /// The same places with other extents: a slice, a piece of a split.
    #[must_use]
    pub fn cut(&self, sizes: &[usize], steps: &[usize]) -> Self {
        Self {
            sizes: sizes.to_vec(),
            strides: self.strides.iter().zip(steps).map(|(stride, step)| stride * step).collect(),
        }
    }

    /// `select`: without one dimension.
    #[must_use]
    pub fn without(&self, dimension: usize) -> Self {
        let mut view = self.clone();
        if dimension < view.sizes.len() {
            view.sizes.remove(dimension);
            view.strides.remove(dimension);
        }
        view
    }

    /// `expand`: stride 0 along repeated dimensions.
    #[must_use]
    pub fn expanded(&self, sizes: &[usize]) -> Self {
        let missing = sizes.len().saturating_sub(self.sizes.len());
        let stride = |d: usize| match d.checked_sub(missing) {
            Some(own) if self.sizes[own] == sizes[d] => self.strides[own],
            _ => 0,
        };
        Self { sizes: sizes.to_vec(), strides: (0..sizes.len()).map(stride).collect() }
    }

    /// `view`: `None` if the shape requires a copy of the elements.
    #[must_use]
    pub fn viewed(&self, sizes: &[usize]) -> Option<Self> {
        if self.sizes.contains(&0) {
            return Some(Self::contiguous(sizes));
        }
        let mut strides = vec![1usize; sizes.len()];
        let mut left = sizes.len();
        let (mut base, mut old, mut new) =
            (self.strides.last().copied().unwrap_or(1), 1usize, 1usize);
        for d in (0..self.sizes.len()).rev() {
            old *= self.sizes[d];
            // The end of a stretch of dimensions that could be one.
            let ends = d == 0 || (self.sizes[d - 1] != 1 && self.strides[d - 1] != old * base);
            if !ends {
                continue;
            }
            while left > 0 && (new < old || sizes[left - 1] == 1) {
                strides[left - 1] = new * base;
                new *= sizes[left - 1];
                left -= 1;
            }
            if new != old {
                return None;
            }
            if d > 0 {
                (base, old, new) = (self.strides[d - 1], 1, 1);
            }
        }
        (left == 0).then(|| Self { sizes: sizes.to_vec(), strides })
    }

    /// The output of an elementwise operator: as its inputs lie, where they agree or one decides.
    #[must_use]
    pub fn elementwise(sizes: &[usize], inputs: &[&Self]) -> Self {
        let same_shape = inputs.iter().all(|i| i.sizes == sizes);
        if same_shape && let Some(first) = inputs.first() {
            if inputs.iter().all(|i| i.is_contiguous()) {
                return Self::contiguous(sizes);
            }
            if inputs.iter().all(|i| i.is_dense() && i.strides == first.strides) {
                return (*first).clone();
            }
        }
        let broadcast: Vec<Vec<usize>> = inputs.iter().map(|i| i.expanded(sizes).strides).collect();
        Self::in_order(sizes, &iteration_order(sizes, &broadcast))
    }

    /// `empty_like`: as the input lies, where that is dense.
    #[must_use]
    pub fn like(&self) -> Self {
        if self.is_dense() { self.clone() } else { Self::elementwise(&self.sizes, &[self]) }
    }

    /// `index` of one dimension by `indices`: the output lies as the input, the dimensions of the
    /// indices taking the place of the one they index.
    #[must_use]
    pub fn indexed(&self, dimension: usize, indices: &Self, sizes: &[usize]) -> Self {
        let (before, after) =
            (dimension.min(self.strides.len()), (dimension + 1).min(self.strides.len()));
        let source =
            [&self.strides[..before], &vec![0; indices.sizes.len()], &self.strides[after..]]
                .concat();
        let places =
            [&vec![0; before][..], &indices.strides, &vec![0; self.strides.len() - after]].concat();
        if source.len() != sizes.len() {
            return Self::contiguous(sizes);
        }
        Self::in_order(sizes, &iteration_order(sizes, &[source, places]))
    }
}

/// The order `TensorIterator` walks in, slowest first: an insertion sort by strides in which a
/// repeated dimension decides nothing.
fn iteration_order(sizes: &[usize], strides: &[Vec<usize>]) -> Vec<usize> {
    let compare = |a: usize, b: usize| {
        for strides in strides {
            let (stride_a, stride_b) = (strides[a], strides[b]);
            if stride_a == 0 || stride_b == 0 {
                continue;
            }
            if stride_a != stride_b {
                return stride_a.cmp(&stride_b);
            }
            if sizes[a] > sizes[b] {
                return std::cmp::Ordering::Greater;
            }
        }
        std::cmp::Ordering::Equal
    };
    let mut fastest_first: Vec<usize> = (0..sizes.len()).rev().collect();
    for start in 1..sizes.len() {
        let mut moving = start;
        for other in (0..start).rev() {
            match compare(fastest_first[other], fastest_first[moving]) {
                std::cmp::Ordering::Greater => {
                    fastest_first.swap(other, moving);
                    moving = other;
                }
                std::cmp::Ordering::Less => break,
                std::cmp::Ordering::Equal => {}
            }
        }
    }
    fastest_first.reverse();
    fastest_first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(sizes: &[usize], strides: &[usize]) -> Strided {
        Strided { sizes: sizes.to_vec(), strides: strides.to_vec() }
    }

    #[test]
    fn formats() {
        assert_eq!(Strided::contiguous(&[1, 3, 4, 5]).strides, [60, 20, 5, 1]);
        let last = Strided::in_format(&[1, 3, 4, 5], MemoryFormat::ChannelsLast);
        assert_eq!(
            (&last.strides[..], last.format()),
            (&[60, 1, 15, 3][..], MemoryFormat::ChannelsLast)
        );
        // Pooled to one pixel, and the weight of a pointwise convolution.
        for sizes in [[1, 8, 1, 1], [16, 8, 1, 1]] {
            assert_eq!(Strided::contiguous(&sizes).format(), MemoryFormat::ChannelsFirst);
            assert_eq!(
                Strided::in_format(&sizes, MemoryFormat::ChannelsLast).format(),
                MemoryFormat::ChannelsLast,
                "{sizes:?}"
            );
        }
        assert_eq!(Strided::contiguous(&[4, 1, 1, 1]).format(), MemoryFormat::ChannelsFirst);
        assert_eq!(Strided::contiguous(&[2, 3, 4]).order(), None);
        assert_eq!(
            Strided::contiguous(&[2, 3, 4]).permuted(&[1, 0, 2]).and_then(|s| s.order()),
            Some(vec![1, 0, 2])
        );
    }

    #[test]
    fn views() {
        let x = Strided::contiguous(&[2, 12, 5]);
        assert_eq!(x.viewed(&[2, 3, 4, 5]).map(|v| v.strides), Some(vec![60, 20, 5, 1]));
        let heads = Strided::contiguous(&[1, 7, 3, 4]).permuted(&[0, 2, 1, 3]);
        assert_eq!(
            heads.as_ref().and_then(|h| h.viewed(&[3, 7, 4])).map(|v| v.strides),
            Some(vec![4, 12, 1])
        );
        assert_eq!(heads.and_then(|h| h.viewed(&[1, 3, 28])), None);
        // Tokens of a channels-last image.
        let image = Strided::in_format(&[1, 8, 4, 4], MemoryFormat::ChannelsLast);
        assert_eq!(image.viewed(&[1, 8, 16]).map(|v| v.strides), Some(vec![8, 1, 8]));
        assert_eq!(Strided::contiguous(&[1, 4]).expanded(&[3, 4]).strides, [0, 1]);
    }

    #[test]
    fn elementwise_outputs() {
        let last = Strided::in_format(&[1, 8, 4, 4], MemoryFormat::ChannelsLast);
        let first = Strided::contiguous(&[1, 8, 4, 4]);
        let gate = Strided::contiguous(&[1, 8, 1, 1]);
        assert_eq!(Strided::elementwise(&last.sizes, &[&last, &last]), last);
        assert_eq!(Strided::elementwise(&last.sizes, &[&last, &gate]), last);
        assert_eq!(Strided::elementwise(&last.sizes, &[&first, &last]), first);
        assert_eq!(
            Strided::elementwise(&[2, 3], &[&strided(&[2, 3], &[1, 2]), &strided(&[3], &[1])]),
            strided(&[2, 3], &[1, 2])
        );
        // Indexing keeps the order of the other dimensions.
        let x = strided(&[2, 8, 3], &[1, 6, 2]);
        assert_eq!(x.indexed(1, &strided(&[4], &[1]), &[2, 4, 3]), strided(&[2, 4, 3], &[1, 2, 8]));
        assert_eq!(
            Strided::contiguous(&[2, 8, 3]).indexed(
                1,
                &Strided::contiguous(&[4, 5]),
                &[2, 4, 5, 3]
            ),
            Strided::contiguous(&[2, 4, 5, 3])
        );
        let pixel = Strided::in_format(&[1, 8, 1, 1], MemoryFormat::ChannelsLast);
        assert_eq!(
            (pixel.like().format(), Strided::elementwise(&pixel.sizes, &[&pixel]).format()),
            (MemoryFormat::ChannelsLast, MemoryFormat::ChannelsFirst)
        );
        // The result for rows of a wider tensor is dense.
        assert_eq!(
            Strided::elementwise(&[2, 3], &[&strided(&[2, 3], &[9, 1])]),
            strided(&[2, 3], &[3, 1])
        );
    }
}
