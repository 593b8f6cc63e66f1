//! [`Dimension`]: an extent as the product of its factors, old and new; [`Known`]: all factors
//! found so far.

use foldhash::HashMap;

/// The side of the image that an extent comes from; products of both have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Height,
    Width,
}

/// An extent before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub old: usize,
    pub new: usize,
    pub side: Option<Side>,
}

impl Extent {
    pub fn new(old: usize, new: usize, side: Option<Side>) -> Self {
        Self { old, new, side }
    }

    fn changed(self) -> bool {
        self.old != self.new
    }
}

/// Factors in the order in which they lie in memory; their product is the extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension(pub Vec<Extent>);

impl Dimension {
    pub fn of(extent: Extent) -> Self {
        Self(vec![extent])
    }

    /// The product.
    pub fn whole(&self) -> Extent {
        let product =
            |of: fn(&Extent) -> usize| self.0.iter().map(of).fold(1usize, usize::saturating_mul);
        let mut sides = self.0.iter().filter(|e| e.changed()).map(|e| e.side);
        let first = sides.next().flatten();
        let side = first.filter(|side| sides.all(|other| other == Some(*side)));
        Extent::new(product(|e| e.old), product(|e| e.new), side)
    }
}

/// Dimensions that changed, as they were met, and what the last tensor of each shape became.
#[derive(Debug, Default)]
pub struct Known {
    dimensions: Vec<Dimension>,
    shapes: HashMap<Vec<i64>, Vec<usize>>,
}

impl Known {
    pub fn remember(&mut self, dimension: &Dimension) {
        if dimension.whole().changed() && !self.dimensions.contains(dimension) {
            self.dimensions.push(dimension.clone());
        }
    }

    /// A tensor of this shape was computed; it has changed to another.
    pub fn remember_shape(&mut self, old: &[usize], new: &[usize]) {
        self.shapes.insert(old.iter().map(|&d| d as i64).collect(), new.to_vec());
    }

    /// What the last tensor of a shape became.
    pub fn last_of(&self, old: &[i64]) -> Option<&[usize]> {
        self.shapes.get(old).map(Vec::as_slice)
    }

    /// Both sides of an image or a grid, and their product: tokens in one row.
    pub fn sides(&mut self, height: Extent, width: Extent) {
        self.remember(&Dimension::of(height));
        self.remember(&Dimension::of(width));
        self.remember(&Dimension(vec![height, width]));
    }

    /// An extent, with the factors that are known for one that changed in the same way.
    pub fn dimension(&self, extent: Extent) -> Dimension {
        self.factors(extent).cloned().unwrap_or_else(|| Dimension::of(extent))
    }

    fn factors(&self, extent: Extent) -> Option<&Dimension> {
        let same = |d: &&Dimension| {
            d.whole().old == extent.old && d.whole().new == extent.new && d.0.len() > 1
        };
        if extent.changed() { self.dimensions.iter().find(same) } else { None }
    }

    /// The new value of an extent of this side elsewhere, if it is always the same.
    pub fn became(&self, old: usize, side: Option<Side>) -> Option<usize> {
        let mut all = self
            .dimensions
            .iter()
            .map(Dimension::whole)
            .filter(|e| e.old == old && (side.is_none() || e.side == side));
        let first = all.next()?.new;
        all.all(|e| e.new == first).then_some(first)
    }

    /// Cuts a part of old extent `wanted` off the front of `rest`.
    pub fn cut(&self, rest: &mut Vec<Extent>, wanted: usize) -> Result<Dimension, String> {
        let mut taken: Vec<Extent> = Vec::new();
        let mut left = wanted;
        while left > 1 {
            let Some(first) = rest.first().copied() else {
                return Err("its elements cannot be shared out".to_owned());
            };
            if first.old <= left && left.is_multiple_of(first.old) {
                rest.remove(0);
                left /= first.old;
                taken.push(first);
                continue;
            }
            rest.splice(0..1, self.split(first, left)?);
        }
        if taken.is_empty() {
            taken.push(Extent::new(1, 1, None));
        }
        Ok(Dimension(taken))
    }

    /// An extent as two or more, the first of which divides `front`.
    fn split(&self, extent: Extent, front: usize) -> Result<Vec<Extent>, String> {
        if let Some(known) = self
            .factors(extent)
            .filter(|d| front.is_multiple_of(d.0[0].old) || d.0[0].old.is_multiple_of(front))
        {
            return Ok(known.0.clone());
        }
        let Extent { old, new, side } = extent;
        let front = gcd(old, front);
        let back = old / front;
        match (front, back) {
            (1, _) => Err(format!("{old} cannot be cut there")),
            _ if old == new => {
                Ok(vec![Extent::new(front, front, side), Extent::new(back, back, side)])
            }
            // Windows have a fixed size; there are more of them in a larger image.
            _ if new.is_multiple_of(back) => {
                Ok(vec![Extent::new(front, new / back, side), Extent::new(back, back, None)])
            }
            _ if new.is_multiple_of(front) => {
                Ok(vec![Extent::new(front, front, None), Extent::new(back, new / front, side)])
            }
            _ => Err(format!(
                "{old} is cut into {front} x {back}, and {new} is a multiple of neither: choose a \
                size that is"
            )),
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
